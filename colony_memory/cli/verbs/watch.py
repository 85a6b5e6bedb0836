"""The verb ``watch``: backup, over and over."""
# ruff: noqa: TC001 - the parser reads the annotations

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    EveryOption,
    FinalTimeoutOption,
    FormatOption,
    OnErrorOption,
    Option,
    PingOption,
)
from colony_memory.cli.saving import SavingOptions
from colony_memory.cli.verbs import backup

if TYPE_CHECKING:
    from colony_memory.app.save import Saved
    from colony_memory.cli.output import Output
    from colony_memory.schedule.watch import LastRun

EXAMPLES = (
    "colony-memory watch --every 15m ~/agent/memory",
    "colony-memory watch --every 1h --keep 48 --label research MEMORY.md notes/",
)


def run(
    paths: Annotated[list[str], Argument(metavar="PATH")],
    *,
    every: EveryOption = "15m",
    final_timeout: FinalTimeoutOption = "10s",
    once: Annotated[bool, Option("--once", help="Make one backup and end, as 'backup' does.")] = False,
    saving: SavingOptions,
    ping: PingOption = None,
    on_error: OnErrorOption = None,
    format: FormatOption = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Save folders and files now, and then every so often until told to stop.

    Each run is a backup with the same options, and is told in one line. A run that fails is tried again, sooner at
    first and then less often, for as long as it takes; only a failure of the first one ends the command, unless it may
    mend itself. SIGTERM and Ctrl-C have a last backup made, and the exit code is that backup's.
    """
    from colony_memory.app.durations import read_seconds, show_duration
    from colony_memory.app.place import choose_place
    from colony_memory.cli.errors import FAILED, exit_code
    from colony_memory.cli.hosts import tell_elsewhere
    from colony_memory.cli.telling import LAST_WORDS, leave, notifier_of
    from colony_memory.schedule.watch import Watch, last_run_path

    if once:
        return backup.run(paths, saving=saving, ping=ping, on_error=on_error, format=format, common=common)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    place, output = choose_place(common.vault), common.output
    tell_elsewhere(common.agent, paths, output)
    greeting = [f"saving to {place.title} every {show_duration(interval)}; SIGTERM or Ctrl-C to stop"]

    def tell(done: LastRun) -> None:
        # Only now: an error of the first run is one line, and the only one.
        if greeting:
            output.note(greeting.pop())
        _tell(done, output)

    notifier = notifier_of(ping=ping, on_error=on_error, label=saving.label, output=output)
    watch = Watch(
        lambda: _save(paths, common, saving, wire=format),
        every=interval,
        final_timeout=patience,
        state=last_run_path(place.url, saving.label),
        on_run=tell,
        notifier=notifier,
    )
    code = FAILED
    try:
        ended = watch.run()
        if ended.error is not None:
            code = exit_code(ended.error)
        elif ended.last.ok:
            code = 0
    except KeyboardInterrupt as error:
        code = exit_code(error)
        if not watch.busy:
            raise
    finally:
        notifier.close(LAST_WORDS)
    if watch.busy:
        leave(code)
    return code


def _save(paths: list[str], common: CommonOptions, saving: SavingOptions, *, wire: str | None) -> Saved:
    """Make one backup, in a vault that is opened anew: it may have come or gone since the last one."""
    from colony_memory.cli.memory import open_memory

    with open_memory(replace(common, quiet=True), making=True, wire=wire) as opened:
        return backup.save(opened, paths, saving.parsed(), unattended=True)


def _tell(done: LastRun, output: Output) -> None:
    """Write the line of a run: what went well on stdout, what did not on stderr."""
    import contextlib

    from colony_memory.cli.errors import Failure
    from colony_memory.cli.telling import run_document, run_line

    # A reader that went away must not end the backups.
    with contextlib.suppress(Failure):
        if output.as_json:
            output.answer(json.dumps(run_document(done)))
            return
        line = run_line(done)
        if done.ok:
            output.report(line)
        else:
            output.warn(line)
