"""One call of a host: the memory saved once, in the time that the host may be held up, or a word about it to the agent.

What an agent is told is facts, in words of this package and of whoever has set the hook up: nothing that comes out of
the vault, such as a name, a note or a message, gets into its context. An id counts as a time and some random digits.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import TYPE_CHECKING, Generic, TypeVar

from colony_memory._format.names import id_time
from colony_memory._os.paths import is_empty
from colony_memory._values import dataclass
from colony_memory.exceptions import ColonyMemoryWarning, message_of
from colony_memory.schedule.last_run import write_last_run
from colony_memory.shell.app.pick import made_at, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from colony_memory.client import ColonyMemory
    from colony_memory.schedule.last_run import LastRun, RunLog
    from colony_memory.shell.app.compare import Unsaved
    from colony_memory.snapshot import SnapshotInfo

_WHEN = "It is saved at the end of a turn and before the context is compacted."


def stand_of(
    memory: ColonyMemory,
    directory: str,
    *,
    label: str,
    exclude: list[str],
    agent: str | None = None,
    way_back: str,
    log: RunLog | None = None,
) -> str:
    """Compare a folder with what is saved of it, in sentences."""
    from colony_memory.shell.app.compare import find_unsaved

    said = [_begin(directory, label)]
    if is_empty(directory):
        latest = memory.latest(label=label)
        if latest is None:
            said.append("The folder is empty, and nothing is saved of it yet: this is a first start.")
        else:
            said.append(f"The folder is empty although {_named(latest)} is saved. It comes back with: {way_back}")
    else:
        said += _compared(find_unsaved(memory, [directory], label=label, exclude=exclude, agent=agent))
    if log is not None and log.failed_since:
        said.append(f"The last {log.failed_since} attempts to save it on this host have failed.")
    return " ".join(said)


def unknown(directory: str, label: str, kind: str) -> str:
    """The words for a state that could not be found out, because of an error of this kind."""
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


_T = TypeVar("_T")


@dataclass
class Worker(Generic[_T]):
    """Does something in a thread of its own, so that a vault that hangs does not hold the host up."""

    work: Callable[[], _T]
    result: _T | None = None  # what it returned
    error: BaseException | None = None  # what it failed of

    def within(self, seconds: float) -> bool:
        """Start it and wait; whether it ended in time. What goes on after that ends with the process."""
        thread = threading.Thread(target=self._run, name="colony-memory-hook", daemon=True)
        thread.start()
        thread.join(max(0.0, seconds))
        return not thread.is_alive()

    def _run(self) -> None:
        try:
            self.result = self.work()
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self.error = error


def read_input(descriptor: int, *, limit: int, patience: float) -> bytes:
    """All input until its end, a byte more than the limit at most, or what has come when patience is over.

    All of it is taken off whoever writes it.
    """
    data = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(descriptor, 65_536):
                data.extend(piece[: limit + 1 - len(data)])

    Worker(read).within(patience)
    return bytes(data)


def note_run(state: Path, run: LastRun) -> None:
    """Add a run to the log; where that cannot be written, it is a warning."""
    try:
        write_last_run(state, run)
    except OSError as error:
        warnings.warn(f"the run could not be noted: {error.strerror}", ColonyMemoryWarning, stacklevel=2)


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Gives what this package warned of in the block, once that has ended, in place of having it shown."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ColonyMemoryWarning)
        yield said
    said += [message_of(each.message) for each in found if isinstance(each.message, Warning)]
