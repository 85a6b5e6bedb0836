"""A restore that was cut off: found by whoever comes next, and put back or finished."""

from __future__ import annotations

import logging
import os
import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._journal import Journal, move, read_journal, stamp
from colony_memory.capture._staging import beside, discard, held, inside, is_ours, is_used, place_of
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterable

logger = logging.getLogger(__name__)


def recover(path: str | os.PathLike[str]) -> bool:
    """End what a restore into ``path``, or into a folder above, left unfinished when it was killed.

    If all files were in place already, they stay; otherwise everything that was there before is put back. Either
    way a :class:`ColonyMemoryWarning` says so.

    Returns:
        Whether there was such a restore.

    Raises:
        ColonyMemoryError: A restore is under way, or something cannot be put back: the message says where it is.
    """
    target = Path(os.path.realpath(path))
    folders = [target, *target.parents]
    found = [_recover_at(place, folder) for folder in folders for place in (beside(folder), inside(folder))]
    return any(found)


def recover_in(directory: Path, names: Iterable[str]) -> bool:
    """Do the same for the folders that the entries ``names`` of ``directory`` tell of; the errors are the same."""
    places = {place_of(directory / name) for name in names}
    found = [_recover_at(place, directory) for place in sorted(filter(None, places))]
    return any(found)


def clear(place: Path) -> bool:
    """Make the place free, putting back what was cut off; its lock must be held. As :func:`recover` otherwise."""
    journal = read_journal(place)
    if journal is not None:
        _end(journal)
    discard(place)
    return journal is not None


def _recover_at(place: Path, folder: Path) -> bool:
    try:
        if not is_used(place) or not is_ours(place, folder):
            return False
        with held(place, folder=folder):
            return clear(place)
    except OSError as error:
        raise ColonyMemoryError(
            f"a restore into {str(folder)!r} was cut off, and cannot be put back ({error}); "
            f"what it replaced is in {str(place)!r}"
        ) from error


def _end(journal: Journal) -> None:
    folder = journal.folder
    if not folder.is_dir():
        aside = journal.staging.with_name(f"{journal.staging.name}-{stamp(datetime.now(timezone.utc))}")
        move(journal.staging, aside)
        _tell(f"{str(folder)!r}, which is not there any more: what it had replaced is in {str(aside / 'kept')!r}")
    elif journal.is_done():
        journal.close()
        _tell(f"{str(folder)!r} after its last file: it is complete")
    else:
        stranded = journal.roll_back()
        if stranded:
            names = ", ".join(map(repr, stranded[:10]))
            raise ColonyMemoryError(
                f"a restore into {str(folder)!r} was cut off, and {names} could not be put back; "
                f"the originals are in {str(journal.staging / 'kept')!r}"
            )
        _tell(f"{str(folder)!r}: all files are as they were before it")


def _tell(what: str) -> None:
    warnings.warn(f"a restore was cut off in {what}", ColonyMemoryWarning, stacklevel=2)
