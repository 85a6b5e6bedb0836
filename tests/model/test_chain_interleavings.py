"""Format 2: writers, a pruner and deleters at once, their vault calls in any order, and hours between any two of them.

What the pointer's catalogue lists is there, with all that it needs, after every single call: a verb takes out of the
catalogue what it means to delete before it deletes anything. Files never change, so that what is there also restores;
that it does is tried in the end. Each rule of writing and deleting is left out once, and then this finds what is lost.
"""

from __future__ import annotations

import itertools
import random
import warnings
from dataclasses import replace
from datetime import datetime, timezone
from typing import NamedTuple

import pytest
from chains import growing
from counts import TRIED
from stepped import Stepped

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    Ed25519Signer,
    PruneIncomplete,
    SnapshotNotFound,
    VaultError,
)
from colony_memory._engine import files as order
from colony_memory._engine.backup import backup
from colony_memory._engine.backup import save as saving
from colony_memory._engine.judge import committed, latest
from colony_memory._engine.label import LabelFiles
from colony_memory._engine.prune import delete_snapshot, prune
from colony_memory._engine.session import Session
from colony_memory._format.constants import FORMAT_2
from colony_memory._format.formats import format_of
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2 import chain as chains
from colony_memory.retention import Retention
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault

HISTORY = growing(8)
START = datetime(2026, 6, 1, tzinfo=timezone.utc).timestamp()
HOURS = 7200
#: What a client may say in the face of another. None of it is a refusal of what anybody saved.
TOLD = (ConflictDetected, SnapshotNotFound, PruneIncomplete, VaultError)
#: How many snapshots there are at first; the next one is a patch, a fold, or a base.
SCENES = {"patch": 2, "fold": 3, "base": 4}


class Told(Session):
    """A client of a vault whose clock is turned by hand."""

    def __init__(self, world, signer=None):
        super().__init__(
            Stepped(world.vault), signer=signer, max_bytes=10**6, wire=FORMAT_2,
            now=lambda: datetime.fromtimestamp(world.now, timezone.utc),
        )  # fmt: skip
        self.world = world

    def token(self):
        """Another one each time, and the same ones in the same schedule."""
        self.world.tokens += 1
        return f"{self.world.tokens * 0x9E3779 % 2**24:06x}"

    def draw_stream(self):
        return f"{self.token():0>16}"


class World:
    """A vault, and the clients of it."""

    def __init__(self, scene, signer=None):
        self.now, self.signer, self.tokens = START, signer, 0
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        self.writer = Told(self, signer)
        self.ids = []
        for documents in HISTORY[: SCENES[scene]]:
            self.ids.append(finish(self, save(documents)(self, self.writer)).snapshot_id)
            self.now += 1
        self.now += HOURS
        self.needs: dict[str, frozenset[str]] = {}
        self.texts: dict[str, str] = {}
        self.first = frozenset(self.vault.files)

    def copy(self):
        """The same, to go on from anew. The writer has its parent still, which it read hours ago."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.vault = FakeVault(operations_per_hour=None, clock=lambda: other.now)
        other.vault.files.update(self.vault.files)
        other.vault._known.update(self.vault._known)
        other.needs, other.texts = {}, {}
        other.writer = Told(other, self.signer)
        for kept in ("parents", "manifests", "good", "bases", "heads", "newest"):
            getattr(other.writer, kept).update(getattr(self.writer, kept))
        return other

    def before(self, actor):
        """What is to be done before a client makes its next call."""

    def check(self):
        """Everything that the catalogue lists is there, with every file that it needs."""
        files = self.vault.files
        pointer = read_pointer(files[latest_filename("default")], label="default")
        for row in pointer.entries or ():
            file = manifest_filename("default", row.snapshot_id)
            assert file in files, f"{row.snapshot_id} is listed, and gone"
            if self.texts.get(file) != files[file]:  # a conversion may bring back another one
                self.texts[file] = files[file]
                manifest = read_manifest(files[file], label="default", snapshot_id=row.snapshot_id)
                self.needs[file] = frozenset(format_of(FORMAT_2).needed(manifest.info, manifest))
            missing = self.needs[file] - files.keys()
            assert not missing, f"{row.snapshot_id} is listed, and needs {sorted(missing)}"
        return {row.snapshot_id for row in pointer.entries or ()}

    def needed(self, listed):
        """The files that these take beside their manifests."""
        return {name for each in listed for name in self.needs[manifest_filename("default", each)]}


def save(documents, **options):
    options = {"prune_keep": None, "on_conflict": "continue", **options}

    def run(world, session):
        return backup(session, documents, label="default", signer=None, retention=None, skip_unchanged=True, **options)

    return run


async def _delete_all(world, session):
    for each in reversed(world.ids):
        await delete_snapshot(session, label="default", snapshot_id=each)


VERBS = {
    "write": save(HISTORY[5]),
    "write and prune": save(HISTORY[6], prune_keep=1),
    "write or raise": save(HISTORY[7], on_conflict="raise"),
    "prune": lambda world, session: prune(session, label="default", policy=Retention(keep_last=1)),
    "prune some": lambda world, session: prune(session, label="default", policy=Retention(keep_last=9)),
    "delete the latest": lambda world, session: delete_snapshot(session, label="default", snapshot_id=world.ids[-1]),
    "delete all": _delete_all,
}  # fmt: skip
CACHED = "write"


class Actor:
    """One client at work: the call that it makes next, or how it ended."""

    def __init__(self, world, verb):
        self.world, self.verb = world, verb
        self.session = world.writer if verb == CACHED else Told(world, world.signer)
        self.run = VERBS[verb](world, self.session) if isinstance(verb, str) else verb(world, self.session)
        self.result = self.error = self.call = None
        self.ended = False
        self._send(None)

    def act(self):
        """Make the next call. What only asks for the quota happens with it."""
        method, args, options = self.call
        self.world.before(self)
        try:
            reply = getattr(self.world.vault, method)(*args, **dict(options))
        except Exception as error:
            reply = error
        self._send(reply)
        if not self.ended and self.call[0] == "vault_status":
            self.act()

    def _send(self, reply):
        try:
            self.call = self.run.send(reply)
        except StopIteration as done:
            self.result, self.ended = done.value, True
        except ColonyMemoryError as error:
            self.error, self.ended = error, True

    def close(self):
        self.run.close()


def finish(world, run):
    actor = Actor(world, lambda *_: run)
    while not actor.ended:
        actor.act()
    if actor.error is not None:
        raise actor.error
    return actor.result


class Turn(NamedTuple):
    """A client's turn: whose, for how many calls, how many hours after the one before, and the call that ends it: its
    method and a part of the file's name.
    """

    who: int
    calls: int
    hours: int
    before: tuple[str, str] | None = None

    def is_over(self, actor):
        if actor.ended or self.before is None:
            return actor.ended
        method, part = self.before
        return method in actor.call[0] and part in actor.call[1][0] and actor.call[1][0] not in actor.world.first


def play(start, verbs, turns):
    """Let clients work by turns, and each to its end after the last of them; how many calls each one made.

    Raises:
        AssertionError: Something that is listed is not there any more, or an honest client was refused.
    """
    world = start.copy()
    made = [0] * len(verbs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        actors = [Actor(world, verb) for verb in verbs]
        ends = (Turn(who, 10**6, 0) for who in range(len(verbs)))
        try:
            for turn in itertools.chain(turns, ends):
                who, world.now = turn.who, world.now + turn.hours * 3600
                for _ in range(turn.calls):
                    if turn.is_over(actors[who]):
                        break
                    made[who] += 1
                    actors[who].act()
                    listed = world.check()
                    assert made[who] < 300, "a client never comes to its end"
            for actor in actors:
                assert actor.error is None or isinstance(actor.error, TOLD), repr(actor.error)
            only_writes = all(str(verb).startswith("write") and verb != "write and prune" for verb in verbs)
            for actor in actors:
                told = getattr(actor.result, "snapshot_id", None) or getattr(actor.error, "snapshot_id", None)
                assert told is None or told in listed or not only_writes, f"{told} is saved, and not listed"
        finally:
            for actor in actors:
                actor.close()
    return world, listed, made


def restores(world, listed):
    """All that is listed restores for a new client, and so does the latest; the next backup and prune succeed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        new = client(world)
        for each in listed:
            assert new.restore(snapshot_id=each)
        new.restore(default={})
        world.now += HOURS
        client(world).backup({"m": "next"})
        client(world).prune(label="default", keep=1)
        assert client(world).restore() == {"m": "next"}
        world.now += HOURS
        client(world).prune(label="default", keep=1)
    # What nobody needs is gone, now that it is old.
    assert {name for name in world.vault.files if ".k" in name} == world.needed(world.check())


def client(world):
    new = ColonyMemory(backend=world.vault, format=2, signer=world.signer)
    new._session.now = lambda: datetime.fromtimestamp(world.now, timezone.utc)
    return new


@pytest.fixture(autouse=True)
def _small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "MAX_ON_BASE", 4)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


def turns_of(verbs, chance):
    """Some turns, with few changes of client, which is where races are."""
    turns = []
    for _ in range(chance.randint(2, 8)):
        turns.append(Turn(chance.randrange(len(verbs)), chance.randint(1, 9), chance.choice((0, 0, 2))))
    return turns


def search(verbs, scenes, seeds, signer=None):
    """Of some random schedules, those that lose something: the scene, the seed, and what."""
    for scene in scenes:
        start = World(scene, signer)
        for seed in seeds:
            TRIED["interleavings: format 2, clients in any order"] += 1
            try:
                world, listed, _ = play(start, verbs, turns_of(verbs, random.Random(seed)))
                if not seed % 20:
                    restores(world, listed)
            except (AssertionError, ColonyMemoryError) as error:
                yield scene, seed, repr(error)


TOGETHER = [
    ("write", "write and prune", "delete the latest"),
    ("write and prune", "write or raise", "delete all", "prune"),
    ("write", "write or raise", "delete all"),
    ("write", "write or raise", "prune"),
    ("write", "write and prune", "prune some"),
    ("write", "prune", "delete the latest"),
    ("write", "write or raise"),
]


@pytest.mark.parametrize("verbs", TOGETHER[:2], ids="-".join)
def test_nothing_is_lost(verbs):
    assert not list(search(verbs, SCENES, range(8)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("verbs", TOGETHER, ids="-".join)
def test_nothing_is_lost_in_more_schedules(verbs):
    assert not list(search(verbs, SCENES, range(100, 150)))


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("verbs", TOGETHER, ids="-".join)
def test_nothing_is_lost_in_many_schedules(verbs, signs):
    signer = None
    if signs:
        pytest.importorskip("cryptography")
        signer = Ed25519Signer(bytes(range(32)))
    assert not list(search(verbs, SCENES, range(1000, 1300 if signs else 2000), signer))


#: A writer's pack is hours old when its manifest comes, and a pruner that listed before that is about to delete it. A
#: third client meets the manifest, at once or hours later, when a fourth one has saved.
OVERTAKEN = ("write", "prune", "prune some", "write or raise")


def overtaken(hours):
    return [
        Turn(0, 99, 0, ("upload", ".manifest.json")),
        Turn(1, 99, 2, ("delete", ".k0.json")),
        Turn(0, 1, 0),
        *([Turn(3, 99, hours)] if hours else []),
        Turn(2, 99, 0),
        Turn(1, 99, 0),
    ]


@pytest.mark.parametrize("hours", [0, 2])
def test_what_may_be_on_its_way_out_is_not_listed(hours):
    world, listed, _ = play(World("base"), OVERTAKEN, overtaken(hours))
    restores(world, listed)


def test_what_is_older_than_every_row_is_not_listed_either(monkeypatch):
    """All else was deleted, and another client has saved since. Nobody was told of what is listed here, and broken."""
    monkeypatch.setitem(SCENES, "one", 1)
    turns = [
        Turn(0, 99, 0, ("upload", ".manifest.json")),
        Turn(1, 4, 2),  # the pointer, the manifest, and a list that shows that it is gone
        Turn(1, 99, 0, ("delete", ".k0.json")),
        Turn(0, 1, 0),
        Turn(2, 99, 2),
        Turn(3, 99, 0),
        Turn(1, 99, 0),
    ]
    start = World("one")
    start.first = frozenset()
    play(start, ("write", "delete all", save(HISTORY[7]), save(HISTORY[6], prune_keep=9)), turns)


async def _is_there(*_, **__):
    return True


async def _as_listed_before(session, files):
    """The listing of before the deletions, without the manifests that were deleted since."""
    gone = {name for name in files.files if name.endswith(".manifest.json")} - session.vault.backend.files.keys()
    left = {name: file for name, file in files.files.items() if name not in gone}
    manifests = tuple(each for each in files.manifests if manifest_filename(files.label, each) in left)
    return replace(files, files=left, manifests=manifests)


def _commit_all(*given):
    found = _mark_committed(*given)
    return replace(found, committed=found.counted)


async def _take_back_at_once(job, built, why=None):
    await order.discard(job.session, built, why)


_mark_committed = latest.mark_committed
#: How each rule is left out, and clients, scene and seed of a schedule that loses something then.
RULES = {
    "one listing after the manifests are gone": (
        [(order, "_list_after", _as_listed_before)],
        (TOGETHER[1], "patch", 4),
    ),
    "packs go once they are a grace period old": (
        [(LabelFiles, "old_packs", lambda files, *, now: {each: files.pack(each) for each in files.packs})],
        (TOGETHER[4], "patch", 16),
    ),
    "proof after the upload": (
        [(order, "prove", _is_there), (saving, "_still_there", lambda *_: True)],
        (TOGETHER[2], "patch", 2),
    ),
    "a manifest is taken back as any other is deleted": (
        [(saving, "_give_up", _take_back_at_once)],
        (TOGETHER[2], "patch", 5),
    ),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_something_is_lost(rule, monkeypatch):
    changes, (verbs, scene, seed) = RULES[rule]
    for place, name, other in changes:
        monkeypatch.setattr(place, name, other)
    seeds = itertools.chain([seed], range(500))
    _, _, lost = next(search(verbs, [scene], seeds))
    assert "is listed, and" in lost


@pytest.mark.parametrize(
    ("hours", "place", "name", "other"),
    [(0, latest, "mark_committed", _commit_all), (2, committed, "_unproven", lambda *_: set())],
)
def test_without_the_rule_of_what_is_committed_something_is_lost(hours, place, name, other, monkeypatch):
    monkeypatch.setattr(committed, "_unproven", lambda *_: set())
    monkeypatch.setattr(place, name, other)
    with pytest.raises(AssertionError, match="is listed, and needs"):
        play(World("base"), OVERTAKEN, overtaken(hours))
