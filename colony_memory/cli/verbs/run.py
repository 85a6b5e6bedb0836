"""The verbs that run another program: ``run`` and ``guard``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    DryRunOption,
    EveryOption,
    FinalTimeoutOption,
    MapOption,
    NoFillOption,
    OnErrorOption,
    Option,
    PingOption,
    ProjectOption,
    SavingOptions,
    VerboseOption,
    Without,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.app.begin import Begun
    from colony_memory.app.claude_code import Host
    from colony_memory.app.options import BackupOptions
    from colony_memory.app.save import Saved
    from colony_memory.cli.memory import Opened
    from colony_memory.cli.output import Output
    from colony_memory.schedule.child import Child
    from colony_memory.schedule.watch import Beside, Ended, LastRun


RUN_EXAMPLES = (
    "colony-memory run ~/agent/memory -- python agent.py",
    "colony-memory run --agent claude-code -- claude",
    "colony-memory run --every 5m --keep 96 --label research ~/agent/memory -- agent",
)


def run_run(
    command: Annotated[list[str], Argument("DIR COMMAND...")],
    *,
    saving: Annotated[SavingOptions, Without({"note", "tag"})],
    every: EveryOption = "15m",
    final_timeout: FinalTimeoutOption = "10s",
    ping: PingOption = None,
    on_error: OnErrorOption = None,
    project: ProjectOption = None,
    move: MapOption = None,
    fallback: Annotated[
        bool, Option("--fallback", "Where the latest snapshot is damaged, take the newest intact one.")
    ] = False,
    no_fill: NoFillOption = False,
    dry_run: DryRunOption = False,
    verbose: VerboseOption = False,
    common: CommonOptions,
) -> int:
    """Restore a folder, run a command on it, and save it meanwhile and at the end.

    DIR gets the latest snapshot where it is as it was when it was last saved or restored; where it is ahead of that it
    stays, and where both went on they are merged. Where the vault is there and nothing is saved in it under the label,
    it is a first start, and DIR stays as it is. Where the vault cannot be had, the command is not started, and the exit
    code says why. --dry-run tells what would become of DIR, and starts nothing.

    The command has this terminal, and gets every signal that is sent here. DIR is saved now, then every so often, at
    once when it is told to end, and when it has ended. The exit code is the command's, 128 and the number where a
    signal ended it. Where it succeeded and its memory is not saved, it is 1.
    """
    from colony_memory.app.place import choose_place
    from colony_memory.app.values import read_seconds, show_duration
    from colony_memory.cli.memory import host_of, open_memory, tell_elsewhere, tell_host
    from colony_memory.cli.output import (
        LAST_WORDS,
        become_process_1,
        leave,
        notifier_of,
        split_command,
        starting,
        telling,
    )
    from colony_memory.schedule.child import Child
    from colony_memory.schedule.watch import Beside, Watch, alone, last_run_path
    from colony_memory.words.errors import FAILED

    become_process_1()
    directory, program = split_command(command)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    # What every backup would be refused for is refused before the first.
    options, label = saving.parsed(common.agent), saving.label
    output, host = common.output, host_of(common.agent, directory, kinds=common.kinds, project=project, maps=move)
    tell_elsewhere(common.agent, [directory], output)
    notifier = notifier_of(ping=ping, on_error=on_error, label=label, output=output)
    if dry_run:
        with open_memory(common) as opened:
            begun = _begin(
                opened,
                directory,
                label=label,
                host=host,
                options=options,
                fallback=fallback,
                fill=not no_fill,
                dry_run=True,
            )
            _tell_plan(begun, directory, output, verbose=verbose)
        return FAILED if begun.failed else 0
    with ExitStack() as held:
        held.enter_context(telling(notifier, patience=LAST_WORDS))
        held.enter_context(starting(program))
        state = last_run_path(choose_place(common.vault).url, label)
        held.enter_context(alone(state))
        opened = held.enter_context(open_memory(replace(common, quiet=True)))
        begun = _begin(opened, directory, label=label, host=host, options=options, fallback=fallback, fill=not no_fill)
        _tell_start(begun, directory, output, where=opened.place.title, label=label, common=common)
        if host is not None and begun.restored is not None:
            tell_host(host, output)
        output.note(f"saving to {opened.place.title} every {show_duration(interval)}")
        watch = Watch(
            _saver(opened, directory, options, first=begun.is_first),
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
    return code or (FAILED if begun.failed else 0)


def _begin(
    opened: Opened,
    directory: str,
    *,
    label: str,
    host: Host | None,
    options: BackupOptions,
    fallback: bool,
    fill: bool,
    dry_run: bool = False,
) -> Begun:
    """Bring the folder to the latest snapshot."""
    from colony_memory.app.begin import begin
    from colony_memory.cli.output import first_interrupt_only

    with first_interrupt_only():
        return begin(
            opened.memory,
            directory,
            label=label,
            fallback=fallback,
            fill=fill,
            dry_run=dry_run,
            options=options,
            shape=host,
        )


def _tell_start(begun: Begun, directory: str, output: Output, *, where: str, label: str, common: CommonOptions) -> None:
    """Say what became of the folder; what was merged, replaced or left, --quiet or not."""
    from colony_memory.app.pick import made_at, stamp
    from colony_memory.cli.summary import warn_of_lacks
    from colony_memory.words.commands import command

    given = asdict(common)
    for told in begun.told:
        output.warn(told)
    if begun.failed is not None:
        again = command("restore", directory, options=["--snapshot-first"], label=label, given=given)
        output.warn(f"{directory} stays as it is: {begun.failed}", hint=again)
    if begun.is_first:
        output.note(f"{begun.missing}, in {where}: a first start")
    elif begun.restored is None:
        output.note(f"{directory} stays as it is; the latest snapshot is {begun.latest}")
    else:
        info, written = begun.restored.info, begun.restored.written
        warn_of_lacks(info, written)
        removed = f", {len(written.removed)} removed" if written.removed else ""
        output.note(
            f"restored snapshot {info.snapshot_id} of {stamp(made_at(info))} into {directory}: "
            f"{len(written.created) + len(written.replaced)} written{removed}, {len(written.unchanged)} unchanged"
        )


def _tell_plan(begun: Begun, directory: str, output: Output, *, verbose: bool) -> None:
    """Say what would become of the folder, file by file."""
    from colony_memory.cli.summary import restore_lines, restore_names
    from colony_memory.words.text import now_utc

    found, told = begun.restored, [*begun.told]
    if found is None:
        stays = "nothing is saved yet" if begun.is_first else f"the latest snapshot is {begun.latest}"
        output.report(f"{directory} would stay as it is: {stays}", names=told)
        return
    output.report(
        *restore_lines(found.info, found.written, directory=directory, dry_run=True, now=now_utc()),
        names=[*restore_names(found.written, dry_run=True, verbose=verbose), *told],
    )


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
    from colony_memory.cli.output import run_document, run_line
    from colony_memory.words.errors import say_json

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
    from colony_memory.words.errors import FAILED, INTERRUPTED

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
    from colony_memory.words.commands import command
    from colony_memory.words.errors import warn

    lacks = "not all of its memory is saved" if ended.last.snapshot_id else "its memory was not saved at its end"
    again = command("backup", directory, label=label, given=asdict(common))
    # What the folder itself is to blame for, another backup would fail of too.
    warn(
        f"error: the command ended with exit code {code}, and {lacks}",
        as_json=output.as_json,
        hint=None if isinstance(ended.error, ValueError) else again,
    )


GUARD_EXAMPLES = (
    "colony-memory guard ~/agent/memory -- rm -r notes",
    "colony-memory guard --label research ~/agent/memory -- agent tidy-up",
)

_NOTE_CHARS = 200


def run_guard(
    command: Annotated[list[str], Argument("DIR COMMAND...")],
    *,
    saving: Annotated[SavingOptions, Without({"note", "tag"})],
    common: CommonOptions,
) -> int:
    """Save a folder, run a command that may spoil it, and say how to get back.

    The snapshot is pinned for 30 days, so that no retention deletes it, and its note names the command; where the
    latest is pinned already and DIR is unchanged, that is kept on instead. Where DIR cannot be saved, all of it, the
    command is not started. The command has this terminal, and every signal that is sent here. After it, stderr tells
    the command that restores what was there. The exit code is the command's, 128 and the number where a signal ended
    it.
    """
    from colony_memory.app.guard import keep_for_way_back
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.output import become_process_1, split_command, starting
    from colony_memory.cli.verbs import backup
    from colony_memory.schedule.child import Child
    from colony_memory.words.commands import command as worded
    from colony_memory.words.errors import cut, say, say_json

    become_process_1()
    directory, program = split_command(command)
    with starting(program):
        with open_memory(common, making=True) as opened:
            options = replace(saving, note=_note(program)).parsed(common.agent)
            saved = backup.save(opened, [directory], options, reuses_pinned=True, unattended=True)
            with opened.working("Writing to"):
                info = keep_for_way_back(opened.memory, saved)
        common.output.note(f"saved snapshot {info.snapshot_id} of label {info.label}, and pinned it for 30 days")
        with Child(program) as child:
            child.start()
            code = child.wait()
    back = worded(
        "restore", info.snapshot_id, directory, options=("--snapshot-first",), label=saving.label, given=asdict(common)
    )
    if common.as_json:
        say_json({"snapshot": asdict(info), "exit_code": code, "way_back": back})
    else:
        # A command that is cut could not be pasted.
        told = f"to get back what was there: {back}" if cut(back) == back else f"what was there is {info.snapshot_id}"
        say(f"the command ended with exit code {code}; {told}")
    return code


def _note(program: Sequence[str]) -> str:
    """What the snapshot is from before, without what looks like a secret."""
    import shlex

    from colony_memory.schedule.notify import clean

    return clean(f"before: {shlex.join(program)}")[:_NOTE_CHARS]
