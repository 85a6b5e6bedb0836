"""Pure: the snapshots that each one is based on, and those unmerged: refused, or overtaken by one not based on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import id_order, is_hex16, is_id, read_stamp, stamp
from colony_memory._values import NamedTuple, Value

if TYPE_CHECKING:
    from colony_memory._format.manifest import SnapshotInfo

#: Time for which an overtaken or refused snapshot is kept, in case somebody still merges it.
UNMERGED_LASTS = timedelta(days=30)
# Number of snapshots overtaken by saves without a basis that are kept, the newest ones.
_MOST_WITHOUT_BASIS = 3
# Most entries that are read of a list in a manifest or pointer.
_MOST = 1000


class Unmerged(NamedTuple):
    snapshot_id: str
    since: str  # when it was overtaken or refused, YYYY-MM-DDThh:mm:ssZ
    refused: bool = False  # it met a conflict, and never was the latest
    without_basis: bool = False  # the snapshot that overtook it was based on nothing


class Lineage(Value):
    based_on: tuple[str, ...] | None = None  # ids that it is directly based on; None if its writer does not say
    origin: str | None = None  # 16 hex digits of its folder or host
    refused: bool = False  # it met a conflict and did not become the latest
    unmerged: tuple[Unmerged, ...] = ()  # the snapshots that are unmerged once it is saved
    rewrites: str | None = None  # id of the snapshot that it replaces

    @property
    def facts(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("based_on", "origin", "refused", "rewrites")}

    def raw(self) -> dict[str, Any]:
        fields = {key: value for key, value in self.facts.items() if value}
        fields |= {} if self.based_on is None else {"based_on": list(self.based_on)}
        return fields | ({"unmerged": raw_unmerged(self.unmerged)} if self.unmerged else {})


def read_lineage(raw: Mapping[str, Any]) -> Lineage:
    """The lineage in a manifest. A malformed field counts as absent."""
    origin, rewrites, based_on = raw.get("origin"), raw.get("rewrites"), raw.get("based_on")
    return Lineage(
        based_on=tuple(islice(filter(is_id, based_on), _MOST)) if isinstance(based_on, list) else None,
        origin=origin if is_hex16(origin) else None,
        refused=raw.get("refused") is True,
        unmerged=read_unmerged(raw.get("unmerged")),
        rewrites=rewrites if is_id(rewrites) else None,
    )


def raw_unmerged(unmerged: Iterable[Unmerged]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row._asdict().items() if value} for row in unmerged]


def read_unmerged(value: object) -> tuple[Unmerged, ...]:
    """The inverse of :func:`raw_unmerged`; malformed rows are left out."""
    rows = [row for row in islice(value, _MOST) if isinstance(row, dict)] if isinstance(value, list) else []
    return tuple(
        Unmerged(row["snapshot_id"], row["since"], row.get("refused") is True, row.get("without_basis") is True)
        for row in rows
        if is_id(row.get("snapshot_id")) and read_stamp(row.get("since")) is not None
    )


def still_unmerged(
    before: Iterable[Unmerged],
    *,
    now: datetime,
    new: Iterable[Unmerged] = (),
    based_on: Collection[str] = (),
    gone: Collection[str] = (),
) -> tuple[Unmerged, ...]:
    """The unmerged snapshots after a save or a deletion, oldest first."""
    # The earliest time is kept, and none in the future, which would keep the entry for ever.
    rows = {row.snapshot_id: row._replace(since=min(row.since, stamp(now))) for row in (*new, *before)}
    remaining = [
        rows[key]
        for key in sorted(rows, key=id_order)
        if key not in based_on and key not in gone and now - (read_stamp(rows[key].since) or now) < UNMERGED_LASTS
    ]
    kept = [row.snapshot_id for row in remaining if row.without_basis][-_MOST_WITHOUT_BASIS:]
    return tuple(row for row in remaining if not row.without_basis or row.snapshot_id in kept)


def ancestors(infos: Sequence[SnapshotInfo], *snapshot_ids: str) -> tuple[frozenset[str], str | None]:
    """Direct and indirect ancestors of snapshots; and the newest id beyond which the ancestry is not known."""
    by_id = {info.snapshot_id: info for info in infos}
    found, pending, missing, silent = set[str](), [*snapshot_ids], list[str](), list[str]()
    while pending:
        snapshot_id = pending.pop()
        info = by_id.get(snapshot_id)
        if info is None:
            missing.append(snapshot_id)
            continue
        if info.rewrites is not None:
            found.add(info.rewrites)
        if info.based_on is None:
            silent.append(snapshot_id)
            continue
        parents = [parent for parent in info.based_on if parent not in found]
        found.update(parents)
        pending += parents
    if silent:
        # Based on everything before it, also on what is no longer listed, so that none of it needs a look of its own.
        newest = max(silent, key=id_order)
        older = [info for info in infos if id_order(info.snapshot_id) < id_order(newest) and not info.refused]
        found.update(info.snapshot_id for info in older)
        found.update(*(info.based_on or () for info in older))
        missing.append(newest)
    return frozenset(found), max(missing, key=id_order, default=None)


def stand_ins(infos: Iterable[SnapshotInfo]) -> dict[str, str]:
    direct = {info.rewrites: info.snapshot_id for info in infos if info.rewrites is not None}
    found = dict[str, str]()
    for old, new in direct.items():
        seen = {old}
        while new in direct and new not in seen:
            seen.add(new)
            new = direct[new]  # noqa: PLW2901 - one after the other
        found[old] = new
    return found


def descends(infos: Sequence[SnapshotInfo], unmerged: Iterable[Unmerged], snapshot_id: str, of: str) -> bool:
    """True if a snapshot holds the content of another one, except for what its writers removed knowingly."""
    return _descent(infos, unmerged, snapshot_id)(of)


def _descent(infos: Sequence[SnapshotInfo], unmerged: Iterable[Unmerged], snapshot_id: str) -> Callable[[str], bool]:
    """:func:`descends` for any ``of``. A vault may list many snapshots: their ancestry is walked once."""
    found, missing = ancestors(infos, snapshot_id)
    branches = {row.snapshot_id for row in unmerged} - found
    on_branches = branches | ancestors(infos, *branches)[0]

    def descends_from(of: str) -> bool:
        if of == snapshot_id or of in found:
            return True
        return missing is not None and id_order(of) <= id_order(missing) and of not in on_branches

    return descends_from


def merge_base(
    infos: Sequence[SnapshotInfo], unmerged: Sequence[Unmerged], own: Collection[str], theirs: str
) -> str | None:
    """The newest listed snapshot that an own one and theirs descend from: with others, text would count as deleted."""
    ours = {*own} | ancestors(infos, *own)[0]
    is_ancestor = _descent(infos, unmerged, theirs)
    listed = {info.snapshot_id for info in infos}
    return next(filter(is_ancestor, sorted(ours & listed, key=id_order, reverse=True)), None)


def refused_only(infos: Sequence[SnapshotInfo]) -> frozenset[str]:
    """Ids of refused snapshots that no unrefused one is based on: none of them becomes the latest by itself."""
    merged = {basis for info in infos if not info.refused for basis in info.based_on or ()}
    return frozenset(info.snapshot_id for info in infos if info.refused and info.snapshot_id not in merged)
