"""Pure: heads, one line that says how far a label has come.

A head is the generation of a label's pointer, a colon, and the first 16 hex digits of the SHA-256 of the manifest that
the pointer names, zeros where it names nothing: ``42:0123456789abcdef``. It is short enough to be kept anywhere outside
the vault. A witness keeps the label's stream behind it, after another colon.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD = re.compile(r"([1-9][0-9]{0,15})(?::([0-9a-f]{16})(?::([0-9a-f]{16}))?)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# What a JSON reader of any language holds exactly.
_LARGEST = 2**53 - 1
_SHOWN = 60
_NOTHING = "sha256:" + "0" * 64


class Head(NamedTuple):
    """A head taken apart."""

    generation: int  # generation of the pointer
    # 16 hex digits of the digest of the manifest that it names; None where only the generation is known
    digest: str | None = None
    stream: str | None = None  # identity of the label's history; None where it is not known


def write_head(generation: int, manifest_sha256: str | None) -> str:
    """The head of a pointer."""
    if not _is_generation(generation):
        raise ValueError(f"a generation is a positive integer, not {_show(generation)}")
    if manifest_sha256 is None:
        manifest_sha256 = _NOTHING
    if not isinstance(manifest_sha256, str) or not _DIGEST.fullmatch(manifest_sha256):
        raise ValueError(f"a manifest_sha256 is 'sha256:' and 64 hex digits, not {_show(manifest_sha256)}")
    return f"{generation}:{manifest_sha256.removeprefix('sha256:')[:16]}"


def read_head(head: str | int) -> Head:
    """What a head says: ``"42:0123456789abcdef"``, a generation alone, or as a witness keeps it. Else a ValueError."""
    if isinstance(head, str):
        found = _HEAD.fullmatch(head)
        if found is not None and int(found[1]) <= _LARGEST:
            return Head(int(found[1]), found[2], found[3])
    elif _is_generation(head):
        return Head(head)
    raise ValueError(f"{_show(head)} is not a head: a head is '42:0123456789abcdef' or a generation such as 42")


def _is_generation(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST


def _show(value: object) -> str:
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    # Python refuses to spell a number of more than 4,300 digits.
    small = isinstance(value, int) and abs(value) < 10**_SHOWN
    return repr(value) if small else f"a value of type {type(value).__name__}"
