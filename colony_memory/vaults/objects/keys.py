"""Pure: which key a file of the vault has, which file a key is, and how a store's answers tell of it.

One folder a label, ``<label>/<file name>``, so that a label's listing costs what that label holds; what is of no label
lies above them. Whatever is not the key of a file, exactly as written here, is foreign.

>>> key_of("cmem.default.latest.json")
'default/cmem.default.latest.json'
>>> name_of("default/cmem.default.latest.json")
'cmem.default.latest.json'
>>> key_of("a b.json")
'a=20b.json'
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import leading_label
from colony_memory.exceptions import VaultError
from colony_memory.vaults._files import written_time
from colony_memory.vaults._names import is_plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from obstore import ObjectMeta

# Every store takes these as they are, in a key, in an address and in its XML. All names of ours are made of them.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPE = re.compile(rb"=([0-9A-F]{2})")


def key_of(name: str) -> str:
    """The key of a file, below the vault's own place; bytes that a store might change are written ``=XX``.

    Args:
        name: A plain name: :func:`~colony_memory.vaults._names.is_plain_name`.
    """
    label = leading_label(name)
    written = _escape(name.encode("utf-8"))
    return written if label is None else f"{label}/{written}"


def name_of(key: str) -> str | None:
    """The file that a key is of, None where it is of none and so foreign."""
    try:
        raw = key.rpartition("/")[2].encode("ascii")
        name = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw).decode("utf-8")
    except UnicodeError:
        return None
    return name if is_plain_name(name) and key_of(name) == key else None


def folder_of(prefix: str) -> str | None:
    """The one folder in which every file lies whose name starts so; None where they lie in several."""
    return leading_label(prefix)


def describe_object(filename: str, meta: ObjectMeta) -> dict[str, Any]:
    """A file without its content; its time is the store's."""
    return {"filename": filename, "content_size": meta["size"], "updated_at": written_time(meta["last_modified"])}


def tag_of(found: Any) -> str | None:
    """Whatever the store needs to know a state of an object again, as one text: its e_tag, its version before it."""
    tag, version = found.get("e_tag"), found.get("version")
    if not tag:
        return None
    return f"{version or ''}|{tag}" if version or "|" in tag else str(tag)


def read_tag(filename: str, tag: str) -> dict[str, str]:
    """What :func:`tag_of` made, for a write on condition."""
    version, _, e_tag = tag.partition("|") if "|" in tag else ("", "", tag)
    if not e_tag or not (tag.isascii() and tag.isprintable()):
        raise VaultError(f"not an etag of {filename}: {tag!r}", status=400, code="INVALID_INPUT")
    return {"e_tag": e_tag, "version": version} if version else {"e_tag": e_tag}


def _escape(raw: Iterable[int]) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in raw)
