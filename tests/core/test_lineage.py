"""Which snapshot is based on which, what is unmerged, and how manifests, rows and pointers tell it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise

import pytest

from colony_memory._format.lineage import (
    Lineage,
    Unmerged,
    ancestors,
    descends,
    merge_base,
    read_lineage,
    read_unmerged,
    still_unmerged,
)
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory._format.rows import Entry
from colony_memory.snapshot import SnapshotInfo, build, read_manifest

NOW = datetime(2026, 6, 15, 12, tzinfo=timezone.utc)
STAMP = "2026-06-15T12:00:00Z"


def own(n: int) -> str:
    return f"202606{n:02}T000000000000Z-aaaaaa"


def info(n: int, *based_on: int, unknown: bool = False, refused: bool = False, rewrites: int | None = None):
    return SnapshotInfo(
        own(n), "work", STAMP, ["a"], 1, 2, "sha256:" + "0" * 64, parent_id=own(based_on[0]) if based_on else None,
        based_on=None if unknown else tuple(map(own, based_on)), refused=refused,
        rewrites=None if rewrites is None else own(rewrites), origin="a" * 16,
    )  # fmt: skip


def history(*infos: SnapshotInfo) -> list[SnapshotInfo]:
    return sorted(infos, key=lambda one: one.snapshot_id, reverse=True)


def unmerged(*numbers: int, **more: bool) -> tuple[Unmerged, ...]:
    return tuple(Unmerged(own(n), STAMP, **more) for n in numbers)


FORK = history(info(1), info(2, 1), info(3, 1), info(4, 3), info(5, 2, refused=True))


@pytest.mark.parametrize(
    ("infos", "astray", "of", "expected"),
    [
        (FORK, (), 3, True),
        (FORK, (), 1, True),
        (FORK, (5,), 2, False),
        (FORK, (5,), 5, False),
        # A link that is gone: what is older and was not overtaken counts.
        (history(info(4, 3), info(9, 8)), (), 2, True),
        (history(info(4, 3)), (), 3, True),
        (history(info(4, 3), info(2)), (2,), 2, False),
        (history(info(4, 3), info(5, 2, refused=True)), (5,), 2, False),
        # As 0.1.1 writes it.
        (history(info(1), info(2, 1), info(4, unknown=True)), (), 2, True),
        (history(info(2, refused=True), info(4, unknown=True)), (2,), 2, False),
        (history(info(4, unknown=True)), (), 3, True),
        (history(info(4, 3, rewrites=2), info(3)), (2,), 2, True),
    ],
)
def test_what_the_fourth_descends_from(infos, astray, of, expected):
    assert descends(infos, unmerged(*astray), own(4), own(of)) is expected
    assert descends(infos, unmerged(*astray), own(4), own(4))


def test_a_long_history_without_links_is_walked_once():
    infos = history(*(replace(info(1, unknown=True), snapshot_id=f"2026{n:06}") for n in range(10_000)))
    assert len(ancestors(infos, infos[0].snapshot_id)[0]) == 9_999
    linked = [replace(one, based_on=(other.snapshot_id,)) for one, other in pairwise(infos)]
    astray = [Unmerged(one.snapshot_id, STAMP) for one in linked[:2000:2]]
    mine, theirs = linked[0].snapshot_id, linked[1].snapshot_id
    for each in (infos, linked):
        assert merge_base(each, astray, [mine], theirs) == theirs
        assert not descends(each, astray, theirs, mine)


@pytest.mark.parametrize(
    ("mine", "astray", "expected"),
    [((5,), (5,), 1), ((2,), (2,), 1), ((3,), (), 3), ((4, 1), (), 4), ((8,), (), None), ((), (), None)],
)
def test_what_is_merged_over(mine, astray, expected):
    found = merge_base(FORK, unmerged(*astray), [own(n) for n in mine], own(4))
    assert found == (None if expected is None else own(expected))


def test_what_stays_unmerged():
    before = unmerged(1, 2, 3)
    assert still_unmerged(before, now=NOW, based_on=[own(1)], gone=[own(3)]) == unmerged(2)
    old = (Unmerged(own(1), "2026-05-01T00:00:00Z"), *unmerged(2))
    assert still_unmerged(old, now=NOW) == unmerged(2)
    to_come = [Unmerged(own(1), "9999-01-01T00:00:00Z")]
    assert still_unmerged(to_come, now=NOW) == unmerged(1)
    again = Unmerged(own(2), "2026-06-16T00:00:00Z")
    assert still_unmerged(before, now=NOW, new=[again]) == before
    many = unmerged(*range(1, 9), without_basis=True)
    assert still_unmerged(many, now=NOW + timedelta(days=1)) == many[-3:]
    assert len(still_unmerged((*many, *unmerged(20)), now=NOW)) == 4


LINEAGES = [
    Lineage(),
    Lineage(based_on=()),
    Lineage((own(1),), "a" * 16, refused=True, unmerged=unmerged(1, refused=True), rewrites=own(3)),
    Lineage((own(1), own(2)), unmerged=(*unmerged(1, without_basis=True), *unmerged(3))),
]


@pytest.mark.parametrize("lineage", LINEAGES)
def test_manifest_row_and_pointer_tell_it(lineage):
    made = build({"a": "b"}, label="work", snapshot_id=own(4), created_at=STAMP, lineage=lineage)
    manifest = read_manifest(made.files[made.manifest_file], label="work", snapshot_id=own(4))
    assert manifest.lineage == lineage
    row = Entry(replace(manifest.info, stored_bytes=made.info.stored_bytes), made.manifest_sha256)
    above = replace(row, info=replace(row.info, snapshot_id=own(5), parent_id=own(4), based_on=(own(4),)))
    pointer = Pointer("work", own(5), STAMP, 7, "0" * 16, [above, row], unmerged=lineage.unmerged)
    read = read_pointer(write_pointer(pointer), label="work", strict=True)
    assert list(read.entries) == [above, row]
    assert read.unmerged == lineage.unmerged


@pytest.mark.parametrize(
    ("field", "value"),
    [("based_on", "x"), ("origin", "A" * 16), ("origin", 4), ("refused", "yes"), ("unmerged", {}), ("rewrites", "?")],
)
def test_what_is_wrong_says_nothing(field, value):
    assert read_lineage({field: value}) == Lineage()


def test_rows_that_are_wrong_are_left_out():
    good = {"snapshot_id": own(1), "since": STAMP}
    bad = [1, {}, {"snapshot_id": "?", "since": STAMP}, {"snapshot_id": own(2), "since": "now"}, {"since": STAMP}]
    assert read_unmerged([*bad, good]) == unmerged(1)
    assert read_lineage({"based_on": [own(1), 3, None, "?"]}).based_on == (own(1),)
    assert len(read_unmerged([good] * 5000)) == 1000
