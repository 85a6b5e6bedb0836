"""Signing clients at once, in every order of their vault calls: what they saved is found, and nothing is refused."""

import itertools
import json
import warnings

import pytest
from counts import TRIED
from signed_histories import OWN, as_0_1_1_leaves_them, check_each_signature_once
from test_interleavings import MINE, NOW, OLD, OPTIONS, Search, client, vault_of, verbs

from colony_memory import ColonyMemory, ColonyMemoryWarning, ConflictDetected, RollbackDetected, UntrustedSnapshot
from colony_memory._engine.backup import backup
from colony_memory._format.names import latest_filename, manifest_filename, new_id
from colony_memory.snapshot import build
from colony_memory.testing import FakeVault, FaultyVault

pytestmark = [pytest.mark.exhaustive, pytest.mark.long]

SIGNS = {"signer": OWN}
#: One that signs where others do not, and the same without a signer.
BESIDE = {"signer": OWN, "accept_legacy_pointer": True}
LENIENT = {**BESIDE, "require_signature": False}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    check_each_signature_once(monkeypatch)


def prepared(**options):
    fake = FakeVault(operations_per_hour=None, clock=NOW.timestamp)
    mem = ColonyMemory(backend=fake, **options)
    mem._session.now = lambda: NOW
    for documents in OLD:
        mem.backup(documents)
    return fake


def find(files, *, untrusted="error", **options):
    """What a client finds that has just started: every snapshot that it lists, and the latest."""
    vault = vault_of(files)
    new = ColonyMemory(backend=vault, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)  # a snapshot that is newer than the pointer is told of
        warnings.filterwarnings(untrusted, "a snapshot of label .* is left out", ColonyMemoryWarning)
        listed = {info.snapshot_id: new.restore(snapshot_id=info.snapshot_id) for info in new.list_snapshots()}
        try:
            latest = ColonyMemory(backend=vault, **options).restore()
        except RollbackDetected:
            return listed, None
    assert latest in listed.values()
    return listed, latest


def recover(files, **options):
    vault = vault_of(files)
    new = ColonyMemory(backend=vault, **options)
    new._session.now = lambda: NOW.replace(minute=30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        # A retention looks at what is there, and lists no more: without conditional uploads a row may come back.
        new.backup({"m": "next"}, prune_keep=9)
    assert ColonyMemory(backend=vault, **options).restore() == {"m": "next"}
    assert ColonyMemory(backend=vault, **options).verify()


def acknowledged(outcomes, who):
    """Id of what a verb saved, None where it did not come to its end, or another one came first."""
    what, value = outcomes[who]
    if what == "done":
        return value.snapshot_id
    if what == "raised":
        assert isinstance(value, ConflictDetected), value
    return None


def count(search, states, vaults):
    TRIED["interleavings, signed: states"] += len(states)
    TRIED["interleavings, signed: different vaults that a crash leaves"] += len(vaults)
    assert len(states) > 500
    assert any(all(what != "call" for what, _ in search.outcomes(state).values()) for state in states)


@pytest.mark.parametrize(("kind", "seconds"), [("full", {"A": 7, "B": 5}), ("plain", {"A": 5, "B": 7})])
def test_two_signing_clients_and_a_prune(kind, seconds):
    search = Search(lambda: verbs(kind, None, seconds, **SIGNS), keeps=True)
    states = search.run(prepared(**SIGNS).files)
    found = {}
    for state in states:
        if state.files not in found:
            found[state.files] = find(state.files, **SIGNS)
        listed, latest = found[state.files]
        outcomes = search.outcomes(state)
        saved = [i for i in (acknowledged(outcomes, "A"), acknowledged(outcomes, "B")) if i is not None]
        assert outcomes["P"][0] != "raised" or isinstance(outcomes["P"][1], ConflictDetected), outcomes["P"]
        if saved:
            assert max(listed) >= max(saved)
            # Without conditional uploads the later of two pointer writes wins; both snapshots are listed all the same.
            assert kind == "plain" or latest in [docs for i, docs in listed.items() if i >= max(saved)]
        # The prune wrote over the pointer of a backup on top of which another one was made: that shows.
        assert latest is not None or (kind == "plain" and saved)
    for state in itertools.islice(reversed(states), 0, None, 97):
        recover(state.files, **SIGNS)
    count(search, states, found)


async def published_backup(session, documents):
    """What 0.1.1 does, as far as a vault can tell: part, manifest, and a bare pointer over whatever is there."""
    await session.vault.status()
    snapshot_id = new_id(session.now(), session.token(), [])
    built = build(
        documents,
        label="default",
        snapshot_id=snapshot_id,
        created_at=session.stamp(),
        signer=None,
        previous=None,
        max_bytes=10**6,
    )
    for name, text in built.files.items():
        await session.vault.put(name, text)
    pointer = {
        "format": "colony-memory/latest/1",
        "label": "default",
        "snapshot_id": snapshot_id,
        "manifest_file": manifest_filename("default", snapshot_id),
        "updated_at": session.stamp(),
    }
    await session.vault.put(latest_filename("default"), json.dumps(pointer))
    return built.info


def three_writers(policy):
    """One that signs, one of this package that does not, and 0.1.1."""
    return {
        "A": backup(client("full", "a", 5, **policy), MINE["A"], prune_keep=None, **OPTIONS),
        "B": backup(client("full", "b", 7), MINE["B"], prune_keep=None, **OPTIONS),
        "L": published_backup(client("full", "c", 9), {"m": "of 0.1.1"}),
    }


@pytest.mark.parametrize("policy", [BESIDE, LENIENT], ids=["signed snapshots only", "unsigned snapshots too"])
@pytest.mark.parametrize("bare", [False, True], ids=["pointer signed", "pointer of 0.1.1"])
def test_a_signing_client_beside_others(policy, bare):
    fake = prepared(**SIGNS)
    if bare:
        as_0_1_1_leaves_them(fake, OWN)
    search = Search(lambda: three_writers(policy), "ABL", keeps=True)
    states = search.run(fake.files)
    found = {}
    for state in states:
        if state.files not in found:
            found[state.files] = find(state.files, untrusted="ignore", **policy), find(state.files)
        (listed, latest), (everything, _) = found[state.files]
        outcomes = search.outcomes(state)
        saved = {who: acknowledged(outcomes, who) for who in "ABL"}
        for who, snapshot_id in saved.items():
            if snapshot_id is not None:
                assert snapshot_id in everything
                assert who != "A" or snapshot_id in listed
        if policy is BESIDE and saved["A"] is not None:
            assert latest == MINE["A"]
    count(search, states, found)


def test_without_being_told_of_0_1_1_a_signing_client_refuses_its_pointer():
    fake = prepared(**SIGNS)
    pointer = json.loads(fake.files[latest_filename("default")])
    bare = {key: pointer[key] for key in ("format", "label", "snapshot_id", "manifest_file", "updated_at")}
    fake.vault_upload_file(latest_filename("default"), json.dumps(bare))
    with pytest.raises(UntrustedSnapshot, match="its pointers have to be accepted"):
        ColonyMemory(backend=fake, **SIGNS).restore()
    assert ColonyMemory(backend=fake, **BESIDE).restore() == OLD[1]


def is_told(info):
    """A backup that is the latest, or says what is."""
    return info.head or info.diverged_from


#: What is done, and whether what it gave is true of some moment meanwhile.
VERBS = {
    "restore": (lambda mem: mem.restore(), lambda got: got in (OLD[1], {"m": "of another 2"})),
    "latest": (lambda mem: mem.latest(), lambda info: info.label == "default"),
    "list_snapshots": (lambda mem: mem.list_snapshots(), len),
    "verify": (lambda mem: mem.verify(), bool),
    "prune": (lambda mem: mem.prune(label="default", keep=2), lambda deleted: deleted is not None),
    "plan_prune": (lambda mem: mem.plan_prune(label="default", keep=2), lambda plan: plan is not None),
    "backup": (lambda mem: mem.backup({"m": "mine"}, on_conflict="continue"), is_told),
    "unchanged backup": (lambda mem: mem.backup(OLD[1], on_conflict="continue"), is_told),
}


@pytest.mark.parametrize("options", [SIGNS, {}], ids=["signed", "unsigned"])
@pytest.mark.parametrize("keep", [None, 1])
@pytest.mark.parametrize("verb", sorted(VERBS))
def test_others_save_at_any_moment_of_a_verb(verb, keep, options):
    run, is_good = VERBS[verb]
    place, struck = 0, True
    while struck:
        fake = prepared(**options)
        vault = FaultyVault(fake)
        turns = itertools.count()

        def others(fake=fake, turns=turns, place=place):
            if next(turns) == place:
                mem = ColonyMemory(backend=fake, **options)
                for n in range(3):
                    mem.backup({"m": f"of another {n}"}, prune_keep=keep)

        vault.hook("*", others, times=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            got = run(ColonyMemory(backend=vault, **options))
        assert is_good(got), (place, got)
        struck = next(turns) > place
        place += 1
        TRIED["others save in the middle of a verb"] += 1
