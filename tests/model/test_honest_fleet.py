"""Many honest clients over one vault, with faults: none of them is ever told of an attack over what they saved.

Two clients that sign and keep witnesses of their own, one that prunes, one that deletes, one that imports and copies,
and 0.1.1 beside them where its pointers are accepted. Replies are lost, torn and garbled, clients die, the vault loses
the pointer. The vault writes on condition.
"""

import itertools
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from counts import TRIED
from faces import DictWitness
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from memory_machine import FAULTS as ANY_FAULT
from memory_machine import strike
from signed_histories import OWN, POINTER, check_each_signature_once
from test_interleavings import published

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, SnapshotNotFound, UntrustedSnapshot
from colony_memory._format.names import new_id
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

pytestmark = [pytest.mark.exhaustive, pytest.mark.long]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    check_each_signature_once(monkeypatch)


START = datetime(2026, 6, 1, tzinfo=timezone.utc)
FAULTS = st.one_of(ANY_FAULT, st.tuples(st.just("garbled pointer"), st.integers(1, 3)))
WHO = st.sampled_from("AB")


def garble(vault, n):
    """The n-th read of a pointer gives its second half alone."""
    turns = itertools.count(1)

    def half(got):
        return {**got, "content": got["content"][len(got["content"]) // 2 :]} if next(turns) == n else got

    vault.lie("get", half, match=POINTER)


class HonestFleet(RuleBasedStateMachine):
    """The clients, and what each of their backups that was acknowledged holds."""

    def __init__(self):
        super().__init__()
        self.now = START
        self.count = 0
        self.saved = {}
        self.imported = set()
        self.lost = False

    @initialize(legacy=st.booleans())
    def open_vault(self, legacy):
        self.legacy = legacy
        self.fake = FakeVault(operations_per_hour=None, clock=self.clock)
        self.elsewhere = FakeVault(operations_per_hour=None, clock=self.clock)
        self.witnesses = {"A": DictWitness(), "B": DictWitness(), "": None}

    def clock(self):
        return self.now.timestamp()

    def client(self, who="", fault=None, vault=None, meanwhile=None):
        """One that has just started; ``meanwhile`` is done before each of its calls."""
        vault = FaultyVault(vault or self.fake)
        if meanwhile is not None:
            vault.hook("*", meanwhile, times=None)
        if fault is not None and fault[0] == "garbled pointer":
            garble(vault, fault[1])
        strike(vault, fault)
        options = {"signer": OWN, "witness": self.witnesses[who], "accept_legacy_pointer": self.legacy}
        mem = ColonyMemory(backend=vault, **options)
        mem._session.now = lambda: self.now
        return mem

    def attempt(self, run, mem):
        """What it gave, None where it failed; whatever it says of an attack is wrong."""
        TRIED["honest fleet: verbs"] += 1
        self.now += timedelta(seconds=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            try:
                return run(mem)
            except UntrustedSnapshot:
                # While the pointer is lost nobody can tell who took it.
                if not self.lost:
                    raise
            except (ColonyMemoryError, ProcessDied):
                return None

    def memory(self):
        self.count += 1
        return {"m": f"memory {self.count}"}

    @rule(
        who=WHO, fault=FAULTS, keep=st.sampled_from([None, None, 3]), on_conflict=st.sampled_from(["raise", "continue"])
    )
    def backs_up(self, who, fault, keep, on_conflict):
        documents = self.memory()
        options = {"prune_keep": keep, "on_conflict": on_conflict}
        info = self.attempt(lambda mem: mem.backup(documents, **options), self.client(who, fault))
        if info is not None:
            self.saved[info.snapshot_id] = documents
            self.lost = False
        if keep is not None:
            self.saved = {}

    @rule(who=WHO, first=st.integers(0, 9))
    def two_back_up_at_once(self, who, first):
        """The other one saves in the middle of a backup."""
        mine, theirs = self.memory(), self.memory()
        other, calls = self.client("B" if who == "A" else "A"), itertools.count()

        def save():
            if next(calls) == first:
                info = self.attempt(lambda each: each.backup(theirs, on_conflict="continue"), other)
                if info is not None:
                    self.saved[info.snapshot_id] = theirs

        mem = self.client(who, meanwhile=save)
        info = self.attempt(lambda each: each.backup(mine, on_conflict="continue"), mem)
        if info is not None:
            self.saved[info.snapshot_id] = mine
            self.lost = False

    @rule(fault=FAULTS, keep=st.integers(1, 4))
    def prunes(self, fault, keep):
        self.attempt(lambda mem: mem.prune(label="default", keep=keep), self.client("", fault))
        self.saved = {}

    @precondition(lambda self: self.saved)
    @rule(who=WHO, fault=FAULTS, which=st.integers(0, 9))
    def deletes(self, who, fault, which):
        ids = sorted(self.saved)
        victim = ids[which % len(ids)]
        self.attempt(lambda mem: mem.delete_snapshot(label="default", snapshot_id=victim), self.client(who, fault))
        self.saved.pop(victim)

    @precondition(lambda self: not self.legacy)
    @rule(fault=FAULTS, whole=st.booleans())
    def brings_in(self, fault, whole):
        """A snapshot, or a label, of another vault of the same key; what a pointer of 0.1.1 would not say."""
        source = self.client("", vault=self.elsewhere)
        documents = self.memory()
        info = source.backup(documents)
        exported = source.export_snapshot(snapshot_id=info.snapshot_id)
        mem = self.client("", fault)
        run = source.copy_to if whole else mem.import_snapshot
        if not self.attempt(lambda _: run(mem if whole else exported), mem):
            # What broke off before its pointer looks like a pointer that was taken away or put back.
            self.lost = True
        elif not self.lost:
            self.saved[info.snapshot_id] = documents
            self.imported.add(info.snapshot_id)

    @precondition(lambda self: self.legacy)
    @rule()
    def saves_with_0_1_1(self):
        self.now += timedelta(seconds=1)
        documents, each = self.memory(), new_id(self.now, "0a1b1c", [])
        for name, text in published(documents, each, "x", signer=OWN)[1].items():
            self.fake.vault_upload_file(name, text)
        self.saved[each] = documents

    @precondition(lambda self: POINTER in self.fake.files)
    @rule(garbled=st.booleans())
    def the_vault_loses_the_pointer(self, garbled):
        if garbled:
            self.fake.vault_upload_file(POINTER, self.fake.files[POINTER][9:])
        else:
            self.fake.vault_delete_file(POINTER)
        self.lost = True
        # That they belong here the catalogue alone said.
        self.saved = {each: held for each, held in self.saved.items() if each not in self.imported}

    @rule()
    def an_hour_passes(self):
        self.now += timedelta(hours=1, minutes=5)

    @invariant()
    def nobody_is_told_of_an_attack(self):
        if not hasattr(self, "fake"):
            return
        for who in ("A", "B", ""):
            mem = self.client(who)
            try:
                self.attempt(lambda each: each.restore(), mem)
                self.attempt(lambda each: each.list_snapshots(), mem)
            except SnapshotNotFound:
                assert not self.saved
        for snapshot_id, documents in self.saved.items():
            assert self.client().restore(snapshot_id=snapshot_id) == documents

    @invariant()
    def what_was_saved_is_listed(self):
        if not hasattr(self, "fake") or self.lost:
            return
        for who in ("A", "B", ""):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                listed = {info.snapshot_id for info in self.client(who).list_snapshots()}
            assert self.saved.keys() <= listed


HonestFleet.TestCase.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
TestHonestFleet = HonestFleet.TestCase
