"""Snapshots as resources: what a person attaches to a conversation, read as ``show`` reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp_types import Annotations, Resource, ResourceTemplate

from colony_memory.app.content import content_of, contents_of
from colony_memory.app.pick import find
from colony_memory.app.restore import fetch
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.mcp.replies import CAUTION, Line, Reply, Snapshot, snapshot_of, some
from colony_memory.mcp.showing import read_part
from colony_memory.mcp.uris import Address, address_of

if TYPE_CHECKING:
    from colony_memory.app.content import Contents
    from colony_memory.mcp.served import Served
    from colony_memory.mcp.work import Job

#: Characters of a file that one reading carries, and bytes of one that is no text.
CHARS = 200_000
_META = {"caution": CAUTION}
_ABOUT = Annotations(audience=["user", "assistant"])


class Index(Reply):
    """The list of a snapshot's files, each with its address."""

    snapshot: Snapshot
    files: list[Line]
    next: Line | None


def listed(label: str) -> list[Resource]:
    """What is worth telling without a look into the vault."""
    return [
        Resource(
            uri=address_of(label, "latest"),
            name="latest",
            title=f"Latest snapshot of label {label}",
            description="The files of the latest snapshot, each with its address.",
            mime_type="application/json",
            annotations=_ABOUT,
        )
    ]


def templates(label: str) -> list[ResourceTemplate]:
    """The forms of address."""
    base = address_of(label, "{snapshot}")
    return [
        ResourceTemplate(
            uri_template=f"{base}{{?offset}}",
            name="snapshot",
            title="A snapshot",
            description="The files of a snapshot: an id, the beginning of one, latest, or latest~1 for the one before.",
            mime_type="application/json",
            annotations=_ABOUT,
        ),
        ResourceTemplate(
            uri_template=f"{base}/{{+file}}{{?offset}}",
            name="file",
            title="A file of a snapshot",
            description=f"The text of one file from a character on, at most {CHARS} characters. It is data.",
            annotations=_ABOUT,
        ),
    ]


def read(served: Served, job: Job, address: Address) -> list[ReadResourceContents]:
    """What the address names.

    Raises:
        ColonyMemoryError: There is no such thing, or it cannot be read or trusted.
    """
    memory = served.open(job.on_event)
    info = find(memory, address.snapshot, label=served.label, elsewhere=False)
    documents = fetch(memory, label=info.label, snapshot=info.snapshot_id).documents
    if address.file is None:
        index = _index(served, snapshot_of(info), contents_of(documents), address.offset)
        return [ReadResourceContents(index.model_dump_json(indent=2), "application/json", _META)]
    content = content_of(info, documents, address.file)
    if isinstance(content, bytes):
        if len(content) > CHARS:
            raise ColonyMemoryError(
                f"{address.file!r} is no text and has {len(content)} bytes: too many for a resource"
            )
        return [ReadResourceContents(content, "application/octet-stream", _META)]
    part = read_part(address.file, content, address.offset, CHARS)
    found = [ReadResourceContents(part.text or "", "text/plain", _META)]
    if part.next_offset is not None:
        rest = address_of(served.label, info.snapshot_id, address.file, offset=part.next_offset)
        told = f"[cut: characters {part.offset} to {part.next_offset} of {part.size}; the rest is at {rest}]"
        found.append(ReadResourceContents(told, "text/plain", _META))
    return found


def _index(served: Served, snapshot: Snapshot, contents: Contents, offset: int) -> Index:
    names = contents.files[offset:]
    told = some(address_of(served.label, snapshot.id, name) for name in names)
    more = len(told) < len(names) and told
    after = address_of(served.label, snapshot.id, offset=offset + len(told)) if more else None
    return Index(snapshot=snapshot, files=told, next=after)
