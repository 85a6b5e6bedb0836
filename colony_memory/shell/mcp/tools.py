"""The work of the tools: the memory and arguments in, an answer out. Each runs in a thread, and none takes a path.

A client gets the annotations and docstrings as the description of a tool.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, Any

from pydantic import BaseModel, Field

from colony_memory._engine.session import warn
from colony_memory._format.json import printable
from colony_memory._os.paths import is_empty
from colony_memory._values import Value, replace
from colony_memory.capture._filenames import listed
from colony_memory.capture._metadata import compare_files, contents_of
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import ColonyMemoryError, Hint, SnapshotCorrupt, SnapshotNotFound, UntrustedSnapshot
from colony_memory.shell.app import pick
from colony_memory.shell.app.compare import Side, patch_of, read_snapshot, side_of_folder
from colony_memory.shell.app.content import content_of, near
from colony_memory.shell.app.protection import check_protection
from colony_memory.shell.app.restore import RestoredFolder, fetch, restore_folder
from colony_memory.shell.app.save import FolderSave, read_for
from colony_memory.shell.mcp.served import REPLY_CHARS, Reply, Served, cut_text, reply, snapshot_of, some, within
from colony_memory.shell.words import count, shortened, shown, users_line

#: Name of the folder as it is now, in place of a snapshot's.
FOLDER = "folder"

SnapshotName = Annotated[
    str,
    Field(max_length=64, description="An id from list, the beginning of one, latest, or latest~1 for the one before."),
]
FileName = Annotated[str, Field(min_length=1, max_length=4096, description="A file, named as show lists it.")]
Tag = Annotated[str, Field(max_length=64)]
Limit = Annotated[int, Field(ge=1, le=100, description="How many at most.")]
Patch = Annotated[bool, Field(description="Give what differs line by line.")]
Globs = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=4096)]],
    Field(max_length=100, description="Only files whose name matches one of these globs; * matches / too."),
]
Force = Annotated[bool, Field(description="Replace files that a program has open, and real secrets by masked ones.")]
Quick = Annotated[bool, Field(description="Do not read what is saved: damage does not show.")]
Fallback = Annotated[bool, Field(description="Where the snapshot is damaged, take the newest intact one.")]


def backup(
    served: Served,
    note: Annotated[str | None, Field(max_length=1000, description="What to say of it, for people.")] = None,
    tags: Annotated[list[Tag], Field(max_length=20, description="What to file it under.")] = [],  # noqa: B006
) -> Reply:
    """Save the folder as a new snapshot. Where nothing has changed, nothing is written. What could not be saved is in
    left_out.
    """
    clean = served.words.clean
    options = replace(served.options, note=note, tags=tags)
    with FolderSave(served.open(), served.root, options, unattended=True) as saving:
        with served.fixed():
            capture = saving.read()
        if served.place.make_unchosen():
            warn("no vault was chosen, so one was made in the data directory of the user")
        saved = saving.save(capture)
    info, contents = saved.info, saved.contents
    if info.shrunk_from is not None:
        less = "this backup holds less than half of the one before; if that was not meant, get the one before back"
        warn(less, hint=Hint("restore", "snapshot_id", info.shrunk_from, label=info.label))
    return reply(
        snapshot=snapshot_of(info, latest=bool(info.head) or info.reused),
        unchanged=info.reused,
        files=None if contents is None else len(contents.files),
        complete=bool(saved),
        left_out=some(clean(str(entry)) for entry in saved.left_out),
        ignored=len(capture.ignored),
        masked=some(map(str, capture.secrets)) if options.secrets == "mask" else [],
        met=info.diverged_from,
        kept_twice=some(info.merged),
    )


def list_snapshots(
    served: Served,
    limit: Limit = 20,
    before: Annotated[str | None, Field(max_length=64, description="Only those older than this id.")] = None,
    tag: Annotated[Tag | None, Field(description="Only what is filed under this.")] = None,
) -> Reply:
    """List the snapshots, newest first."""
    memory, label = served.open(), served.label
    infos = memory.list_snapshots(label=label)
    latest = next((info for info in infos if info.head), None) or (memory.latest(label=label) if infos else None)
    infos = [info for info in infos if tag is None or tag in info.tags]
    total = len(infos)
    if before is not None:
        ids = [info.snapshot_id for info in infos]
        if before not in ids:
            raise SnapshotNotFound(f"no snapshot has the id {before!r}: give the last id of the answer before")
        infos = infos[ids.index(before) + 1 :]
    page = within(infos, lambda info: (info.note, *info.tags), most=limit)
    return reply(
        snapshots=[
            snapshot_of(info, latest=latest is not None and info.snapshot_id == latest.snapshot_id) for info in page
        ],
        total=total,
        more=len(page) < len(infos),
    )


def show(
    served: Served,
    snapshot: SnapshotName = "latest",
    file: FileName | None = None,
    offset: Annotated[int, Field(ge=0, le=10**12, description="Where to go on: next_offset of the answer before.")] = 0,
) -> Reply:
    """Show one snapshot: when it was made, how large it is, and the names in it; with file the text of that file as it
    was then. Long lists and texts come in parts: go on with offset set to next_offset. What is not known is null.
    """
    memory, clean = served.open(), served.words.clean
    info = pick.with_pin(memory, pick.find(memory, snapshot, label=served.label))
    kinds, content = dict[str, str](), dict[str, Any]()
    names, damage = [], None
    try:
        documents = fetch(memory, label=info.label, snapshot=info.snapshot_id).documents
    except UntrustedSnapshot:
        raise
    except SnapshotCorrupt as error:
        if file is not None:
            raise
        damage = clean(error.message)
    else:
        contents = contents_of(documents)
        if file is None:
            kinds |= dict.fromkeys(contents.texts, "text") | dict.fromkeys(contents.others, "bytes")
            kinds |= dict.fromkeys(contents.links, "link")
            kinds |= dict.fromkeys((f"{name}/" for name in contents.empty_dirs), "folder")
            names = within(sorted(kinds)[offset:], lambda name: (name,))
        else:
            full = content_of(info, documents, file)
            content = {"name": file, "text": None, "offset": 0, "size": len(full), "next_offset": None}
            if isinstance(full, str):
                if offset > len(full):
                    raise ValueError(f"offset {offset} is past the end: the text has {len(full)} characters")
                text, more = cut_text(full[offset:])
                content |= {"text": text, "offset": offset, "next_offset": offset + REPLY_CHARS if more else None}
    return reply(
        snapshot=snapshot_of(info),
        file_count=None if damage else len(contents.files),
        files=[{"name": name, "kind": kinds[name]} for name in names],
        next_offset=offset + len(names) if offset + len(names) < len(kinds) else None,
        left_out=some(map(clean, info.incomplete), chars=REPLY_CHARS // 4),
        content=content or None,
        damage=damage,
    )


_FACTS = ("manifest", "parts", "digest", "signature", "trust", "catalog", "chain")


def verify(served: Served, snapshot: SnapshotName | None = None) -> Reply:
    """Read every byte of one snapshot, or of all, and say what holds. What could not be checked is never called ok."""
    memory, label, clean = served.open(), served.label, served.words.clean
    named = None if snapshot is None else pick.find_id(memory, snapshot, label=label)
    report = memory.verify(label=label, snapshot_id=named)
    if not report.snapshots and not report.problem:
        raise pick.nothing_saved(memory, label)
    problems = [problem for problem in (*(check.problem for check in report.snapshots), report.problem) if problem]
    problems += [f"snapshot {snapshot_id} was listed and is gone" for snapshot_id in report.removed]
    ordered = sorted(report.snapshots, key=bool)  # the bad ones first, else in the same order
    return reply(
        good=bool(report),
        checked=len(report.snapshots),
        good_count=sum(map(bool, report.snapshots)),
        pointer=report.pointer,
        rollback=report.rollback,
        problems=some(map(clean, dict.fromkeys(problems))),
        snapshots=[
            {
                "id": check.snapshot_id,
                "good": bool(check),
                **{name: getattr(check, name) for name in _FACTS},
                "problem": None if check.problem is None else clean(check.problem),
            }
            for check in within(ordered, lambda check: (check.problem,))
        ],
    )


def status(served: Served, quick: Quick = False) -> Reply:
    """Tell whether the memory is protected, what is wrong and what mends it, and what in the folder is not saved yet.
    The newest snapshot is read in full.
    """
    words = served.words
    paths = [] if is_empty(served.root) else [served.root]
    with served.fixed() if paths else nullcontext():
        checked = check_protection(
            served.open(),
            url=served.place.url,
            label=served.label,
            paths=paths,
            exclude=served.options.exclude if paths else (),
            agent=served.options.agent if paths else None,
            quick=quick,
        )
    vault, verdict = checked.found, checked.verdict
    run, unsaved, ahead = checked.runs.get(served.label), checked.unsaved, None
    if unsaved is not None:
        differences = {"+": unsaved.changes.added, "-": unsaved.changes.removed, "~": unsaved.changes.changed}
        names = sorted(((name, sign) for sign, group in differences.items() for name in group))
        ahead = {
            "anything": bool(unsaved),
            **dict(zip(("added", "removed", "changed"), map(len, differences.values()), strict=True)),
            "names": some(f"{sign} {name}" for name, sign in names),
            "cannot_be_saved": some(words.clean(str(entry)) for entry in unsaved.capture.left_out),
            "not_compared": None if unsaved.problem is None else words.clean(unsaved.problem),
        }
    return reply(
        state=verdict.state,
        newest=None if verdict.newest is None else snapshot_of(verdict.newest),
        age_seconds=None if verdict.age is None else int(verdict.age.total_seconds()),
        snapshots=sum(label.snapshots for label in vault.labels),
        problems=[
            {"what": words.clean(problem.what), "snapshot": problem.snapshot_id, "mend": words.mending(problem)}
            for problem in within(checked.problems, lambda problem: (problem.what,))
        ],
        unsaved=ahead,
        used_bytes=vault.used_bytes,
        quota_bytes=vault.quota_bytes or None,
        available_bytes=vault.available_bytes,
        last_watch=None if run is None else words.clean(f"{run.last.when.isoformat()}: {run.last.message}"),
    )


def diff(
    served: Served,
    a: Annotated[SnapshotName, Field(description="A snapshot, or folder for the folder as it is.")] = "latest",
    b: Annotated[SnapshotName, Field(description="The same.")] = FOLDER,
    file: FileName | None = None,
    patch: Patch = False,
) -> Reply:
    """Tell what changed from one snapshot to another, or, by default, from the latest to the folder as it is now."""
    memory = served.open()
    before, after = (_side(served, memory, text) for text in (a, b))
    delta = compare_files(before.documents, after.documents)
    if file is not None:
        names = {name for side in (before, after) for name in contents_of(side.documents).files}
        if file not in names:
            raise ColonyMemoryError(f"there is no {file!r} on either side{near(file, names)}")
        variants = {file, f"{file} (link)", f"{file} (executable)"}
        added, removed = (tuple(name for name in names if name in variants) for names in (delta.added, delta.removed))
        changed = {name: counts for name, counts in delta.changed.items() if name in variants}
        delta = replace(
            delta, added=added, removed=removed, changed=changed, unchanged=0 if added or removed or changed else 1
        )
    text, more = cut_text(patch_of(before, after, only=file)) if patch else (None, False)
    share = REPLY_CHARS // 4
    return reply(
        a=before.name,
        b=after.name,
        differs=bool(delta),
        added=some(delta.added, chars=share),
        removed=some(delta.removed, chars=share),
        changed=[
            {"name": name, "lines_added": counts.added, "lines_removed": counts.removed, "exact": counts.exact}
            for name, counts in within(delta.changed.items(), lambda item: item[:1], chars=share)
        ],
        **{f"{kind}_count": len(getattr(delta, kind)) for kind in ("added", "removed", "changed")},
        unchanged_count=delta.unchanged,
        left_out=some((served.words.clean(str(entry)) for entry in (*before.left_out, *after.left_out)), chars=share),
        patch=text,
        patch_cut=more,
    )


def _side(served: Served, memory: ColonyMemory, text: str) -> Side:
    if text == FOLDER:
        # As a backup reads it, but secrets that would stop one are masked: they are not to be read here either.
        masking = served.options.secrets in ("stop", "mask")
        options = replace(served.options, secrets="mask" if masking else "allow")
        with served.fixed():
            return side_of_folder(FOLDER, read_for(memory, served.root, options))
    if not pick.may_name_a_snapshot(text):
        raise ValueError(f"{text!r} names no snapshot: give an id, the beginning of one, latest, latest~2, or {FOLDER}")
    return read_snapshot(memory, pick.find_id(memory, text, label=served.label), label=served.label)


_NAMED = 10
_NAME_CHARS = 80


class Agreement(BaseModel):
    restore: bool = Field(title="Restore", description="Write these files into the folder.")


class Plan(Value):
    snapshot_id: str  # the one to restore, whatever becomes the latest meanwhile
    question: str  # an answer counts for this wording only: if it changes by then, the person is asked again


def plan_restore(served: Served, *, snapshot: str, files: Sequence[str], force: bool, fallback: bool) -> Plan:
    """Find out what would be written, without a change. ColonyMemoryError if a file is in use."""
    named = pick.find_id(served.open(), snapshot, label=served.label)
    restored = _restored(served, snapshot=named, only=files, force=force, fallback=fallback, dry_run=True)
    info, written = restored.info, restored.written
    if not restored:
        raise ColonyMemoryError(
            f"nothing was restored: {count(len(written.in_use), 'file')} open in {users_line(written)}, "
            f"which has to stop first: {', '.join(map(repr, written.in_use[:_NAMED]))}"
        )
    # All that the decision depends on, and nothing that changes by itself; names are quoted and short.
    made, taken, same = map(len, (written.created, written.replaced, written.unchanged))
    figures = f"{made} to create, {taken} to replace, {same} unchanged"
    lines = [
        f"Restore snapshot {shown(info.snapshot_id)} of label {served.label}, made {pick.stamp(pick.made_at(info))}?",
        f"Into {shown(str(served.root))}: {figures}. What is there now is saved first.",
    ]
    if force:
        lines.append("Files that a program has open are replaced too, and real secrets by their masks.")
    lines += [shown(f"Missing from it: {fill}") for fill in restored.filled]
    for heading, names in (("Replaced", written.replaced), ("Created", written.created)):
        if names:
            quoted = [repr(shortened(printable(name), _NAME_CHARS)) for name in names]
            lines.append(f"{heading}: {listed(quoted, most=_NAMED)}")
    return Plan(info.snapshot_id, "\n".join(lines))


def _restored(served: Served, **options: Any) -> RestoredFolder:
    with served.fixed():
        return restore_folder(served.open(), served.root, label=served.label, snapshot_first=True, **options)


def restore(served: Served, *, plan: Plan, files: Sequence[str], force: bool) -> Reply:
    """Carry out the plan. The folder is saved first, and if it cannot be, nothing is restored."""
    restored = _restored(served, snapshot=plan.snapshot_id, only=files, force=force)
    written, before = restored.written, restored.before
    share = REPLY_CHARS // 5
    return reply(
        snapshot=restored.info.snapshot_id,
        made=pick.made_at(restored.info).isoformat(),
        left_out=pick.count_left_out(restored.info),
        filled=some(map(str, restored.filled), chars=share),
        created=some(written.created, chars=share),
        replaced=some(written.replaced, chars=share),
        **{f"{kind}_count": len(getattr(written, kind)) for kind in ("created", "replaced", "unchanged")},
        masked=some(written.masked, chars=share),
        saved_before=None if before is None else before.info.snapshot_id,
        saved_before_label=None if before is None else before.info.label,
    )
