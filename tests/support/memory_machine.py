"""A state machine that compares a vault, used by several clients with faults and bad clocks, with a dict."""

import warnings
from datetime import datetime, timedelta, timezone

from counts import TRIED
from faces import PlainVault
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    RateLimited,
    SnapshotNotFound,
    VaultUnavailable,
)
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.testing.faults import ProcessDied

START = datetime(2026, 6, 1, tzinfo=timezone.utc)
DOCUMENTS = st.dictionaries(st.sampled_from(["a.md", "b.md", "ü"]), st.text(max_size=40), min_size=1, max_size=3)
FAULTS = st.one_of(
    st.none(),
    st.none(),
    st.tuples(st.sampled_from(["dies", "503", "applied, then times out", "down", "rate limited"]), st.integers(1, 14)),
)
JUMPS = st.sampled_from([timedelta(seconds=1), timedelta(hours=2), timedelta(days=365), timedelta(days=-365)])
CLIENTS = st.integers(0, 1)


def strike(vault, fault):
    """Inject a fault of those above, None for none, into the n-th call."""
    what, n = fault or ("", 0)
    if what == "dies":
        vault.stop_after(n, applied=bool(n % 2))
    elif what == "503":
        vault.fail("*", VaultUnavailable("503", status=503), skip=n - 1, times=1)
    elif what == "down":
        vault.fail("*", ConnectionError("down"), skip=n - 1)
    elif what == "rate limited":
        vault.fail("upload", RateLimited("429", status=429, retry_after=9), skip=n - 1)
        vault.fail("delete", RateLimited("429", status=429, retry_after=9), skip=n - 1)
    elif what == "applied, then times out":
        vault.fail("*", TimeoutError("slow"), skip=n - 1, times=1, after=True)


class MemoryMachine(RuleBasedStateMachine):
    """Two clients of this package over one vault.

    Attributes:
        known: What every snapshot holds that was ever acknowledged or seen, by id.
        heads: Contents that ``restore`` may give.
        after_a_backup: What becomes of a warning at the first restore after a backup that is done.
        of_a_list: What becomes of a warning of a list.
    """

    after_a_backup = of_a_list = "error"
    #: What backups may be written in.
    formats = (None,)

    def __init__(self):
        super().__init__()
        self.now = START
        self.skew = [timedelta(0), timedelta(0)]
        self.known = {}
        self.heads = [None]

    @initialize(full=st.booleans())
    def open_vault(self, full):
        self.fake = FakeVault(operations_per_hour=None, clock=lambda: self.now.timestamp())  # noqa: PLW0108 - it moves
        self.vault = self.fake if full else PlainVault(self.fake)

    def client(self, number, fault=None, **options):
        vault = FaultyVault(self.vault)
        strike(vault, fault)
        mem = ColonyMemory(backend=vault, **self.options(), **options)
        mem._session.now = lambda: self.now + self.skew[number]
        return mem

    def options(self):
        return {}

    def restored(self, number, *, warnings_are="ignore"):
        """What a client gives that has just started, None where there is nothing."""
        with warnings.catch_warnings():
            # A first backup that died between its manifest and its pointer leaves a snapshot without a pointer.
            warnings.simplefilter(warnings_are, ColonyMemoryWarning)
            try:
                return self.client(number).restore()
            except SnapshotNotFound:
                return None

    def attempt(self, run, mem):
        """What the verb returned, or None where it raised or died."""
        TRIED["state machine: verbs"] += 1
        self.now += timedelta(seconds=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            try:
                return run(mem)
            except (ColonyMemoryError, ProcessDied):
                return None

    def filled(self, documents):
        return documents

    @rule(
        number=CLIENTS,
        documents=DOCUMENTS,
        fault=FAULTS,
        keep=st.sampled_from([None, None, 1, 3]),
        which=st.integers(0, 5),
    )
    def back_up(self, number, documents, fault, keep, which):
        documents, wire = self.filled(documents), self.formats[which % len(self.formats)]
        client = self.client(number, fault, format=wire)
        info = self.attempt(lambda mem: mem.backup(documents, prune_keep=keep), client)
        if info is None:
            self.heads.append(documents)
            self.learn(documents)
        else:
            assert self.known.setdefault(info.snapshot_id, documents) == documents
            self.heads = [documents]
            assert self.restored(0, warnings_are=self.after_a_backup) == documents

    @rule(number=CLIENTS, fault=FAULTS, keep=st.integers(0, 3))
    def prune(self, number, fault, keep):
        self.attempt(lambda mem: mem.prune(label="default", keep=keep), self.client(number, fault))

    @precondition(lambda self: self.known)
    @rule(number=CLIENTS, fault=FAULTS, which=st.integers(0, 9))
    def delete(self, number, fault, which):
        ids = sorted(self.known)
        victim = ids[which % len(ids)]
        self.attempt(lambda mem: mem.delete_snapshot(label="default", snapshot_id=victim), self.client(number, fault))
        # The pointer moves to the newest good one left, whichever that is, or goes with the last.
        self.heads += [*self.known.values(), None]
        self.settle()

    @rule(number=CLIENTS, jump=JUMPS)
    def clock_jumps(self, number, jump):
        self.skew[number] = jump

    @rule()
    def an_hour_passes(self):
        self.now += timedelta(hours=1, minutes=5)

    def learn(self, documents):
        """A backup that failed may have stored its snapshot: whatever is new in the list is what it was saving."""
        for info in self.listed():
            self.known.setdefault(info.snapshot_id, documents)

    def listed(self):
        with warnings.catch_warnings():
            warnings.simplefilter(self.of_a_list, ColonyMemoryWarning)
            return self.client(0).list_snapshots()

    def settle(self):
        self.heads = [self.restored(0)]

    @invariant()
    def what_is_listed_restores(self):
        if not hasattr(self, "fake"):
            return
        reader = self.client(0)
        for info in self.listed():
            assert reader.restore(snapshot_id=info.snapshot_id) == self.known[info.snapshot_id]

    @invariant()
    def the_latest_is_what_was_saved_last(self):
        if not hasattr(self, "fake"):
            return
        assert self.restored(1) in self.heads

    def teardown(self):
        """Whatever happened, the next backup and prune succeed and leave no leftover once it has aged."""
        if not hasattr(self, "fake"):
            return
        self.skew = [timedelta(0), timedelta(0)]
        last = {"last": "one"}
        self.now += timedelta(hours=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            mem = self.client(0)
            mem.backup(last)
            mem.prune(label="default", keep=2)
            assert mem.restore() == last
            assert self.client(1).verify()
        self.nothing_is_left_over()

    def nothing_is_left_over(self):
        """Each snapshot has its parts, and nothing else has any."""
        manifests = {name.split(".")[2] for name in self.fake.files if name.endswith(".manifest.json")}
        assert {name.split(".")[2] for name in self.fake.files if ".p0." in name} == manifests
