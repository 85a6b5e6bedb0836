"""Clients of a vault of format 2 that make their calls in any order, with hours between any two of them.

What the pointer's catalogue lists is there, with all that it needs, after every single call: a verb takes out of the
catalogue what it means to delete before it deletes anything. Files never change, so that what is there also restores;
that it does is tried in the end.
"""

from __future__ import annotations

import itertools
import random
import warnings
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
from colony_memory._engine.backup import backup
from colony_memory._engine.basis import MemoryHome
from colony_memory._engine.prune import delete_snapshot, prune
from colony_memory._engine.session import Session
from colony_memory._format import FORMAT_2
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
    def __init__(self, scene, signer=None):
        self.now, self.signer, self.tokens = START, signer, 0
        self.vault = FakeVault(operations_per_hour=None, clock=lambda: self.now)
        self.writer = Told(self, signer)
        self.ids = []
        for documents in HISTORY[: SCENES[scene]]:
            self.ids.append(finish(self, save(documents)(self, self.writer)).snapshot_id)
            self.now += 1
        self.now += HOURS
        self.needs = {}
        self.texts = {}
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
        for kept in ("parents", "manifests", "good", "heads", "newest"):
            getattr(other.writer, kept).update(getattr(self.writer, kept))
        other.writer.homes = {label: MemoryHome(home.read()) for label, home in self.writer.homes.items()}
        return other

    def before(self, actor):
        """What is to be done before a client makes its next call."""

    def check(self):
        """Everything that the catalogue lists is there, with every file that it needs."""
        files = self.vault.files
        pointer = read_pointer(files[latest_filename("default")], label="default", files=files)
        for row in pointer.entries or ():
            file = manifest_filename("default", row.snapshot_id)
            assert file in files, f"{row.snapshot_id} is listed, and gone"
            if self.texts.get(file) != files[file]:  # a conversion may bring back another one
                self.texts[file] = files[file]
                manifest = read_manifest(files[file], label="default", snapshot_id=row.snapshot_id)
                self.needs[file] = frozenset(manifest.part_files)
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
def small_chains(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "MAX_ON_BASE", 4)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)


def turns_of(verbs, chance):
    """Some turns, with few changes of client, which is where races are."""
    turns = []
    for _ in range(chance.randint(2, 8)):
        turns.append(Turn(chance.randrange(len(verbs)), chance.randint(1, 9), chance.choice((0, 0, 2))))
    return turns


def losses(verbs, scenes, seeds, *, kind, start_of=World, signer=None, left_open=()):
    """Of some random schedules, those that lose something: the scene, the seed, and what.

    ``kind`` is what they are counted as, and ``left_open`` the error that ends a schedule of which no more is claimed.
    """
    for scene in scenes:
        start = start_of(scene, signer)
        for seed in seeds:
            TRIED[kind] += 1
            try:
                world, listed, _ = play(start, verbs, turns_of(verbs, random.Random(seed)))
                if not seed % 20:
                    restores(world, listed)
            except left_open:
                TRIED[f"{kind}, left open"] += 1
            except (AssertionError, ColonyMemoryError) as error:
                yield scene, seed, repr(error)


def signer_of(signs):
    if not signs:
        return None
    pytest.importorskip("cryptography")
    return Ed25519Signer(bytes(range(32)))


async def is_there(*_, **__):
    """In the place of a proof that something is there."""
    return True
