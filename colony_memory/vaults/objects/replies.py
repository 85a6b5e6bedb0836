"""Pure: what goes to a store, and what its answers say, in the words of a vault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import VaultError
from colony_memory.vaults._files import written_time

if TYPE_CHECKING:
    from obstore import ObjectMeta


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
