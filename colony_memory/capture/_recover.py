"""The end of a restore: rolled back or recorded, then cleared away; after a kill, by the next user of the folder."""

from __future__ import annotations

import contextlib
import os
import shlex
import warnings
from pathlib import Path

from colony_memory._boundary import require_named
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.open_files import settling
from colony_memory._os.paths import is_directory, real_path
from colony_memory._values import getLogger, replace
from colony_memory.capture._filenames import quoted
from colony_memory.capture._journal import DONE, MOVING, Journal, Record, list_records
from colony_memory.capture._moves import Moves, remove_empty, set_mode, succeeds
from colony_memory.capture._stage import KEPT
from colony_memory.capture.index import finish_note
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

logger = getLogger(__name__)


class Unsettled(ColonyMemoryError):
    """Raised for an interrupted restore whose remains cannot be put in order."""


@settling()
def recover(path: str | os.PathLike[str], *, lenient: bool = False) -> bool:
    """End a restore into ``path``, or into a folder above or below, that was interrupted by a kill.

    Unless all was in place already, everything that was there before is put back, and a
    :class:`ColonyMemoryWarning` says so. With ``lenient``, a warning also replaces the error of a restore that cannot
    be put back, so that the folder can still be saved. Returns true if one was cut off while it changed the folder.

    Raises:
        ValueError: The path is empty.
        ColonyMemoryError: A restore is under way, or something cannot be put back: the message says what to do.
    """
    require_named(path)
    warned: list[str] = []
    ended = False
    try:
        target = real_path(path)
        for record in list_records():
            try:
                journal = _concerning(record, target)
                ended |= journal is not None and _end(record, journal, warned)
            except Unsettled as error:
                if not lenient:
                    raise
                warned.append(error.message)
    finally:
        # Only when all is done: where warnings are errors, they must not stop it halfway.
        for message in warned:
            warnings.warn(message, ColonyMemoryWarning, stacklevel=2)
    return ended


def warn_unfinished(target: Path, *, stacklevel: int) -> None:
    """Warn, in a dry run, that the next restore or backup finds another state of the folder."""
    journals = [journal for record in list_records() if (journal := _concerning(record, target)) and _is_there(journal)]
    if journals:
        journal = next((entry for entry in journals if entry.phase == MOVING), journals[0])
        then = "first restores the previous state" if journal.phase == MOVING else "removes its leftovers"
        text = f"a restore into {journal.folder!r} is under way or was cut off: this is the folder as it is now"
        warnings.warn(f"{text}, and its next restore or backup {then}", ColonyMemoryWarning, stacklevel=stacklevel + 1)


# --- the restores of a folder


def _read(record: Record) -> Journal | None:
    try:
        return record.read()
    except ValueError as error:
        raise Unsettled(
            f"a restore was cut off, and its state {str(record.path)!r} cannot be read ({error}): look for a "
            f"directory .colony-memory-restoring-… in the folder, and move the files in its 'kept' back by hand; "
            f"{_leaving(record)}"
        ) from error


def _concerning(record: Record, target: Path) -> Journal | None:
    """The journal, with the present path of its folder, or None if ``target`` is not concerned."""
    journal = _read(record)
    if journal is None:
        return None
    if journal.place == journal.folder:  # the folder may have been moved since, or be spelled differently
        for path in (target, *target.parents):
            here = replace(journal, folder=str(path), place=str(path))
            if _is_there(here):
                return here
    folder = Path(journal.folder)
    return journal if folder.is_relative_to(target) or target.is_relative_to(folder) else None


def _is_there(journal: Journal) -> bool:
    try:
        return journal.is_at(os.lstat(journal.place))
    except OSError:
        return False


def _leaving(record: Record) -> str:
    """The last resort, for the end of an error message."""
    return f"to leave the folder as it is and forget that restore: rm {shlex.quote(str(record.path))}"


def kept_of(journal: Journal) -> str:
    """The paths of a restore's originals, for a message."""
    return " and ".join(repr(f"{journal.place}/{journal.staged(volume, KEPT)}") for volume in journal.volumes)


# --- the end


def _end(record: Record, found: Journal, warned: list[str]) -> bool:
    """End a restore; true if it was in the middle of changing the folder."""
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(record.locked())
            journal = _read(record)
            if journal is None:
                return False
            journal = record.journal = replace(journal, folder=found.folder, place=found.place)
            place = None
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                place = stack.enter_context(Directory.open(Path(journal.place)))
            if place is not None and journal.is_at(place.status()):
                _finish(record, journal, place, warned)
                return journal.phase == MOVING
            # With originals left, the record stays: the folder may come back.
            if journal.phase == MOVING:
                warned.append(
                    f"a restore was cut off in {journal.folder!r}, and another folder, or none, is in its place now: "
                    f"what it had replaced is in {journal.staging!r} in the former one; {_leaving(record)}"
                )
            elif not journal.lent:  # else the record stays, for the permissions
                record.remove()
            return False
    except TimeoutError:
        raise ColonyMemoryError(f"a restore into {found.folder!r} is under way: try again when it has ended") from None
    except OSError as error:
        raise Unsettled(
            f"a restore into {found.folder!r} was cut off, and cannot be put back ({error}); what it replaced is in "
            f"{kept_of(found)}; {_leaving(record)}"
        ) from error


def _finish(record: Record, journal: Journal, place: Directory, warned: list[str]) -> None:
    with contextlib.ExitStack() as stack:
        reach = stack.enter_context(Reach(place))
        for change in journal.lent:  # some may be read-only again, with staging directories left in them
            set_mode(reach, change)
        if journal.phase == DONE:
            remember(journal)
        elif journal.phase == MOVING:
            outcome = ": all files are as they were before it"
            if not any(is_directory(reach.look(journal.staged(volume, KEPT))) for volume in journal.volumes):
                outcome = ", and what it had replaced is not there any more: nothing was put back"
                record.journal = journal.undone()
            elif stranded := Moves(journal, place, stack).put_back(record):
                raise Unsettled(
                    f"a restore into {journal.folder!r} was cut off, and {quoted(stranded)} could not be put back; "
                    f"the originals are in {kept_of(journal)}; {_leaving(record)}"
                )
            warned.append(f"a restore was cut off in {journal.folder!r}{outcome}")
    clear(record, place)


def remember(journal: Journal) -> None:
    """Write the note of a restore that is done to the index."""
    if journal.note is None:
        return
    try:
        finish_note(journal.note)
    except (OSError, ValueError) as error:
        logger.warning("what %s is based on could not be noted: %s", journal.folder, error)


def clear(record: Record, place: Directory) -> None:
    """Remove the remains of a restore and its record, unless the originals are still needed."""
    journal = record.journal
    if journal is None or journal.phase == MOVING:
        return
    cleared = discard(place, journal)
    with Reach(place) as reach:
        for name in journal.emptied:  # tried once: an empty directory that stays does no harm, and may be wanted later
            succeeds("removed", name, remove_empty, reach, name)
        for change in journal.lent:
            cleared &= succeeds("closed again", change.name, set_mode, reach, change, True)
    if cleared:
        record.remove()
    elif journal.note is not None:
        try:  # The record is found again, and the folder may have a newer basis by then.
            record.write(replace(journal, note=None))
        except OSError as error:
            logger.warning("%s is noted again when it is found: %s", record.path, error)


def discard(place: Directory, journal: Journal) -> bool:
    """Remove the staging directories; true if none is left."""

    def remove(volume: str) -> None:
        if not volume or is_directory(reach.look(volume)):  # else it is gone with its staging directory
            reach.directory(volume).remove_tree(journal.staging)

    with Reach(place) as reach:
        failed = [v for v in journal.volumes if not succeeds("removed", journal.staged(v), remove, v)]
    return not failed
