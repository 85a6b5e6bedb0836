"""What a program has open, and would go on with although nobody reads it any more: it is not replaced unasked.

A file counts as open where another process has it open to write to, has it mapped, or holds a lock on it; an SQLite
database also where this process has it open. A store is more than the files that it has open: where one of these is no
text, nothing else of its directory changes either, but for notes.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from colony_memory._os.held import is_open_elsewhere
from colony_memory._os.kinds import Identity, is_file
from colony_memory._os.processes import name_process, open_files
from colony_memory.capture._companions import INDEX, holds_database, whole_of
from colony_memory.capture._filenames import parents_of
from colony_memory.capture._locks import DATABASE_LOCKS, INDEX_LOCKS, WHOLE_FILE, lock_holder
from colony_memory.capture._steady import read_start

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterable

    from colony_memory._os.directory import Directory
    from colony_memory._os.reach import Reach

# Notes belong to nobody's store, wherever they lie.
_NOTES = (".md", ".markdown", ".txt", ".rst", ".org", ".jsonl")
# Bytes by which a file is known for text.
_START = 4096


def find_users(reach: Reach, changing: Collection[str], databases: Collection[str]) -> dict[str, str]:
    """What of a folder is not to be changed, with the process that has it open, or has the store open that it is of.

    Args:
        reach: The folder.
        changing: Names of files that would be put there, replaced or taken away.
        databases: Those of them that are SQLite databases there.
    """
    directories = {each for name in changing for each in (*parents_of(name), "" if "/" not in name else None)} - {None}
    there = {name: status for each in sorted(map(str, directories)) for name, status in _files_in(reach, each)}
    if not there:
        return {}
    system = open_files()
    users = {name: by for name, status in there.items() if (by := system.holder(name, status)) is not None}
    for name, status in there.items():
        if name not in users and (name in changing or _is_lock(name, status)) and not _is_note(name):
            by = lock_holder(*reach.parent(name), WHOLE_FILE)
            if by is not None:
                users[name] = by
    found = {name: name_process(users[name]) for name in changing if name in users}
    for name in databases:
        user = _user_of_database(reach, name, there.get(name))
        if user is not None:
            found.setdefault(name, user)
    stores = {name.rpartition("/")[0]: by for name, by in users.items() if _is_of_store(*reach.parent(name))}
    for name in changing:
        store = next((each for each in _above(name) if each in stores), None)
        if store is not None and not _is_note(name) and (store or name not in databases):
            found.setdefault(name, name_process(stores[store]))
    return dict(sorted(found.items()))


def _files_in(reach: Reach, directory: str) -> Iterable[tuple[str, os.stat_result]]:
    try:
        entries = [*reach.directory(directory).entries()]
    except OSError:  # it is not there yet, or not ours to look at
        return []
    lead = f"{directory}/" if directory else ""
    return [(lead + name, status) for name, status in entries if is_file(status)]


def _above(name: str) -> Iterable[str]:
    """The directories whose stores a file is of: those above it, the folder itself only where it is right in it."""
    return (*parents_of(name),) or ("",)


def _is_note(name: str) -> bool:
    return name.lower().endswith(_NOTES)


def _is_lock(name: str, status: os.stat_result) -> bool:
    """Whether a file looks like one that is there to be locked."""
    return not status.st_size or "lock" in name.rpartition("/")[2].lower()


def _is_of_store(directory: Directory, name: str) -> bool:
    """Whether a file that is open is one of several: no text, and no SQLite database, which is whole by itself."""
    if holds_database(directory, whole_of(name)):
        return False
    try:
        with directory.file(name) as (descriptor, _):
            start = read_start(descriptor, _START)
    except OSError:
        return True
    if not start or b"\0" in start:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # a character may be cut at the end
    except UnicodeDecodeError:
        return True
    return False


def _user_of_database(reach: Reach, name: str, status: os.stat_result | None) -> str | None:
    if status is None:
        return None
    if is_open_elsewhere(Identity.of(status)):
        return "this process"
    directory, last = reach.parent(name)
    # The index first: in WAL mode, nothing else is locked by whoever only waits.
    for part, where in ((last + INDEX, INDEX_LOCKS), (last, DATABASE_LOCKS)):
        by = lock_holder(directory, part, where)
        if by is not None:
            return name_process(by)
    return None
