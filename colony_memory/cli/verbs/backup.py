"""The verbs that save folders: ``backup``, and ``watch``, which does so again and again."""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    DryRunOption,
    EveryOption,
    FinalTimeoutOption,
    FormatOption,
    OnErrorOption,
    Option,
    PingOption,
    SavingOptions,
    VerboseOption,
)

if TYPE_CHECKING:
    from colony_memory.app.compare import Preview
    from colony_memory.app.options import BackupOptions
    from colony_memory.app.save import FolderSave, Saved
    from colony_memory.capture import Capture
    from colony_memory.capture._metadata import Contents
    from colony_memory.cli.memory import Opened
    from colony_memory.cli.output import Output
    from colony_memory.schedule.watch import LastRun
    from colony_memory.snapshot import SnapshotInfo


BACKUP_EXAMPLES = (
    "colony-memory backup ~/agent/memory",
    "colony-memory backup --dry-run --exclude '*.log' ~/agent/memory",
    "colony-memory backup --label research --keep 10 MEMORY.md notes/",
    "colony-memory backup --git --secrets mask ~/agent/workspace",
    "colony-memory backup --note 'before the move' --tag move ~/agent/memory",
    "colony-memory backup --agent claude-code",
    "colony-memory backup --quiet --ping https://hc.example.org/a1b2 ~/agent/memory",
)


def run_backup(
    paths: Annotated[list[str], Argument(metavar="PATH")],
    *,
    saving: SavingOptions,
    dry_run: DryRunOption = False,
    ping: PingOption = None,
    on_error: OnErrorOption = None,
    format: FormatOption = None,  # noqa: A002 - the word for it
    no_index: Annotated[
        bool, Option("--no-index", "Read every file, whatever is known of it since the last backup.")
    ] = False,
    verbose: VerboseOption = False,
    common: CommonOptions,
) -> int:
    """Save folders and files as a new snapshot.

    Each PATH is a folder or a file; without one, each set of the configuration file is saved, or the one of --set or
    --agent. One folder's files are saved under their path inside it; of several PATHs, each under its own name, such as
    notes/a.md. Every file is saved byte for byte; links are not followed, and what a .cmemignore or --exclude excludes
    is not saved. A file that is as it was at the last backup, by its size, times and inode, is not read again. Where
    nothing has changed, nothing is written, unless it lacks the note or a tag that is given. What cannot be read is
    left out and named, and the exit code is then 1.
    """
    from colony_memory.cli.output import AT_LEISURE, notifier_of, telling
    from colony_memory.words.errors import FAILED

    notifier = notifier_of(ping=ping, on_error=on_error, label=saving.label, output=common.output)
    if common.agent is not None:
        from colony_memory.cli.memory import tell_elsewhere

        tell_elsewhere(common.agent, paths, common.output)
    if dry_run:
        return 0 if _preview(paths, common, saving, wire=format, verbose=verbose) else FAILED
    with telling(notifier, patience=AT_LEISURE):
        notifier.started()
        saved = _save(paths, common, saving, wire=format, verbose=verbose, index=not no_index)
        if saved:
            notifier.succeeded()
        else:
            notifier.failed(f"left out: {'; '.join(map(str, saved.left_out))}")
    return 0 if saved else FAILED


def _save(
    paths: list[str], common: CommonOptions, saving: SavingOptions, *, wire: str | None, verbose: bool, index: bool
) -> Saved:
    """Make the backup and tell of it."""
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import backup_lines, diverged_line
    from colony_memory.exceptions import ColonyMemoryWarning
    from colony_memory.words.text import now_utc

    with open_memory(common, making=True, wire=wire) as opened:
        saved = save(opened, paths, saving.parsed(common.agent), index=index)
        info, contents = saved.info, saved.contents
        if common.as_json:
            opened.output.answer_json(_document(info, saved.capture, contents))
        opened.output.report(*backup_lines(info, contents, left_out=len(saved.left_out), now=now_utc()))
        if info.diverged_from and info.reused:
            # Not as a line of the answer: it is told under --quiet too.
            warnings.warn(ColonyMemoryWarning(diverged_line(info, joined=False)), stacklevel=1)
        _tell(saved.capture, opened, masked=saving.secrets == "mask", verbose=verbose, agent=common.agent)
    return saved


def _preview(
    paths: list[str], common: CommonOptions, saving: SavingOptions, *, wire: str | None, verbose: bool
) -> Preview:
    """Tell what a backup would do."""
    from colony_memory.capture._metadata import contents_of
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import preview_lines
    from colony_memory.words.text import now_utc

    with open_memory(common, making=True, wire=wire) as opened:
        options = saving.parsed(common.agent)
        found = preview(opened, paths, options)
        if common.as_json:
            opened.output.answer_json(_document(None, found.capture, contents_of(found.capture.documents), found))
        else:
            opened.output.answer(
                "\n".join(preview_lines(found, removes=options.removes, verbose=verbose, now=now_utc()))
            )
        if saving.before is not None:
            opened.output.note("the command of --before was not run, which may change what there is to save")
        _tell(found.capture, opened, masked=saving.secrets == "mask", verbose=verbose, agent=common.agent)
    return found


def save(
    opened: Opened,
    paths: list[str],
    options: BackupOptions,
    *,
    reuses_pinned: bool = False,
    index: bool = True,
    patience: float = 30.0,
    unattended: bool = False,
) -> Saved:
    """Make one backup by the options of this verb; a terminal shows what is under way, and only what is wrong is said.
    The other arguments are those of :class:`colony_memory.app.save.FolderSave`.
    """
    from colony_memory.app.save import FolderSave
    from colony_memory.cli.output import show_reading

    with FolderSave(
        opened.memory, list(paths), options, index=index, patience=patience, unattended=unattended
    ) as saving:
        with show_reading(opened.output) as on_progress:
            capture = saving.read(on_progress=on_progress)
        return finish(opened, saving, capture, reuses_pinned=reuses_pinned)


def finish(opened: Opened, saving: FolderSave, capture: Capture, *, reuses_pinned: bool = False) -> Saved:
    """Save what was read, and say where it is much less than before, or another's was met."""
    from colony_memory.cli.memory import make_unchosen
    from colony_memory.cli.summary import diverged_line, shrunk_line
    from colony_memory.exceptions import ColonyMemoryWarning, Hint

    make_unchosen(opened.place)
    with opened.working("Saving to"):
        saved = saving.save(capture, reuses_pinned=reuses_pinned)
    if saving.problem:
        opened.output.note(f"no index of this is kept, so all of it is read each time: {saving.problem}")
    how = saving.options.on_conflict
    if saved.info.diverged_from and not saved.info.reused and how != "raise":  # else a warning has told
        warnings.warn(ColonyMemoryWarning(diverged_line(saved.info, joined=how == "merge")), stacklevel=1)
    before = saved.info.shrunk_from
    if before is not None:
        # Of the same snapshot a warning may have told already, with the command that brings it back.
        told = before == saved.info.diverged_from and how == "raise"
        hint = None if told else Hint("restore", "snapshot_id", before, label=saved.info.label)
        warnings.warn(ColonyMemoryWarning(shrunk_line(saved.info, saved.capture.contents), hint=hint), stacklevel=1)
    return saved


def preview(opened: Opened, paths: list[str], options: BackupOptions) -> Preview:
    """Find out what :func:`save` would do."""
    from colony_memory.app.compare import preview_capture
    from colony_memory.app.save import read_for
    from colony_memory.cli.output import show_reading
    from colony_memory.client import ColonyMemory
    from colony_memory.vaults import open_vault

    with show_reading(opened.output) as on_progress:
        capture = read_for(opened.memory, list(paths), options, on_progress=on_progress)
    if opened.place.exists():
        with opened.working():
            return preview_capture(opened.memory, capture, options)
    # The vault that nobody chose is made by the first backup: until then an empty one stands for it.
    found = preview_capture(ColonyMemory(backend=open_vault("memory:")), capture, options)
    opened.output.note(f"the first backup makes {opened.place.title}")
    return replace(found, plan=replace(found.plan, available_bytes=None))


def _document(
    info: SnapshotInfo | None, capture: Capture, contents: Contents | None, found: Preview | None = None
) -> dict[str, Any]:
    from colony_memory.cli.summary import preview_document

    return {
        "snapshot": None if info is None else asdict(info),
        "file_count": None if contents is None else len(contents.files),
        "dry_run": found is not None,
        "would": None if found is None else preview_document(found),
        "left_out": [asdict(each) for each in capture.left_out],
        "ignored": list(capture.ignored),
        "notes": [asdict(each) for each in capture.notes],
        "secrets": [asdict(each) for each in capture.secrets],
        "allowed": [asdict(each) for each in capture.allowed],
        "masked": list(capture.masked),
    }


def _tell(capture: Capture, opened: Opened, *, masked: bool, verbose: bool, agent: str | None) -> None:
    from colony_memory.app.agents import AGENTS
    from colony_memory.words.text import FEW, count, few

    output = opened.output
    for line in few([f"{note.name}: {note.text}" for note in capture.notes], verbose=verbose):
        output.note(line)
    if capture.ignored:
        told = verbose or len(capture.ignored) <= FEW
        names = f": {', '.join(capture.ignored)}" if told else "; --verbose names them"
        output.note(f"{count(len(capture.ignored), 'name')} excluded{names}")
        kinds = AGENTS[agent].kinds_among(capture.ignored) if agent is not None else ()
        if kinds:
            output.note(f"no memory, and not saved: {', '.join(kinds)}; --with {','.join(kinds)} saves them too")
    if masked:
        for line in few([f"masked: {each}" for each in capture.secrets], verbose=verbose):
            output.note(line)
    if capture.allowed:
        output.note(f"{count(len(capture.allowed), 'likely secret')} saved, as allowed")
    for line in few([f"left out: {each.name}: {each.reason}" for each in capture.left_out], verbose=verbose):
        output.warn(line)


WATCH_EXAMPLES = (
    "colony-memory watch --every 15m ~/agent/memory",
    "colony-memory watch --every 1h --keep 48 --label research MEMORY.md notes/",
)


def run_watch(
    paths: Annotated[list[str], Argument(metavar="PATH")],
    *,
    every: EveryOption = "15m",
    final_timeout: FinalTimeoutOption = "10s",
    once: Annotated[bool, Option("--once", "Make one backup and end, as 'backup' does.")] = False,
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
    from colony_memory.app.place import choose_place
    from colony_memory.app.values import read_seconds, show_duration
    from colony_memory.cli.memory import tell_elsewhere
    from colony_memory.cli.output import LAST_WORDS, leave, notifier_of
    from colony_memory.schedule.watch import Watch, last_run_path
    from colony_memory.words.errors import FAILED, exit_code

    if once:
        return run_backup(paths, saving=saving, ping=ping, on_error=on_error, format=format, common=common)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    place, output = choose_place(common.vault), common.output
    tell_elsewhere(common.agent, paths, output)
    greeting = [f"saving to {place.title} every {show_duration(interval)}; SIGTERM or Ctrl-C to stop"]

    def tell(done: LastRun) -> None:
        # Only now: an error of the first run is one line, and the only one.
        if greeting:
            output.note(greeting.pop())
        _tell_run(done, output)

    notifier = notifier_of(ping=ping, on_error=on_error, label=saving.label, output=output)
    watch = Watch(
        lambda: _save_again(paths, common, saving, wire=format),
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


def _save_again(paths: list[str], common: CommonOptions, saving: SavingOptions, *, wire: str | None) -> Saved:
    """Make one backup, in a vault that is opened anew: it may have come or gone since the last one."""
    from colony_memory.cli.memory import open_memory

    with open_memory(replace(common, quiet=True), making=True, wire=wire) as opened:
        return save(opened, paths, saving.parsed(common.agent), unattended=True)


def _tell_run(done: LastRun, output: Output) -> None:
    """Write the line of a run: what went well on stdout, what did not on stderr."""
    import contextlib

    from colony_memory.cli.output import run_document, run_line
    from colony_memory.words.errors import Failure

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
