"""Names and paths as the system has them."""

from __future__ import annotations

import os
from pathlib import Path


def encode_name(name: str) -> bytes:
    """The bytes of a name."""
    return name.encode("utf-8", "surrogateescape")


def local_bytes(name: str) -> bytes:
    """The bytes that the system counts of a name.

    Raises:
        UnicodeEncodeError: There is no such name: it has surrogates that stand for no byte.
    """
    return os.fsencode(name) if os.name == "nt" else encode_name(name)


def decode_name(name: str) -> str:
    """A name as Python gives it, as it is saved."""
    return name if os.name == "nt" or name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")


def local_name(name: str) -> str:
    """The other way round, for what takes paths."""
    return name if os.name == "nt" else os.fsdecode(encode_name(name))


_TRIES = 100


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path without links, there or not.

    Python's own fails where a link is removed, or a directory takes its place, between a look at it and the reading of
    it. The next look finds what is there then.

    Raises:
        OSError: It changes all the time.
    """
    for _ in range(_TRIES - 1):
        try:
            return Path(os.path.realpath(path))
        except OSError:
            continue
    return Path(os.path.realpath(path))
