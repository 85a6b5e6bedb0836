"""The agent hosts, the events that they call hooks at, what they say then and what they are answered, in time.

A host's JSON is data. Of all that is in it, only the name of the event is looked at. What an agent is told is facts, in
words of this package and of whoever has set the hook up: nothing that comes out of the vault, such as a name, a note or
a message, gets into its context. An id counts as a time and some random digits.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import warnings
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._engine.session import warn
from colony_memory._format.names import id_time
from colony_memory._os.paths import is_empty
from colony_memory._values import Value
from colony_memory.exceptions import ColonyMemoryWarning, message_of
from colony_memory.schedule.last_run import LastRun, RunLog, write_last_run
from colony_memory.shell.app.pick import made_at, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from colony_memory.client import ColonyMemory
    from colony_memory.snapshot import SnapshotInfo

_T = TypeVar("_T")


class Host(Value):
    """A program that runs agents and calls commands at its events."""

    name: str  # as options name it
    title: str  # as people name it
    #: The events at which the agent is told; at any other its memory is saved.
    tells: tuple[str, ...] = ("SessionStart",)
    saves: tuple[str, ...] = ()  # the events that an installation has the memory saved at
    variable: str = ""  # environment variable of the directory that it keeps its settings in
    directory: str = ""  # that directory in the home directory where the variable is not set
    file: str = ""  # the settings in it that hold hooks; empty where there is no such file
    second: int = 1  # what one second is in the unit of its timeouts
    switch: tuple[str, str] = ("", "")  # the file in it that can switch hooks off, and a pattern of what it says then
    #: What a person has to do once the hooks are in, or how they get in where there is no such file.
    afterwards: str = ""


HOSTS: Mapping[str, Host] = {
    each.name: each
    for each in (
        Host(
            "claude-code",
            "Claude Code",
            saves=("PreCompact", "Stop", "SessionEnd"),
            variable="CLAUDE_CONFIG_DIR",
            directory=".claude",
            file="settings.json",
            switch=("settings.json", r'"disableAllHooks"\s*:\s*true'),
            afterwards="Claude Code takes them over by itself; /hooks shows them",
        ),
        Host(
            "codex",
            "Codex",
            saves=("PreCompact", "Stop"),
            variable="CODEX_HOME",
            directory=".codex",
            file="hooks.json",
            switch=("config.toml", r"(?m)^\s*(?:features\.)?(?:codex_)?hooks\s*=\s*false"),
            afterwards="Codex runs them once you have trusted them, with /hooks",
        ),
        Host(
            "gemini",
            "Gemini CLI",
            saves=("AfterAgent", "PreCompress", "SessionEnd"),
            directory=".gemini",
            file="settings.json",
            second=1000,
            switch=("settings.json", r'"hooksConfig"\s*:\s*\{[^{}]*"enabled"\s*:\s*false'),
            afterwards="Gemini CLI takes them over at its next start; /hooks panel shows them",
        ),
        Host(
            "openclaw",
            "OpenClaw",
            tells=("gateway:startup",),
            saves=("command:new", "command:reset", "command:stop", "session:compact:before"),
            afterwards="OpenClaw takes a hook of two files: https://memory.thecolony.cc/hosts.html#openclaw",
        ),
    )
}


#: Bytes that are read of what a host says.
LONGEST_INPUT = 2**20
_MOST_CHARS = 100
#: Hosts cut what is longer than 10,000 characters, or put it elsewhere.
_LONGEST_WORD = 2000


def read_event(data: bytes) -> tuple[str, str]:
    r"""The name of the event, or empty, and why it could not be read.

    >>> read_event(b'{"hook_event_name": "Stop", "cwd": "/elsewhere"}')
    ('Stop', '')
    >>> read_event(b"hello")
    ('', 'it is not JSON')
    """
    if len(data) > LONGEST_INPUT:
        return "", f"it is longer than {LONGEST_INPUT} bytes"
    try:
        found: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return "", "it is not JSON" if data.strip() else "it said nothing"
    event = found.get("hook_event_name") if isinstance(found, dict) else None
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_CHARS:
        return "", "it names no event"
    return event, ""


def answer(host: Host, event: str, context: str, problem: str) -> str:
    """The answer on stdout for the host, one JSON object on a line: words for the agent, and for the person."""
    document: dict[str, Any] = {}
    if context and event in host.tells:
        document["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    if problem:
        document["systemMessage"] = f"colony-memory: {problem}"[:_LONGEST_WORD]
    # In ASCII, so that it passes whatever the locale.
    return json.dumps(document)


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
        found = find_unsaved(memory, [directory], label=label, exclude=exclude, agent=agent)
        counts = {name: len(getattr(found.changes, name)) for name in ("added", "removed", "changed")}
        what = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
        if found.problem is not None:
            said += ["The latest snapshot of it cannot be read.", _WHEN]
        elif found.latest is None:
            said += ["Nothing is saved of it yet.", _WHEN]
        elif found:
            said += [f"Since {_named(found.latest)}, files in it were {what}.", _WHEN]
        else:
            but = ", but for what cannot be saved of it" if found.capture.left_out else ""
            said.append(f"It is as it was saved, in {_named(found.latest)}{but}.")
    if log is not None and log.failed_since:
        said.append(f"The last {log.failed_since} attempts to save it on this host have failed.")
    return " ".join(said)


def unknown(directory: str, label: str, kind: str) -> str:
    """The words for a state that could not be found out, because of an error of this kind."""
    return f"{_begin(directory, label)} Whether it is saved could not be found out just now ({kind})."


def _begin(directory: str, label: str) -> str:
    return f"The folder {directory} is this agent's memory, and colony-memory saves it under the label {label}."


def _named(info: SnapshotInfo) -> str:
    # An id of another form may say anything.
    name = f"snapshot {info.snapshot_id}" if id_time(info.snapshot_id) is not None else "a snapshot"
    return f"{name} of {stamp(made_at(info))}"


def within(seconds: float, work: Callable[[], _T]) -> tuple[_T | None, BaseException | None]:
    """Do something in a thread of its own, so that a vault that hangs does not hold the host up; what it returned and
    what it failed of, both None where it has not ended in time. What goes on after that ends with the process.
    """
    result, failed = list[_T](), list[BaseException]()

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            failed.append(error)

    thread = threading.Thread(target=run, name="colony-memory-hook", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    return next(iter(result), None), next(iter(failed), None)


def read_input(descriptor: int, *, limit: int, patience: float) -> bytes:
    """All input until its end, a byte more than the limit at most, or what has come when patience is over.

    All of it is taken off whoever writes it.
    """
    data = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(descriptor, 65_536):
                data.extend(piece[: limit + 1 - len(data)])

    within(patience, read)
    return bytes(data)


def note_run(state: Path, run: LastRun) -> None:
    """Add a run to the log; where that cannot be written, it is a warning."""
    try:
        write_last_run(state, run)
    except OSError as error:
        warn(f"the run could not be noted: {error.strerror}")


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Gives what this package warned of in the block, once that has ended, in place of having it shown."""
    said: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ColonyMemoryWarning)
        yield said
    said += [message_of(each.message) for each in found if isinstance(each.message, Warning)]
