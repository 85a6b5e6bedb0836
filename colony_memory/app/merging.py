"""Pure: what a folder holds and a snapshot, joined file by file and line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.merge import merge
from colony_memory._format.record import lacks_text
from colony_memory.capture._metadata import METADATA_NAME, dump_metadata, split_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["has_all_lines", "merge_folder", "same_files"]


def merge_folder(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], *, theirs_name: str
) -> dict[str, str]:
    """Join two memories of a folder, as :func:`merge` does, for a folder: without the times of either.

    Raises:
        SnapshotCorrupt: A document that describes a folder is malformed.
    """
    merged = merge(base, ours, theirs, theirs_name=theirs_name).documents
    _, described = split_documents(merged)
    texts = {name: text for name, text in merged.items() if name != METADATA_NAME}
    described = replace(described, times={}, left_out={}, unread=frozenset())
    return {**texts, METADATA_NAME: dump_metadata(described)} if described else texts


def same_files(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two memories of a folder have the same files and links, whatever else is told of them."""
    (contents, metadata), (others, more) = split_documents(one), split_documents(other)
    return contents == others and metadata.links == more.links


def has_all_lines(one: Mapping[str, str], of: Mapping[str, str]) -> bool:
    """Whether a memory of a folder has every line and every link of another."""
    (_, mine), (_, other) = split_documents(one), split_documents(of)
    return other.links.items() <= mine.links.items() and not lacks_text(one, of)
