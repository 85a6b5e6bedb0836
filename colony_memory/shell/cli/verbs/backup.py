"""The verbs that save folders: ``backup``, and ``watch``, which repeats it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from colony_memory._engine.session import warn
from colony_memory._values import asdict, replace
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import Hint
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.pick import count_texts, made_at, stamp
from colony_memory.shell.app.save import FolderSave, Saved, read_for
from colony_memory.shell.cli import output as outputs
from colony_memory.shell.cli.call import OpenVault, make_unchosen, open_memory
from colony_memory.shell.cli.tables import amount, change_lines, changes
from colony_memory.shell.words import FEW, age, count, few, now_utc, shown, size, stored
from colony_memory.shell.words.errors import FAILED, Failure, exit_code
from colony_memory.vaults import open_vault

if TYPE_CHECKING:
    from colony_memory.capture import Capture
    from colony_memory.schedule.watch import LastRun
    from colony_memory.shell.app.compare import Preview
    from colony_memory.shell.app.options import BackupOptions
    from colony_memory.shell.cli.app import CommonOptions, SavingOptions
    from colony_memory.snapshot import SnapshotInfo


def run_backup(
    paths: list[str],
    *,
    saving: SavingOptions,
    dry_run: bool = False,
    format: str | None = None,  # noqa: A002 - the word for it
    no_index: bool = False,
    verbose: bool = False,
    common: CommonOptions,
    **how: bool,  # for FolderSave
) -> int:
    """Each PATH is a folder or a file; without one, the memory of --agent is saved. One folder's files are saved under
    their path inside it; of several PATHs, each under its own name, such as notes/a.md. Every file is saved byte for
    byte; links are not followed, and what a .cmemignore or --exclude excludes is not saved. A file that is as it was at
    the last backup, by its size, times and inode, is not read again. Where nothing has changed, nothing is written,
    unless it lacks the note or a tag that is given. What cannot be read is left out and named, and the exit code is
    then 1.

    colony-memory backup ~/agent/memory
    colony-memory backup --dry-run --exclude '*.log' ~/agent/memory
    colony-memory backup --label research --keep 10 MEMORY.md notes/
    colony-memory backup --secrets mask ~/agent/workspace
    colony-memory backup --note 'before the move' --tag move ~/agent/memory
    colony-memory backup --agent claude-code
    """
    options, output = saving.parsed(common.agent), common.output
    with open_memory(common, making=True, wire=format) as opened:
        if dry_run:
            preview = _preview(opened, paths, options, verbose=verbose)
            if saving.before is not None:
                output.note("the command of --before was not run, which may change what there is to save")
            _note_details(preview.unsaved.capture, common, saving, verbose=verbose)
            return 0 if preview else FAILED
        saved = save(opened, paths, options, index=not no_index, **how)
        output.done(_document(saved.capture, saved), *_lines(saved))
        if saved.info.diverged_from and saved.info.reused:
            # A warning, not a line of the answer: --quiet does not hide it.
            warn(_diverged_line(saved.info, joined=False))
        _note_details(saved.capture, common, saving, verbose=verbose)
    return 0 if saved else FAILED


def save(
    opened: OpenVault,
    paths: list[str],
    options: BackupOptions,
    *,
    reuses_pinned: bool = False,
    index: bool = True,
    unattended: bool = False,
    patience: float = 30.0,
) -> Saved:
    """Make one backup by the options of this verb, with progress on a terminal, and warn of a much smaller memory and
    of another client's save in between. The other arguments are those of ``FolderSave``.
    """
    with FolderSave(
        opened.memory, list(paths), options, index=index, unattended=unattended, patience=patience
    ) as saving:
        with opened.output.working("Reading", opened.progress):
            capture = saving.read(on_progress=opened.progress.read)
        make_unchosen(opened.place)
        with opened.working("Saving to"):
            saved = saving.save(capture, reuses_pinned=reuses_pinned)
    if saving.index.problem:
        opened.output.note(f"no index of this is kept, so all of it is read each time: {saving.index.problem}")
    info, policy = saved.info, options.on_conflict
    if info.diverged_from and not info.reused and policy != "raise":  # else warned of already
        warn(_diverged_line(info, joined=policy == "merge"))
    if info.shrunk_from is not None and not (info.shrunk_from == info.diverged_from and policy == "raise"):
        # Else a warning has already named that snapshot, with the command that restores it.
        less = f"less than half of the one before: {amount(saved.capture.contents)}, {size(saved.size)} now"
        warn(
            f"this backup holds {less}. If that was not meant, get the one before back",
            hint=Hint("restore", "snapshot_id", info.shrunk_from, label=info.label),
        )
    return saved


def _preview(opened: OpenVault, paths: list[str], options: BackupOptions, *, verbose: bool) -> Preview:
    """Show the outcome that a backup would have, and if it fits."""
    from colony_memory.shell.app.compare import preview_capture

    with opened.output.working("Reading", opened.progress):
        capture = read_for(opened.memory, list(paths), options, on_progress=opened.progress.read)
    if opened.place.exists():
        with opened.working():
            preview = preview_capture(opened.memory, capture, options)
    else:
        # The first backup makes the default vault: an empty one in memory takes its place until then.
        preview = preview_capture(ColonyMemory(backend=open_vault("memory:")), capture, options)
        preview = replace(preview, plan=replace(preview.plan, available_bytes=None))
        opened.output.note(f"the first backup makes {opened.place.title}")
    plan, unsaved, left_out = preview.plan, preview.unsaved, capture.left_out
    info, latest = plan.info, unsaved.latest
    omitted = f", {len(left_out)} left out" if left_out else ""
    what = f"{amount(capture.contents)}{omitted}, {size(capture.size)}"
    since, differences = "nothing is saved yet under it", list[str]()
    if unsaved.problem is not None:
        since = f"the latest cannot be compared: {unsaved.problem}"
    elif latest is not None:
        since = f"since {latest.snapshot_id} ({age(made_at(latest), now_utc())}): {changes(unsaved.changes)}"
        differences = change_lines(unsaved.changes, verbose=verbose)
    free = "" if plan.available_bytes is None else f", and {size(plan.available_bytes)} are free"
    fits = plan.problem or f"fits: takes about {size(plan.needed_bytes)}{free}"
    deleted = [] if not options.removes else [f"would then delete {count(len(plan.removed), 'older snapshot')}"]
    lines = [shown(f"would save {what} to label {info.label}"), shown(since), *differences, shown(fits), *deleted]
    if plan.unchanged:
        lines = [shown(f"would write nothing to label {info.label}: unchanged {since.partition(':')[0]}"), shown(what)]
    opened.output.show(_document(capture, None, preview), *lines, "nothing written")
    return preview


def _document(capture: Capture, saved: Saved | None, preview: Preview | None = None) -> dict[str, Any]:
    contents, would = capture.contents if saved is None else saved.contents, None
    if preview is not None:
        from colony_memory.shell.cli.verbs.status import unsaved_document

        plan = preview.plan
        fields = ("label", "doc_names", "byte_size", "stored_bytes")
        would = {
            **{name: getattr(plan.info, name) for name in fields},
            **{name: getattr(plan, name) for name in ("unchanged", "needed_bytes", "available_bytes", "problem")},
            "fits": plan.problem is None,
            "delete": list(plan.removed),
            **unsaved_document(preview.unsaved),
        }
    lists = ("left_out", "notes", "secrets", "allowed")
    return {
        "snapshot": None if saved is None else asdict(saved.info),
        "file_count": None if contents is None else len(contents.files),
        "dry_run": preview is not None,
        "would": would,
        **{key: [asdict(item) for item in getattr(capture, key)] for key in lists},
        "ignored": list(capture.ignored),
        "masked": list(capture.masked),
    }


def _note_details(capture: Capture, common: CommonOptions, saving: SavingOptions, *, verbose: bool) -> None:
    output = common.output
    notes = few([f"{note.name}: {note.text}" for note in capture.notes], verbose=verbose)
    if capture.ignored:
        name_all = verbose or len(capture.ignored) <= FEW
        names = f": {', '.join(capture.ignored)}" if name_all else "; --verbose names them"
        notes.append(f"{count(len(capture.ignored), 'name')} excluded{names}")
        kinds = AGENTS[common.agent].kinds_among(capture.ignored) if common.agent is not None else ()
        if kinds:
            notes.append(f"not memory, and not saved: {', '.join(kinds)}; --with {','.join(kinds)} saves them too")
    if saving.secrets == "mask":
        notes += few([f"masked: {secret}" for secret in capture.secrets], verbose=verbose)
    if capture.allowed:
        notes.append(f"{count(len(capture.allowed), 'likely secret')} saved, as allowed")
    for line in notes:
        output.note(line)
    for line in few([f"left out: {entry.name}: {entry.reason}" for entry in capture.left_out], verbose=verbose):
        output.warn(line)


def _lines(saved: Saved) -> list[str]:
    """The outcome of a backup; a snapshot that was joined with another's holds more than was read."""
    info, contents = saved.info, saved.contents
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    omitted = f"{len(saved.left_out)} left out" if saved.left_out else ""
    files = amount(contents) if contents else "" if (texts := count_texts(info)) is None else count(texts, "text")
    what = ", ".join(filter(None, (files, omitted, size(saved.size), f"stored as {stored(info)}")))
    if not info.reused:
        return [f"saved {named}", what]
    made = made_at(info)
    holder = f"saved as {named}" if info.diverged_from else f"latest is {named}"  # the latest is another's
    return [f"unchanged since {stamp(made)} ({age(made, now_utc())}); nothing written", holder, what]


def _diverged_line(info: SnapshotInfo, *, joined: bool) -> str:
    """A line about another client's save in between, and the fate of its snapshot."""
    if info.reused:
        return f"nothing here is new, and the latest is snapshot {info.diverged_from}; restore to get it"
    other = f"snapshot {info.diverged_from}, which another client saved meanwhile"
    if joined and info.head:
        copies = f"; kept beside yours: {', '.join(info.merged)}" if info.merged else ""
        return f"joined with {other}{copies}; restore to get both"
    return f"this is the latest now, in place of {other}" if info.head else f"saved, and the latest is {other}"


def run_watch(
    paths: list[str],
    *,
    every: str = "15m",
    final_timeout: str = "10s",
    once: bool = False,
    saving: SavingOptions,
    format: str | None = None,  # noqa: A002 - the word for it
    common: CommonOptions,
) -> int:
    """Each run is a backup with the same options, and is told in one line. A run that fails is tried again, sooner at
    first and then less often, for as long as it takes; only a failure of the first one ends the command, unless it may
    mend itself. SIGTERM and Ctrl-C have a last backup made, and the exit code is that backup's.

    colony-memory watch --every 15m ~/agent/memory
    colony-memory watch --every 1h --keep 48 --label research MEMORY.md notes/
    """
    from colony_memory.schedule.watch import Watch, last_run_path
    from colony_memory.shell.app.config import read_seconds, show_duration
    from colony_memory.shell.app.open import choose_place

    if once:
        return run_backup(paths, saving=saving, format=format, common=common, unattended=True)
    interval, patience = read_seconds("--every", every), read_seconds("--final-timeout", final_timeout)
    place, output = choose_place(common.vault), common.output
    greeting = [f"saving to {place.title} every {show_duration(interval)}; SIGTERM or Ctrl-C to stop"]

    def save_again() -> Saved:
        # The vault is opened anew: it may have appeared or vanished since the last run.
        with open_memory(replace(common, quiet=True), making=True, wire=format) as opened:
            return save(opened, paths, saving.parsed(common.agent), unattended=True)

    def report(run: LastRun, _error: BaseException | None) -> None:
        # Not before the first run: if that fails, its error is the only line.
        if greeting:
            output.note(greeting.pop())
        with suppress(Failure):  # a reader that went away must not end the backups
            outputs.report_run(run, output)

    state = last_run_path(place.url, saving.label)
    watch = Watch(save_again, every=interval, final_timeout=patience, state=state, on_run=report)
    try:
        last = watch.run()
        code = exit_code(watch.last_error) if watch.last_error is not None else 0 if last.ok else FAILED
    except KeyboardInterrupt as error:
        code = exit_code(error)
        if not watch.busy:
            raise
    if watch.busy:
        outputs.leave(code)
    return code
