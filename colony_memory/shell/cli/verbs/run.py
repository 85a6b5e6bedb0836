"""The verbs that run a command or serve a host: ``run``, ``guard`` and ``mcp``."""

from __future__ import annotations

import os
import re
import shlex
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from colony_memory._values import asdict, replace
from colony_memory.schedule.child import Child, CommandNotFound, become_init, find_command
from colony_memory.shell.app.config import read_seconds, show_duration
from colony_memory.shell.app.open import choose_place
from colony_memory.shell.app.pick import made_at, stamp
from colony_memory.shell.app.run import Begun, begin, keep_for_way_back
from colony_memory.shell.cli import output as outputs
from colony_memory.shell.cli.call import at_vault, format_of, host_of, open_memory, report_host, trust_of
from colony_memory.shell.cli.verbs import backup
from colony_memory.shell.cli.verbs.restore import refusal, restore_lines, warn_of_lacks
from colony_memory.shell.words import errors
from colony_memory.shell.words.errors import FAILED, INTERRUPTED, Failure, cut, say, say_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colony_memory.shell.app.save import Saved
    from colony_memory.shell.cli.app import CommonOptions, SavingOptions
    from colony_memory.shell.cli.output import Output


def _split(words: Sequence[str]) -> tuple[str, list[str]]:
    """The folder and the words of the command. A container's first process becomes its init before anything else."""
    become_init(lambda line: say(f"error: {line}"))
    directory, *program = words
    if not directory:
        raise ValueError("an empty path")
    if not program or not program[0]:
        raise ValueError("the command to start is missing: give it after the folder and --")
    return directory, program


@contextmanager
def _starting(program: Sequence[str]) -> Iterator[None]:
    """Find the command before any work is done for it; an error at its start becomes a Failure of one line."""
    try:
        find_command(program)
        yield
    except CommandNotFound as error:
        # The exit code that a shell uses for it.
        raise Failure(f"the command cannot be run: {error}", code=error.code) from error


def run_run(
    command: list[str],
    *,
    saving: SavingOptions,
    every: str = "15m",
    final_timeout: str = "10s",
    fallback: bool = False,
    no_fill: bool = False,
    dry_run: bool = False,
    verbose: bool = False,
    common: CommonOptions,
) -> int:
    """DIR gets the latest snapshot where it is as it was when it was last saved or restored; where it is ahead of that
    it stays, and where both went on they are merged. Where the vault is there and nothing is saved in it under the
    label, it is a first start, and DIR stays as it is. Where the vault cannot be had, the command is not started, and
    the exit code says why. --dry-run tells what would become of DIR, and starts nothing.

    The command has this terminal, and gets every signal that is sent here. DIR is saved now, then every so often, at
    once when it is told to end, and when it has ended. The exit code is the command's, 128 and the number where a
    signal ended it. Where it succeeded and its memory is not saved, it is 1.

    colony-memory run ~/agent/memory -- python agent.py
    colony-memory run --agent claude-code -- claude
    colony-memory run --every 5m --keep 96 --label research ~/agent/memory -- agent
    """
    from colony_memory.schedule.last_run import alone, last_run_path
    from colony_memory.schedule.watch import Watch

    directory, program = _split(command)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    # Errors that every backup would end with are raised before the first.
    options, label, output = saving.parsed(common.agent), saving.label, common.output
    host = host_of(common.agent, directory, kinds=common.kinds)
    start = partial(
        begin, directory=directory, label=label, fallback=fallback, fill=not no_fill, options=options, host=host
    )
    if dry_run:
        with open_memory(common) as opened, errors.signals_raise(first_only=True):
            begun = start(opened.memory, dry_run=True)
        restored, latest = begun.restored, f"the latest snapshot is {begun.latest}"
        if restored is not None:
            lines = restore_lines(restored, directory, begun.messages, dry_run=True, verbose=verbose)
        else:
            reason = begun.failed or ("nothing is saved yet" if begun.latest is None else latest)
            lines = [*begun.messages, f"{directory} would stay as it is: {reason}"]
        output.done({"directory": directory, "dry_run": True, **asdict(begun)}, *lines, dry_run=True)
        if restored is not None:
            warn_of_lacks(restored.info, restored.written)
            if not restored:
                raise refusal(restored.written, saves=True)
        return FAILED if begun.failed else 0
    again = partial(errors.command, label=label, given=asdict(common))
    with ExitStack() as stack:
        stack.enter_context(_starting(program))
        state = last_run_path(choose_place(common.vault).url, label)
        stack.enter_context(alone(state))
        opened = stack.enter_context(open_memory(replace(common, quiet=True)))
        with errors.signals_raise(first_only=True):
            begun = start(opened.memory)
        back = again("restore", *filter(None, [begun.latest]), directory, options=["--snapshot-first"])
        _report_start(begun, directory, output, where=opened.place.title, again=back)
        if host is not None and begun.restored is not None:
            report_host(host, output)
        output.note(f"saving to {opened.place.title} every {show_duration(interval)}")
        nothing_yet = begun.latest is None

        def save() -> Saved | None:
            # Always by the client that restored: it knows the base, and so notices another client's save.
            nonlocal nothing_yet
            # Only if there never was any. A memory that vanished is an error, and its snapshots stay.
            if nothing_yet and os.path.isdir(directory) and not os.listdir(directory):  # noqa: PTH112, PTH208
                return None
            opened.place.require()
            saved = backup.save(opened, [directory], options, unattended=True)
            nothing_yet = False
            return saved

        report = lambda run, _error: outputs.report_run(run, output, to_stderr=True)  # noqa: E731
        watch = Watch(save, every=interval, final_timeout=patience, state=state, on_run=report)
        # A command that shuts down slowly may be killed first: save what there is at once.
        child = stack.enter_context(Child(program, on_end=lambda _: watch.save_now()))
        stack.enter_context(watch)
        child.start()
        watch.save_now()
        code = child.wait(watch.look)
        try:
            last = watch.end("the end of the command")
        except KeyboardInterrupt:
            output.warn("interrupted: the last backup was not waited for")
            code = code or INTERRUPTED
        else:
            if not last.ok:
                saved_id = last.snapshot_id
                lacks = "not all of its memory is saved" if saved_id else "its memory was not saved at its end"
                # If the folder itself is at fault, another backup would fail too.
                hint = None if isinstance(watch.last_error, ValueError) else again("backup", directory)
                output.warn(f"error: the command ended with exit code {code}, and {lacks}", hint=hint)
                code = code or FAILED
    if watch.busy:
        outputs.leave(code)
    return code or (FAILED if begun.failed else 0)


def _report_start(begun: Begun, directory: str, output: Output, *, where: str, again: str) -> None:
    for message in begun.messages:
        output.warn(message)
    if begun.failed is not None:
        output.warn(f"{directory} stays as it is: {begun.failed}", hint=again)
    elif begun.latest is None:
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


def run_guard(command: list[str], *, saving: SavingOptions, common: CommonOptions) -> int:
    """The snapshot is pinned for 30 days, so that no retention deletes it, and its note names the command; where the
    latest is pinned already and DIR is unchanged, that is kept on instead. Where DIR cannot be saved, all of it, the
    command is not started. The command has this terminal, and every signal that is sent here. After it, stderr tells
    the command that restores what was there. The exit code is the command's, 128 and the number where a signal ended
    it.

    colony-memory guard ~/agent/memory -- rm -r notes
    colony-memory guard --label research ~/agent/memory -- agent tidy-up
    """
    directory, program = _split(command)
    with _starting(program):
        with open_memory(common, making=True) as opened:
            # The note names the command, without likely secrets.
            options = replace(saving, note=_clean(f"before: {shlex.join(program)}")[:200]).parsed(common.agent)
            saved = backup.save(opened, [directory], options, reuses_pinned=True, unattended=True)
            with opened.working("Writing to"):
                info = keep_for_way_back(opened.memory, saved)
        common.output.note(f"saved snapshot {info.snapshot_id} of label {info.label}, and pinned it for 30 days")
        with Child(program) as child:
            child.start()
            code = child.wait()
    words, first = ("restore", info.snapshot_id, directory), ("--snapshot-first",)
    back = errors.command(*words, options=first, label=saving.label, given=asdict(common))
    if common.as_json:
        say_json({"snapshot": asdict(info), "exit_code": code, "way_back": back})
    else:
        # A truncated command could not be pasted.
        advice = f"to get back what was there: {back}" if cut(back) == back else f"what was there is {info.snapshot_id}"
        say(f"the command ended with exit code {code}; {advice}")
    return code


def _clean(text: str) -> str:
    """The text on one line, without likely secrets."""
    from colony_memory.capture.secrets import mask_contents

    key = os.environ.get("COLONY_API_KEY", "").strip()
    text = re.sub(r"(?<=//)[^/@\s]+@", "\u2026@", text.replace(key, "\u2026") if key else text)
    contents: dict[str, str | bytes] = {"note": "".join(char if char.isprintable() else " " for char in text)}
    mask_contents(contents)
    return " ".join(str(contents["note"]).split())


def run_mcp(
    directory: str,
    *,
    saving: SavingOptions,
    allow_restore: bool = False,
    format: str | None = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> None:
    """DIR is the folder; without it, --agent says whose memory it is. The host gets tools to save it, to list, show,
    verify, compare and look back, and to tell whether it is protected; all of them are about this folder, this label
    and this vault, and none takes a path. What is saved is what 'backup' with these options would save.

    A host starts this command itself and speaks to it on its input and output.

    colony-memory mcp ~/agent/memory
    colony-memory mcp --label research --keep 50 --allow-restore ~/agent/memory
    """
    from colony_memory.shell.mcp import require_mcp

    require_mcp()
    import logging

    from colony_memory.shell.mcp.served import Served, real_folder
    from colony_memory.shell.mcp.server import MemoryServer, serve_stdio

    logging.getLogger().addHandler(logging.NullHandler())  # else the library configures the log itself
    with at_vault(common.vault, replace(common, quiet=True).output, making=True) as place:
        served = Served(
            place,
            real_folder(directory),
            saving.parsed(common.agent),
            trust=trust_of(common),
            wire=format_of(format),
            allow_restore=allow_restore,
        )
        if sys.stdin is not None and sys.stdin.isatty():
            common.output.note("waiting for a host on standard input, but that is a terminal; Ctrl-C to stop")
        serve_stdio(MemoryServer(served))
