"""Pure: what a folder holds and a snapshot, joined file by file and line by line."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.merge import merge
from colony_memory._lines import split_lines
from colony_memory.capture._metadata import METADATA_NAME, dump_metadata, split_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["has_all_lines", "merge_folder", "same_files"]


def merge_folder(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], *, theirs_name: str
) -> dict[str, str]:
    """Join two memories of a folder: our text keeps its name, and nothing that either side wrote is dropped.

    What is no text counts as one line. What there is to say beside contents is ours where both say something.

    Args:
        base: What both come from; empty where nothing is known: then no file counts as removed.
        ours: What the folder holds.
        theirs: The snapshot.
        theirs_name: Its id.

    Raises:
        SnapshotCorrupt: A document that describes a folder is malformed.
    """
    binaries: dict[str, bytes] = {}

    def texts(documents: Mapping[str, str]) -> dict[str, str]:
        contents, _ = split_documents(documents)
        found = {}
        for name, content in contents.items():
            if isinstance(content, bytes):
                found[name] = f"\0{hashlib.sha256(content).hexdigest()}"
                binaries[found[name]] = content
            else:
                found[name] = content
        return found

    joined = merge(texts(base), texts(ours), texts(theirs), theirs_name=theirs_name).documents
    (_, mine), (_, other) = split_documents(ours), split_documents(theirs)
    described = replace(
        mine,
        files={name: binaries[text] for name, text in joined.items() if text in binaries},
        executable=mine.executable | other.executable,
        links={name: to for name, to in {**other.links, **mine.links}.items() if name not in joined},
        empty_dirs=tuple({*mine.empty_dirs, *other.empty_dirs}),
        modes={**other.modes, **mine.modes},
        times={},
        left_out={},
        masked=tuple(name for name in mine.masked if name in joined),
    )
    found = {name: text for name, text in joined.items() if text not in binaries}
    return {**found, METADATA_NAME: dump_metadata(described)} if described else found


def same_files(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two memories of a folder have the same files and links, whatever else is told of them."""
    (contents, metadata), (others, more) = split_documents(one), split_documents(other)
    return contents == others and metadata.links == more.links


def has_all_lines(one: Mapping[str, str], of: Mapping[str, str]) -> bool:
    """Whether every line of another memory is in some document of this one; what is no text is one line."""
    return _lines(of) <= _lines(one)


def _lines(documents: Mapping[str, str]) -> set[str | bytes]:
    contents, metadata = split_documents(documents)
    found: set[str | bytes] = {f"link {name} {to}" for name, to in metadata.links.items()}
    for content in contents.values():
        found.update([content] if isinstance(content, bytes) else (line.rstrip("\n") for line in split_lines(content)))
    return found - {"", b""}
