"""Wrong arguments of whatever a program calls: a ValueError that names the argument, and nothing is changed."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import colony_memory
from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    Ed25519Signer,
    FileWitness,
    UntrustedSnapshot,
    open_vault,
    restore_folder,
    save_folder,
    save_paths,
)
from colony_memory._values import Record, Value, asdict, cached_property, field, replace
from colony_memory.capture import read_folder, read_paths, write_folder
from colony_memory.shell.app.compare import file_history, find_unsaved, search_files
from colony_memory.shell.app.keys import client_arguments
from colony_memory.shell.app.open import choose_place
from colony_memory.shell.app.pick import find, find_at, find_id, parse_moment
from colony_memory.shell.app.protection import check_protection
from colony_memory.signing import decode_did_key

CASES = [
    ("incomplete", 5, lambda m, d, x: m.backup({"a": "b"}, incomplete=x)),
    ("destination", None, lambda m, d, x: m.copy_to(x)),
    ("labels", 5, lambda m, d, x: m.copy_to(ColonyMemory(backend=open_vault("memory:")), labels=x)),
    ("progress", 5, lambda m, d, x: m.copy_to(ColonyMemory(backend=open_vault("memory:")), progress=x)),
    ("a and b", [5], lambda m, d, x: m.diff({"a": "b"}, x)),
    ("names", 5, lambda m, d, x: m.restore(names=x)),
    ("names", [5], lambda m, d, x: m.restore(names=x)),
    ("names", b"*", lambda m, d, x: m.restore(names=x)),
    ("trusted_issuers", 5, lambda m, d, x: ColonyMemory(backend=open_vault("memory:"), trusted_issuers=x)),
    ("path", None, lambda m, d, x: FileWitness(x)),
    ("url", None, lambda m, d, x: open_vault(x)),
    ("url", 5, lambda m, d, x: choose_place(x)),
    ("key file", 5, lambda m, d, x: client_arguments(key_file=x)),
    ("trust", 5, lambda m, d, x: client_arguments(trust=x)),
    ("memory", None, lambda m, d, x: restore_folder(x, d)),
    ("memory", None, lambda m, d, x: save_folder(x, d)),
    ("memory", None, lambda m, d, x: save_paths(x, [d])),
    ("memory", None, lambda m, d, x: file_history(x, "a")),
    ("memory", None, lambda m, d, x: search_files(x, "a")),
    ("memory", None, lambda m, d, x: find(x, "latest", label="default")),
    ("memory", None, lambda m, d, x: find_at(x, "now", label="default")),
    ("memory", None, lambda m, d, x: find_unsaved(x, d)),
    ("memory", None, lambda m, d, x: check_protection(x)),
    ("path", 5, lambda m, d, x: restore_folder(m, x)),
    ("snapshot", 5, lambda m, d, x: restore_folder(m, d, snapshot=x)),
    ("only", None, lambda m, d, x: restore_folder(m, d, only=x)),
    ("path", None, lambda m, d, x: save_folder(m, x)),
    ("path", b"x", lambda m, d, x: save_folder(m, x)),
    ("exclude", 5, lambda m, d, x: save_folder(m, d, exclude=x)),
    ("allow_secrets", None, lambda m, d, x: save_folder(m, d, allow_secrets=x)),
    ("on_progress", 5, lambda m, d, x: save_folder(m, d, on_progress=x)),
    ("paths", None, lambda m, d, x: save_paths(m, x)),
    ("paths", 5, lambda m, d, x: find_unsaved(m, x)),
    ("text", 5, lambda m, d, x: find(m, x, label="default")),
    ("text", None, lambda m, d, x: find_id(m, x, label="default")),
    ("text", 5, lambda m, d, x: parse_moment(x)),
    ("max_bytes", None, lambda m, d, x: read_folder(d, max_bytes=x)),
    ("paths", 5, lambda m, d, x: read_paths(x)),
    ("documents", 5, lambda m, d, x: write_folder(x, d)),
    ("on_progress", 5, lambda m, d, x: write_folder({"a": "b"}, d, on_progress=x)),
    ("did_key", None, lambda m, d, x: decode_did_key(x)),
]


@pytest.mark.parametrize(("named", "value", "call"), CASES)
def test_a_wrong_argument_is_named_and_changes_nothing(named, value, call, tmp_path):
    if named == "key file":
        pytest.importorskip("cryptography")
    (tmp_path / "a.md").write_text("here")
    memory = ColonyMemory(backend=open_vault("memory:"))
    memory.backup({"a.md": "there"})
    before = memory.list_snapshots()
    with pytest.raises(ValueError, match=named) as caught:
        call(memory, str(tmp_path), value)
    assert caught.type is ValueError
    assert memory.list_snapshots() == before
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.md", "here")]


def test_a_copy_stays_with_its_face() -> None:
    memory: Any = ColonyMemory(backend=open_vault("memory:"))

    async def copy() -> None:
        await AsyncColonyMemory(backend=open_vault("memory:")).copy_to(memory)

    with pytest.raises(ValueError, match="destination must be of type AsyncColonyMemory, not ColonyMemory"):
        asyncio.run(copy())


def test_every_mapping_says_up_to_where_a_key_is_trusted() -> None:
    pytest.importorskip("cryptography")
    signer = Ed25519Signer.generate()
    vault = open_vault("memory:")
    ColonyMemory(backend=vault, signer=signer).backup({"a.md": "stolen"})
    until = {signer.did_key: "20250101T000000000000Z-000000"}
    for issuers in (until, MappingProxyType(until)):
        with pytest.raises(UntrustedSnapshot, match="up to"):
            ColonyMemory(backend=vault, trusted_issuers=issuers).restore()


class Number:
    def __init__(self, work):
        self.work = work

    @cached_property
    def value(self):
        return self.work()


def test_it_is_worked_out_once():
    made = []
    number = Number(lambda: made.append(1) or len(made))
    assert (number.value, number.value) == (1, 1)
    assert isinstance(Number.value, cached_property)


def test_no_instance_waits_for_another_one():
    """A lock that they share would never be free in a process that was forked while a thread held it."""
    begun, end = threading.Event(), threading.Event()

    def take_long():
        begun.set()
        return end.wait(60)

    slow = threading.Thread(target=lambda: Number(take_long).value)
    quick = threading.Thread(target=lambda: Number(int).value)
    slow.start()
    assert begun.wait(60)
    quick.start()
    quick.join(5)
    waits = quick.is_alive()
    end.set()
    for each in (slow, quick):
        each.join()
    assert not waits


def test_the_package_uses_no_other():
    folder = Path(colony_memory.__file__).parent
    using = [
        path.name for path in folder.rglob("*.py") if "functools import cached_property" in path.read_text("utf-8")
    ]
    assert using == ["_values.py"]


T = TypeVar("T")


def make(field: Any, decorator: Any, frozen: Any, mutable: Any, **alone: Any) -> dict[str, Any]:
    @decorator(frozen=True)
    class Point(frozen):
        x: int
        y: list[int] = field(default_factory=list)
        z: int = field(default=3, compare=False, repr=False)
        shared: ClassVar[int] = 7

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x")

    @decorator(frozen=True)
    class Named(Point):
        name: str = ""

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 5

    @decorator
    class Mutable(mutable, Generic[T]):
        value: T

    @decorator(eq=False)
    class Alone(mutable, **alone):
        value: int = 1

        def __repr__(self) -> str:
            return "alone"

    return {"Point": Point, "Named": Named, "Mutable": Mutable, "Alone": Alone}


def leave(kind: Any = None, **_: Any) -> Any:
    return kind or leave


OURS = {**make(field, leave, Value, Record, eq=False), "asdict": asdict, "replace": replace}


class Plain:
    pass


THEIRS = make(dataclasses.field, dataclasses.dataclass, Plain, Plain)
THEIRS |= {"asdict": dataclasses.asdict, "replace": dataclasses.replace}

ASKED = [
    lambda of: str(inspect.signature(of["Point"])),
    lambda of: str(inspect.signature(of["Named"])),
    lambda of: [(each.name, each.type) for each in dataclasses.fields(of["Named"])],
    lambda of: of["Named"].__match_args__,
    lambda of: repr(of["Point"](1)),
    lambda of: repr(of["Named"](1, name="n")),
    lambda of: of["Point"](1) == of["Point"](1, z=4),
    lambda of: of["Point"](1) == of["Point"](2),
    lambda of: hash(of["Point"](1, ())) == hash(of["Point"](1, (), 4)),
    lambda of: hash(of["Named"](1)),
    lambda of: of["Point"].z + of["Point"].shared,
    lambda of: hasattr(of["Point"], "y"),
    lambda of: of["Point"](1).y is of["Point"](1).y,
    lambda of: dataclasses.asdict(dataclasses.replace(of["Named"](1), x=2)),
    lambda of: of["asdict"](of["replace"](of["Named"](1, [of["Mutable"]({"a": (of["Point"](2),)})]), x=2)),
    lambda of: dataclasses.is_dataclass(of["Mutable"]),
    lambda of: of["Mutable"].__hash__,
    lambda of: of["Mutable"](1) == of["Mutable"](1),
    lambda of: vars(of["Mutable"][int](1))["value"],
    lambda of: (of["Alone"]() == of["Alone"](), repr(of["Alone"]())),
    lambda of: of["Point"](),
    lambda of: of["Point"](-1),
    lambda of: of["Point"](1, x=2),
    lambda of: of["Point"](1, (), 3, 4),
    lambda of: of["Point"](1, w=2),
    lambda of: vars(of["Named"](1, name="n")),
    lambda of: setattr(of["Point"](1), "x", 2),
    lambda of: setattr(of["Point"](1), "other", 2),
    lambda of: delattr(of["Named"](1), "name"),
    lambda of: setattr(of["Mutable"](1), "value", 2),
    lambda of: copy.deepcopy(of["Named"](1, [2])).y,
]


@pytest.mark.parametrize("at", range(len(ASKED)))
def test_it_answers_as_the_standard_ones(at: int) -> None:
    def answer(of: dict[str, Any]) -> object:
        try:
            return ASKED[at](of)
        except Exception as error:
            return type(error), str(error)

    assert answer(OURS) == answer(THEIRS)
