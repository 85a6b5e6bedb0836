"""The tool that restores: a plan, the person's word for it, and only then a file that is written.

What the tools do that show snapshots: the list of them, one with the names in it, and the text of a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from colony_memory._format.json import printable
from colony_memory.app.content import content_of
from colony_memory.app.pick import count_left_out, find, find_id, made_at, stamp, with_pin
from colony_memory.app.restore import fetch, restore_folder
from colony_memory.capture._metadata import contents_of
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt, SnapshotNotFound, UntrustedSnapshot, message_of
from colony_memory.mcp import replies
from colony_memory.mcp.replies import REPLY_CHARS, cut_text, snapshot_of, some, within
from colony_memory.words.text import count, shown, users_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import ClientCapabilities

    from colony_memory.app.restore import RestoredFolder
    from colony_memory.capture._metadata import Contents
    from colony_memory.mcp.served import Job, Served
    from colony_memory.mcp.words import Words


def list_snapshots(served: Served, job: Job, *, limit: int, before: str | None, tag: str | None) -> replies.ListReply:
    """The snapshots, newest first, or those that follow a certain one."""
    memory = served.open(job.on_event)
    infos = memory.list_snapshots(label=served.label)
    latest = next((info.snapshot_id for info in infos if info.head), None)
    if latest is None and infos:
        found = memory.latest(label=served.label)
        latest = None if found is None else found.snapshot_id
    infos = [info for info in infos if tag is None or tag in info.tags]
    total = len(infos)
    if before is not None:
        ids = [info.snapshot_id for info in infos]
        if before not in ids:
            raise SnapshotNotFound(f"no snapshot has the id {before!r}: give the last id of the answer before")
        infos = infos[ids.index(before) + 1 :]
    page = within(infos, lambda info: (info.note, *info.tags), most=limit)
    return replies.ListReply(
        snapshots=[snapshot_of(info, latest=info.snapshot_id == latest) for info in page],
        total=total,
        more=len(page) < len(infos),
    )


def show(served: Served, job: Job, words: Words, *, snapshot: str, file: str | None, offset: int) -> replies.ShowReply:
    """One snapshot, the names in it, and the text of one file if it is asked for."""
    memory = served.open(job.on_event)
    info = with_pin(memory, find(memory, snapshot, label=served.label, elsewhere=False))
    try:
        documents = fetch(memory, label=info.label, snapshot=info.snapshot_id).documents
    except UntrustedSnapshot:
        raise
    except SnapshotCorrupt as error:
        if file is not None:
            raise
        return replies.ShowReply(
            snapshot=snapshot_of(info),
            file_count=None,
            files=[],
            next_offset=None,
            left_out=some(map(words.clean, info.incomplete)),
            content=None,
            damage=words.clean(message_of(error)),
        )
    contents = contents_of(documents)
    files, after = ([], None) if file is not None else _page(contents, offset)
    return replies.ShowReply(
        snapshot=snapshot_of(info),
        file_count=len(contents.files),
        files=files,
        next_offset=after,
        left_out=some(map(words.clean, info.incomplete), chars=REPLY_CHARS // 4),
        content=None if file is None else read_part(file, content_of(info, documents, file), offset, REPLY_CHARS),
        damage=None,
    )


def _page(contents: Contents, offset: int) -> tuple[list[replies.File], int | None]:
    """As many files as an answer carries, from an offset on, and the offset for the next answer."""
    kinds = {
        **dict.fromkeys(contents.texts, "text"),
        **dict.fromkeys(contents.others, "bytes"),
        **dict.fromkeys(contents.links, "link"),
        **dict.fromkeys((f"{name}/" for name in contents.empty_dirs), "folder"),
    }
    names = sorted(kinds)
    shown = some(islice(names, offset, None))
    page = names[offset : offset + len(shown)]
    end = offset + len(page)
    return [replies.File(name=name, kind=kinds[name]) for name in page], end if end < len(names) else None


def read_part(name: str, content: str | bytes, offset: int, chars: int) -> replies.Content:
    """What one answer carries of a file's content, from a character on."""
    size = len(content)
    if isinstance(content, bytes):
        return replies.Content(name=name, text=None, offset=0, size=size, next_offset=None)
    if offset > size:
        raise ValueError(f"offset {offset} is behind the end: the text has {size} characters")
    text, more = cut_text(content[offset:], chars)
    return replies.Content(name=name, text=text, offset=offset, size=size, next_offset=offset + chars if more else None)


_NAMED = 10
_NAME_CHARS = 80


class Agreement(BaseModel):
    """What the person is asked for."""

    restore: bool = Field(title="Restore", description="Write these files into the folder.")


@dataclass(frozen=True)
class Plan:
    """What a restore would do.

    Attributes:
        question: What the person is asked. An answer counts for these words only: where the folder or the vault has
            changed so that they would be others, it is asked anew.
    """

    snapshot_id: str  # the one that is restored, whatever becomes the latest meanwhile
    question: str


def plan_restore(served: Served, job: Job, *, snapshot: str, files: Sequence[str], force: bool, fallback: bool) -> Plan:
    """Find out what would be written; nothing is changed."""
    memory = served.open(job.on_event)
    named = find_id(memory, snapshot, label=served.label, elsewhere=False)
    with served.fixed():
        found = restore_folder(
            memory,
            served.root,
            label=served.label,
            snapshot=named,
            only=files,
            force=force,
            fallback=fallback,
            snapshot_first=True,
            dry_run=True,
        )
    written = found.written
    if not found:
        names = ", ".join(map(repr, written.in_use[:_NAMED]))
        raise ColonyMemoryError(
            f"nothing was restored: {count(len(written.in_use), 'file')} open in {users_line(written)}, "
            f"which has to stop first: {names}"
        )
    return Plan(found.info.snapshot_id, _question(served, found, force=force))


def _question(served: Served, found: RestoredFolder, *, force: bool) -> str:
    """Everything that one decides by, and nothing that changes by itself; names are quoted and short."""
    info, written = found.info, found.written
    made = stamp(made_at(info))
    figures = f"{len(written.created)} to create, {len(written.replaced)} to replace"
    where = f"Into {shown(str(served.root))}: {figures}, {len(written.unchanged)} unchanged."
    lines = [
        f"Restore snapshot {shown(info.snapshot_id)} of label {served.label}, made {made}?",
        f"{where} What is there now is saved first.",
    ]
    if force:
        lines.append("Files that a program has open are replaced too, and real secrets by their masks.")
    lines += [shown(f"Other than it: {each}") for each in found.filled]
    for what, names in (("Replaced", written.replaced), ("Created", written.created)):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            lines.append(f"{what}: {', '.join(map(_quoted, names[:_NAMED]))}{more}")
    return "\n".join(lines)


def _quoted(name: str) -> str:
    text = printable(name)
    return repr(text if len(text) <= _NAME_CHARS else f"{text[:_NAME_CHARS]}…")


def restore(served: Served, job: Job, *, plan: Plan, files: Sequence[str], force: bool) -> replies.RestoreReply:
    """Do what was planned. What the folder holds is saved first, and where it cannot be, nothing is restored."""
    memory = served.open(job.on_event)
    with served.fixed():
        found = restore_folder(
            memory,
            served.root,
            label=served.label,
            snapshot=plan.snapshot_id,
            only=files,
            force=force,
            snapshot_first=True,
            on_progress=job.on_writing,
        )
    written, before = found.written, found.before
    share = REPLY_CHARS // 5
    return replies.RestoreReply(
        snapshot=found.info.snapshot_id,
        made=made_at(found.info).isoformat(),
        left_out=count_left_out(found.info),
        filled=some(map(str, found.filled), chars=share),
        created=some(written.created, chars=share),
        replaced=some(written.replaced, chars=share),
        created_count=len(written.created),
        replaced_count=len(written.replaced),
        unchanged_count=len(written.unchanged),
        masked=some(written.masked, chars=share),
        saved_before=None if before is None else before.info.snapshot_id,
        saved_before_label=None if before is None else before.info.label,
    )


def can_ask(capabilities: ClientCapabilities | None) -> bool:
    """Whether the client can ask the person by a form; one that names no mode can, as before there were modes."""
    asking = None if capabilities is None else capabilities.elicitation
    return asking is not None and (asking.form is not None or asking.url is None)
