"""Hosts that edit, save, go back and die under one label, for whole schedules of them over the real verbs.

A host is a folder of documents, its index (which outlives each command), and what it truly held. Each command is a
client of its own. What is checked after every step is said at :meth:`World.check` and :meth:`Host.backup`.
"""

from __future__ import annotations

import random
import warnings
from contextlib import suppress
from dataclasses import dataclass, field

from colony_memory import ColonyMemory, ColonyMemoryError, ConflictDetected, open_vault
from colony_memory._engine import restore as engine
from colony_memory._engine.basis import Basis
from colony_memory.testing import FaultyVault

# Long enough that no edit makes half of a memory of it.
FIRM = "".join(f"what everybody knows from the beginning, number {n}\n" for n in range(40))


class Killed(BaseException):
    """The process is gone."""


class Broken(AssertionError):
    """A property does not hold."""


@dataclass
class Index:
    """A folder's index: as it was written last. With ``left`` it is written so often before the process dies."""

    basis: Basis = field(default_factory=Basis)
    left: int | None = None

    def read(self):
        return self.basis

    def write(self, basis):
        if self.left is not None:
            if self.left == 0:
                raise Killed
            self.left -= 1
        self.basis = basis


def lines(documents):
    return {line for text in documents.values() for line in text.splitlines()}


@dataclass
class Scenario:
    """Which hosts there are, and what may happen."""

    hosts: int = 2
    keep: int = 2
    policies: tuple[str, ...] = ("raise",)
    edits: tuple[str, ...] = ("append", "replace")
    events: tuple[str, ...] = ("restore",)
    by_value: bool = False
    crashes: int = 0
    losses: int = 0
    cap: int | None = None
    steps: int = 14


@dataclass
class Host:
    """One host; ``held`` and ``known`` are the truth of what it had, and of what it was told."""

    world: World
    name: str
    docs: dict[str, str] = field(default_factory=dict)
    index: Index = field(default_factory=Index)
    held: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    step: dict[str, str] | None = None
    reverted: bool = False

    def client(self):
        mem = ColonyMemory(backend=self.world.vault, format=1)
        if self.world.scenario.by_value:
            mem._session.origins["default"] = self.name * 16
        else:
            mem._session.homes["default"] = self.index
        return mem

    def edit(self, kind):
        line = f"line {len(self.world.written)} of {self.name}\n"
        name = self.world.random.choice(["MEMORY.md", "notes.md"])
        if kind == "replace" and name in self.docs:
            self.world.removed |= lines({name: self.docs[name]}) - lines({"": FIRM})
            self.docs[name] = FIRM + line
        else:
            self.docs[name] = self.docs.get(name, FIRM) + line
        self.world.written |= lines({"": line})
        return f"{self.name} {kind}s {line.strip()!r} in {name}"

    def backup(self, policy, *, kill):
        """Save; the properties that one save must have are looked at right then.

        P2: whose place is taken without having been held is told. P3: one honest user is never told of another. PI:
        where nothing is new since the last time, nothing is written, and it is no conflict. P4: little piles up.
        """
        world, before = self.world, self.world.latest()
        old, listed = before and world.text(before), world.ids()
        idle = self.docs == self.step and not self.reverted and self.index.basis.snapshot_id in listed
        mem, told, what = self.client(), set[str](), "saves"
        if kill:
            self._arm()
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                info = mem.backup(dict(self.docs), on_conflict=policy, prune_keep=world.scenario.keep)
            told |= {info.diverged_from}
        except ConflictDetected as error:
            info, what = None, f"meets {error.theirs[-6:]}, stored {error.snapshot_id[-6:]}"
            told |= {error.theirs}
        except Killed:
            self._disarm()
            self.held |= {own for own in world.ids() - listed if world.text(own) == self.docs}
            return f"{self.name} saves ({policy}) and is killed"
        finally:
            self._disarm()
        told |= {before for warning in caught if before and before in str(warning.message)}
        if info is not None:
            what = f"{'finds' if info.reused else 'saves'} {info.snapshot_id[-6:]}"
        label = f"{self.name} backup({policy}) {what}{f', told of {before[-6:]}' if before and before in told else ''}"
        self.known |= told - {None}
        mine = None if info is None else info.snapshot_id
        silent = old is not None and before not in self.held | self.known | {mine}
        if mine is not None and silent and world.latest() == mine and not lines(old) <= lines(world.text(mine)):
            raise Broken(f"P2: {label}: takes the place of {before[-6:]}, which it never held, and says nothing")
        if idle and not world.scenario.by_value and before not in self.held and (info is None or not info.reused):
            raise Broken(f"PI: {label}: nothing was new")
        lacking = old is not None and not lines(old) <= lines(self.docs)
        if len(world.hosts) == 1 and (info is None or (told - {None} and policy != "merge" and not lacking)):
            raise Broken(f"P3: {label}: there is nobody else")
        if info is not None and mine == world.latest() and world.text(mine) == self.docs:
            self.held.add(mine)
            self.step, self.reverted = dict(self.docs), False
        if info is None or policy == "merge":
            self.held |= {own for own in world.ids() - listed if world.text(own) == self.docs}
        cap = world.scenario.cap
        if cap is not None and len(world.ids()) > cap:
            raise Broken(f"P4: {label}: {len(world.ids())} snapshots with keep={world.scenario.keep}")
        return label

    def _arm(self):
        vault, chance = self.world.vault, self.world.random
        how = chance.choice(["before", "after", "index"])
        if how == "index":
            self.index.left = chance.choice([0, 1, 2])
        else:
            match = chance.choice(["latest", ".manifest.", "latest"])
            vault.fail("upload", Killed(), match=match, times=1, after=how == "after")

    def _disarm(self):
        self.index.left = None
        self.world.vault.heal()

    def restore(self, snapshot_id=None, *, part=False):
        """Take a snapshot into the folder, if each document that is displaced is in a listed one."""
        world, mem = self.world, self.client()
        latest = world.latest()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            options = {"names": "MEMORY.md"} if part else {}
            try:
                found = mem._run(engine.restore, label="default", snapshot_id=snapshot_id, **options)
            except ValueError:
                return "it has no such part"
        target = found.info.snapshot_id
        what = f"{self.name} restores {'a part of ' if part else ''}{target[-6:]}"
        goal = {**self.docs, **found.documents}
        displaced = [name for name, text in self.docs.items() if goal[name] != text]
        if any(not world.has(name, self.docs[name]) for name in displaced):
            return f"{what}: refused"
        if snapshot_id is not None or part:
            world.removed |= lines(self.docs) - lines(goal)
            if latest in self.held and not part:
                world.removed |= lines(world.text(latest)) - lines(goal)
        self.known |= {own for own in world.ids() for warning in caught if own in str(warning.message)}
        self.docs = goal
        if found.basis is not None:
            self.index.write(found.basis)
        if not part:
            self.held.add(target)
            self.reverted = target != latest
            self.step = dict(found.documents) if target == latest else dict(goal)
        return what

    def join(self):
        """Merge a save of one's own that is not in the latest into the folder, as a restore offers it."""
        own = sorted(self.held & self.world.ids() - {self.world.latest()})
        if not own or not self.docs:
            return f"{self.name} has nothing to merge"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            merged = self.client().merge(dict(self.docs), snapshot_id=own[-1])
        self.world.removed |= lines(self.docs) - lines(merged.documents)  # as the snapshot's writer did
        self.docs = merged.documents
        return f"{self.name} merges {own[-1][-6:]} into its folder"


class World:
    def __init__(self, scenario, seed):
        self.scenario, self.random = scenario, random.Random(seed)
        self.inner = open_vault("memory:")
        self.vault = FaultyVault(self.inner)
        self.watch = ColonyMemory(backend=self.inner, format=1)
        self.written, self.removed = set[str](), set[str]()
        self.hosts = [Host(self, "abcdef"[n]) for n in range(scenario.hosts)]
        self.crashes, self.losses = scenario.crashes, scenario.losses
        self._texts = {}
        self.trace = []

    def latest(self):
        info = self.watch.latest()
        return None if info is None else info.snapshot_id

    def ids(self):
        return {info.snapshot_id for info in self.watch.list_snapshots()}

    def text(self, snapshot_id):
        if snapshot_id not in self._texts:
            self._texts[snapshot_id] = self._read(snapshot_id)
        return self._texts[snapshot_id]

    def _read(self, snapshot_id):
        return self.watch._run(engine.read, label="default", snapshot_id=snapshot_id).documents

    def has(self, name, text):
        return any(self.text(own).get(name) == text for own in self.ids())

    def run(self):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whoever only watches is not told
                for _ in range(self.scenario.steps):
                    self.trace.append(self.step())
                    self.check()
        except Broken as error:
            raise Broken("\n  ".join((str(error), *self.trace))) from error

    def step(self):
        chance, scenario = self.random, self.scenario
        host = chance.choice(self.hosts)
        kinds = ["edit", "edit", "backup", "backup", "backup", *(scenario.events if self.latest() else ())]
        kind = chance.choice(kinds)
        if kind == "edit":
            return host.edit(chance.choice(scenario.edits))
        if kind == "backup":
            if not host.docs:
                return f"{host.name} has nothing"
            kill = self.crashes > 0 and chance.random() < 0.5
            self.crashes -= kill
            return host.backup(chance.choice(scenario.policies), kill=kill)
        with suppress(ColonyMemoryError):
            if kind == "restore":
                return host.restore()
            if kind == "names":
                return host.restore(part=True)
            if kind == "join":
                return host.join()
            if kind == "back":
                refused = {info.snapshot_id for info in self.watch.list_snapshots() if info.refused}
                older = sorted(self.ids() - {self.latest()} - refused)
                return host.restore(chance.choice(older)) if older else "nothing to go back to"
        if self.losses == 0:
            return "nothing happens"
        self.losses -= 1
        return self.lose(host, kind)

    def lose(self, host, kind):
        if kind == "index":
            host.index = Index()
            return f"{host.name} loses its index"
        if kind == "delete":
            gone = str(self.latest())
            rest = set().union(
                *(lines(self.text(own)) for own in self.ids() - {gone}), *(lines(h.docs) for h in self.hosts)
            )
            self.removed |= lines(self.text(gone)) - rest
            self.watch.delete_snapshot(label="default", snapshot_id=gone)
            return f"somebody deletes {gone[-6:]}"
        if kind == "prune":
            self.watch.prune(label="default", keep=1)
            return "somebody prunes to 1"
        raise ValueError(kind)

    def check(self):
        """P1: no line is out of every folder and every listed snapshot unless its user has removed it knowingly."""
        there = set().union(*(lines(self.text(own)) for own in self.ids()), *(lines(host.docs) for host in self.hosts))
        lost = self.written - self.removed - there
        if lost:
            raise Broken(f"P1: {sorted(lost)} is nowhere")
