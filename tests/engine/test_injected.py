"""What others hand in: mocks as clients, vaults whose calls cannot be called off, documents of odd types."""

import asyncio
import collections
import enum
import threading
from types import MappingProxyType
from typing import Any
from unittest.mock import AsyncMock, MagicMock, Mock, create_autospec

import pytest

pytest.importorskip("httpx")

from colony_sdk import AsyncColonyClient, ColonyClient
from faces import DictWitness, PlainVault

from colony_memory import AsyncColonyMemory, ColonyMemory
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault

METHODS = ("vault_status", "vault_list_files", "vault_get_file", "vault_upload_file", "vault_delete_file")
PLAIN = {
    "MagicMock": MagicMock,
    "MagicMock(spec)": lambda: MagicMock(spec=ColonyClient),
    "Mock(spec of an instance)": lambda: Mock(spec=ColonyClient("col_test")),
    "autospec": lambda: create_autospec(ColonyClient, instance=True),
    "of a vault that can more": lambda: MagicMock(spec=FakeVault),
    "autospec of a vault that can more": lambda: create_autospec(FakeVault, instance=True),
}
AWAITED = {
    "AsyncMock": AsyncMock,
    "AsyncMock(spec)": lambda: AsyncMock(spec=AsyncColonyClient),
    "autospec": lambda: create_autospec(AsyncColonyClient, instance=True),
}


def wired(fake):
    vault = FakeVault()
    for name in METHODS:
        getattr(fake, name).side_effect = getattr(vault, name)
    return fake


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN)
def test_a_mock_of_a_client_is_one_and_no_more(make):
    memory = ColonyMemory(backend=wired(make()))
    memory.backup({"a.md": "x"})
    assert memory.restore() == {"a.md": "x"}

    async def in_threads():
        other = AsyncColonyMemory(backend=wired(make()))
        await other.backup({"a.md": "y"}, prune_keep=1)
        return await other.restore()

    assert asyncio.run(in_threads()) == {"a.md": "y"}


@pytest.mark.parametrize("make", AWAITED.values(), ids=AWAITED)
def test_a_mock_of_an_asynchronous_client_is_awaited(make):
    async def awaited():
        memory = AsyncColonyMemory(backend=wired(make()))
        await memory.backup({"a.md": "y"}, prune_keep=1)
        return await memory.restore()

    assert asyncio.run(awaited()) == {"a.md": "y"}
    with pytest.raises(ValueError, match="use AsyncColonyMemory"):
        ColonyMemory(backend=make())


class Slow(PlainVault):
    """Its n-th call takes until somebody lets it go on; then all is as it was."""

    def __init__(self, at):
        super().__init__(FakeVault(operations_per_hour=None))
        self.at, self.begun, self.may_go_on, self.name = at, threading.Event(), threading.Event(), ""

    def _slowly(self, name, *args):
        self.at -= 1
        if self.at == 0:
            self.name = name
            self.begun.set()
            assert self.may_go_on.wait(30)
        return getattr(self.vault, name)(*args)


def slowly(name):
    return lambda self, *args: self._slowly(name, *args)


for method in METHODS:
    setattr(Slow, method, slowly(method))


async def backup(memory, _info):
    await memory.backup({"a": "second"}, prune_keep=2)


async def prune(memory, _info):
    await memory.prune(keep=1)


async def pin(memory, info):
    await memory.pin(snapshot_id=info.snapshot_id)


async def begun(verb, at):
    """A verb whose n-th call is under way, None where it has fewer."""
    slow = Slow(0)
    memory = AsyncColonyMemory(backend=slow)
    for n in range(4):
        info = await memory.backup({"a": f"old {n}"})
    slow.at = at
    task = asyncio.create_task(verb(memory, info))
    while not slow.begun.is_set() and not task.done():  # noqa: ASYNC110 - a thread says so
        await asyncio.sleep(0.001)
    return None if task.done() else (memory, slow, task)


async def cancelled(verb, at):
    """Cancel a verb at its n-th call, and go on at once; false where it has fewer."""
    found = await begun(verb, at)
    if found is None:
        return False
    memory, slow, task = found
    for _ in range(3):  # as often as anybody likes
        task.cancel()
        await asyncio.sleep(0.002)
    changes = slow.name in ("vault_upload_file", "vault_delete_file")
    assert task.done() is not changes
    slow.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    files = dict(slow.files) if changes else None
    await asyncio.sleep(0.005)
    assert files in (None, slow.files)  # nothing comes late
    info = await memory.backup({"a": "third"}, prune_keep=2)
    await memory.unpin(snapshot_id=info.snapshot_id)
    assert ColonyMemory(backend=slow.vault).restore() == {"a": "third"}
    return True


@pytest.mark.parametrize("verb", [backup, prune, pin])
def test_what_a_cancelled_verb_has_begun_is_waited_for(verb):
    at = 1
    while asyncio.run(cancelled(verb, at)):
        at += 1
    assert at > 2


def test_what_fails_after_it_was_cancelled_is_heard_of(caplog):
    async def fails():
        _, slow, task = await begun(pin, 2)
        slow.vault.vault_upload_file = lambda *_: 1 / 0
        task.cancel()
        await asyncio.sleep(0)
        slow.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(fails())
    assert not caplog.records


class Witness(DictWitness):
    def __init__(self):
        super().__init__()
        self.begun, self.may_go_on = threading.Event(), threading.Event()

    def record(self, label, head):
        self.begun.set()
        assert self.may_go_on.wait(30)
        super().record(label, head)


def test_what_a_witness_is_told_comes_in_order():
    async def inside():
        witness = Witness()
        memory = AsyncColonyMemory(backend=PlainVault(FakeVault()), witness=witness)
        task = asyncio.create_task(memory.backup({"a": "1"}))
        while not witness.begun.is_set():  # noqa: ASYNC110 - a thread says so
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.sleep(0.005)
        assert not task.done()
        witness.may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        info = await memory.backup({"a": "2"})
        assert witness.heads["default"].startswith(info.head)

    asyncio.run(inside())


class Text(str):
    __slots__ = ()

    def encode(self, *_, **__):
        return b"another"

    def __str__(self):
        return "another"

    def __len__(self):
        return 1


class Items(dict[str, Any]):
    def items(self):
        return [("given.md", "given")]

    def __iter__(self):
        return iter(["other.md"])

    def __getitem__(self, name):
        return "other"


class Twin(str):
    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


class Kind(str, enum.Enum):
    NOTE = "note.md"


ODD = [
    ({Text("a.md"): Text("text")}, {"a.md": "text"}),
    (Items(held="held"), {"given.md": "given"}),
    ({Kind.NOTE: "x"}, {"note.md": "x"}),
    (collections.OrderedDict(b="1", a="2"), {"b": "1", "a": "2"}),
    (collections.defaultdict(str, a="1"), {"a": "1"}),
]


@pytest.mark.parametrize(("documents", "meant"), ODD, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("wire", [1, 2])
def test_what_was_checked_is_what_is_saved(documents, meant, wire):
    if wire == 2 and not is_installed():
        pytest.skip("no zstd")
    memory = ColonyMemory(backend=FakeVault(), format=wire)
    info = memory.backup(documents)
    restored = ColonyMemory(backend=memory._session.vault.backend).restore()
    assert restored == meant
    assert {type(each) for pair in restored.items() for each in pair} == {str}
    assert memory.backup(meant).snapshot_id == info.snapshot_id
    assert not memory.diff(None, documents)
    assert memory.to_progenly_export(documents)["memory"] == meant


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        (collections.UserDict(a="1"), r"must be a dict \{name: text\}, not a UserDict: give dict\(documents\)"),
        (MappingProxyType({"a": "1"}), r"not a mappingproxy: give dict\(documents\)"),
        (collections.ChainMap({"a": "1"}), "not a ChainMap"),
        ({Twin("a"): "1", Twin("a"): "2"}, "document 'a' is there twice"),
        ({"a": MagicMock(spec=str)}, "document 'a' must be a string, not MagicMock"),
        (MagicMock(spec=dict), "must be a dict|non-empty"),
        (type("Empty", (dict,), {"items": lambda _: []})(a="1"), "non-empty"),
    ],
)
def test_what_is_no_dict_is_told_what_is_wanted(documents, why):
    with pytest.raises(ValueError, match=why):
        ColonyMemory(backend=FakeVault()).backup(documents)
