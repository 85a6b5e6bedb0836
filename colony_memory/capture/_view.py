"""Pure: documents as the files that they stand for, to compare one memory with another file by file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._diff import EXECUTABLE, LINK, PLAIN, File, SnapshotDiff, compare
from colony_memory._values import replace
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


def compare_files(
    before: Mapping[str, str], after: Mapping[str, str], *, instead: Mapping[str, str] | None = None
) -> SnapshotDiff:
    """What changed from one memory to another, under the names of :func:`view_files`; ``unchanged`` counts files.

    That a file is executable is told where it is on both sides, and else it comes and goes with the file.

    Args:
        before: The documents of one.
        after: Those of the other.
        instead: Contents that stand for those that files have in the other.

    Raises:
        SnapshotCorrupt: A document that describes a folder is malformed.
    """
    (files, old), (others, new) = split_documents(before), split_documents(after)
    found = compare(view_files(before), {**view_files(after), **(instead or {})})
    marked = old.executable ^ new.executable
    own = {*files, *others}
    silent = {f"{name} (executable)" for name in marked if (name in files) != (name in others)} - own
    same = [name for name in files if name in others and name not in found.changed and name not in marked]
    links = [name for name, target in old.links.items() if new.links.get(name) == target]
    return SnapshotDiff(
        added=tuple(name for name in found.added if name not in silent),
        removed=tuple(name for name in found.removed if name not in silent),
        changed=found.changed,
        unchanged=len(same) + len(links),
    )


def git_files(documents: Mapping[str, str], *, modes: bool = True) -> dict[str, File]:
    """Each file and link as git has it. Empty directories are none to it, and without ``modes`` no file is executable.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    files, metadata = split_documents(documents)
    executable = metadata.executable if modes else frozenset()
    found = {name: File(data, EXECUTABLE if name in executable else PLAIN) for name, data in files.items()}
    return found | {name: File(target, LINK) for name, target in metadata.links.items()}


def empty_folders(documents: Mapping[str, str]) -> frozenset[str]:
    """The directories that nothing is in.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    return frozenset(split_documents(documents)[1].empty_dirs)


def differ_in_times_only(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether two memories are the same but for the times of change of their files, or the same altogether.

    Raises:
        SnapshotCorrupt: A document that describes a folder is malformed.
    """
    (files, metadata), (others, more) = split_documents(one), split_documents(other)
    return files == others and replace(metadata, times={}) == replace(more, times={})
