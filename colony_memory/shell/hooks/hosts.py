"""Agent hosts: the events at which they call hooks, the input of a hook, and its answer, within a time limit.

A host's JSON is data: only the name of the event is read from it. An agent is told facts, in words of this package and
of whoever set the hook up. Nothing that comes out of the vault, such as a name, a note or a message, gets into its
context; an id may, as it is just a time and some random digits.
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
from colony_memory.shell.app.open import identify_vault
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
    #: The events at which the agent is informed; at any other its memory is saved.
    tells: tuple[str, ...] = ("SessionStart",)
    saves: tuple[str, ...] = ()  # the events at which an installed hook saves the memory
    variable: str = ""  # environment variable for its settings directory
    directory: str = ""  # that directory, below the home directory, if the variable is not set
    file: str = ""  # the settings file in it that has the hooks; empty if there is none
    second: int = 1  # one second in the unit of its timeouts
    switch: tuple[str, str] = ("", "")  # the file in it that can switch hooks off, and the pattern that it then matches
    #: Instructions for a person after the installation of the hooks, or for installing them if there is no such file.
    afterwards: str = ""


HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        Host(
            "claude-code",
            "Claude Code",
            saves=("PreCompact", "Stop", "SessionEnd"),
            variable="CLAUDE_CONFIG_DIR",
            directory=".claude",
            file="settings.json",
            switch=("settings.json", r'"disableAllHooks"\s*:\s*true'),
            afterwards="Claude Code picks them up by itself; /hooks shows them",
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
            afterwards="Gemini CLI picks them up at its next start; /hooks panel shows them",
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


#: Most bytes of a host's input.
LONGEST_INPUT = 2**20
_MOST_CHARS = 100
#: Characters of a message. Hosts cut output above 10,000 characters, or move it elsewhere.
_LONGEST_WORD = 2000


def read_event(data: bytes) -> tuple[str, str]:
    r"""The name of the event, and why it could not be read; one of the two is empty.

    >>> read_event(b'{"hook_event_name": "Stop", "cwd": "/elsewhere"}')
    ('Stop', '')
    >>> read_event(b"hello")
    ('', 'it is not JSON')
    """
    if len(data) > LONGEST_INPUT:
        return "", f"it is longer than {LONGEST_INPUT} bytes"
    try:
        document: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return "", "it is not JSON" if data.strip() else "it said nothing"
    event = document.get("hook_event_name") if isinstance(document, dict) else None
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_CHARS:
        return "", "it names no event"
    return event, ""


def answer(host: Host, event: str, context: str, problem: str) -> str:
    """The answer on stdout for the host, one JSON object on a line: context for the agent, a message for the person."""
    document: dict[str, Any] = {}
    if context and event in host.tells:
        document["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    if problem:
        document["systemMessage"] = f"colony-memory: {problem}"[:_LONGEST_WORD]
    # In ASCII, which passes in any locale.
    return json.dumps(document)


_WHEN = "It is saved at the end of a turn and before the context is compacted."


def stand_of(
    memory: ColonyMemory,
    directory: str,
    *,
    label: str,
    exclude: list[str],
    agent: str | None = None,
    way_back: Callable[..., str],
    log: RunLog | None = None,
) -> str:
    """Compare a folder with its latest snapshot, and report in sentences; a command, by ``way_back``, ends its line."""
    from colony_memory.capture.index import peek_index
    from colony_memory.shell.app.compare import find_unsaved

    sentences = [_begin(directory, label)]
    if is_empty(directory):
        latest = memory.latest(label=label)
        if latest is None:
            sentences.append("The folder is empty, and nothing is saved of it yet: this is a first start.")
        else:
            empty = f"The folder is empty although {_named(latest)} is saved."
            sentences.append(f"{empty} It comes back with: {way_back(directory)}\n")
    else:
        unsaved = find_unsaved(memory, [directory], label=label, exclude=exclude, agent=agent)
        counts = {name: len(getattr(unsaved.changes, name)) for name in ("added", "removed", "changed")}
        changes = [f"{n} {'file was' if n == 1 else 'files were'} {name}" for name, n in counts.items() if n]
        basis, latest = peek_index([directory], vault=identify_vault(memory), label=label).read(), unsaved.latest
        overtaken = basis and not basis.reverted and latest and latest.snapshot_id not in basis.own
        if unsaved.problem is not None:
            sentences += ["The latest snapshot of it cannot be read.", _WHEN]
        elif latest is None:
            sentences += ["Nothing is saved of it yet.", _WHEN]
        elif unsaved and overtaken and id_time(latest.snapshot_id):
            join = way_back(latest.snapshot_id, directory, options=["--merge"])
            lacks = f"It lacks what is new in {_named(latest)}, which was saved elsewhere."
            sentences.append(f"{lacks} That is added to it with: {join}\n")
        elif unsaved:
            sentences += [f"Since {_named(latest)}, {', '.join(changes)}.", _WHEN]
        else:
            exception = ", except for what cannot be saved" if unsaved.capture.left_out else ""
            sentences.append(f"It is as it was saved, in {_named(latest)}{exception}.")
    if log is not None and log.failed_since:
        attempts = f"{log.failed_since} attempts" if log.failed_since > 1 else "attempt"
        sentences.append(f"The last {attempts} to save it on this host failed.")
    return " ".join(sentences).replace("\n ", "\n").strip()


def unknown(directory: str, label: str, kind: str) -> str:
    """The report for a state that could not be determined, because of an error of this kind."""
    return f"{_begin(directory, label)} Whether it is saved could not be found out just now ({kind})."


def _begin(directory: str, label: str) -> str:
    return f"The folder {directory} is this agent's memory, and colony-memory saves it under the label {label}."


def _named(info: SnapshotInfo) -> str:
    # An id in another form could be any text.
    name = f"snapshot {info.snapshot_id}" if id_time(info.snapshot_id) is not None else "a snapshot"
    return f"{name} of {stamp(made_at(info))}"


def within(seconds: float, work: Callable[[], _T]) -> tuple[_T | None, BaseException | None]:
    """Run ``work`` in its own thread, so that a hanging vault does not hold the host up. Returns its result and its
    error, both None if it has not ended in time; if it goes on after that, it ends with the process.
    """
    result, failed = list[_T](), list[BaseException]()

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # noqa: BLE001 - reported by the caller
            failed.append(error)

    thread = threading.Thread(target=run, name="colony-memory-hook", daemon=True)
    thread.start()
    thread.join(max(0.0, seconds))
    return next(iter(result), None), next(iter(failed), None)


def read_input(descriptor: int, *, limit: int, patience: float) -> bytes:
    """The input up to its end, or as much as arrives within ``patience`` seconds; at most one byte above the limit.

    The writer is never blocked: input beyond the limit is read and dropped.
    """
    data = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(descriptor, 65_536):
                data.extend(piece[: limit + 1 - len(data)])

    within(patience, read)
    return bytes(data)


def note_run(state: Path, run: LastRun) -> None:
    """Add a run to the log; warns if the log cannot be written."""
    try:
        write_last_run(state, run)
    except OSError as error:
        warn(f"the run could not be noted: {error.strerror}")


@contextlib.contextmanager
def heard() -> Iterator[list[str]]:
    """Collect this package's warnings in the block instead of showing them; the list is filled when it ends."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ColonyMemoryWarning)
        yield messages
    messages += [message_of(warning.message) for warning in found if isinstance(warning.message, Warning)]
