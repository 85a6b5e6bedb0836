"""Pure: what is in a snapshot, and what of it is wanted: one file, or those that match."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

from colony_memory._format.constants import MAX_BYTES
from colony_memory.app.facts import left_out
from colony_memory.capture._metadata import (
    METADATA_NAMES,
    Contents,
    Metadata,
    contents_of,
    describe,
    split_documents,
)
from colony_memory.capture._sparse import Sparse
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from colony_memory.snapshot import SnapshotInfo

_Value = TypeVar("_Value")

__all__ = ["Contents", "content_of", "contents_of", "narrow", "near", "reshape"]


def content_of(info: SnapshotInfo, documents: Mapping[str, str], name: str) -> str | bytes:
    """The content of one file of a snapshot, bytes where it is no text."""
    files, metadata = split_documents(documents)
    if name in files:
        content = files[name]
        if not isinstance(content, Sparse):
            return content
        if content.size > MAX_BYTES:
            raise ColonyMemoryError(f"{name!r} is of {content.size} bytes, most of them in holes: restore it instead")
        return content.whole()
    if name in METADATA_NAMES and name in documents:
        return documents[name]
    if name in metadata.links:
        raise ColonyMemoryError(f"{name!r} is a link, to {metadata.links[name]!r}")
    lacks = f"; the snapshot is incomplete, {left_out(info)}" if info.incomplete else ""
    raise ColonyMemoryError(f"there is no {name!r} in snapshot {info.snapshot_id}{near(name, files)}{lacks}")


def near(name: str, names: Collection[str]) -> str:
    """Where a name is not among these, what is like it, to be said after that; empty where nothing is."""
    from difflib import get_close_matches

    found = get_close_matches(name, names, n=3) or [each for each in names if each.startswith(f"{name.rstrip('/')}/")]
    return f"; the nearest {'is' if len(found) == 1 else 'are'} {', '.join(map(repr, found[:3]))}" if found else ""


def narrow(documents: Mapping[str, str], globs: Sequence[str]) -> dict[str, str]:
    """The files, links and directories whose name matches one of the globs, with all that is known of them."""
    kept = reshape(documents, wanted=lambda name: any(fnmatchcase(name, glob) for glob in globs))
    if not kept:
        raise ValueError(f"nothing in the snapshot matches {', '.join(map(repr, globs))}")
    return kept


def reshape(
    documents: Mapping[str, str],
    *,
    wanted: Callable[[str], bool] = bool,
    rename: Callable[[str], str] = str,
    lead: Callable[[str], str] = str,
) -> dict[str, str]:
    """The documents that are wanted, under other names, with all that is known of them."""
    _, before = split_documents(documents)

    def kept(names: Iterable[str]) -> list[str]:
        return [rename(name) for name in names if wanted(name)]

    def keyed(known: Mapping[str, _Value]) -> dict[str, _Value]:
        # Directories have a slash at the end there.
        return {
            rename(name.rstrip("/")) + name[len(name.rstrip("/")) :]: value
            for name, value in known.items()
            if wanted(name.rstrip("/"))
        }

    after = Metadata(
        files=keyed(before.files),
        empty_dirs=tuple(kept(before.empty_dirs)),
        executable=frozenset(kept(before.executable)),
        masked=tuple(kept(before.masked)),
        links={name: lead(target) for name, target in keyed(before.links).items()},
        modes=keyed(before.modes),
        times=keyed(before.times),
        left_out=keyed(before.left_out),
        unread=frozenset(keyed(dict.fromkeys(before.unread, True))),
    )
    found = {rename(name): text for name, text in documents.items() if name not in METADATA_NAMES and wanted(name)}
    return {**found, **describe(after)}
