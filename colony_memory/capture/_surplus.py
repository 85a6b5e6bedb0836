"""What is in a folder and not in a snapshot: the files that a restore with ``delete`` takes away.

Only what a backup of the folder would save is taken away: it is found by the same walk. What a backup would not save
(ignored files, repositories, vaults, pipes, files that a sync service keeps elsewhere) has no copy anywhere and stays,
and so do links.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._os.kinds import is_file
from colony_memory.capture._companions import holds_database, whole_of
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._patience import patience
from colony_memory.capture._tree import Tree
from colony_memory.capture._walk import walk

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from colony_memory._os.reach import Reach


@dataclass
class Surplus:
    """What a restore takes away.

    Attributes:
        files: Name to what is there.
        directories: Those that hold nothing else, inner ones first, with their permissions.
        databases: Of the files, those that are databases.
    """

    files: dict[str, os.stat_result] = field(default_factory=dict)
    directories: list[tuple[str, int]] = field(default_factory=list)
    databases: dict[str, os.stat_result] = field(default_factory=dict)


def find_surplus(
    reach: Reach,
    folder: Path,
    wanted: Collection[str],
    *,
    spared: Iterable[str] = (),
    only: Collection[str] | None = None,
) -> Surplus:
    """Look for it.

    Args:
        reach: The folder.
        folder: Its path.
        wanted: Names of all files and directories that the snapshot has.
        only: Names of the files that go, a directory standing for all in it, with directories that are empty then; None
            for all.
        spared: Names that stay, with all that is in them, such as those that the snapshot says it lacks.

    Raises:
        ValueError: Something cannot be looked at, so that nobody can tell what it is and what is in it.
        ColonyMemoryError: Rules that exclude files cannot be read.
    """
    tree = Tree()
    with patience() as patient:
        walk(folder, "", tree, patient)
    stays = {name.rstrip("/") for name in spared}
    chosen = None if only is None else {name.rstrip("/") for name in only}
    for closed in tree.closed:
        name = closed.name.rstrip("/")
        if not _is_in(name, stays) and (chosen is None or _meets(name, chosen)):
            raise ValueError(str(closed))
    names = {entry.name for entry in tree.files}
    going = {name for name in names if name not in wanted and not _is_in(name, stays)}
    if chosen is not None:
        going = {name for name in going if _is_in(name, chosen) or whole_of(name) in chosen}
    databases = {whole for whole in {*map(whole_of, names), *going} & names if holds_database(*reach.parent(whole))}
    # What is a part of a database goes or stays with it.
    going -= {name for name in going if (whole := whole_of(name)) in databases and whole not in going}
    found = Surplus()
    for name in sorted(going):
        there = reach.look(name)
        if there is not None and is_file(there):
            found.files[name] = there
            if name in databases:
                found.databases[name] = there
    left = [*wanted, *(names - found.files.keys()), *tree.ignored, *tree.links, *stays]
    left += [each.name for each in tree.left_out]
    left += [each.name for each in tree.repositories]
    needed = {parent for name in left for parent in parents_of(name)} | {*wanted, *stays}
    emptied = {parent for name in found.files for parent in parents_of(name)}
    for name in sorted(tree.directories.keys() - needed, reverse=True):
        if not _is_in(name, stays) and (only is None or name in emptied):
            found.directories.append((name, stat.S_IMODE(tree.directories[name].st_mode)))
    return found


def _meets(directory: str, names: set[str]) -> bool:
    """Whether a directory is one of these or in it, or one of these is in the directory."""
    return _is_in(directory, names) or any(directory in parents_of(name) for name in names)


def _is_in(name: str, directories: set[str]) -> bool:
    return name in directories or any(parent in directories for parent in parents_of(name))
