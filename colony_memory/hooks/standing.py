"""What an agent is told about its memory when a session starts.

It is facts, in words of this package and of whoever has set the hook up: nothing that comes out of the vault, such as a
name, a note or a message, gets into an agent's context this way. An id counts as a time and some random digits.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from colony_memory._format.names import id_time
from colony_memory.app.facts import made_at, stamp
from colony_memory.app.preview import find_unsaved

if TYPE_CHECKING:
    from colony_memory.app.preview import Unsaved
    from colony_memory.client import ColonyMemory
    from colony_memory.schedule.last_run import RunLog
    from colony_memory.snapshot import SnapshotInfo

__all__ = ["is_empty", "stand_of", "unknown"]

_WHEN = "It is saved at the end of a turn and before the context is compacted."


def is_empty(directory: str) -> bool:
    """Whether a folder is missing, or there is nothing in it."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except OSError:  # it is there, and a backup will say what is wrong with it
        return False


def stand_of(
    memory: ColonyMemory,
    directory: str,
    *,
    label: str,
    exclude: list[str],
    way_back: str,
    log: RunLog | None = None,
) -> str:
    """Compare a folder with what is saved of it, in sentences.

    Args:
        memory: Where it is saved.
        directory: The folder.
        label: Under which label.
        exclude: What is left out of it.
        way_back: The command that restores the latest snapshot into the folder.
        log: How the last runs on this host ended.

    Raises:
        ValueError: The folder or an argument cannot be used.
        ColonyMemoryError: The vault cannot be reached, or what is in it is not to be trusted.
    """
    said = [_begin(directory, label)]
    if is_empty(directory):
        latest = memory.latest(label=label)
        if latest is None:
            said.append("The folder is empty, and nothing is saved of it yet: this is a first start.")
        else:
            said.append(f"The folder is empty although {_named(latest)} is saved. It comes back with: {way_back}")
    else:
        said += _compared(find_unsaved(memory, [directory], label=label, exclude=exclude))
    if log is not None and log.failed_since:
        said.append(f"The last {log.failed_since} attempts to save it on this host have failed.")
    return " ".join(said)


def unknown(directory: str, label: str, kind: str) -> str:
    """What is told where that could not be found out, because of an error of this kind."""
    return f"{_begin(directory, label)} Whether it is saved could not be found out just now ({kind})."


def _begin(directory: str, label: str) -> str:
    return f"The folder {directory} is this agent's memory, and colony-memory saves it under the label {label}."


def _compared(found: Unsaved) -> list[str]:
    if found.problem is not None:
        return ["The latest snapshot of it cannot be read.", _WHEN]
    if found.latest is None:
        return ["Nothing is saved of it yet.", _WHEN]
    if not found and not found.capture.left_out:
        return [f"It is as it was saved, in {_named(found.latest)}."]
    if not found:
        return [f"It is as it was saved, in {_named(found.latest)}, but for what cannot be saved of it."]
    counts = {name: len(getattr(found.changes, name)) for name in ("added", "removed", "changed")}
    what = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    return [f"Since {_named(found.latest)}, files in it were {what}.", _WHEN]


def _named(info: SnapshotInfo) -> str:
    # An id of another form may say anything.
    name = f"snapshot {info.snapshot_id}" if id_time(info.snapshot_id) is not None else "a snapshot"
    return f"{name} of {stamp(made_at(info))}"
