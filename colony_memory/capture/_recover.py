"""The end of a restore: put back or noted, and cleared away, also by whoever comes next to its folder."""

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
    """A restore was cut off, and what it left cannot be put in order."""


@settling()
def recover(path: str | os.PathLike[str], *, lenient: bool = False) -> bool:
    """End what a restore into ``path``, or into a folder above or below, left unfinished when it was killed.

    Unless all was in place already, everything that was there before is put back, and a
    :class:`ColonyMemoryWarning` says so. With ``lenient`` so does one of what cannot be put back, which keeps nobody
    from saving what is there. Returns whether there was such a restore.

    Raises:
        ValueError: The path is empty.
        ColonyMemoryError: A restore is under way, or something cannot be put back: the message says where it is, and
            what to do about it.
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
        # Not before all is done: whoever makes errors of warnings must not stop it halfway.
        for message in warned:
            warnings.warn(message, ColonyMemoryWarning, stacklevel=2)
    return ended


def warn_unfinished(target: Path, *, stacklevel: int) -> None:
    """Warn whoever changes nothing that the folder is not as its next backup or restore finds it."""
    journals = [journal for record in list_records() if (journal := _concerning(record, target)) and _is_there(journal)]
    if journals:
        journal = next((each for each in journals if each.phase == MOVING), journals[0])
        does = "puts back first what was there before" if journal.phase == MOVING else "clears away what that left"
        said = f"a restore into {journal.folder!r} is under way or was cut off: this is the folder as it is now"
        warnings.warn(f"{said}, and its next restore or backup {does}", ColonyMemoryWarning, stacklevel=stacklevel + 1)


# --- of which restore


def _read(record: Record) -> Journal | None:
    try:
        return record.read()
    except ValueError as error:
        raise Unsettled(
            f"a restore was cut off, and its state {str(record.path)!r} cannot be read ({error}): look for a directory "
            f".colony-memory-restoring-… in the folder, put back what is in its 'kept' by hand; {_leaving(record)}"
        ) from error


def _concerning(record: Record, target: Path) -> Journal | None:
    """The journal, with the folder where it is now, or None where it has nothing to do with ``target``."""
    journal = _read(record)
    if journal is None:
        return None
    if journal.place == journal.folder:  # it may have been moved since, or be spelled in another way
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
    """The way out where nothing else helps, to be said after what happened."""
    return f"to leave the folder as it is and forget that restore: rm {shlex.quote(str(record.path))}"


def kept_of(journal: Journal) -> str:
    """The places of its originals, for a message."""
    return " and ".join(repr(f"{journal.place}/{journal.staged(volume, KEPT)}") for volume in journal.volumes)


# --- the end


def _end(record: Record, seen: Journal, warned: list[str]) -> bool:
    """End a restore; return whether the folder had come to be changed."""
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(record.locked())
            journal = _read(record)
            if journal is None:
                return False
            journal = record.journal = replace(journal, folder=seen.folder, place=seen.place)
            place = None
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                place = stack.enter_context(Directory.open(Path(journal.place)))
            if place is not None and journal.is_at(place.status()):
                _finish(record, journal, place, warned)
                return journal.phase == MOVING
            # Where originals are kept, the record stays: the folder may come back.
            if journal.phase == MOVING:
                warned.append(
                    f"a restore was cut off in {journal.folder!r}, and another folder, or none, is in its place now: "
                    f"what it had replaced is in {journal.staging!r} in the former one; {_leaving(record)}"
                )
            elif not journal.lent:  # else it stays for the permissions, in nobody's way
                record.remove()
            return False
    except TimeoutError:
        raise ColonyMemoryError(f"a restore into {seen.folder!r} is under way: try again when it has ended") from None
    except OSError as error:
        raise Unsettled(
            f"a restore into {seen.folder!r} was cut off, and cannot be put back ({error}); what it replaced is in "
            f"{kept_of(seen)}; {_leaving(record)}"
        ) from error


def _finish(record: Record, journal: Journal, place: Directory, warned: list[str]) -> None:
    with contextlib.ExitStack() as stack:
        reach = stack.enter_context(Reach(place))
        for change in journal.lent:  # which some may have again, and staging directories be left in
            set_mode(reach, change)
        if journal.phase == DONE:
            remember(journal)
        elif journal.phase == MOVING:
            ended = ": all files are as they were before it"
            if not any(is_directory(reach.look(journal.staged(volume, KEPT))) for volume in journal.volumes):
                ended = ", and what it had replaced is not there any more: nothing was put back"
                record.journal = journal.undone()
            elif stranded := Moves(journal, place, stack).put_back(record):
                raise Unsettled(
                    f"a restore into {journal.folder!r} was cut off, and {quoted(stranded)} could not be put back; "
                    f"the originals are in {kept_of(journal)}; {_leaving(record)}"
                )
            warned.append(f"a restore was cut off in {journal.folder!r}{ended}")
    clear(record, place)


def remember(journal: Journal) -> None:
    """Write what was to be remembered of a restore that is done."""
    if journal.note is None:
        return
    try:
        finish_note(journal.note)
    except (OSError, ValueError) as error:
        logger.warning("what %s is based on could not be noted: %s", journal.folder, error)


def clear(record: Record, place: Directory) -> None:
    """Remove what is left of a restore and forget it, unless what it replaced is still needed."""
    journal = record.journal
    if journal is None or journal.phase == MOVING:
        return
    cleared = discard(place, journal)
    with Reach(place) as reach:
        for name in journal.emptied:  # once: what is empty and stays harms nobody, and may be wanted by then
            succeeds("removed", name, remove_empty, reach, name)
        for change in journal.lent:
            cleared &= succeeds("closed again", change.name, set_mode, reach, change, True)
    if cleared:
        record.remove()
    elif journal.note is not None:
        try:  # It is found again, and by then the folder may be based on something newer.
            record.write(replace(journal, note=None))
        except OSError as error:
            logger.warning("%s is noted again when it is found: %s", record.path, error)


def discard(place: Directory, journal: Journal) -> bool:
    """Remove the staging directories; return whether that could be done."""

    def remove(volume: str) -> None:
        if not volume or is_directory(reach.look(volume)):  # else it went with all that was in it
            reach.directory(volume).remove_tree(journal.staging)

    with Reach(place) as reach:
        left = [each for each in journal.volumes if not succeeds("removed", journal.staged(each), remove, each)]
    return not left
