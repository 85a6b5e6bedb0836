"""Pure: documents as the files that they stand for, to compare one memory with another file by file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import split_documents

if TYPE_CHECKING:
    from collections.abc import Mapping


def view_files(documents: Mapping[str, str]) -> dict[str, str]:
    """Each file under its name with its content, bytes that are no text one character each.

    An empty directory is a name that ends with ``/``; that a file is executable is a name of its own, ``run.sh
    (executable)``, and so is a link with what it says, ``today.md (link)``.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    files, metadata = split_documents(documents)
    view = {name: data if isinstance(data, str) else data.decode("latin-1") for name, data in files.items()}
    view.update(dict.fromkeys((f"{name}/" for name in metadata.empty_dirs), ""))
    view.update(dict.fromkeys((f"{name} (executable)" for name in metadata.executable), ""))
    view.update({f"{name} (link)": target for name, target in metadata.links.items()})
    return view


def differ_in_times_only(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two memories are the same but for the times of change of their files, or the same altogether.

    Raises:
        SnapshotCorrupt: A document that describes a folder is malformed.
    """
    (files, metadata), (others, more) = split_documents(one), split_documents(other)
    return files == others and replace(metadata, times={}) == replace(more, times={})
