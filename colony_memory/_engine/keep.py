"""Applying a retention to a label: which snapshots go, and which have to stay."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from colony_memory import retention as rules
from colony_memory._boundary import require_type
from colony_memory._engine.load import restores, unsealed_info
from colony_memory._engine.state import State, forget
from colony_memory._engine.store import Shelf
from colony_memory._format.lineage import Unmerged, still_unmerged
from colony_memory._format.names import read_stamp, stamp
from colony_memory._format.v2.zstd import is_readable
from colony_memory._values import Value, replace
from colony_memory.retention import PrunePlan, Retention, Shrink, is_much_smaller
from colony_memory.snapshot import SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory._engine.session import Session
    from colony_memory._format.catalog import Entry


_UNMERGED = "before-divergence"


class Planned(Value):
    plan: PrunePlan  # the snapshots that a retention keeps and removes
    shrunk: Mapping[str, Shrink]  # the shrink that each snapshot is kept for, by id
    leftovers: tuple[str, ...] = ()  # ids of snapshots that left the catalogue long ago and are still there

    @property
    def removed(self) -> tuple[str, ...]:
        return (*(info.snapshot_id for info in self.plan.remove), *self.leftovers)

    def rows(self, entries: Iterable[Entry]) -> list[Entry]:
        """The rows that stay, with the time of a shrink noted, since its follower may be gone next time."""
        gone = {*self.removed}
        kept = (entry for entry in entries if entry.snapshot_id not in gone)
        return [note_shrink(entry, self.shrunk.get(entry.snapshot_id)) for entry in kept]

    async def may_go(self, session: Session, state: State) -> list[str]:
        """Ids that may go, in this order, to make room before the new snapshot is written; none that has to stay."""
        _, newest = await newest_good(session, state)
        safe = {state.follow, newest}
        spared = {"pinned", "before-shrink", "in-flight", "future", _UNMERGED}
        kept = [i.snapshot_id for i in reversed(self.plan.keep) if spared.isdisjoint(self.plan.reasons[i.snapshot_id])]
        kept = [snapshot_id for snapshot_id in kept if state.entry(snapshot_id) is not None]
        removed = [info.snapshot_id for info in reversed(self.plan.remove)]
        order = (*self.leftovers, *removed, *kept, *self.unmerged, *self._regained(session, state))
        return [snapshot_id for snapshot_id in order if snapshot_id not in safe]

    def _regained(self, session: Session, state: State) -> list[str]:
        """Ids of those kept for a shrink, oldest first, where a newer one that is still there holds as much again."""
        regained, size, documents = list[str](), -1, -1
        for info in rules.by_texts(self.plan.keep, session.texts.get(state.label, {})):  # newest first
            reasons, shrink = {*self.plan.reasons[info.snapshot_id]}, self.shrunk.get(info.snapshot_id)
            as_large = size >= (info.byte_size or info.stored_bytes) and documents >= (info.doc_count or 0)
            if shrink is not None and not shrink.ruined and as_large and not {"pinned", _UNMERGED} & reasons:
                regained.insert(0, info.snapshot_id)
            if state.entry(info.snapshot_id) is not None:
                size, documents = max(size, info.byte_size or info.stored_bytes), max(documents, info.doc_count or 0)
        return regained

    @property
    def unmerged(self) -> list[str]:
        """Ids of those kept only because they are unmerged, oldest first: they give way last."""
        reasons = self.plan.reasons
        return [i.snapshot_id for i in reversed(self.plan.keep) if {*reasons[i.snapshot_id]} <= {_UNMERGED, "newest"}]


def policy_of(keep: int | None, retention: Retention | None) -> Retention | None:
    if retention is not None and keep is not None:
        raise ValueError("give either a number of snapshots to keep or retention=, not both")
    if keep is not None:
        return Retention(keep_last=keep)
    return None if retention is None else require_type("retention", retention, Retention)


def note_shrink(entry: Entry, shrink: Shrink | None) -> Entry:
    return entry if shrink is None else replace(entry, shrunk_at=stamp(shrink.since), spoiled=shrink.ruined)


def countable(state: State, new: SnapshotInfo | None) -> list[Entry]:
    """The snapshots that a retention counts besides a ``new`` one; unreadable ones are neither counted nor removed."""
    counted = state.counted - ({new.snapshot_id} if new else set())
    return [row for row in state.entries if row.snapshot_id in counted and is_readable(row.info.format)]


def shrunk_in(
    session: Session, state: State, *, new: SnapshotInfo | None = None, spoils: bool = False
) -> dict[str, Shrink]:
    """The snapshots to keep for a shrink or a ruined document that followed; ``new`` is next, and ``spoils`` one."""
    infos, noted = list[SnapshotInfo](), dict[str, Shrink]()
    new = None if new is not None and new.refused else new
    spoilers = {new.snapshot_id} if new and spoils else set[str]()
    for entry in countable(state, new):
        snapshot_id = entry.snapshot_id
        if entry.info.refused:
            continue
        info = session.known_info(entry)
        # The stored size of a patch says nothing of the size of its memory.
        infos.append(replace(info, stored_bytes=0) if info.doc_count is None and len(entry.packs) > 1 else info)
        since = read_stamp(entry.shrunk_at)
        again = new is not None and snapshot_id == state.follow and (spoils or shrank(session, new, infos[-1]))
        if since is not None and not again:
            noted[snapshot_id] = Shrink(since, entry.spoiled)
        opened = session.opened.get(entry.manifest_sha256)
        if entry.ruined or (opened is not None and opened.facts.ruined):
            spoilers.add(snapshot_id)
    infos = [*rules.by_texts([*infos, *([new] if new else [])], session.texts.get(state.label, {}))]
    return rules.before_shrink(infos, now=session.now(), noted=noted, spoilers=spoilers)


def shrank(session: Session, new: SnapshotInfo, than: SnapshotInfo) -> bool:
    return is_much_smaller(*rules.by_texts((new, than), session.texts.get(new.label, {})))


def listed(session: Session, state: State) -> list[SnapshotInfo]:
    """Summaries of the restore points, newest first, with what this client knows of them, and the shrinks."""
    entries = {entry.snapshot_id: entry for entry in state.entries}
    infos = [session.known_info(entries[info.snapshot_id], info) for info in state.summaries]
    shrunk = shrunk_in(session, state)
    ids = [info.snapshot_id for info in infos]
    after = {newer: older for newer, older in pairwise(ids) if older in shrunk}
    return [replace(info, shrunk_from=after.get(info.snapshot_id)) for info in infos]


async def plan_for(
    session: Session,
    state: State,
    policy: Retention | None,
    *,
    new: SnapshotInfo | None = None,
    spoils: bool = False,
    refused: bool = False,
    unmerged: Iterable[Unmerged] | None = None,
) -> Planned:
    """Apply a retention to a label's snapshots and a ``new`` one that ``spoils`` documents or is ``refused``."""
    now = session.now()
    for entry in state.entries:  # reads the sizes of encrypted ones before a shrink
        if entry.shrunk_at is not None and entry.info.encrypted:
            await unsealed_info(session, state.label, entry)
    infos = [session.known_info(entry) for entry in countable(state, new)] + ([new] if new else [])
    new = None if new is None else replace(new, refused=refused)
    shrunk = shrunk_in(session, state, new=new, spoils=spoils)
    if unmerged is None:
        unmerged = still_unmerged(state.unmerged, now=now)
    plan = rules.plan(
        infos,
        retention=policy,
        now=now,
        head=new.snapshot_id if new and not refused else state.follow,
        unmerged=[save.snapshot_id for save in unmerged],
        in_flight=state.waiting - ({new.snapshot_id} if new else set()),
        shrunk=shrunk,
        keep_shrunk=new is not None,
    )
    leftovers = tuple(
        row.snapshot_id
        for row in state.entries
        if row.snapshot_id not in state.counted
        and is_readable(row.info.format)
        and not row.info.pinned
        and state.listed.is_old(row.snapshot_id, now=now)
    )
    return Planned(plan, shrunk, leftovers)


def ages(session: Session, state: State) -> bool:
    """True if there are leftovers, or a bar to a prune, and nothing in the label shows that they are an hour old."""
    files, counted = state.listed, state.counted if state.follow in state.committed else state.committed
    needed = {pack for entry in state.entries for pack in entry.packs if entry.snapshot_id in counted}
    given_up = (entry.snapshot_id for entry in state.entries if entry.snapshot_id not in counted)
    leftovers = (*files.orphans, *given_up, *(files.packs.keys() - needed))
    return any(not files.is_old(snapshot_id, now=session.now()) for snapshot_id in leftovers)


async def newest_good(session: Session, state: State, *, complete: bool = True) -> tuple[State, str | None]:
    """The state without broken snapshots, and the newest committed one that restores, a complete one if any is."""
    broken, shelf = dict[str, str](), Shelf(session.max_bytes, state.latest_files)
    for entry in sorted(state.ranked, key=lambda entry: complete and bool(entry.info.incomplete)):
        snapshot_id = entry.snapshot_id
        if snapshot_id in state.committed and is_readable(entry.info.format):
            problem = await restores(session, state.label, snapshot_id, shelf=shelf)
            if problem is None:
                return forget(state, broken), snapshot_id
            broken[snapshot_id] = problem
    return forget(state, broken), None
