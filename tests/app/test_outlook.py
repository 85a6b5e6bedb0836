"""What the next backup costs and how many more there is room for, by what was stored before."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from snapshots import snapshot

from colony_memory import ColonyMemory, QuotaExceeded
from colony_memory._engine.inspect import Outlook, look_ahead
from colony_memory._format.catalog import Entry
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault


def entries(*stored, hours=12.0, chains=False):
    """Restore points of so many bytes, oldest first there, each so long after the one before."""
    made = []
    for number, size in enumerate(stored):
        at = datetime(2026, 11, 1, tzinfo=timezone.utc) + timedelta(hours=hours * number)
        info = snapshot(
            snapshot_id=f"{at:%Y%m%dT%H%M%S%fZ}-abcdef",
            created_at=f"{at:%Y-%m-%dT%H:%M:%SZ}",
            stored_bytes=size,
            format=f"colony-memory/{2 if chains else 1}",
        )
        made.append(Entry(info, "", packs=tuple("x" * (number + 1)) if chains else ()))
    return made[::-1]


def ahead(points, *, pointer_bytes=0, free=10_000):
    return look_ahead(points, pointer_bytes=pointer_bytes, free=free)


def test_nothing_is_said_where_nothing_is_known():
    assert ahead([]) == Outlook()
    assert ahead(entries(100)) == Outlook(100, fits=100)
    assert ahead(entries(100), free=None) == Outlook(100)
    assert ahead(entries(0, 0, 0), pointer_bytes=500) == Outlook()  # a vault that tells no sizes


def test_in_format_1_the_next_is_like_the_newest():
    assert ahead(entries(100, 900, 200)) == Outlook(200, fits=50)
    assert ahead(entries(100, 900, 200), pointer_bytes=400) == Outlook(200, fits=40)
    assert ahead(entries(100, 200), free=1) == Outlook(200, fits=0)


def test_in_format_2_the_next_is_like_the_changes_and_a_base_is_shared_by_256():
    assert ahead(entries(5120, chains=True)) == Outlook(5120, at_most=True)
    assert ahead(entries(5120, 30, 90, 40, chains=True), free=7300) == Outlook(40, fits=99)
    # One that holds no pack of others, as whoever cannot read what is there writes it, is what the next one is like.
    alone = [Entry(each.info, "", packs=("x",)) for each in entries(50, 70, chains=True)]
    assert ahead(alone) == Outlook(70, fits=142)
    # Where the format was changed, only what is of the new one counts.
    assert ahead([*entries(50, chains=True), *entries(900, 900)]) == Outlook(50, at_most=True)


@pytest.mark.parametrize(
    "format_", [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="needs zstd"))]
)
def test_what_is_said_comes_true(format_):
    """A vault is filled to the brim; what was said a third of the way is what fitted then, more or less."""
    now = [datetime(2026, 11, 1, tzinfo=timezone.utc)]
    vault = FakeVault(operations_per_hour=None, quota_bytes=50_000)
    memory = ColonyMemory(backend=vault, format=format_)
    memory._session.now = lambda: now[-1]
    rng = random.Random(1)
    text, said, made = " ".join(str(rng.getrandbits(30)) for _ in range(500)), {}, 0
    with pytest.raises(QuotaExceeded):
        while True:
            text += "".join(f" {rng.getrandbits(30)}" for _ in range(5))
            memory.backup({"MEMORY.md": text})
            made += 1
            now.append(now[-1] + timedelta(hours=8))
            said[made] = memory.status(label="default")
    third = said[made // 3]
    left = made - made // 3
    assert (third["restore_points"], third["next_at_most"]) == (made // 3, False)
    assert 0.7 * left < third["fits"] < 1.4 * left
    assert said[made]["fits"] <= 1
    assert memory.inspect().labels[0].fits == said[made]["fits"]
    assert set(memory.status()) == {"quota_bytes", "used_bytes", "available_bytes", "file_count"}
    other = memory.status(label="other")
    facts = ("restore_points", "newest", "encrypted", "before_loss", "unmerged", "unsigned")
    assert [other[each] for each in facts] == [0, None, None, None, [], []]
    answer = memory.status(label="default")
    assert (answer["newest"], answer["encrypted"]) == (memory.latest().snapshot_id, False)
