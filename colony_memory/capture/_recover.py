"""The end of a restore: put back or finished, noted and cleared away, also by whoever comes next to its folder."""

from __future__ import annotations

import logging
import os
import shlex
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._boundary import require_named
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.held import settling
from colony_memory._os.paths import is_directory, real_path
from colony_memory._values import replace
from colony_memory.capture._filenames import quoted
from colony_memory.capture._journal import DONE, MOVING, list_records
from colony_memory.capture._stage import KEPT, open_staging
from colony_memory.capture._undo import Undo, give_back, lend
from colony_memory.capture.index import finish_note
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from colony_memory.capture._journal import Journal, Record

logger = logging.getLogger(__name__)


class Unsettled(ColonyMemoryError):
    """A restore was cut off, and what it left cannot be put in order."""


@settling()
def recover(path: str | os.PathLike[str], *, lenient: bool = False) -> bool:
    """End what a restore into ``path``, or into a folder above or below, left unfinished when it was killed.

    If all files were in place already, they stay; otherwise everything that was there before is put back. Either
    way a :class:`ColonyMemoryWarning` says so. What is to be done stands in this user's state directory, and nowhere
    else: nothing that lies in a folder is believed.

    Args:
        path: The folder.
        lenient: What cannot be put back is a warning too: it keeps nobody from saving what is there.

    Returns:
        Whether there was such a restore.

    Raises:
        ValueError: The path is empty.
        ColonyMemoryError: A restore is under way, or something cannot be put back: the message says where it is, and
            what to do about it.
    """
    require_named(path)
    warned: list[ColonyMemoryWarning] = []
    ended = False
    try:
        for record, journal in _related(real_path(path), warned if lenient else None):
            try:
                ended |= _end(record, journal, warned)
            except Unsettled as error:
                if not lenient:
                    raise
                warned.append(ColonyMemoryWarning(error.message))
    finally:
        # Not before all is done: whoever makes errors of warnings must not stop it halfway.
        for warning in warned:
            warnings.warn(warning, stacklevel=2)
    return ended


def find_unfinished(target: Path) -> str | None:
    """The folder of a restore that has to do with ``target`` and is under way or was cut off; nothing is changed."""
    return next((journal.folder for _, journal in _related(target)), None)


def warn_unfinished(target: Path, *, stacklevel: int) -> None:
    """Warn whoever changes nothing that the folder is not as its next backup or restore finds it."""
    folder = find_unfinished(target)
    if folder is not None:
        warnings.warn(
            f"a restore into {folder!r} is under way or was cut off: this is the folder as it is now, and its next "
            "restore or backup puts back first what was there before",
            ColonyMemoryWarning,
            stacklevel=stacklevel + 1,
        )


# --- of which restore


def _related(target: Path, warned: list[ColonyMemoryWarning] | None = None) -> list[tuple[Record, Journal]]:
    try:
        records = list_records()
    except OSError as error:
        raise ColonyMemoryError(f"nobody can tell whether a restore was cut off: {error}") from error
    found = []
    for record in records:
        try:
            journal = _read(record)
        except Unsettled as error:
            if warned is None:
                raise
            warned.append(ColonyMemoryWarning(error.message))
            continue
        located = None if journal is None else _locate(journal, target)
        if located is not None:
            found.append((record, located))
    return found


def _read(record: Record) -> Journal | None:
    try:
        return record.read()
    except OSError as error:
        # One that another user has made in this place, by all likelihood root.
        logger.warning("%s is passed over: %s", record.path, error)
        return None
    except ValueError as error:
        raise Unsettled(
            f"a restore was cut off, and its state {str(record.path)!r} cannot be read ({error}): look for a directory "
            f".colony-memory-restoring-… in the folder, put back what is in its 'kept' by hand; {_leaving(record)}"
        ) from error


def _locate(journal: Journal, target: Path) -> Journal | None:
    """The journal, with the folder where it is now, or None where it has nothing to do with ``target``."""

    def is_of(path: Path) -> bool:
        try:
            return journal.is_of(path.lstat(), journal.identity)
        except OSError:
            return False

    folder = Path(journal.folder)
    # It may have been moved since, or be spelled in another way.
    here = next((path for path in (target, *target.parents) if is_of(path)), None)
    if here is not None and not is_of(folder):
        return replace(journal, folder=str(here), place=str(here))
    if here is not None or folder == target or folder in target.parents or target in folder.parents:
        return journal
    return None


def _leaving(record: Record) -> str:
    """The way out where nothing else helps, to be said after what happened."""
    return f"to leave the folder as it is and forget that restore: rm {shlex.quote(str(record.path))}"


def kept_of(journal: Journal) -> str:
    """The places of its originals, for a message."""
    kept = (os.path.join(journal.place, volume, journal.staging, KEPT) for volume in journal.volumes)  # noqa: PTH118
    return " and ".join(map(repr, kept))


# --- the end


def _end(record: Record, seen: Journal, warned: list[ColonyMemoryWarning]) -> bool:
    """End a restore; return whether the folder had come to be changed."""
    try:
        with ExitStack() as stack:
            try:
                stack.enter_context(record.locked())
            except TimeoutError:
                message = f"a restore into {seen.folder!r} is under way: try again when it has ended"
                raise ColonyMemoryError(message) from None
            journal = _read(record)
            if journal is None:
                return False
            return _finish(record, replace(journal, folder=seen.folder, place=seen.place), warned)
    except OSError as error:
        raise Unsettled(
            f"a restore into {seen.folder!r} was cut off, and cannot be put back ({error}); what it replaced is in "
            f"{kept_of(seen)}; {_leaving(record)}"
        ) from error


def _finish(record: Record, journal: Journal, warned: list[ColonyMemoryWarning]) -> bool:
    changed = journal.phase == MOVING
    place = _open_place(journal)
    if place is None:
        # Where originals are kept, the record stays: the folder may come back.
        if changed:
            warned.append(
                ColonyMemoryWarning(
                    f"a restore was cut off in {journal.folder!r}, and another folder, or none, is in its place now: "
                    f"what it had replaced is in {journal.staging!r} in the former one; {_leaving(record)}"
                )
            )
        else:
            record.remove()
        return False
    with place:
        lend(place, journal.lent)  # which some may have again, and staging directories be left in
        if changed:
            warned.append(ColonyMemoryWarning(f"a restore was cut off in {_settle(record, journal, place)}"))
        elif journal.phase == DONE:
            remember(journal)
        clear(record, journal, place)
    return changed


def _open_place(journal: Journal) -> Directory | None:
    """The directory that the staging directory is in, if it is the one that it was."""
    try:
        place = Directory.open(Path(journal.place))
    except (FileNotFoundError, NotADirectoryError):
        return None
    if journal.is_of(place.status(), journal.place_identity):
        return place
    place.close()
    return None


def _settle(record: Record, journal: Journal, folder: Directory) -> str:
    """Put the folder in order, and say what became of it."""
    with open_staging(folder, journal.volumes, journal.staging) as places:
        if not places:
            return f"{journal.folder!r}, and what it had replaced is not there any more: nothing was put back"
        undo = Undo(journal, folder, places)
        done = undo.is_done()
        stranded = [] if done else undo.put_back(record)
    if stranded:
        raise Unsettled(
            f"a restore into {journal.folder!r} was cut off, and {quoted(stranded)} could not be put back; "
            f"the originals are in {kept_of(journal)}; {_leaving(record)}"
        )
    if done:
        record.write(journal.done())
        remember(journal)
        return f"{journal.folder!r} after its last file: it is complete"
    return f"{journal.folder!r}: all files are as they were before it"


def remember(journal: Journal) -> None:
    """Write what was to be remembered of a restore that is done."""
    if journal.note is None:
        return
    try:
        finish_note(journal.note)
    except (OSError, ValueError) as error:
        logger.warning("what %s is based on could not be noted: %s", journal.folder, error)


def clear(record: Record, journal: Journal, place: Directory) -> None:
    """Remove the staging directories and forget the restore, unless its record says that they still are needed."""
    if record.needed:
        return
    discarded = discard(place, journal)
    if give_back(place, journal.lent) and discarded:
        record.remove()
    elif journal.note is not None:
        try:  # It is found again, and by then the folder may be based on something newer.
            record.write(journal.done(note=False))
        except OSError as error:
            logger.warning("%s is noted again when it is found: %s", record.path, error)


def discard(place: Directory, journal: Journal) -> bool:
    """Remove the staging directories; return whether that could be done."""
    done = True
    with Reach(place) as reach:
        for volume in journal.volumes:
            try:
                if volume and not is_directory(reach.look(volume)):
                    continue  # it went with all that was in it
                reach.directory(volume).remove_tree(journal.staging)
            except OSError as error:
                left = os.path.join(place.path, volume, journal.staging)  # noqa: PTH118 - of text, for a message
                logger.warning("%s is no longer needed and could not be removed: %s", left, error)
                done = False
    return done
