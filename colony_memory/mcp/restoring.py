"""The tool that restores: a plan, the person's word for it, and only then a file that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field

from colony_memory._format.json import printable
from colony_memory.app.facts import count_left_out, made_at, stamp
from colony_memory.app.pick import find_id
from colony_memory.app.restore import restore_folder
from colony_memory.cli.restored import users_line
from colony_memory.cli.text import count, shown
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.mcp import replies
from colony_memory.mcp.replies import REPLY_CHARS, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_types import ClientCapabilities

    from colony_memory.app.restore import RestoredFolder
    from colony_memory.mcp.served import Served
    from colony_memory.mcp.work import Job

_NAMED = 10
_NAME_CHARS = 80


class Agreement(BaseModel):
    """What the person is asked for."""

    restore: bool = Field(title="Restore", description="Write these files into the folder.")


@dataclass(frozen=True)
class Plan:
    """What a restore would do.

    Attributes:
        snapshot_id: The one that is restored, whatever becomes the latest meanwhile.
        question: What the person is asked. An answer counts for these words only: where the folder or the vault has
            changed so that they would be others, it is asked anew.
    """

    snapshot_id: str
    question: str


def plan_restore(served: Served, job: Job, *, snapshot: str, files: Sequence[str], force: bool, fallback: bool) -> Plan:
    """Find out what would be written; nothing is changed.

    Raises:
        ColonyMemoryError: It would be refused.
    """
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
