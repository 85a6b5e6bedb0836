"""What a diff compares: a snapshot, or a folder as it is now."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._patch import patch, quoted
from colony_memory.app.options import BackupOptions
from colony_memory.app.pick import find_id, may_name_a_snapshot, naming_the_label
from colony_memory.app.place import identify_vault
from colony_memory.app.save import read_for
from colony_memory.capture import read_folder
from colony_memory.capture._view import compare_files, empty_folders, git_files
from colony_memory.capture.index import kept_of, peek_index
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture import Capture, LeftOut
    from colony_memory.client import ColonyMemory
    from colony_memory.reports import SnapshotDiff


@dataclass(frozen=True)
class Side:
    """One side of a comparison."""

    name: str  # the snapshot's id, or the folder
    title: str  # the same in a sentence
    documents: Mapping[str, str]  # those of the snapshot, or of one of the folder
    left_out: tuple[LeftOut, ...] = ()  # what of a folder could not be read


def read_own_folder(memory: ColonyMemory, label: str) -> Side:
    """The folder that this host saves under a label, as it would be saved now with the options of its last save."""
    vault = identify_vault(memory)
    found = {paths for of, paths, basis in kept_of(vault) if of == label and basis}
    folders: list[str | os.PathLike[str]] = [paths[0] for paths in found if len(paths) == 1 and Path(paths[0]).is_dir()]
    if len(folders) != 1:
        raise ColonyMemoryError(
            f"this host saves {len(folders) or 'no'} folders under label {label!r}: say what to compare"
        )
    options = BackupOptions.of_known(peek_index(folders, vault=vault, label=label).options, label=label)
    secrets = "mask" if options.secrets == "mask" else "allow"  # what is compared is not saved
    return side_of_folder(os.fspath(folders[0]), read_for(memory, folders, replace(options, secrets=secrets)))


def read_side(memory: ColonyMemory, text: str, *, label: str) -> Side:
    """The snapshot or the folder that the text names.

    What has a path's separator or dot in it is a folder, and so is the name of one that no id begins like.
    """
    if not may_name_a_snapshot(text) or (
        not text[0].isdigit() and not text.startswith("latest") and Path(text).is_dir()
    ):
        capture = read_folder(Path(os.path.expanduser(text)), secrets="allow")  # noqa: PTH111 - Path's raises RuntimeError
        return side_of_folder(text, capture)
    with naming_the_label(memory, text):
        return read_snapshot(memory, find_id(memory, text, label=label), label=label)


def side_of_folder(path: str, capture: Capture) -> Side:
    """A folder as it was read."""
    return Side(path, f"the folder {path}", capture.documents, capture.left_out)


def read_snapshot(memory: ColonyMemory, snapshot_id: str, *, label: str) -> Side:
    """The snapshot of this id."""
    return Side(snapshot_id, f"snapshot {snapshot_id}", memory.restore(label=label, snapshot_id=snapshot_id))


def compare_sides(before: Side, after: Side) -> SnapshotDiff:
    """What differs, file by file."""
    return compare_files(before.documents, after.documents)


def patch_of(before: Side, after: Side, *, only: str | None = None) -> str:
    """What differs, as git and patch take it; what they cannot make is told in lines that they pass over.

    ``only`` names the one file that it is to be of.
    """
    files = [git_files(side.documents) for side in (before, after)]
    folders = [empty_folders(side.documents) for side in (before, after)]
    if only is not None:
        files = [{name: file for name, file in each.items() if name == only} for each in files]
        folders = [each & {only} for each in folders]
    missing = [
        (name, side) for side, here, there in zip("ab", folders, folders[::-1], strict=True) for name in here - there
    ]
    lines = [f"Only in {side}: {quoted(f'{name}/')}\n" for name, side in sorted(missing)]
    return patch(*files) + "".join(lines)
