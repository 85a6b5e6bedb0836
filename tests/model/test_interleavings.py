"""Two backups and a prune at once, in every order of their vault calls, each able to die anywhere.

Each verb is a coroutine that hands out one vault call at a time. The calls of three of them are applied to one vault in
every possible order. What a verb does next depends only on the replies it has had, so states in which the vault and all
replies are equal are one state, and every reachable state is visited. In each of them all three may die: the checks run
on the vault as it is then, which covers every subset of deaths at every place, since a verb that died is one that is
never given its next turn.
"""

from __future__ import annotations

import itertools
import warnings
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pytest
from counts import TRIED
from faces import PlainVault
from stepped import Stepped

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, ConflictDetected
from colony_memory._engine.backup import backup
from colony_memory._engine.prune import prune
from colony_memory._engine.session import Session
from colony_memory.retention import Retention
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
        self.next_call: dict[tuple, Any] = {}
        self.seen: dict[State, None] = {}

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


CLOCKS = {"A is ahead": {"A": 7, "B": 5}, "B is ahead": {"A": 5, "B": 7}}


@pytest.mark.parametrize(
    ("kind", "clocks", "keep"),
    [
        ("full", "A is ahead", None),
        ("plain", "A is ahead", None),
        ("plain", "B is ahead", None),
        ("full", "A is ahead", 1),
        ("plain", "B is ahead", 1),
    ],
)
def test_every_interleaving(kind, clocks, keep):
    fake = FakeVault(operations_per_hour=None, clock=NOW.timestamp)
    old = ColonyMemory(backend=fake)
    old._session.now = lambda: NOW
    for docs in OLD:
        old.backup(docs)
    search = Search(lambda: verbs(kind, keep, CLOCKS[clocks]), keeps=keep is None)
    states = search.run(fake.files)
    checked: dict[frozenset, tuple] = {}
    ends = 0
    for state in states:
        if state.files not in checked:
            checked[state.files] = what_a_new_client_finds(state.files)
        listed, latest = checked[state.files]
        outcomes = search.outcomes(state)
        judge(kind, outcomes, listed, latest)
        ends += all(what != "call" for what, _ in outcomes.values())
    for state in itertools.islice(reversed(states), 50):
        recover(state.files)
    TRIED["interleavings: states of two backups and a prune"] += len(states)
    TRIED["interleavings: different vaults that a crash leaves"] += len(checked)
    assert ends
    assert len(states) > 500


def what_a_new_client_finds(files):
    vault = vault_of(files)
    new = ColonyMemory(backend=vault)
    infos = new.list_snapshots()  # a warning would be an error: nothing listed may be broken
    listed = {info.snapshot_id: new.restore(snapshot_id=info.snapshot_id) for info in infos}
    assert listed
    latest = new.restore()
    assert latest in listed.values()
    return listed, latest


def judge(kind, outcomes, listed, latest):
    """The newest memory that was acknowledged is there; where the vault has conditional uploads it is the latest."""
    acknowledged = {}
    for who in "AB":
        what, value = outcomes[who]
        if what == "done":
            acknowledged[value.snapshot_id] = MINE[who]
        elif what == "raised":
            assert isinstance(value, ConflictDetected), value
            # Told that another one is the latest; this one is stored, until a retention finds it older.
            assert value.theirs is not None
    if acknowledged:
        newest = max(acknowledged)
        assert max(listed) >= newest  # a retention may have taken it for a newer one
        allowed = [docs for snapshot_id, docs in listed.items() if snapshot_id >= newest]
        # Without conditional uploads the later of two pointer writes wins. Both snapshots are listed all the same.
        assert kind == "plain" or latest in allowed
    if outcomes["P"][0] == "raised":
        assert isinstance(outcomes["P"][1], ConflictDetected), outcomes["P"][1]


def recover(files):
    vault = vault_of(files)
    new = ColonyMemory(backend=vault)
    new._session.now = lambda: NOW.replace(minute=30)
    new.backup({"m": "next"})
    new.prune(label="default", keep=1)
    assert ColonyMemory(backend=vault).restore() == {"m": "next"}
