"""What the next backup costs and how many more there is room for, by what was stored before."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory, QuotaExceeded
from colony_memory.testing import FakeVault


@pytest.mark.parametrize("format_", FORMATS)
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
