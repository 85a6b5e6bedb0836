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
from colony_memory._format.record import ATTRIBUTES_NAME, RECORDS
from colony_memory._values import Value, field, names_of, replace
from colony_memory.snapshot import SnapshotInfo, created

#: The time for which a backup keeps a snapshot that a much smaller one followed.
SHRINK_GRACE = timedelta(days=30)
# The least bytes of a document whose ruin is reported.
_WORTHWHILE = 1000
# Clocks of hosts differ by less than this; a time further ahead is from a clock that is wrong.
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
        rules = {name: getattr(self, name) for name in names_of(self) if getattr(self, name) is not None}
        if not rules:
            raise ValueError("a retention without a rule would remove everything: give at least one")
        for name, value in rules.items():
            is_span = name == "keep_within"
            usable = value >= timedelta(0) if is_span and isinstance(value, timedelta) else is_count(value, sys.maxsize)
            if not usable or isinstance(value, timedelta) != is_span:
                raise ValueError(f"{name}={value!r} must not be negative, and a {'timedelta' if is_span else 'count'}")


class PrunePlan(Value):
    """The plan of a retention; true if it removes anything."""

    keep: tuple[SnapshotInfo, ...]  #: Snapshots that stay, newest first.
    remove: tuple[SnapshotInfo, ...]  #: Snapshots that go, newest first.
    #: The reasons to keep, by id: ``last``, ``hourly`` … ``yearly``, ``within``, ``newest``, ``latest`` (the pointer
    #: names it), ``future`` (its time has not come), ``in-flight`` (the pointer does not know of it and it is less than
    #: an hour old: a backup that may not be done yet), ``pinned``, ``before-shrink`` (a snapshot of less than half its
    #: bytes or documents followed, or one in which a document was ruined), ``before-divergence`` (it met a conflict, or
    #: another writer's save took its place without being based on it, and nothing goes on from it yet). Those in the
    #: future and in flight are neither counted nor removed; those before a divergence are not counted either. One in
    #: ``remove`` with ``before-shrink`` is kept by a backup, and not by an explicit prune.
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
    retention: Retention | None,
    now: datetime,
    head: str | None = None,
    in_flight: Collection[str] = (),
    unmerged: Collection[str] = (),
    shrunk: Mapping[str, Shrink] | None = None,
    keep_shrunk: bool = False,
) -> PrunePlan:
    """Decide which whole snapshots of one label stay: all without a retention, else by its rules, what the pointer
    names (``head``), what is ``in_flight`` or ``unmerged``, uncounted, and with ``keep_shrunk`` :func:`before_shrink`.
    """
    ordered = newest_first(infos)
    reasons: dict[str, list[str]] = {info.snapshot_id: [] for info in ordered}

    def note(why: str, those: Iterable[SnapshotInfo]) -> None:
        for info in those:
            reasons[info.snapshot_id].append(why)

    note("future", (info for info in ordered if created(info) > now + _CLOCK_SKEW))
    note("in-flight", (info for info in ordered if info.snapshot_id in in_flight))
    excluded = {snapshot_id for snapshot_id, why in reasons.items() if why}
    # The bases of a merge are kept as long as that is the latest. Refused snapshots take no other's place.
    bases = next((info.based_on or () for info in ordered if info.snapshot_id == head), ())
    spared = [info for info in ordered if info.snapshot_id in unmerged or (info.refused and info.snapshot_id in bases)]
    note("before-divergence", spared)
    uncounted = refused_only(ordered) | {info.snapshot_id for info in spared}
    plain = [info for info in ordered if info.snapshot_id not in uncounted] or ordered
    counted = _distinct([info for info in plain if info.snapshot_id not in excluded])
    for why, those in [("last", ordered)] if retention is None else _by_rules(counted, retention, now):
        note(why, those)
    # One not counted stays anyway, and must not take the place of the newest real one; nor must an incomplete one.
    note("newest", [info for info in counted if not info.incomplete][:1] or counted[:1])
    note("pinned", (info for info in ordered if info.pinned))
    note("latest", (info for info in ordered if info.snapshot_id == head))
    kept = {snapshot_id for snapshot_id, why in reasons.items() if why}
    shrunken = [info for info in ordered if info.snapshot_id in (shrunk or {})]
    note("before-shrink", shrunken)
    kept |= {info.snapshot_id for info in shrunken if keep_shrunk}
    return PrunePlan(
        keep=tuple(info for info in ordered if info.snapshot_id in kept),
        remove=tuple(info for info in ordered if info.snapshot_id not in kept),
        reasons={snapshot_id: tuple(why) for snapshot_id, why in reasons.items()},
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
    """The newest of each run of neighbours with equal content and issuer, as far as these are not encrypted."""
    out: list[SnapshotInfo] = []
    for info in ordered:
        same = bool(out) and (info.plaintext_sha256, info.issuer) == (out[-1].plaintext_sha256, out[-1].issuer)
        if not same or not info.plaintext_sha256 or info.incomplete != out[-1].incomplete:
            out.append(info)
    return out


class Shrink(Value):
    """The event that a much smaller snapshot, or one in which a document was ruined, followed another."""

    since: datetime
    ruined: bool = False


def is_much_smaller(info: SnapshotInfo, than: SnapshotInfo) -> bool:
    """True if a snapshot has less than half of the bytes or documents of another; by stored bytes if encrypted."""
    if None in (info.doc_count, than.doc_count) and (info.encrypted or than.encrypted):
        return info.encrypted and than.encrypted and 0 < info.stored_bytes * 2 < than.stored_bytes
    fewer = info.doc_count is not None and than.doc_count is not None and info.doc_count * 2 < than.doc_count
    return info.byte_size * 2 < than.byte_size or fewer


def measure_texts(sizes: Mapping[str, int]) -> tuple[int, int]:
    """Bytes and number of documents, without the records that a folder adds; the bytes of its binary files count."""
    return sum(size for name, size in sizes.items() if name != ATTRIBUTES_NAME), len(sizes.keys() - {*RECORDS})


def by_texts(infos: Sequence[SnapshotInfo], known: Mapping[str, tuple[int, int]]) -> Sequence[SnapshotInfo]:
    """The summaries with the measure of the texts alone, where a folder's records are among the documents.

    It is ``known`` of some, by id. Others are taken to have as much beside the text of a document as the largest known.
    """
    counts = {info.snapshot_id: (info.doc_count, info.byte_size) for info in infos if info.doc_count}
    measured = [(*counts[snapshot_id], *texts) for snapshot_id, texts in known.items() if snapshot_id in counts]
    if all(count == texts for count, _, _, texts in measured):
        return infos
    most, total, size, texts = max(measured)

    def alone(info: SnapshotInfo, count: int) -> SnapshotInfo:
        estimate = info.byte_size - (total - size) * count // most, count - most + texts
        bytes_alone, number = known.get(info.snapshot_id, estimate)
        return replace(info, byte_size=max(1, bytes_alone), doc_count=max(0, number))

    return [alone(info, info.doc_count) if info.doc_count else info for info in infos]


def find_ruined(before: Mapping[str, int], now: Mapping[str, int], hollow: Collection[str] = ()) -> tuple[str, ...]:
    """Documents of a memory that are ruined in the next one, if most of its other documents are still there.

    One of 1,000 bytes or more is ruined if it is empty now, all NUL (``hollow``), or under a tenth of its size: a power
    cut leaves files so, or somebody who wrote it anew from memory. Sizes are those of :func:`document_bytes`.
    """
    ruined = {name for name, size in before.items() if size >= _WORTHWHILE and now.get(name, size) * 10 < size}
    others = [name for name in before if name not in ruined]
    if not others:
        # All of them: that shows in the size of the memory, unless they are NUL.
        return tuple(sorted(ruined.intersection(hollow)))
    return tuple(sorted(ruined)) if 2 * sum(name in now for name in others) > len(others) else ()


def document_bytes(text: str) -> int:
    """Bytes of a text in UTF-8, 0 if it is all NUL."""
    if not text.strip("\0"):
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def before_shrink(
    infos: Iterable[SnapshotInfo],
    *,
    now: datetime,
    noted: Mapping[str, Shrink] | None = None,
    spoilers: Collection[str] = (),
) -> dict[str, Shrink]:
    """The snapshots to keep because a much smaller one, or one in which a document was ruined, followed.

    Of these it keeps the newest, each that lost a document to ruin, and each at least twice as large as all kept so
    far: a small memory that goes up and down must not take the place of the large one. None is kept for longer than
    :data:`SHRINK_GRACE`. ``noted`` are earlier findings, whose follower may be gone; ``spoilers`` ruined a document.
    """
    ordered = newest_first(infos)
    candidates: dict[str, tuple[Shrink, SnapshotInfo]] = {}
    for follower, info in pairwise(ordered):
        shrink = (noted or {}).get(info.snapshot_id)  # later followers say nothing of it
        ruined = follower.snapshot_id in spoilers
        if shrink is None and (ruined or is_much_smaller(follower, info)):
            # A follower with an earlier time is from a clock that was reset.
            shrink = Shrink(created(follower) if created(follower) >= created(info) else now, ruined)
        if shrink is not None and now - shrink.since < SHRINK_GRACE:
            candidates[info.snapshot_id] = (shrink, info)
    kept: dict[str, Shrink] = {}
    size = documents = 0
    for snapshot_id, (shrink, info) in candidates.items():
        own_size, own = info.byte_size or info.stored_bytes, info.doc_count or 0
        if not kept or shrink.ruined or own_size >= 2 * size or 0 < 2 * documents <= own:
            kept[snapshot_id] = shrink
            size, documents = max(size, own_size), max(documents, own)
    return kept
