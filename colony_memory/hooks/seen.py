"""Whether a folder is as it was when it was last saved, told by its names, sizes and times alone.

A hook comes at the end of every turn, and mostly nothing has changed. What a backup knows by reading folder and vault,
this knows by a look at the folder, for an hour: then there is a backup again, which proves that the vault still has it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from colony_memory._os.directory import Directory
from colony_memory._os.files import read_file, replace_file
from colony_memory._os.paths import real_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FRESH", "Look", "is_as_saved", "look_at", "note_saved"]

#: How long what was seen counts.
FRESH = timedelta(hours=1)
# Seconds. What was changed so lately may be changed again without another time: file systems count in up to two.
_SETTLED = 2.5
_MOST_BYTES = 4096


@dataclass(frozen=True)
class Look:
    """A folder at a glance.

    Attributes:
        digest: Of every name in it, with kind, size and times, and of what it is saved by.
        settled: Whether nothing in it is so new that another change could hide behind the same time.
    """

    digest: str
    settled: bool


def look_at(directory: Path, saved_by: object, *, now: float) -> Look | None:
    """Look at a folder without opening a file; None where it cannot be looked at.

    Args:
        directory: The folder.
        saved_by: What decides what is saved of it, such as the options: anything that JSON takes.
        now: Seconds since the epoch, from before the folder is saved.
    """
    digest = hashlib.sha256(json.dumps(saved_by, sort_keys=True).encode())
    newest = 0
    try:
        with Directory.open(directory, follow=True) as opened:
            root = opened.status()
            digest.update(f"{str(real_path(directory))!r} {root.st_dev} {root.st_ino}\0".encode("utf-8", "replace"))
            for name, found in _walk(opened, ""):
                kind = stat.S_IFMT(found.st_mode)
                # A directory's size says nothing, and its times tell of names, which are all here.
                facts = (found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                told = facts[:2] if kind == stat.S_IFDIR else facts
                digest.update(f"{name!r} {told!r}\0".encode("utf-8", "surrogatepass"))
                newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
    except (OSError, RecursionError):
        return None
    return Look(digest.hexdigest(), settled=newest < (now - _SETTLED) * 1e9)


def _walk(directory: Directory, above: str) -> Iterator[tuple[str, os.stat_result]]:
    for name, found in sorted(directory.entries()):
        yield f"{above}{name}", found
        if stat.S_ISDIR(found.st_mode):
            with directory.enter(name) as inner:
                yield from _walk(inner, f"{above}{name}/")


def is_as_saved(place: Path, look: Look, vault: object, *, now: datetime) -> bool:
    """Whether the folder was saved as it looks now, within the last hour, in a vault that looks as it did then.

    Args:
        place: The file that :func:`note_saved` has written.
        look: The folder now.
        vault: The vault now, as far as that shows at no cost.
        now: The time, with a zone.
    """
    try:
        found = read_file(place, _MOST_BYTES)
        noted: Any = None if found is None else json.loads(found.data)
        if not isinstance(noted, dict) or (noted.get("digest"), noted.get("vault")) != (look.digest, vault):
            return False
        return timedelta(0) <= now - datetime.fromisoformat(str(noted.get("when"))) <= FRESH
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def note_saved(place: Path, look: Look | None, vault: object, *, now: datetime | None = None) -> None:
    """Note how a folder looked right before it was saved whole, and the vault after it, where that tells anything.

    Raises:
        OSError: It could not be written.
    """
    if look is None or not look.settled:
        return
    when = (now or datetime.now(timezone.utc)).isoformat()
    document = json.dumps({"digest": look.digest, "vault": vault, "when": when})
    replace_file(place, f"{document}\n".encode(), temp=f".{place.name}.{os.getpid()}.tmp")
