"""The end of a restore: put back or noted, and cleared away, also by whoever comes next to its folder.

The way back goes by what stands on disk and what the journal says. It is the same for a move that failed, for a
restore that was interrupted and for one that was killed, and may itself be cut off and taken up again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shlex
import stat
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import require_named
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.held import settling
from colony_memory._os.paths import UnfitFile, encode_name, is_directory, real_path
from colony_memory._values import getLogger, replace
from colony_memory.capture._filenames import LONGEST_COMPONENT, parents_of, quoted
from colony_memory.capture._journal import DONE, MOVING, ModeChange, Version, list_records
from colony_memory.capture._stage import KEPT, is_root, open_staging
from colony_memory.capture.index import finish_note
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from colony_memory.capture._journal import Dropped, Journal, Record, Step
    from colony_memory.capture._stage import Staging

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
        for record, journal in _related(real_path(path), warned if lenient else None):
            try:
                ended |= _end(record, journal, warned)
            except Unsettled as error:
                if not lenient:
                    raise
                warned.append(error.message)
    finally:
        # Not before all is done: whoever makes errors of warnings must not stop it halfway.
        for message in warned:
            warnings.warn(message, ColonyMemoryWarning, stacklevel=2)
    return ended


def find_in_the_way(target: Path) -> str | None:
    """The folder of a restore that is under way, or was cut off halfway, and has to do with ``target``.

    One into another folder than is there now is not in the way, nor what has only to be cleared away.
    """
    for record, journal in _related(target):
        try:
            with record.locked():
                now = _read(record)
        except OSError:  # it is held, or nobody can tell
            return journal.folder
        if now is not None and _is_half_done(replace(journal, phase=now.phase)):
            return journal.folder
    return None


def warn_unfinished(target: Path, *, stacklevel: int) -> None:
    """Warn whoever changes nothing that the folder is not as its next backup or restore finds it."""
    journals = [journal for _, journal in _related(target) if _is_there(journal)]
    if journals:
        journal = next(filter(_is_half_done, journals), journals[0])
        does = "puts back first what was there before" if _is_half_done(journal) else "clears away what that left"
        warnings.warn(
            f"a restore into {journal.folder!r} is under way or was cut off: this is the folder as it is now, and its "
            f"next restore or backup {does}",
            ColonyMemoryWarning,
            stacklevel=stacklevel + 1,
        )


# --- of which restore


def _related(target: Path, warned: list[str] | None = None) -> list[tuple[Record, Journal]]:
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
            warned.append(error.message)
            continue
        located = None if journal is None else _locate(journal, target)
        if located is not None:
            found.append((record, located))
    return found


def _read(record: Record) -> Journal | None:
    try:
        return record.read()
    except ValueError as error:
        raise Unsettled(
            f"a restore was cut off, and its state {str(record.path)!r} cannot be read ({error}): look for a directory "
            f".colony-memory-restoring-… in the folder, put back what is in its 'kept' by hand; {_leaving(record)}"
        ) from error


def _locate(journal: Journal, target: Path) -> Journal | None:
    """The journal, with the folder where it is now, or None where it has nothing to do with ``target``."""

    def is_it(path: Path) -> bool:
        return journal.place == journal.folder and _is_there(replace(journal, place=str(path)))

    folder = Path(journal.folder)
    # It may have been moved since, or be spelled in another way.
    here = next((path for path in (target, *target.parents) if is_it(path)), None)
    if here is not None and not is_it(folder):
        return replace(journal, folder=str(here), place=str(here))
    related = here is not None or folder == target or folder in target.parents or target in folder.parents
    return journal if related else None


def _is_half_done(journal: Journal) -> bool:
    return journal.phase == MOVING and _is_there(journal)


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
    kept = (os.path.join(journal.place, volume, journal.staging, KEPT) for volume in journal.volumes)  # noqa: PTH118
    return " and ".join(map(repr, kept))


# --- the end


def _end(record: Record, seen: Journal, warned: list[str]) -> bool:
    """End a restore; return whether the folder had come to be changed."""
    try:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(record.locked())
            except TimeoutError:
                message = f"a restore into {seen.folder!r} is under way: try again when it has ended"
                raise ColonyMemoryError(message) from None
            journal = _read(record)
            if journal is None:
                return False
            journal = replace(journal, folder=seen.folder, place=seen.place)
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
    except OSError as error:
        raise Unsettled(
            f"a restore into {seen.folder!r} was cut off, and cannot be put back ({error}); what it replaced is in "
            f"{kept_of(seen)}; {_leaving(record)}"
        ) from error


def _finish(record: Record, journal: Journal, place: Directory, warned: list[str]) -> None:
    with Reach(place) as reach:
        for change in journal.lent:  # which some may have again, and staging directories be left in
            set_mode(reach, change)
    if journal.phase == DONE:
        remember(journal)
    elif journal.phase == MOVING:
        with open_staging(place, journal.volumes, journal.staging) as places:
            stranded = Undo(journal, place, places).put_back(record) if places else []
        if stranded:
            raise Unsettled(
                f"a restore into {journal.folder!r} was cut off, and {quoted(stranded)} could not be put back; "
                f"the originals are in {kept_of(journal)}; {_leaving(record)}"
            )
        ended = ": all files are as they were before it"
        if not places:
            ended = ", and what it had replaced is not there any more: nothing was put back"
        warned.append(f"a restore was cut off in {journal.folder!r}{ended}")
    clear(record, journal, place)


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
    with Reach(place) as reach:
        closed = [_succeeds(change.name, set_mode, reach, change, True) for change in journal.lent]
    if discarded and all(closed):
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


# --- the way back


class Undo:
    """Takes back the steps of a journal in an open folder, with the staging directory of each volume that has one."""

    def __init__(self, journal: Journal, folder: Directory, places: Mapping[str, Staging]) -> None:
        self.journal = journal
        self.folder = folder
        self.places = places

    def changed_originals(self) -> list[str]:
        """Names whose original was written to after it was judged."""
        return [step.name for step in self.journal.steps if step.old and not step.old.fits(self._original(step))]

    def put_back(self, record: Record) -> list[str]:
        """Put everything back, and say so before anything that leads there is removed; names for which that failed."""
        stranded = self.roll_back()
        if not stranded:
            try:
                record.write(self.journal.done(note=False))
                record.needed = False
            except OSError as error:
                logger.debug("the journal of the restore goes at once: %s", error)
                record.needed = not record.remove()
        return stranded

    def roll_back(self) -> list[str]:
        """Put everything back; return the names for which that failed.

        What was written into the folder since, by others, stays: next to the original, or where it is. What was
        never done is not undone, and nothing is touched that is as it was.
        """
        journal = self.journal
        with Reach(self.folder) as reach:
            tasks: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
                *((change.name, set_mode, (change, True)) for change in journal.modes),
                # They have the permissions of the snapshot already, and may be closed by them.
                *((f"{name}/", _open_up, (name,)) for name in journal.made),
                *((step.name, self._take_back, (step,)) for step in reversed(journal.coming)),
                *((f"{name}/", self._remove_made, (name,)) for name in reversed(journal.made)),
                *((f"{each.name}/", _make_again, (each,)) for each in reversed(journal.dropped)),
                *((step.name, self._take_back, (step,)) for step in reversed(journal.leaving)),
                # With what was in them: they may be read-only.
                *((f"{each.name}/", _close_again, (each,)) for each in journal.dropped),
            ]
            failed = [name for name, act, about in tasks if not _succeeds(name, act, reach, *about)]
            if not failed:
                try:
                    reach.sync(journal.names(), one_by_one=len(self.places) > 1)
                except OSError as error:
                    path = self.folder.path
                    logger.warning("%s is as it was, but may not survive a power cut right now: %s", path, error)
        return failed

    def _original(self, step: Step) -> os.stat_result | None:
        place = self.places.get(step.volume)
        return None if place is None else place.kept.look(step.number)

    def _take_back(self, reach: Reach, step: Step) -> None:
        there = _look(reach, step.name)
        if step.volume not in self.places:
            path = os.path.join(self.folder.path, step.volume)  # noqa: PTH118 - of text, for a message
            raise FileNotFoundError(errno.ENOENT, "what was mounted there is not any more", path)
        if step.old is None:
            if there is not None and Version.of(there) == step.new:
                directory, last = reach.parent(step.name)
                directory.clear(last)
            return
        original = self._original(step)
        if original is None or (there is not None and there.st_ino == step.old.inode):
            return
        place = self.places[step.volume]
        if original.st_ino != step.old.inode:
            raise FileExistsError(errno.EEXIST, "a different file is where the original was kept", str(place.kept.path))
        waits = place.new.look(step.number) if step.shared else None
        if waits is not None and step.new == Version.of(waits):
            return  # it was never replaced: what is there, or is not any more, is the doing of others
        if waits is not None and waits.st_ino != step.old.inode:
            # Others had replaced it at that moment, and theirs came out.
            if there is None or Version.of(there) == step.new:
                place.new.move(step.number, *_nearest(reach, step.name))
            return
        # A directory that has its name by now is no file that another has put there.
        if step.shared and step.new is None and waits is None and there is not None and not is_directory(there):
            return  # nor was it taken away
        directory, last = _nearest(reach, step.name)
        if there is not None and Version.of(there) != step.new:
            _set_aside(directory, last)
        place.kept.move(step.number, directory, last)

    def _remove_made(self, reach: Reach, name: str) -> None:
        if not is_directory(_look(reach, name)):
            return
        try:
            directory, last = reach.parent(name)
            directory.remove_directory(last)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            logger.info("%s stays: there is something of others in it", name)


def set_mode(reach: Reach, change: ModeChange, back: bool = False) -> None:
    """Set permissions, or set them ``back``, of what still is what was meant, and as it was."""
    before, after = (change.new, change.old) if back else (change.old, change.new)
    with _if_there(), contextlib.ExitStack() as stack:
        if change.name.endswith("/"):
            descriptor = reach.directory(change.name.rstrip("/")).descriptor
        else:
            directory, last = reach.parent(change.name)
            descriptor, _ = stack.enter_context(directory.file(last))
        if descriptor is not None:
            there = os.fstat(descriptor)
            if (there.st_ino, stat.S_IMODE(there.st_mode)) == (change.inode, before):
                os.fchmod(descriptor, after)


def _succeeds(name: str, act: Callable[..., None], *about: Any) -> bool:
    try:
        act(*about)
    except OSError:
        logger.warning("%r could not be put back", name, exc_info=True)
        return False
    return True


@contextlib.contextmanager
def _if_there() -> Iterator[None]:
    """Pass over that nothing is there any more, or something else, or that the way there is gone."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) and not isinstance(error, UnfitFile):
            raise


def _look(reach: Reach, name: str) -> os.stat_result | None:
    with _if_there():
        return reach.look(name)
    return None


def _open_up(reach: Reach, name: str) -> None:
    with _if_there():
        directory, last = reach.parent(name)
        directory.open_up(last)


def _make_again(reach: Reach, each: Dropped) -> None:
    if _look(reach, each.name) is None:
        directory, last = _nearest(reach, each.name)
        directory.make(last)


def _close_again(reach: Reach, each: Dropped) -> None:
    """Give a directory that is made again its owner and permissions."""
    there = _look(reach, each.name)
    if there is None or not is_directory(there):
        return
    made = reach.directory(each.name).descriptor
    if made is not None and is_root() and (there.st_uid, there.st_gid) == (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):  # of a file system that keeps no owners
            os.fchown(made, each.owner, each.group)
    set_mode(reach, ModeChange(f"{each.name}/", there.st_ino, stat.S_IMODE(there.st_mode), each.mode))


def _nearest(reach: Reach, name: str) -> tuple[Directory, str]:
    """The place of an original: as it was, in directories made anew, or beside what is in the way of that."""
    for parent in parents_of(name):
        with _if_there():
            directory, last = reach.parent(parent)
            if directory.look(last) is None:
                directory.make(last)
            reach.directory(parent)
            continue
        directory = reach.directory(parent.rpartition("/")[0])
        other = _free_name(directory, name.rpartition("/")[2])
        logger.warning("%r cannot be where it was: it is kept as %s", name, directory.path / other)
        return directory, other
    return reach.parent(name)


def _set_aside(directory: Directory, name: str) -> None:
    """Give what others wrote a name of its own, next to where it was."""
    other = _free_name(directory, name)
    logger.warning("%s was changed since a restore was cut off: it is kept as %s", directory.path / name, other)
    directory.move(name, directory, other)


def _free_name(directory: Directory, name: str) -> str:
    """A name beside ``name``: ``notes.md.local-20261128T031500Z``, with a number where that is taken."""
    ending = f".local-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}"
    for end in itertools.chain([ending], (f"{ending}-{number}" for number in itertools.count(2))):
        fitted = name
        while len(encode_name(fitted + end)) > LONGEST_COMPONENT:
            fitted = fitted[:-1]
        if directory.look(fitted + end) is None:
            return fitted + end
    raise AssertionError  # there are names without end
