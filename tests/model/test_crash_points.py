"""Every verb is stopped at every vault call, in every way: nothing is lost, nothing false listed, the next run heals.

A schedule is a verb, a kind of vault, the n-th call, and what happens there: the process dies before or after the call
is applied, the call fails once before or after it is applied, or everything fails from there on.
"""

import time
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from counts import TRIED
from faces import PlainVault, copy_of

from colony_memory import (
    BackupUncertain,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    RateLimited,
    SnapshotNotFound,
    VaultUnavailable,
    snapshot,
)
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = pytest.mark.exhaustive

SMALL, LARGE = {"MEMORY.md": "small"}, {"MEMORY.md": "three parts of noise " + "".join(map(chr, range(0x4E00, 0x4E36)))}
OLD = [{"MEMORY.md": f"version {n}"} for n in range(4)]


def prepare(vault, versions):
    mem = ColonyMemory(backend=vault)
    return [mem.backup(docs).snapshot_id for docs in versions]


VERBS = {
    "first small backup": ([], lambda mem, ids: mem.backup(SMALL), SMALL),
    "first backup of three parts": ([], lambda mem, ids: mem.backup(LARGE), LARGE),
    "later small backup": (OLD[:2], lambda mem, ids: mem.backup(SMALL), SMALL),
    "later backup of three parts": (OLD[:2], lambda mem, ids: mem.backup(LARGE), LARGE),
    "backup that prunes": (OLD, lambda mem, ids: mem.backup(LARGE, prune_keep=2), LARGE),
    "unchanged backup": (OLD[:2], lambda mem, ids: mem.backup(OLD[1]), OLD[1]),
    "prune": (OLD, lambda mem, ids: mem.prune(label="default", keep=1), OLD[3]),
    "delete of the latest": (OLD, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[3]), OLD[2]),
    "delete of an older one": (OLD, lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[1]), OLD[3]),
    "delete of the last": (OLD[:1], lambda mem, ids: mem.delete_snapshot(label="default", snapshot_id=ids[0]), None),
}
WAYS = {
    "dies before": lambda vault, n: vault.stop_after(n, applied=False),
    "dies after": lambda vault, n: vault.stop_after(n, applied=True),
    "fails once before": lambda vault, n: vault.fail("*", VaultUnavailable("503", status=503), skip=n - 1, times=1),
    "fails once after": lambda vault, n: vault.fail("*", TimeoutError("slow"), skip=n - 1, times=1, after=True),
    "is down from then on": lambda vault, n: vault.fail("*", ConnectionError("reset"), skip=n - 1),
    "is down after it": lambda vault, n: (
        vault.fail("*", ConnectionError("reset"), skip=n - 1, times=1, after=True),
        vault.fail("*", ConnectionError("down"), skip=n),
    ),
    "is rate limited from then on": lambda vault, n: [
        vault.fail(verb, RateLimited("60 an hour", status=429, retry_after=3600), skip=n - 1)
        for verb in ("upload", "delete")
    ],
}
#: Before a call the vault is as after the one before it. Whoever keeps nothing beside the vault, such as a witness,
#: leaves the same behind where it dies before a call as where it dies after the last.
STOPS = sorted(WAYS.keys() - {"dies before"})


def is_over(way, struck, calls, n):
    """Whether a fault, of which ``WAYS`` gave what struck, was never reached: the verb has fewer calls."""
    return calls < n if "rate" not in way else not any(injection.fired for injection in struck)


@pytest.fixture(autouse=True)
def _three_parts(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", 120)


@pytest.mark.parametrize("kind", ["full", "plain"])
@pytest.mark.parametrize("way", STOPS)
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_stopped_at_every_call(verb, way, kind):
    versions, run, after = VERBS[verb]
    start = FakeVault(operations_per_hour=None)
    ids = prepare(start, versions)
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 60, "the verb never comes to its end"
        TRIED[f"stops: {verb}"] += 1
        fake = copy_of(start)
        vault = FaultyVault(fake if kind == "full" else PlainVault(fake))
        struck = WAYS[way](vault, n)
        answer = attempt(run, vault, ids)
        finished = is_over(way, struck, vault.count, n)
        check(fake, versions, after, answer)
        heal(fake)


def attempt(run, vault, ids):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            run(ColonyMemory(backend=vault), ids)
    except (ColonyMemoryError, ProcessDied) as error:
        return error
    return True


def check(fake, versions, after, answer):
    before = versions[-1] if versions else None
    new = ColonyMemory(backend=fake)
    listed = new.list_snapshots()  # a warning would be an error: nothing listed may be broken
    contents = [new.restore(snapshot_id=info.snapshot_id) for info in listed]
    with warnings.catch_warnings():
        # Before the first pointer is written, and after the last is deleted, a snapshot may stand without one.
        warnings.simplefilter("ignore" if None in (before, after) else "error", ColonyMemoryWarning)
        try:
            latest = new.restore()
        except SnapshotNotFound:
            latest = None
    if answer is True:
        assert latest == after
    else:
        assert latest in (before, after)
        assert latest is None or latest in contents
        if isinstance(answer, BackupUncertain):
            assert answer.snapshot_id
    if len(versions) == 2:  # a verb that removes nothing
        assert all(version in contents for version in versions)


def heal(fake):
    """The next backup and prune succeed, and once aged no leftover stays."""
    new = ColonyMemory(backend=fake)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        new.backup({"MEMORY.md": "next"})
        new.prune(label="default", keep=2)
        assert new.restore() == {"MEMORY.md": "next"}
        later = time.time() + 2 * 3600
        fake.clock = lambda: later
        new._session.now = lambda: datetime.now(timezone.utc) + timedelta(hours=2)
        new.backup({"MEMORY.md": "much later"})
        new.prune(label="default", keep=2)
    assert ColonyMemory(backend=fake).restore() == {"MEMORY.md": "much later"}
    manifests = {name.split(".")[2] for name in fake.files if name.endswith(".manifest.json")}
    parts = {name.split(".")[2] for name in fake.files if ".p" in name and not name.endswith("latest.json")}
    assert parts == manifests
