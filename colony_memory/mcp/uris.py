"""Pure: the addresses of snapshots and of files in them, ``colony-memory://LABEL/SNAPSHOT/FILE``.

A part of one is a key into what was saved and nothing else: none ever becomes a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from colony_memory.app.pick import may_name_a_snapshot

SCHEME = "colony-memory://"
#: Characters of an address; names of files are no longer than this.
LONGEST = 4096
_FORM = re.compile(rf"{SCHEME}([a-z0-9_-]+)/([^/?#]+)(?:/([^?#]+))?(?:\?offset=([0-9]{{1,12}}))?")
_BROKEN = re.compile("%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Address:
    """What an address names.

    Attributes:
        snapshot: A snapshot, as ``show`` takes it.
        file: A file of it, None for the list of its files.
        offset: Where to begin.
    """

    snapshot: str
    file: str | None = None
    offset: int = 0


def address_of(label: str, snapshot: str, file: str | None = None, *, offset: int = 0) -> str:
    """The address of a snapshot, or of a file in it.

    >>> address_of("notes", "latest", "a b/ü.md")
    'colony-memory://notes/latest/a%20b/%C3%BC.md'
    """
    name = "" if file is None else f"/{quote(file, safe='/', errors='backslashreplace')}"
    return f"{SCHEME}{label}/{snapshot}{name}{f'?offset={offset}' if offset else ''}"


def read_address(uri: str, *, label: str) -> Address | None:
    """What the address names, None where it is none of this label.

    >>> read_address("colony-memory://notes/latest/a%20b.md?offset=20", label="notes")
    Address(snapshot='latest', file='a b.md', offset=20)
    """
    fits = len(uri) <= LONGEST and uri.isascii() and uri.isprintable()
    found = _FORM.fullmatch(uri) if fits else None
    if found is None or found[1] != label or not may_name_a_snapshot(found[2]):
        return None
    file = None if found[3] is None else _decoded(found[3])
    if found[3] is not None and file is None:
        return None
    return Address(found[2], file, int(found[4] or 0))


def _decoded(text: str) -> str | None:
    """Percent-encoding undone once, strictly."""
    if _BROKEN.search(text):
        return None
    plain = re.sub("%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
    try:
        return plain.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return None
