"""What the tools do that show snapshots: the list of them, one with the names in it, and the text of a file."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from colony_memory.app.content import content_of, contents_of
from colony_memory.app.pick import find, with_pin
from colony_memory.app.restore import fetch
from colony_memory.exceptions import SnapshotCorrupt, SnapshotNotFound, UntrustedSnapshot, message_of
from colony_memory.mcp import replies
from colony_memory.mcp.replies import REPLY_CHARS, cut_text, snapshot_of, some, within

if TYPE_CHECKING:
    from colony_memory.app.content import Contents
    from colony_memory.mcp.served import Served
    from colony_memory.mcp.words import Words
    from colony_memory.mcp.work import Job


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
