"""The verbs for tidying a vault: ``prune``, ``delete``, ``rewrite``, ``pin``, ``unpin`` and ``tag``."""

from __future__ import annotations

from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._values import asdict
from colony_memory.retention import newest_first
from colony_memory.shell.app.config import make_retention
from colony_memory.shell.app.pick import find_id, made_at, nothing_saved
from colony_memory.shell.cli.call import OpenVault, format_of, open_memory
from colony_memory.shell.cli.output import confirm, styled
from colony_memory.shell.words import age, count, now_utc, shown, size
from colony_memory.shell.words.errors import FAILED, PROGRAM, command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory.client import ColonyMemory
    from colony_memory.shell.cli.app import CommonOptions, RetentionOptions

#: Replacement of a text that is taken out.
_REMOVED = "***REMOVED***"
_CHUNK = 1 << 20


def run_prune(
    *,
    label: str = "default",
    rules: RetentionOptions,
    leftovers: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    common: CommonOptions,
) -> None:
    """A snapshot stays if any rule keeps it. The newest good one and the one that restore gives always stay, and what
    cannot be read is not touched. On a terminal the plan is shown and you are asked; elsewhere, as in cron, --yes is
    needed.

    colony-memory prune --keep 10 --dry-run
    colony-memory prune --keep-daily 7 --keep-weekly 8 --keep-within 2d --yes
    """
    from colony_memory._engine.prune import plan_prune, prune  # without a policy only leftovers go

    if leftovers and rules.rules:
        raise ValueError("--leftovers deletes no snapshot: give it without a rule")
    if not leftovers and not rules.rules:
        raise ValueError("say what to keep, such as --keep 10 or --keep-daily 7; --leftovers keeps every snapshot")
    policy = None if leftovers else make_retention(rules.rules)
    with open_memory(common) as opened:
        with opened.working():
            plan = opened.memory._run(plan_prune, label=label, policy=policy)  # noqa: SLF001
        lines, output, going = list[str](), opened.output, {info.snapshot_id for info in plan.remove}
        for info in newest_first([*plan.keep, *plan.remove]):
            goes, why = info.snapshot_id in going, ", ".join(plan.reasons.get(info.snapshot_id, ()))
            named = f"{info.snapshot_id} ({age(made_at(info), now_utc())}){f': {why}' if why else ''}"
            lines.append(styled(shown(f"delete  {named}"), "red") if goes else shown(f"keep    {named}"))
        lines += [f"keep    {shown(file)} (cannot be read or is not trusted)" for file in plan.unread]
        lines += [styled(f"delete  {shown(file)} (left over)", "red") for file in plan.orphans]
        total = [str(len(plan.remove))] if plan.remove or not plan.orphans else []
        total += [count(len(plan.orphans), "leftover file")] if plan.orphans else []
        lines.append(f"label {shown(label)}: {len(plan.keep)} to keep, {' and '.join(total)} to delete")
        if plan and not dry_run:
            confirm("go on?", yes=yes, as_json=common.as_json, details=lines)
        deleted = 0
        if not dry_run:
            with opened.working("Pruning"):
                deleted = opened.memory._run(prune, label=label, policy=policy)  # noqa: SLF001
        document = {
            "label": label,
            "dry_run": dry_run,
            "deleted": deleted,
            **{name: [info.snapshot_id for info in getattr(plan, name)] for name in ("keep", "remove")},
            **{name: getattr(plan, name) for name in ("reasons", "unread", "orphans")},
        }
        if not common.as_json and not (plan or plan.keep or plan.unread):
            line = f"{nothing_saved(opened.memory, label).message}, in {opened.place.title}"
            output.done(document, line, dry_run=dry_run)
        elif dry_run:
            output.show(document, *lines, "nothing deleted")
        else:
            output.done(document, f"label {label}: {count(deleted, 'snapshot')} deleted, {len(plan.keep)} kept")
            _report_remaining(opened, label, [info.snapshot_id for info in plan.remove], common)


def _held_back(files: Sequence[str], until: str | None, label: str, common: CommonOptions) -> list[str]:
    cleanup = command("prune", options=["--leftovers", "--yes"], label=label, given=asdict(common))
    return [f"{count(len(files), 'file')} may hold it until {until}: then run {cleanup}"] if files else []


def _report_remaining(opened: OpenVault, label: str, deleted: list[str], common: CommonOptions) -> None:
    from colony_memory._engine.rewrite import remaining_text

    if not deleted or opened.output.silent:
        return
    ids, left, until = opened.memory._run(remaining_text, label=label, gone=deleted)  # noqa: SLF001
    if ids:
        opened.output.report(
            f"what {ids[0] if len(ids) == 1 else f'{len(ids)} of them'} held stays readable in packs that other "
            f"snapshots share; to take a text out: {PROGRAM} rewrite"
        )
    for line in _held_back(left, until, label, common):
        opened.output.report(line)


def run_delete(
    snapshot: str, *, label: str = "default", dry_run: bool = False, yes: bool = False, common: CommonOptions
) -> None:
    """ID is a snapshot as 'show' takes it; one that is damaged goes by its whole id. Where it is the latest, restore
    then gives the newest good one that is left. On a terminal you are asked; elsewhere --yes is needed.

    colony-memory delete --yes latest~3
    """
    with open_memory(common) as opened:
        with opened.working():
            snapshot_id = find_id(opened.memory, snapshot, label=label)
        named, document = f"snapshot {snapshot_id} of label {label}", {"label": label, "deleted": snapshot_id}
        if dry_run:
            opened.output.done({**document, "dry_run": True}, f"would delete {named}; nothing deleted", dry_run=True)
            return
        confirm(f"delete {named} for good?", yes=yes, as_json=common.as_json)
        with opened.working("Deleting from"):
            opened.memory.delete_snapshot(label=label, snapshot_id=snapshot_id)
        opened.output.done({**document, "dry_run": False}, f"deleted {named}")
        _report_remaining(opened, label, [snapshot_id], common)


def run_rewrite(
    *,
    label: list[str] | None = None,
    exclude: list[str] | None = None,
    replace_text: str | None = None,
    format: str | None = None,  # noqa: A002 - the word for it
    sign: bool = False,
    dry_run: bool = False,
    yes: bool = False,
    common: CommonOptions,
) -> int:
    """Each snapshot keeps its time, note, tags and pin. The old ones are deleted, with every pack that they alone need;
    what is younger than an hour goes with a later prune, which is said. Folders of this host that still hold the text
    are named. With --encrypt-to everything is encrypted. It may be stopped anywhere: do it again to go on. On a
    terminal the plan is shown and you are asked; elsewhere --yes is needed.

    colony-memory rewrite --replace-text secrets.txt --dry-run
    colony-memory rewrite --exclude notes/keys.md --yes
    colony-memory rewrite --label research --format 2 --yes
    """
    from colony_memory._engine.rewrite import require_work

    replace = {} if replace_text is None else read_replacements(replace_text)
    require_work(exclude, replace, format, sign, common.encrypt_to)
    with open_memory(common) as opened:
        output = opened.output
        rewrite = partial(
            opened.memory.rewrite, exclude=exclude or (), replace=replace, format=format_of(format), sign=sign
        )
        with opened.working():
            # What this client does not trust is refused, and not left out: it may hold the text.
            there = [] if label else opened.memory.inspect().labels
            labels = label or [entry.label for entry in there if entry.newest or entry.broken or entry.unsigned]
            plans = [rewrite(label=name, dry_run=True) for name in labels]
        summary = [
            f"label {plan.label}: {count(plan.writes, 'file')} to write, {size(plan.stored_bytes)}; "
            f"{count(plan.unchanged, 'snapshot')} stay as they are"
            for plan in plans
        ]
        if not dry_run and any(plan.writes for plan in plans):
            confirm("save anew and delete the old?", yes=yes, as_json=common.as_json, details=summary, done="rewritten")
        reports, lines = plans, [*summary, "nothing written"]
        if not dry_run:
            with opened.working("Rewriting"):
                reports, lines = [rewrite(label=name) for name in labels], []
        for report in [] if dry_run else reports:
            saved, gone = count(len(report.rewritten), "snapshot"), count(report.deleted, "snapshot")
            lines.append(f"label {report.label}: {saved} saved anew, {gone} deleted")
            lines += _held_back(report.left, report.until, report.label, common)
        holders = _folders_with(opened.memory, labels, exclude=exclude or (), replace=replace)
        document = {"rewritten": [asdict(item) for item in reports], "held_by": [str(item) for item in holders]}
        output.done(document, *lines, dry_run=dry_run)
        for file in holders:
            output.warn(f"{file} on this host still holds it, and the next backup saves it again")
    return FAILED if holders else 0


def read_replacements(path: str) -> dict[str, str]:
    """Replacements by text, from a file with ``TEXT`` or ``TEXT==>OTHER`` in each line, as git-filter-repo takes it.
    Raises ValueError if the file cannot be read, has no text to replace, or has a pattern.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be read: {error}") from error
    replacements = dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        old, arrow, new = line.partition("==>")
        old = old.removeprefix("literal:")
        if old.startswith(("regex:", "glob:")):
            raise ValueError(f"{path!r}, line {number}: only texts can be replaced, not patterns")
        if old:
            replacements[old] = new if arrow else _REMOVED
        elif line:
            raise ValueError(f"{path!r}, line {number}: there is no text to replace")
    if not replacements:
        raise ValueError(f"{path!r} has no text to replace")
    return replacements


def _folders_with(
    memory: ColonyMemory, labels: Iterable[str], *, exclude: Iterable[str], replace: Mapping[str, str]
) -> list[Path]:
    """Files that still hold what was taken out of a label, in this host's folders that have an index."""
    from colony_memory.capture.index import kept_of
    from colony_memory.shell.app.open import identify_vault

    globs, texts, wanted, files = tuple(exclude), [old.encode("utf-8") for old in replace], {*labels}, set[Path]()
    for label, paths, _ in kept_of(identify_vault(memory)):
        for path in map(Path, paths if label in wanted else ()):
            for file in path.rglob("*") if path.is_dir() else [path]:
                name = file.name if file == path else file.relative_to(path).as_posix()
                if not file.is_symlink() and file.is_file():
                    files |= {file} if any(fnmatchcase(name, glob) for glob in globs) or _holds(file, texts) else set()
    return sorted(files)


def _holds(file: Path, texts: list[bytes]) -> bool:
    """True if a file holds one of the texts; an unreadable one counts as without."""
    buffer, longest = b"", max(map(len, texts), default=0)
    with suppress(OSError), file.open("rb") as stream:
        while texts and (chunk := stream.read(_CHUNK)):
            buffer = buffer[-longest:] + chunk
            if any(text in buffer for text in texts):
                return True
    return False


def run_pin(snapshot: str, *, label: str = "default", common: CommonOptions) -> None:
    """ID is a snapshot as 'show' takes it. Neither 'backup --keep' nor 'prune' deletes it; 'delete' does. 'list' marks
    it.

    colony-memory pin latest
    colony-memory pin --label research 20261101
    """
    _set_pin("pinned", snapshot, label, common)


def run_unpin(snapshot: str, *, label: str = "default", common: CommonOptions) -> None:
    """ID is a snapshot as 'show' takes it. Nothing is deleted; that it was not pinned is no error.

    colony-memory unpin latest
    """
    _set_pin("unpinned", snapshot, label, common)


def _set_pin(done: str, snapshot: str, label: str, common: CommonOptions) -> None:
    with open_memory(common) as opened:
        with opened.working("Writing to"):
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            (opened.memory.pin if done == "pinned" else opened.memory.unpin)(label=label, snapshot_id=snapshot_id)
        opened.output.done({"label": label, done: snapshot_id}, f"{done} snapshot {snapshot_id} of label {label}")


def run_tag(
    snapshot: str,
    *,
    add: list[str] | None = None,
    remove: list[str] | None = None,
    label: str = "default",
    common: CommonOptions,
) -> None:
    """ID is a snapshot as 'show' takes it. The tags that it was saved with stay in its own file; 'list' shows and finds
    those of now. An export tells the former.

    colony-memory tag --add release latest
    colony-memory tag --remove draft --label research 20261101
    """
    from colony_memory._engine.prune import require_tags
    from colony_memory.capture.secrets import judge_words

    require_tags(add or (), remove or ())
    judge_words(None, add or (), "stop", frozenset())
    with open_memory(common) as opened:
        with opened.working("Writing to"):
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            tags = opened.memory.tag(label=label, snapshot_id=snapshot_id, add=add or (), remove=remove or ())
        summary = f"snapshot {snapshot_id} of label {label} has the tags: {', '.join(tags) or 'none'}"
        opened.output.done({"label": label, "tagged": snapshot_id, "tags": list(tags)}, summary)
