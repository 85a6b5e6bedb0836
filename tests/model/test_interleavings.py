"""Two backups and a prune at once, in every order of their vault calls, each able to die anywhere; signed too.

Each verb is a coroutine that hands out one vault call at a time. The calls of three of them are applied to one vault in
every possible order. What a verb does next depends only on the replies it has had, so states in which the vault and all
replies are equal are one state, and every reachable state is visited. In each of them all three may die: the checks run
on the vault as it is then, which covers every subset of deaths at every place, since a verb that died is one that is
never given its next turn.
"""

from __future__ import annotations

import itertools
import json
import warnings
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest
from counts import TRIED
from faces import PlainVault
from stepped import Stepped

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, ConflictDetected, RollbackDetected
from colony_memory._engine.backup import backup
from colony_memory._engine.prune import prune
from colony_memory._engine.session import Session
from colony_memory._format.names import latest_filename, manifest_filename, new_id
from colony_memory.retention import Retention
from colony_memory.snapshot import build
from colony_memory.testing import FakeVault

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)
pytestmark = [pytest.mark.exhaustive, pytest.mark.long]


class OneId(Session):
    """A client whose ids end in its own digit, so that two runs of it are equal."""

    digit = "0"

    def token(self):
        return self.digit * 6

    def draw_stream(self):
        return self.digit * 16


def client(kind, digit, seconds, **options):
    backend = FakeVault(operations_per_hour=None)
    session = OneId(
        Stepped(backend if kind == "full" else PlainVault(backend)),
        **{"signer": None, "max_bytes": 10**6, "now": lambda: NOW.replace(second=seconds), **options},
    )
    session.digit = digit
    return session


OPTIONS = {"signer": None, "retention": None, "skip_unchanged": True, "on_conflict": "raise", "label": "default"}
OLD = [{"m": "one"}, {"m": "two"}]
MINE = {"A": {"m": "of A"}, "B": {"m": "of B"}}


def verbs(kind, keep, seconds, **options):
    return {
        "A": backup(client(kind, "a", seconds["A"], **options), MINE["A"], prune_keep=keep, **OPTIONS),
        "B": backup(client(kind, "b", seconds["B"], **options), MINE["B"], prune_keep=None, **OPTIONS),
        "P": prune(client(kind, "c", 9, **options), label="default", policy=Retention(keep_last=1)),
    }


class State(NamedTuple):
    """The vault's files, and the replies that each verb has had."""

    files: frozenset
    replies: tuple[tuple[Any, ...], ...]


class Search:
    """Every state that several verbs can reach together.

    ``verbs`` makes them anew, by names of one letter; ``keeps`` says that none deletes what another one reads.
    """

    def __init__(self, verbs, names="ABP", *, keeps):
        self.verbs, self.names, self.keeps = verbs, names, keeps
        self.next_call = {}
        self.seen = {}

    def pending(self, who, replies):
        """The next call of a verb after these replies, or how it ended."""
        key = (who, replies)
        if key not in self.next_call:
            verb = self.verbs()
            for other in verb.keys() - {who}:
                verb[other].close()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ColonyMemoryWarning)
                    call = verb[who].send(None)
                    for reply in replies:
                        call = verb[who].send(thaw(reply))
                self.next_call[key] = ("call", call)
            except StopIteration as done:
                self.next_call[key] = ("done", done.value)
            except ColonyMemoryError as error:
                self.next_call[key] = ("raised", error)
            verb[who].close()
        return self.next_call[key]

    def run(self, files):
        start = State(frozenset(files.items()), ((),) * len(self.names))
        todo = [start]
        while todo:
            state = todo.pop()
            if state in self.seen:
                continue
            self.seen[state] = None
            for place, who in enumerate(self.names):
                files, own = state.files, state.replies[place]
                what, call = self.pending(who, own)
                if what != "call":
                    continue
                files, reply = apply(files, call)
                own = (*own, reply)
                while (follow := self.pending(who, own))[0] == "call" and self.is_private(follow[1]):
                    files, reply = apply(files, follow[1])
                    own = (*own, reply)
                replies = (*state.replies[:place], own, *state.replies[place + 1 :])
                todo.append(State(files, replies))
        return self.seen

    def outcomes(self, state):
        return {who: self.pending(who, replies) for who, replies in zip(self.names, state.replies, strict=True)}

    def is_private(self, call):
        """A call that no other verb can tell apart from its neighbours.

        Asking for the quota, writing and deleting parts of one's own, and reading what nobody else deletes happen
        together with the call before them; dying between them is what the crash points try.
        """
        method, args, _ = call
        if method in ("vault_upload_file", "vault_delete_file"):
            return ".p0." in args[0]
        if method == "vault_get_file":
            return self.keeps and ".latest." not in args[0]
        return method == "vault_status"


def apply(files, call):
    method, args, options = call
    vault = vault_of(files)
    try:
        reply = getattr(vault, method)(*args, **dict(options))
    except Exception as error:
        reply = error
    return frozenset(vault.files.items()), freeze(reply)


def vault_of(files):
    """A vault with these files; its clock stands still, so that equal files are equal replies."""
    vault = FakeVault(operations_per_hour=None, clock=NOW.timestamp)
    vault.files.update(sorted(files))
    return vault


def freeze(reply):
    if isinstance(reply, dict):
        return ("dict", *((key, freeze(value)) for key, value in reply.items()))
    if isinstance(reply, list):
        return ("list", *map(freeze, reply))
    if isinstance(reply, Exception):
        return ("error", type(reply), str(reply), reply.status, reply.code)
    return ("value", reply)


def thaw(reply):
    kind, *rest = reply
    if kind == "dict":
        return {key: thaw(value) for key, value in rest}
    if kind == "list":
        return [thaw(value) for value in rest]
    if kind == "error":
        cls, text, status, code = rest
        return cls(text, status, {}, code)
    return rest[0]


def prepared(**options):
    fake = FakeVault(operations_per_hour=None, clock=NOW.timestamp)
    mem = ColonyMemory(backend=fake, **options)
    mem._session.now = lambda: NOW
    for documents in OLD:
        mem.backup(documents)
    return fake


def find(files, *, told="error", **options):
    """What a client finds that has just started: every snapshot that it lists, and the latest, None where it refuses.

    ``told`` is what becomes of a warning.
    """
    vault = vault_of(files)
    new = ColonyMemory(backend=vault, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if options else told, ColonyMemoryWarning)  # one may be newer than the pointer
        warnings.filterwarnings(told, "a snapshot of label .* is left out", ColonyMemoryWarning)
        listed = {info.snapshot_id: new.restore(snapshot_id=info.snapshot_id) for info in new.list_snapshots()}
        try:
            latest = (ColonyMemory(backend=vault, **options) if options else new).restore()
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
        new.prune(label="default", keep=1)
    assert ColonyMemory(backend=vault, **options).restore() == {"m": "next"}
    assert ColonyMemory(backend=vault, **options).verify()


def acknowledged(outcomes, names):
    """Id of what each verb saved, without those that did not come to their end, or met a conflict."""
    saved = {}
    for who in names:
        what, value = outcomes[who]
        if what == "done":
            saved[who] = value.snapshot_id
        elif what == "raised":
            assert isinstance(value, ConflictDetected), value
            # Told that another one is the latest; this one is stored, until a retention finds it older.
            assert value.theirs is not None
    return saved


def count(search, states, vaults, kind):
    TRIED[f"interleavings, {kind}: states"] += len(states)
    TRIED[f"interleavings, {kind}: different vaults that a crash leaves"] += len(vaults)
    assert len(states) > 500
    assert any(all(what != "call" for what, _ in search.outcomes(state).values()) for state in states)


def signing(monkeypatch):
    pytest.importorskip("cryptography")
    from signed_histories import OWN, check_each_signature_once

    check_each_signature_once(monkeypatch)
    return {"signer": OWN}


A_AHEAD, B_AHEAD = {"A": 7, "B": 5}, {"A": 5, "B": 7}


@pytest.mark.parametrize(
    ("kind", "clocks", "keep", "signed"),
    [
        ("full", A_AHEAD, None, False),
        ("plain", A_AHEAD, None, False),
        ("plain", B_AHEAD, None, False),
        ("full", A_AHEAD, 1, False),
        ("plain", B_AHEAD, 1, False),
        ("full", A_AHEAD, None, True),
        ("plain", B_AHEAD, None, True),
    ],
)
def test_two_backups_and_a_prune(kind, clocks, keep, signed, monkeypatch):
    """The newest memory that was acknowledged is there; where the vault has conditional uploads it is the latest."""
    options = signing(monkeypatch) if signed else {}
    search = Search(lambda: verbs(kind, keep, clocks, **options), keeps=keep is None)
    states = search.run(prepared(**options).files)
    found = {}
    for state in states:
        if state.files not in found:
            # Without conditional uploads the later pointer may name what a retention has removed since.
            told = "error" if kind == "full" or keep is None else "ignore"
            found[state.files] = find(state.files, told=told, **options)
        listed, latest = found[state.files]
        outcomes = search.outcomes(state)
        saved = acknowledged(outcomes, "AB").values()
        assert outcomes["P"][0] != "raised" or isinstance(outcomes["P"][1], ConflictDetected), outcomes["P"]
        if saved:
            assert max(listed) >= max(saved)  # a retention may have taken it for a newer one
            # Without conditional uploads the later of two pointer writes wins; both snapshots are listed all the same.
            assert kind == "plain" or latest in [docs for each, docs in listed.items() if each >= max(saved)]
        # The prune wrote over the pointer of a backup on top of which another one was made: that shows.
        assert latest is not None or (signed and kind == "plain" and saved)
    for state in itertools.islice(reversed(states), 0, None, 97):
        recover(state.files, **options)
    count(search, states, found, "signed" if signed else "two backups and a prune")


def published(documents, snapshot_id, stamp, *, signer=None):
    """What 0.1.1 writes, as far as a vault can tell: part, manifest, and a bare pointer over whatever is there."""
    built = build(documents, label="default", snapshot_id=snapshot_id, created_at=stamp, signer=signer)
    pointer = {
        "format": "colony-memory/latest/1",
        "label": "default",
        "snapshot_id": snapshot_id,
        "manifest_file": manifest_filename("default", snapshot_id),
        "updated_at": stamp,
    }
    return built.info, {**built.files, latest_filename("default"): json.dumps(pointer)}


async def published_backup(session, documents):
    await session.vault.status()
    info, files = published(documents, new_id(session.now(), session.token(), []), session.stamp())
    for name, text in files.items():
        await session.vault.put(name, text)
    return info


def three_writers(policy):
    """One that signs, one of this package that does not, and 0.1.1."""
    return {
        "A": backup(client("full", "a", 5, **policy), MINE["A"], prune_keep=None, **OPTIONS),
        "B": backup(client("full", "b", 7), MINE["B"], prune_keep=None, **OPTIONS),
        "L": published_backup(client("full", "c", 9), {"m": "of 0.1.1"}),
    }


@pytest.mark.parametrize("strict", [True, False], ids=["signed snapshots only", "unsigned snapshots too"])
@pytest.mark.parametrize("bare", [False, True], ids=["pointer signed", "pointer of 0.1.1"])
def test_a_signing_client_beside_others(strict, bare, monkeypatch):
    signs = signing(monkeypatch)
    policy = {**signs, "accept_legacy_pointer": True, **({} if strict else {"require_signature": False})}
    fake = prepared(**signs)
    if bare:
        from signed_histories import as_0_1_1_leaves_them

        as_0_1_1_leaves_them(fake, signs["signer"])
    search = Search(lambda: three_writers(policy), "ABL", keeps=True)
    states = search.run(fake.files)
    found = {}
    for state in states:
        if state.files not in found:
            found[state.files] = find(state.files, told="ignore", **policy), find(state.files, told="ignore")
        (listed, latest), (everything, _) = found[state.files]
        saved = acknowledged(search.outcomes(state), "ABL")
        assert set(saved.values()) <= everything.keys()
        if "A" in saved:
            assert saved["A"] in listed
            assert not strict or latest == MINE["A"]
    count(search, states, found, "beside 0.1.1")
