"""Where a restore keeps what is not in place yet, or not any more: a directory in each volume that it writes to."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory._os.directory import Directory

logger = logging.getLogger(__name__)

NEW, KEPT = "new", "kept"


@dataclass(frozen=True)
class Staging:
    """An open staging directory: what is going to be put in place, and what was replaced."""

    new: Directory
    kept: Directory


def find_volumes(reach: Reach, names: Iterable[str]) -> dict[str, str]:
    """For each directory that is there and that one of the names is in: the topmost one of its file system.

    Args:
        reach: The folder.
        names: Of files, missing directories above them or not.

    Raises:
        OSError: One of the directories cannot be looked at.
    """
    found = {"": ""}
    mounts = {"": _mount(reach.directory(""))}
    for name in sorted(names):
        above = ""
        for part in name.split("/")[:-1]:
            inner = f"{above}/{part}".lstrip("/")
            if inner not in found:
                try:
                    mounts[inner] = _mount(reach.directory(inner))
                except FileNotFoundError:
                    break
                found[inner] = found[above] if mounts[inner] == mounts[above] else inner
            above = inner
    return found


def volume_of(name: str, volumes: dict[str, str]) -> str:
    """The volume that a name of the folder is, or comes to be, in."""
    above = name.rpartition("/")[0]
    while above not in volumes:
        above = above.rpartition("/")[0]
    return volumes[above]


@contextmanager
def opened(
    folder: Directory, volumes: Iterable[str], staging: str, *, making: bool = False
) -> Iterator[dict[str, Staging]]:
    """Open the staging directory of each volume; one that is not there is left out, unless it is to be made."""
    with ExitStack() as stack:
        found = {}
        for volume in volumes:
            # Each by a way of its own: they all stay open.
            reach = stack.enter_context(Reach(folder))
            try:
                place = reach.directory(volume)
                if making:
                    place.make(staging)
                top = stack.enter_context(place.enter(staging))
                if making:
                    top.make(NEW)
                    top.make(KEPT)
                found[volume] = Staging(stack.enter_context(top.enter(NEW)), stack.enter_context(top.enter(KEPT)))
            except (FileNotFoundError, NotADirectoryError) as error:
                if making:
                    raise
                logger.debug("%s has no staging directory any more: %s", volume or folder.path, error)
        yield found


def _mount(directory: Directory) -> object:
    """What tells one mount from another: nothing is moved between two, of one file system or not."""
    if sys.platform == "linux" and directory.descriptor is not None:
        try:
            lines = Path(f"/proc/self/fdinfo/{directory.descriptor}").read_text("ascii").splitlines()
        except OSError:
            lines = []
        for line in lines:
            if line.startswith("mnt_id:"):
                return int(line.split()[1])
    return directory.status().st_dev
