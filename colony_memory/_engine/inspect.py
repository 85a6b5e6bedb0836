"""Inspect, status: what a vault contains, and how much more fits into it.

What the next backup of a label costs is expected by what the ones before it stored.
"""

from __future__ import annotations

from datetime import timedelta
from statistics import median_high
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._engine.files import free_in
from colony_memory._engine.keep import shrunk_in
from colony_memory._engine.label import read_label, read_labels
from colony_memory._engine.observe import observed
from colony_memory._engine.state import UNREADABLE, State, look
from colony_memory._engine.verify import listed_and_gone, older_pointer
from colony_memory._format import FORMAT_2
from colony_memory._format.names import latest_filename, manifest_filename, require_label
from colony_memory._format.v2.chain import MAX_ON_BASE
from colony_memory.exceptions import SnapshotCorrupt, VaultError, message_of
from colony_memory.reports import LabelMap, VaultMap
from colony_memory.snapshot import Manifest
from colony_memory.trust import lacks_signature

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory._engine.label import LabelFiles
    from colony_memory._engine.session import Session
    from colony_memory._format.catalog import Entry


# Snapshots that show what the next one takes. What many take together shows in as many as stand on one base: few of
# them are large, those that fold what came before.
_LIKE = 10
# A pointer has something in it besides its rows, about as much as so many of them.
_ROWS = 8


class Outlook(NamedTuple):
    """The expected cost of a label's next backups."""

    next_bytes: int = 0  # what the next backup stores
    at_most: bool = False  # it stores no more than that, and nothing shows yet how much less
    fits: int | None = None  # how many more fit into the room, None where that is not known


def look_ahead(entries: Sequence[Entry], *, pointer_bytes: int, free: int | None) -> Outlook:
    """Expect what recent backups did."""
    if not entries or not entries[0].info.stored_bytes:
        return Outlook()  # nor where the vault tells no sizes
    newest = entries[0].info
    costs, share = [newest.stored_bytes], 0.0
    if newest.format == FORMAT_2:
        chains = [entry for entry in entries if entry.info.format == FORMAT_2]
        patches = [entry for entry in chains[:MAX_ON_BASE] if len(entry.packs) > 1]
        if not patches and len(chains) == 1:
            return Outlook(newest.stored_bytes, at_most=True)  # what is put on a base takes no more than it did
        costs = [entry.info.stored_bytes for entry in patches or chains[:1]]
        base = next((entry.info.stored_bytes for entry in chains if len(entry.packs) == 1), 0)
        share = base / MAX_ON_BASE if patches else 0.0
    each = sum(costs) / len(costs) + share + pointer_bytes / max(_ROWS, len(entries))
    return Outlook(
        next_bytes=median_high(costs[:_LIKE]),
        fits=None if free is None or not each else max(0, int(free // each)),
    )


@observed("inspect")
async def inspect(session: Session) -> VaultMap:
    """See :meth:`colony_memory.ColonyMemory.inspect`."""
    quota = await session.vault.status()
    listing = await session.vault.list("")
    labels = read_labels(listing)
    total, told = _number(quota.get("quota_bytes")), quota.get("available_bytes")
    free = _free_bytes(session, quota)
    maps = tuple([await _map_label(session, label, files, free=free) for label, files in labels.items()])
    left, spent = await session.vault.operations_left(), None
    if left is None and session.vault.counts_operations:  # which it tells only in its answer to one of them
        since = (listing.clock or session.now()) - timedelta(hours=1)
        spent = sum(1 for file in listing.files.values() if file.updated is not None and file.updated > since)
    return VaultMap(
        labels=maps,
        files=len(listing.files),
        foreign_files=len(listing.files) - sum(len(files.files) for files in labels.values()),
        complete=listing.complete,
        quota_bytes=total,
        used_bytes=_number(quota.get("used_bytes")),
        available_bytes=told if total and isinstance(told, int) else None,
        operations_left=left,
        operations_spent=spent,
        operations_reset_seconds=await session.vault.operations_reset(),
    )


@observed("status")
async def status(session: Session, *, label: str | None = None) -> dict[str, Any]:
    """See :meth:`colony_memory.ColonyMemory.status`."""
    quota = await session.vault.status()
    if label is None:
        return quota
    label = require_label(label)
    files = read_label(await session.vault.list(f"cmem.{label}."), label)
    free = _free_bytes(session, quota)
    found = await _map_label(session, label, files, free=free)
    return {
        **quota,
        "label": label,
        "restore_points": found.snapshots,
        "newest": found.newest and found.newest.snapshot_id,
        "encrypted": found.newest and found.newest.encrypted,
        "before_loss": found.shrunk and found.shrunk.snapshot_id,
        "unmerged": [info.snapshot_id for info in found.unmerged],
        "unsigned": list(found.unsigned),
        "next_bytes": found.next_bytes,
        "next_at_most": found.next_at_most,
        "fits": found.fits,
    }


async def _map_label(session: Session, label: str, there: LabelFiles, *, free: int | None) -> LabelMap:
    try:
        state = await look(session, label, everything=True, files=there)
    except VaultError as error:
        if error.code not in UNREADABLE:
            raise
        return LabelMap(label, 0, None, None, 0, 0, None, dangling=True, broken={latest_filename(label): error.message})
    decision, files = state.decision, state.listed
    whole = decision.listed
    best = decision.newest
    newest = None if best is None else next(info for info in whole if info.snapshot_id == best.snapshot_id)
    named = decision.written or None
    unsigned = {manifest_filename(label, each) for each in decision.unsigned}
    broken = {file: why for file, why in decision.broken.items() if file not in unsigned}
    if decision.doubt is not None and not broken and not lacks_signature(decision.doubt):
        broken[manifest_filename(label, named or "")] = message_of(decision.doubt)
    if isinstance(decision.refusal, SnapshotCorrupt) and newest is None and not broken:
        broken[latest_filename(label)] = message_of(decision.refusal)
    beside = [each for each in state.manifests.values() if isinstance(each, Manifest)]
    older = older_pointer(state, beside) if decision.written and not decision.proven else None
    if older is not None:
        # A restore gives what that names, and not the newest.
        broken[latest_filename(label)] = f"{older}. If a copy or an import did not finish, do that again instead"
    kept = shrunk_in(session, state)
    counted = [entry for entry in decision.entries if entry.snapshot_id in decision.counted]
    ahead = look_ahead(counted, pointer_bytes=len(state.text or ""), free=free)
    return LabelMap(
        label=label,
        snapshots=len(whole),
        oldest=whole[-1] if whole else None,
        newest=newest,
        plain_bytes=sum(info.byte_size for info in whole),
        stored_bytes=sum(info.stored_bytes for info in whole),
        latest=named,
        dangling=decision.written is None or (named is not None and named not in files.manifests),
        broken=broken,
        orphans=tuple(sorted(name for names in files.orphans.values() for name in names)),
        next_operations=(newest.part_count if newest else 1) + 2,
        next_bytes=ahead.next_bytes,
        next_at_most=ahead.at_most,
        fits=ahead.fits,
        untrusted=tuple(manifest_filename(label, each) for each in decision.untrusted if each not in decision.unsigned),
        removed=await _gone_for_good(session, state),
        unsigned=decision.unsigned,
        shrunk=next((entry.info for entry in decision.entries if entry.snapshot_id in kept), None),
        unmerged=tuple(row.info for one in state.unmerged if (row := decision.entry(one.snapshot_id)) is not None),
    )


async def _gone_for_good(session: Session, state: State) -> tuple[str, ...]:
    """Ids that the pointer of a label lists and that are not there.

    The label was listed before its pointer was read, so that a backup in between is not in that list. Where something
    lacks, it is looked at in the other order, in which a deletion in between is the one that would show.
    """
    gone = listed_and_gone(session, state.decision, state.listed.manifests) if state.listed.complete else ()
    if not gone:
        return ()
    again = await look(session, state.label, everything=True)
    found = listed_and_gone(session, again.decision, again.listed.manifests) if again.listed.complete else ()
    return tuple(each for each in found if each in gone)


def _free_bytes(session: Session, quota: Mapping[str, Any]) -> int | None:
    """Free bytes, None where the vault does not tell, or there is no end to them."""
    return None if session.vault.unlimited else free_in(quota)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
