"""Pure: what a pointer alone says, whether it is believed, and how it compares with what was seen before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.judge.decision import Asked, Decision
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.head import read_head
from colony_memory._format.names import latest_filename
from colony_memory._format.pointer import Pointer, read_pointer
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    RollbackDetected,
    SnapshotCorrupt,
    UntrustedSnapshot,
    message_of,
)
from colony_memory.trust import check_head

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._format.catalog import Entry


def believe(asked: Asked, text: str | None) -> Decision:
    """What the pointer alone says. ``refusal`` is why it is not followed."""
    label, trust = asked.label, asked.trust
    blank = Pointer(label, None)
    try:
        if text is None:
            raise SnapshotCorrupt(f"there is no pointer {latest_filename(label)}")
        pointer = read_pointer(text, label=label)
        pointer = replace(pointer, removed=tuple(each for each in pointer.removed if each not in asked.unremoved))
    except SnapshotCorrupt as error:
        return _compare(asked, Decision(label, None, blank, problem=message_of(error), refusal=error))
    decision = Decision(label, pointer.snapshot_id, pointer, written=pointer.snapshot_id or "", signed=pointer.signed)
    if asked.pins:
        try:
            decision = replace(decision, issuer=trust.judge_pointer(pointer.raw))
        except UntrustedSnapshot as error:
            decision = replace(decision, follow=None, pointer=blank, problem=message_of(error), refusal=error)
    return _compare(asked, decision)


def _compare(asked: Asked, decision: Decision) -> Decision:
    """Compare the pointer with the heads that were seen before, which also tell the stream, and better than it does."""
    label, pointer = asked.label, decision.pointer
    known = (*(read_head(seen).stream for seen in asked.seen), pointer.stream)
    decision = replace(decision, stream=next(filter(None, known), None))
    compared, warnings = False, list(decision.warnings)
    head = pointer.head or (f"{pointer.generation}:{'0' * 16}" if pointer.generation else "")
    for seen in asked.seen:
        if not head and decision.written and asked.trust.accept_legacy_pointer:
            # A pointer that names nothing is never the work of 0.1.1.
            warnings.append(
                ColonyMemoryWarning(
                    f"the pointer of label {label!r} has no generation, since 0.1.1 wrote it: a rollback of the label "
                    "would not be noticed"
                )
            )
            break
        # A pointer that does not list what it names is compared by its generation alone.
        before = seen if pointer.head or not head else read_head(seen).generation
        listed = (entry.manifest_sha256 for entry in pointer.entries or ())  # looked at where it is needed only
        try:
            compared |= check_head(
                label, before, head=head, stream=pointer.stream, listed=listed, conditional=asked.conditional
            )
        except RollbackDetected as error:
            return replace(decision, rollback=error, compared=True, warnings=tuple(warnings))
    return replace(decision, compared=compared, warnings=tuple(warnings))


def rows_of(asked: Asked, base: Decision) -> Mapping[str, Entry]:
    """What the pointer lists, by id. A key that is trusted up to a snapshot has no say about later ones."""
    rows, issuer = base.pointer.rows, base.issuer
    return rows if issuer is None else {each: row for each, row in rows.items() if asked.trust.accepts(issuer, each)}


def stands(asked: Asked, base: Decision, entry: Entry) -> bool:
    """Whether a row stands without a look at the manifest: who pins takes a trusted signer's word only, and where every
    snapshot is looked at, a chain has to name its packs and to count its documents.
    """
    counted = entry.info.doc_count is not None or entry.info.encrypted
    if asked.everything and entry.info.format == FORMAT_2 and not (entry.packs and counted):
        return False
    return not asked.pins or (base.proven and asked.trust.accepts(entry.info.issuer, entry.snapshot_id))
