"""Pure: which snapshots to keep: a policy, summaries and the time in; keep, remove and reasons out.

The rules are those of restic's ``forget``, in UTC: each keeps the newest of each of the last *n* periods that have one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order, is_count
from colony_memory._values import Value, field, names_of
from colony_memory.snapshot import SnapshotInfo, created

#: How long a backup keeps a snapshot that a much smaller one followed.
SHRINK_GRACE = timedelta(days=30)
# Bytes of a document whose loss is told.
_WORTHWHILE = 1000
# Clocks of hosts differ by less than this; what is later is from a clock that is wrong.
_CLOCK_SKEW = timedelta(minutes=10)

_PERIODS: tuple[tuple[str, Callable[[datetime], object]], ...] = (
    ("hourly", lambda t: (t.date(), t.hour)),
    ("daily", lambda t: t.date()),
    ("weekly", lambda t: tuple(t.isocalendar())[:2]),
    ("monthly", lambda t: (t.year, t.month)),
    ("yearly", lambda t: t.year),
)


class Retention(Value):
    """The rules of what to keep; a snapshot stays if any rule keeps it.

    Raises:
        ValueError: No rule is given, or one is negative.
    """

    keep_last: int | None = None  #: The newest *n*.
    keep_hourly: int | None = None  #: The newest of each of the last *n* hours that have one; likewise the next four.
    keep_daily: int | None = None  #: Days, in UTC.
    keep_weekly: int | None = None  #: ISO weeks.
    keep_monthly: int | None = None  #: Months.
    keep_yearly: int | None = None  #: Years.
    keep_within: timedelta | None = None  #: Everything younger than this.

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in names_of(self) if getattr(self, name) is not None}
        if not given:
            raise ValueError("a retention without a rule would remove everything: give at least one")
        for name, value in given.items():
            is_span = name == "keep_within"
            usable = value >= timedelta(0) if is_span and isinstance(value, timedelta) else is_count(value, sys.maxsize)
            if not usable or isinstance(value, timedelta) != is_span:
                raise ValueError(f"{name}={value!r} must not be negative, and a {'timedelta' if is_span else 'count'}")


class PrunePlan(Value):
    """The plan of a retention; true where it removes anything."""

    keep: tuple[SnapshotInfo, ...]  #: Snapshots that stay, newest first.
    remove: tuple[SnapshotInfo, ...]  #: Snapshots that go, newest first.
    #: For each id why it stays: ``last``, ``hourly`` … ``yearly``, ``within``, ``newest``, ``latest`` (the pointer
    #: names it), ``future`` (its time has not come), ``in-flight`` (the pointer does not know of it and it is less than
    #: an hour old: a backup that may not be done yet), ``pinned``, ``before-shrink`` (a snapshot of less than half its
    #: bytes or documents followed, or one in which a document was ruined), ``before-divergence`` (it met a conflict, or
    #: another writer's save took its place without being based on it, and nothing goes on from it yet). Those in the
    #: future and in flight are set apart: not counted, not removed; what is before a divergence is not counted either.
    #: A snapshot in ``remove`` with ``before-shrink`` is one that a backup would keep and a prune that is asked for
    #: does not.
    reasons: Mapping[str, tuple[str, ...]]
    #: Vault files of snapshots that cannot be read or trusted, neither counted nor removed.
    unread: tuple[str, ...] = field(default=())
    #: Vault files that belong to no snapshot and are old enough to be swept.
    orphans: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.remove or self.orphans)


def newest_first(infos: Iterable[SnapshotInfo]) -> list[SnapshotInfo]:
    """Summaries in the order of their ids, newest first."""
    return sorted(infos, key=lambda info: id_order(info.snapshot_id), reverse=True)


def plan(
    infos: Iterable[SnapshotInfo],
    *,
    retention: Retention,
    now: datetime,
    head: str | None = None,
    in_flight: Collection[str] = (),
    unmerged: Collection[str] = (),
    shrunk: Mapping[str, Shrink] | None = None,
    keep_shrunk: bool = False,
) -> PrunePlan:
    """Decide which of the whole snapshots of one label stay: by the rules, and what the pointer names (``head``), is
    ``in_flight`` or ``unmerged``, which doesn't count; with ``keep_shrunk`` what :func:`before_shrink` gave.
    """
    ordered = newest_first(infos)
    reasons: dict[str, list[str]] = {info.snapshot_id: [] for info in ordered}

    def note(why: str, those: Iterable[SnapshotInfo]) -> None:
        for info in those:
            reasons[info.snapshot_id].append(why)

    note("future", (info for info in ordered if created(info) > now + _CLOCK_SKEW))
    note("in-flight", (info for info in ordered if info.snapshot_id in in_flight))
    excluded = {own for own, why in reasons.items() if why}
    # What a merge goes on from is kept as long as that is the latest. What was refused takes no other's place.
    named = next((info.based_on or () for info in ordered if info.snapshot_id == head), ())
    spared = [info for info in ordered if info.snapshot_id in unmerged or (info.refused and info.snapshot_id in named)]
    note("before-divergence", spared)
    uncounted = refused_only(ordered) | {info.snapshot_id for info in spared}
    plain = [info for info in ordered if info.snapshot_id not in uncounted] or ordered
    counted = _distinct([info for info in plain if info.snapshot_id not in excluded])
    for why, those in _by_rules(counted, retention, now):
        note(why, those)
    # One that is set apart stays anyway, and must not cost the newest real one; nor must one that holds a part only.
    note("newest", [info for info in counted if not info.incomplete][:1] or counted[:1])
    note("pinned", (info for info in ordered if info.pinned))
    note("latest", (info for info in ordered if info.snapshot_id == head))
    kept = {own for own, why in reasons.items() if why}
    lost = [info for info in ordered if info.snapshot_id in (shrunk or {})]
    note("before-shrink", lost)
    kept |= {info.snapshot_id for info in lost if keep_shrunk}
    return PrunePlan(
        keep=tuple(info for info in ordered if info.snapshot_id in kept),
        remove=tuple(info for info in ordered if info.snapshot_id not in kept),
        reasons={own: tuple(why) for own, why in reasons.items()},
    )


def _by_rules(
    counted: Sequence[SnapshotInfo], retention: Retention, now: datetime
) -> Iterator[tuple[str, Sequence[SnapshotInfo]]]:
    yield "last", counted[: retention.keep_last or 0]
    for name, period in _PERIODS:
        newest: dict[object, SnapshotInfo] = {}
        most = getattr(retention, f"keep_{name}") or 0
        for info in counted if most else ():
            newest.setdefault(period(created(info)), info)
        yield name, [*newest.values()][:most]
    if retention.keep_within is not None:
        yield "within", [info for info in counted if now - created(info) <= retention.keep_within]


def _distinct(ordered: Sequence[SnapshotInfo]) -> list[SnapshotInfo]:
    """The newest of each run of neighbours with equal content and issuer, as far as that is in the clear."""
    out: list[SnapshotInfo] = []
    for info in ordered:
        same = bool(out) and (info.plaintext_sha256, info.issuer) == (out[-1].plaintext_sha256, out[-1].issuer)
        if not same or not info.plaintext_sha256 or info.incomplete != out[-1].incomplete:
            out.append(info)
    return out


class Shrink(Value):
    """That a much smaller snapshot, or one in which a document was ruined, followed another."""

    since: datetime
    ruined: bool = False


def is_much_smaller(info: SnapshotInfo, than: SnapshotInfo) -> bool:
    """True if a snapshot holds less than half of the bytes or documents of another; sealed ones by what both store."""
    if None in (info.doc_count, than.doc_count) and (info.encrypted or than.encrypted):
        return info.encrypted and than.encrypted and 0 < info.stored_bytes * 2 < than.stored_bytes
    fewer = info.doc_count is not None and than.doc_count is not None and info.doc_count * 2 < than.doc_count
    return info.byte_size * 2 < than.byte_size or fewer


def find_ruined(before: Mapping[str, int], now: Mapping[str, int], hollow: Collection[str] = ()) -> tuple[str, ...]:
    """Documents of a memory that are ruined in the next, where most of its others are still there.

    One of 1,000 bytes or more is ruined where it is empty now, all NUL (``hollow``), or under a tenth of itself: a
    power cut leaves a file so, or somebody who wrote it anew from memory. Sizes are those of :func:`document_bytes`.
    """
    lost = {name for name, size in before.items() if size >= _WORTHWHILE and now.get(name, size) * 10 < size}
    others = [name for name in before if name not in lost]
    if not others:
        # All of them: that shows in the bytes of the whole, unless they are NUL.
        return tuple(sorted(lost.intersection(hollow)))
    return tuple(sorted(lost)) if 2 * sum(name in now for name in others) > len(others) else ()


def document_bytes(text: str, enough: int | None = None) -> int:
    """Bytes of a text in UTF-8, 0 where it is all NUL; ``enough`` where its characters alone are as many."""
    if not text.strip("\0"):
        return 0
    if enough is not None and len(text) >= enough:
        return enough
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def before_shrink(
    infos: Iterable[SnapshotInfo],
    *,
    now: datetime,
    noted: Mapping[str, Shrink] | None = None,
    spoilers: Collection[str] = (),
) -> dict[str, Shrink]:
    """The snapshots to keep because a much smaller one, or one in which a document was ruined, followed.

    The newest is kept, each of which a document was ruined, and each at least twice as large as all kept so far: a
    small memory that goes up and down must not take the place of the large one. It ends :data:`SHRINK_GRACE` later.
    ``noted`` are earlier findings, whose follower may be gone; ``spoilers`` ruined a document.
    """
    ordered = newest_first(infos)
    found: dict[str, tuple[Shrink, SnapshotInfo]] = {}
    for follower, info in pairwise(ordered):
        shrink = (noted or {}).get(info.snapshot_id)  # of which later followers say nothing
        ruined = follower.snapshot_id in spoilers
        if shrink is None and (ruined or is_much_smaller(follower, info)):
            # A follower from before what it follows is from a clock that was reset.
            shrink = Shrink(created(follower) if created(follower) >= created(info) else now, ruined)
        if shrink is not None and now - shrink.since < SHRINK_GRACE:
            found[info.snapshot_id] = (shrink, info)
    kept: dict[str, Shrink] = {}
    size = documents = 0
    for snapshot_id, (shrink, info) in found.items():
        own_size, own = info.byte_size or info.stored_bytes, info.doc_count or 0
        if not kept or shrink.ruined or own_size >= 2 * size or 0 < 2 * documents <= own:
            kept[snapshot_id] = shrink
            size, documents = max(size, own_size), max(documents, own)
    return kept
