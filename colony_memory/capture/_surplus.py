"""What is in a folder and not in a snapshot: the files that a restore with ``delete`` takes away.

Only what a backup of the folder would save is taken away. What it would not (ignored files, repositories, vaults,
links, pipes, files that a cloud service keeps elsewhere) has no copy anywhere and stays.
"""

from __future__ import annotations

import errno
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._format.names import is_cortex_file
from colony_memory.capture._directory import Reach, is_link
from colony_memory.capture._dotgit import is_dotgit
from colony_memory.capture._filenames import STAGING_PREFIX, name_problem, parents_of
from colony_memory.capture._ignore import IGNORE_NAME, IgnoreRules
from colony_memory.capture._in_use import own_databases
from colony_memory.capture.sqlite import COMPANIONS, companions_of, is_database
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from colony_memory.capture._directory import Directory

_VAULT_MARKER = ".cmem-vault.json"
_PLACEHOLDER = re.compile(r"\..+\.icloud")
_ELSEWHERE = 0x40000000  # SF_DATALESS of macOS
_HEADER_SIZE = 16
_MOST_RULES = 2**20
_DEEPEST = 200


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


def find_surplus(folder: Directory, wanted: Collection[str], *, spared: Iterable[str] = ()) -> Surplus:
    """Look for it in an open folder.

    Args:
        folder: The folder.
        wanted: Names of all files and directories that the snapshot has.
        spared: Names that stay, with all that is in them, such as those that the snapshot says it lacks.

    Raises:
        OSError: A directory cannot be read.
        ColonyMemoryError: Rules that exclude files cannot be read.
    """
    found = Surplus()
    needed = {parent for name in wanted for parent in parents_of(name)} | set(wanted)
    stays = {name.rstrip("/") for name in spared}
    with Reach(folder) as reach:
        _search(reach, "", found, IgnoreRules(), wanted=frozenset(wanted), needed=needed, spared=stays)
    return found


def _search(
    reach: Reach,
    directory: str,
    found: Surplus,
    rules: IgnoreRules,
    *,
    wanted: frozenset[str],
    needed: set[str],
    spared: set[str],
) -> bool:
    """Look into a directory; return whether nothing in it stays."""
    if directory.count("/") > _DEEPEST:
        raise OSError(errno.ENAMETOOLONG, "directories are nested too deeply", directory[:80])
    prefix = f"{directory}/" if directory else ""
    here = reach.directory(directory)
    there = {name: status for name in here.names() if (status := here.look(name)) is not None}
    _read_rules(here, directory, there, rules)
    parts = _parts_of_databases(here, there)
    empty = True
    for last, status in there.items():
        name = prefix + last
        inside = stat.S_ISDIR(status.st_mode)
        if (
            name in spared
            or last in parts
            or _stays(name, last, status)
            or (last != IGNORE_NAME and rules.exclude(name, is_directory=inside))
        ):
            empty = False
        elif inside:
            gone = _search(reach, name, found, rules, wanted=wanted, needed=needed, spared=spared)
            if gone and name not in needed:
                found.directories.append((name, stat.S_IMODE(status.st_mode)))
            else:
                empty = False
        elif name in wanted:
            empty = False
        else:
            _take(reach.directory(directory), name, there, found)
    return empty


def _take(here: Directory, name: str, there: dict[str, os.stat_result], found: Surplus) -> None:
    above, _, last = name.rpartition("/")
    found.files[name] = there[last]
    if _holds_database(here, last, there[last]):
        found.databases[name] = there[last]
        for part in companions_of(last):
            if part in there and stat.S_ISREG(there[part].st_mode):
                found.files[f"{above}/{part}" if above else part] = there[part]


def _stays(name: str, last: str, status: os.stat_result) -> bool:
    if is_link(status) or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return True
    if getattr(status, "st_flags", 0) & _ELSEWHERE or _PLACEHOLDER.fullmatch(last):
        return True
    if is_cortex_file(last) or last == _VAULT_MARKER:
        return True
    return is_dotgit(last) or last.casefold().startswith(STAGING_PREFIX) or name_problem(name) is not None


def _parts_of_databases(here: Directory, there: dict[str, os.stat_result]) -> set[str]:
    """Names of files that belong to a database beside them, and go or stay with it."""
    return {
        name
        for name in there
        for suffix in COMPANIONS
        if name.endswith(suffix)
        and (base := name.removesuffix(suffix)) in there
        and _holds_database(here, base, there[base])
    }


def _holds_database(here: Directory, name: str, status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode) or status.st_size < _HEADER_SIZE:
        return False
    if (status.st_dev, status.st_ino) in own_databases():
        return True
    return is_database(here.read(name, _HEADER_SIZE))


def _read_rules(here: Directory, directory: str, there: dict[str, os.stat_result], rules: IgnoreRules) -> None:
    if IGNORE_NAME not in there:
        return
    where = str(here.path / IGNORE_NAME)
    try:
        data = here.read(IGNORE_NAME, _MOST_RULES)
    except OSError as error:
        raise ColonyMemoryError(
            f"{where!r} cannot be read ({error.strerror}), so that its rules cannot be kept"
        ) from error
    if len(data) > _MOST_RULES:
        raise ColonyMemoryError(f"{where!r} has more than {_MOST_RULES} bytes of rules")
    rules.add(directory, data, where=where)
