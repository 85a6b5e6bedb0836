"""Copies and imports beside clients that save, delete, prune and copy too, in every order of their vault calls.

What is listed restores, nobody honest is refused, what was removed does not come back, and doing it again completes it.
"""

import itertools
import warnings

import pytest
from counts import TRIED
from faces import PlainVault
from test_interleavings import NOW, OLD, OPTIONS, Search, client, vault_of
from transfers import VERSIONS, contents, fake, hours_later

from colony_memory import (
    ColonyMemory,
    ColonyMemoryWarning,
    ConflictDetected,
    Ed25519Signer,
    PruneIncomplete,
    SnapshotNotFound,
    VaultError,
    VaultUnavailable,
)
from colony_memory._engine.backup import backup
from colony_memory._engine.prune import delete_snapshot, prune
from colony_memory._engine.transfer import copy
from colony_memory.retention import Retention
from colony_memory.testing import FakeVault, FaultyVault

pytestmark = [pytest.mark.exhaustive, pytest.mark.long]


def other_source(*, signer=None):
    """A vault whose one snapshot is to be brought, older than all that is at its destination."""
    source = ColonyMemory(backend=FakeVault(operations_per_hour=None), signer=signer)
    source._session.now = lambda: NOW.replace(month=1)
    source._session.token = lambda: "0000ff"
    source.backup({"m": "brought"})
    return source


SOURCE = other_source()
EXPORT = SOURCE.export_snapshot()


class Failing(type(client("full", "0", 0).vault)):
    """Its manifests are refused, so that the client takes back what it wrote."""

    async def _call(self, method, *args, **kwargs):
        if "upload" in method and args[0].endswith(".manifest.json"):
            raise VaultUnavailable("503", status=503)
        return await super()._call(method, *args, **kwargs)


def failing(kind, digit):
    session = client(kind, digit, 9)
    session.vault = Failing(session.vault.backend)
    return session


VERBS = {
    "I": lambda kind: client(kind, "a", 8).import_snapshot(EXPORT, label=None, dry_run=False),
    "J": lambda kind: client(kind, "b", 8).import_snapshot(EXPORT, label=None, dry_run=False),
    "F": lambda kind: failing(kind, "c").import_snapshot(EXPORT, label=None, dry_run=False),
    "C": lambda kind: copy(SOURCE._session, client(kind, "d", 8), labels=None, progress=None, dry_run=False),
    "D": lambda kind: delete_snapshot(client(kind, "e", 9), label="default", snapshot_id=EXPORT.snapshot_id),
    "P": lambda kind: prune(client(kind, "f", 9), label="default", policy=Retention(keep_last=1)),
    "A": lambda kind: backup(client(kind, "7", 9), {"m": "of A"}, prune_keep=1, **OPTIONS),
}


@pytest.mark.parametrize("kind", ["full", "plain"])
@pytest.mark.parametrize(
    ("names", "there"),
    [
        *itertools.product(["ID", "IP", "IJ", "IF", "CD"], ["is not there", "is there", "lost a part"]),
        ("CA", "is not there"),
    ],
)
def test_every_order_of_calls(names, there, kind):
    vault = FakeVault(operations_per_hour=None, clock=NOW.timestamp)
    old = ColonyMemory(backend=vault)
    old._session.now = lambda: NOW
    for docs in OLD:
        old.backup(docs)
    if there != "is not there":
        old.import_snapshot(EXPORT)
    if there == "lost a part":
        del vault.files[f"cmem.default.{EXPORT.snapshot_id}.p0.json"]
    search = Search(lambda: {name: VERBS[name](kind) for name in names}, names, keeps=False)
    search.is_private = lambda call: call[0] == "vault_status"
    states = search.run(vault.files)
    checked = {}
    for state in states:
        if state.files not in checked:
            checked[state.files] = found(state.files)
        listed, broken = checked[state.files]
        outcomes = search.outcomes(state)
        for who, (what, value) in outcomes.items():
            allowed = (ConflictDetected, SnapshotNotFound, PruneIncomplete, VaultError)
            assert what != "raised" or isinstance(value, allowed), (who, value)
        ended = all(what != "call" for what, _ in outcomes.values())
        # Without conditions the later of two pointers wins, and may name what a retention removed.
        overtaken = kind == "plain" and names == "CA"
        deleted = "D" in names and not (ended and kind == "full")
        assert not broken or there == "lost a part" or deleted or overtaken, broken
        if names == "IF" and outcomes["I"][0] == "done":
            assert EXPORT.snapshot_id in listed
    TRIED["interleavings: states of transfers and others"] += len(states)
    assert len(states) > 20


def found(files):
    """What a new client lists, all of which restores, and what it warns of, which is nothing that is committed."""
    vault = vault_of(files)
    memory = ColonyMemory(backend=vault)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        infos = memory.list_snapshots()
        assert memory.restore() in [memory.restore(snapshot_id=info.snapshot_id) for info in infos]
    return {info.snapshot_id for info in infos}, [str(each.message) for each in told]


# --- whole verbs of other clients between two calls of a copy


def beside(act, at, vault):
    """The vault, with something that happens once, before its call number ``at``."""
    calls, done = [0], []

    def step():
        calls[0] += 1
        if calls[0] == at:
            done.append(1)
            act()

    faulty = FaultyVault(vault)
    faulty.hook("*", step, times=None)
    return faulty, done


def meddle(memory, do):
    """What others do to a label: save, with a retention or not, delete the oldest or the latest, prune."""
    ids = [info.snapshot_id for info in memory.list_snapshots()]
    if do == "saves":
        memory.backup({"m": "in between"}, on_conflict="continue")
    elif do == "saves and retires":
        memory.backup({"m": "in between"}, prune_keep=1, on_conflict="continue")
    elif do == "deletes the oldest":
        memory.delete_snapshot(label="default", snapshot_id=ids[-1])
    elif do == "deletes the latest":
        memory.delete_snapshot(label="default", snapshot_id=ids[0])
    else:
        memory.prune(label="default", keep=1)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("do", ["saves", "saves and retires", "deletes the oldest", "deletes the latest", "prunes"])
def test_a_copy_whose_source_changes(do, signed, plain):
    """What changes where it goes to is tried with the pairs of verbs."""
    if signed:
        pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32))) if signed else None
    at, happened = 0, [1]
    while happened:
        at += 1
        here, there = fake(), fake()
        seen = [PlainVault(vault) if plain else vault for vault in (here, there)]
        agent, owner = (ColonyMemory(backend=vault, signer=signer) for vault in seen)
        for docs in VERSIONS[:2]:
            agent.backup(docs)
        agent.copy_to(owner)
        agent.backup(VERSIONS[2])
        for vault in (here, there):
            hours_later(vault)
        other = ColonyMemory(backend=seen[0], signer=signer)
        faulty, happened = beside(lambda other=other: meddle(other, do), at, seen[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            ColonyMemory(backend=faulty, signer=signer).copy_to(ColonyMemory(backend=seen[1], signer=signer))
        check_target(there, owner, signed, plain)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            assert not agent.copy_to(owner).left_out
            listed = {info.snapshot_id for info in owner.list_snapshots()}
        assert {info.snapshot_id for info in agent.list_snapshots()} <= listed
        TRIED["interleavings: a copy beside another verb"] += 1
    assert at > 5


def check_target(target, owner, signed, plain):
    """What is listed restores, nothing is refused, and a signed label verifies."""
    new = ColonyMemory(backend=target, signer=owner._session.signer)
    with warnings.catch_warnings():
        # Where nothing is written on condition, the later of two pointers wins, which a reader warns of.
        warnings.simplefilter("ignore" if plain else "error", ColonyMemoryWarning)
        contents(new)
        assert new.restore() in [*VERSIONS, {"m": "in between"}]
    if signed and not plain:
        assert new.verify()
