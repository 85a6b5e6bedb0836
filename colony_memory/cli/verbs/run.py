"""The verb ``run``: restore, start a command, save beside it and once more at its end."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from colony_memory.cli.options import (
    CommonOptions,
    EveryOption,
    FinalTimeoutOption,
    MapOption,
    OnErrorOption,
    PingOption,
    ProjectOption,
    Without,
)
from colony_memory.cli.saving import SavingOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from colony_memory.app.hosts import Host
    from colony_memory.app.options import BackupOptions
    from colony_memory.app.save import Saved
    from colony_memory.cli.memory import Opened
    from colony_memory.cli.output import Output
    from colony_memory.schedule.beside import Beside
    from colony_memory.schedule.child import Child
    from colony_memory.schedule.watch import Ended, LastRun

EXAMPLES = (
    "colony-memory run ~/agent/memory -- python agent.py",
    "colony-memory run --agent claude-code -- claude",
    "colony-memory run --every 5m --keep 96 --label research ~/agent/memory -- agent",
)


def run(
    command: Annotated[list[str], typer.Argument(metavar="DIR COMMAND...", hidden=True)],
    *,
    saving: Annotated[SavingOptions, Without({"git", "note", "tag"})],
    every: EveryOption = "15m",
    final_timeout: FinalTimeoutOption = "10s",
    ping: PingOption = None,
    on_error: OnErrorOption = None,
    project: ProjectOption = None,
    move: MapOption = None,
    common: CommonOptions,
) -> int:
    """Restore a folder, run a command on it, and save it meanwhile and at the end.

    The latest snapshot is restored into DIR as 'restore' does it. Where the vault is there and nothing is saved in it
    under the label, it is a first start, and DIR stays as it is. In any other case, such as an outage, the command is
    not started, and the exit code says why.

    The command has this terminal, and gets every signal that is sent here. DIR is saved now, then every so often, at
    once when it is told to end, and when it has ended. The exit code is the command's, 128 and the number where a
    signal ended it. Where it succeeded and its memory is not saved, it is 1.
    """
    from colony_memory.app.durations import read_seconds, show_duration
    from colony_memory.app.place import choose_place
    from colony_memory.cli.hosts import host_of, tell_elsewhere
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.started import become_process_1, split_command, starting
    from colony_memory.cli.telling import LAST_WORDS, leave, notifier_of, telling
    from colony_memory.schedule.beside import Beside
    from colony_memory.schedule.child import Child
    from colony_memory.schedule.watch import Watch, alone, last_run_path

    become_process_1()
    directory, program = split_command(command)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    # What every backup would be refused for is refused before the first.
    options, label = saving.parsed(), saving.label
    output, host = common.output, host_of(common.agent, directory, project=project, maps=move)
    tell_elsewhere(common.agent, [directory], output)
    notifier = notifier_of(ping=ping, on_error=on_error, label=label, output=output)
    with ExitStack() as held:
        held.enter_context(telling(notifier, patience=LAST_WORDS))
        held.enter_context(starting(program))
        state = last_run_path(choose_place(common.vault).url, label)
        held.enter_context(alone(state))
        opened = held.enter_context(open_memory(replace(common, quiet=True)))
        first = _begin(opened, directory, label=label, common=common, host=host)
        output.note(f"saving to {opened.place.title} every {show_duration(interval)}")
        watch = Watch(
            _saver(opened, directory, options, first=first),
            every=interval,
            final_timeout=patience,
            state=state,
            on_run=lambda done: _tell(done, output),
            notifier=notifier,
            beside=True,
        )
        # What shuts down slowly may be killed before it is done: what there is by then is saved at once.
        child = held.enter_context(Child(program, on_end=lambda _: watch.save_now()))
        beside = held.enter_context(Beside(watch, final_timeout=patience))
        code = _supervise(child, beside, output, directory=directory, label=label, common=common)
    if beside.busy:
        leave(code)
    return code


def _begin(opened: Opened, directory: str, *, label: str, common: CommonOptions, host: Host | None) -> bool:
    """Restore; whether it is a first start."""
    from colony_memory.app.begin import begin
    from colony_memory.app.facts import made_at, stamp
    from colony_memory.cli.commands import command
    from colony_memory.cli.errors import Failure, exit_code
    from colony_memory.cli.hosts import tell
    from colony_memory.cli.interrupts import first_interrupt_only
    from colony_memory.cli.restored import warn_of_lacks
    from colony_memory.exceptions import ColonyMemoryError

    try:
        with first_interrupt_only():
            shape = None if host is None else host.shape
            begun = begin(opened.memory, directory, label=label, shape=shape)
    except ColonyMemoryError as error:
        if error.hint is None or error.hint.action != "write_folder":
            raise
        # What is newer here was not saved; nothing is restored over it unasked.
        advice = command("backup", directory, label=label, given=asdict(common))
        raise Failure(error.message, code=exit_code(error), advice=advice) from error
    restored = begun.restored
    if restored is None:
        common.output.note(f"{begun.missing}, in {opened.place.title}: a first start")
        return True
    info, written = restored.info, restored.written
    warn_of_lacks(info, written)
    changed = len(written.created) + len(written.replaced)
    common.output.note(
        f"restored snapshot {info.snapshot_id} of {stamp(made_at(info))} into {directory}: "
        f"{changed} written, {len(written.unchanged)} unchanged"
    )
    if host is not None:
        tell(host, common.output)
    return False


def _saver(opened: Opened, directory: str, options: BackupOptions, *, first: bool) -> Callable[[], Saved | None]:
    """Makes one backup each time that it is called, always by the client that has restored: so it knows of others."""
    import os

    from colony_memory.cli.verbs import backup

    nothing_yet = first

    def save() -> Saved | None:
        nonlocal nothing_yet
        # Only where there never was any. Memory that is gone is an error, and what was saved of it stays.
        if nothing_yet and os.path.isdir(directory) and not os.listdir(directory):  # noqa: PTH112, PTH208
            return None
        opened.place.require()
        saved = backup.save(opened, [directory], options, unattended=True)
        nothing_yet = False
        return saved

    return save


def _tell(done: LastRun, output: Output) -> None:
    """Say on stderr what went wrong and how the last backup went: stdout is the command's, and so is the terminal."""
    from colony_memory.cli.errors import say_json
    from colony_memory.cli.telling import run_document, run_line

    if output.as_json:
        say_json(run_document(done))
    elif not done.ok:
        output.warn(run_line(done))
    elif done.next_run is None:
        output.note(run_line(done))


def _supervise(
    child: Child, beside: Beside, output: Output, *, directory: str, label: str, common: CommonOptions
) -> int:
    """Start the command, wait for its end and for the last backup; the exit code."""
    from colony_memory.cli.errors import FAILED, INTERRUPTED

    child.start()
    beside.go()
    code = child.wait()
    try:
        ended = beside.end("the end of the command")
    except KeyboardInterrupt:
        output.warn("interrupted: the last backup was not waited for")
        return code or INTERRUPTED
    if ended.last.ok:
        return code
    _say_not_saved(ended, code, output, directory=directory, label=label, common=common)
    return code or FAILED


def _say_not_saved(
    ended: Ended, code: int, output: Output, *, directory: str, label: str, common: CommonOptions
) -> None:
    from colony_memory.cli.commands import command
    from colony_memory.cli.errors import warn

    lacks = "not all of its memory is saved" if ended.last.snapshot_id else "its memory was not saved at its end"
    again = command("backup", directory, label=label, given=asdict(common))
    # What the folder itself is to blame for, another backup would fail of too.
    warn(
        f"error: the command ended with exit code {code}, and {lacks}",
        as_json=output.as_json,
        hint=None if isinstance(ended.error, ValueError) else again,
    )
