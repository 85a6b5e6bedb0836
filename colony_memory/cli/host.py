"""A call by an agent host: its JSON read, what it asks for done in time, and the answer that it takes."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from colony_memory._values import asdict, dataclass, replace
from colony_memory.cli import output as outputs
from colony_memory.cli.memory import open_memory
from colony_memory.exceptions import ConflictDetected, PruneIncomplete
from colony_memory.hooks import hosts, turn
from colony_memory.hooks.hosts import HOSTS, Told
from colony_memory.words import shown
from colony_memory.words.errors import Failure, command, describe, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from colony_memory.app.open import Place
    from colony_memory.app.save import Saved
    from colony_memory.cli.options import CommonOptions, SavingOptions
    from colony_memory.schedule.notify import Notifier

#: Seconds for what the host says to come in. Hosts have it ready, and close stdin behind it.
_LISTENING = 3.0
#: Seconds to wait for another backup or restore of the same folder.
_PATIENCE = 5.0


@dataclass(frozen=True)
class Call:
    """The options of ``hook``."""

    folder: str
    host: str
    block: bool  # keep it from going on where the memory is not saved
    seconds: float  # how long it may be held up
    saving: SavingOptions
    ping: str | None
    on_error: str | None
    common: CommonOptions

    @property
    def label(self) -> str:
        """The label that is saved under."""
        return self.saving.label


def answer_host(call: Call) -> int:
    """Do what a host's event asks for, and answer it; the exit code, which is 0 whatever happened."""
    began = time.monotonic()
    host = HOSTS[call.host]
    # At a terminal nobody is going to say anything.
    patience = 0.0 if os.isatty(0) else min(_LISTENING, call.seconds / 2)
    said = hosts.read_event(turn.read_input(0, limit=hosts.LONGEST_INPUT, patience=patience))
    task = _Task(call, began + call.seconds)
    worker: turn.Worker[Told] = turn.Worker(task.tell if host.deed(said.event) == "tell" else task.save)
    with _outliving_the_terminal():
        in_time = worker.within(task.left())
    told = worker.result if in_time and worker.result is not None else task.failed(worker.error, in_time=in_time)
    if said.problem:
        problem = f"what {host.title} said could not be understood, {said.problem}"
        told = replace(told, problem="; ".join(filter(None, [told.problem, problem])))
    if told.problem:
        output = call.common.output
        output.warn(told.problem if output.as_json else f"warning: {told.problem}")
    # A host that does not wait may be gone by now.
    with suppress(Failure):
        outputs.Output().answer(hosts.answer(host, said, told, block=call.block))
    task.close()
    if not in_time:
        outputs.leave(0)
    return 0


class _Task:
    """The work for one event, in a thread of its own."""

    def __init__(self, call: Call, deadline: float) -> None:
        self._call = call
        self._deadline = deadline
        self._state: Path | None = None
        self._notifier: Notifier | None = None
        self._saving = False

    def left(self) -> float:
        """Seconds until the host has waited for long enough."""
        return self._deadline - time.monotonic()

    def tell(self) -> Told:
        """Look how the memory stands."""
        from colony_memory.schedule.last_run import read_runs

        call = self._call
        with turn.heard() as said, open_memory(replace(call.common, quiet=True)) as opened:
            stand = turn.stand_of(
                opened.memory,
                call.folder,
                label=call.label,
                exclude=list(call.saving.exclude or ()),
                agent=call.common.agent,
                way_back=command("restore", call.folder, label=call.label, given=asdict(call.common)),
                log=read_runs(opened.place.url, call.label),
            )
        return Told(stand, shown("; ".join(said)))

    def save(self) -> Told:
        """Save the memory, or find that there is nothing to save."""
        from colony_memory.app.open import choose_place
        from colony_memory.schedule.last_run import last_run_path

        call = self._call
        self._saving = True
        place = choose_place(call.common.vault)
        self._notifier = notifier = outputs.notifier_of(
            ping=call.ping, on_error=call.on_error, label=call.label, output=call.common.output
        )
        self._state = last_run_path(place.url, call.label)
        done = turn.save_once(lambda said: self._save(place, notifier, said), state=self._state)
        run = done.run
        if run is None or run.ok:
            if run is not None:
                notifier.succeeded()
            return Told(problem=shown("; ".join(done.warnings)))
        notifier.failed(run.message)
        problem = "; ".join([f"not all of the memory is saved: {run.message}", *done.warnings])
        return Told(problem=shown(problem), unsaved=f"Not all of the memory could be saved. {self._why()}")

    def failed(self, error: BaseException | None, *, in_time: bool) -> Told:
        """The answer after an error or at the deadline, which is noted here, as its thread cannot do so any more."""
        from colony_memory.schedule.last_run import run_of

        call = self._call
        error = error if error is not None and in_time else turn.late(call.seconds)
        what = shown(describe(error))
        if not self._saving:
            stand = turn.unknown(call.folder, call.label, kind_of(error))
            return Told(stand, f"the memory could not be looked at: {what}")
        if self._state is not None and not in_time:
            turn.note_run(self._state, run_of(datetime.now(timezone.utc), None, error))
        if self._notifier is not None:
            self._notifier.failed(what, error)
        if isinstance(error, PruneIncomplete) or (isinstance(error, ConflictDetected) and error.snapshot_id):
            return Told(problem=f"the memory is saved, but: {what}")
        # What an error says may be a vault's words: they are for the person alone.
        unsaved = f"The memory could not be saved ({kind_of(error)}). {self._why()}"
        return Told(problem=f"the memory was not saved: {what}; try: {self._again()}", unsaved=unsaved)

    def _why(self) -> str:
        return f"To see why, and save it: {self._again()}"

    def _again(self) -> str:
        call = self._call
        return command("backup", call.folder, label=call.label, given=asdict(call.common))

    def close(self) -> None:
        """Wait until all is told to others, as long as there is time."""
        if self._notifier is not None:
            self._notifier.close(max(0.2, self.left()))

    def _save(self, place: Place, notifier: Notifier, said: Sequence[str]) -> Saved | None:
        from colony_memory.app.save import FolderSave
        from colony_memory.cli.verbs import backup

        call = self._call
        with open_memory(replace(call.common, quiet=True), making=True) as opened:
            # Only where there never was any. Memory that is gone is an error, and what was saved of it stays.
            if turn.is_empty(call.folder) and (
                not opened.place.exists() or opened.memory.latest(label=call.label) is None
            ):
                return None
            patience, options = min(_PATIENCE, self.left()), call.saving.parsed(call.common.agent)
            with FolderSave(opened.memory, [call.folder], options, patience=patience, unattended=True) as saving:
                asked = repr((vars(call.saving), vars(call.common), _key_facts(call.common)))
                try:
                    capture = saving.read()
                except BaseException:
                    notifier.started()
                    raise
                if saving.was_saved(capture, f"{asked} {_pointer_facts(place, call.label)}"):
                    raise turn.AsSaved
                notifier.started()
                saved = backup.finish(opened, saving, capture)
                # What there was something to say about is said again next time.
                if saved and not said:
                    saving.note_asked(f"{asked} {_pointer_facts(place, call.label)}")
                return saved


def _key_facts(common: CommonOptions) -> list[tuple[int, int]]:
    """The files that say whom to encrypt to, at a glance: what is in one may be another passphrase now."""
    facts = []
    for each in (common.passphrase_file, *(common.encrypt_to or ())):
        with suppress(OSError, ValueError):
            found = os.stat(os.path.expanduser(each or ""))  # noqa: PTH111, PTH116
            facts.append((found.st_size, found.st_mtime_ns))
    return facts


def _pointer_facts(place: Place, label: str) -> object:
    """The file that names the latest snapshot, at a glance where the vault is a directory; else nothing."""
    path = getattr(place.backend, "path", None)
    if path is None:
        return None
    try:
        found = os.stat(os.path.join(path, f"cmem.{label}.latest.json"))  # noqa: PTH116, PTH118
    except OSError:
        return "away"
    return [found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]


@contextmanager
def _outliving_the_terminal() -> Iterator[None]:
    """Let a terminal that is closed with the host not end the last backup of a session."""
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
