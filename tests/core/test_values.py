"""The dataclasses whose methods are made late are those of the standard library in all that can be asked of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from colony_memory._values import _Late, dataclass

T = TypeVar("T")


def make(decorator: Any) -> dict[str, Any]:
    @decorator(frozen=True)
    class Point:
        x: int
        y: list[int] = dataclasses.field(default_factory=list)
        z: int = dataclasses.field(default=3, compare=False, repr=False)
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
    class Mutable(Generic[T]):
        value: T

    @decorator(eq=False)
    class Alone:
        value: int = 1

        def __repr__(self) -> str:
            return "alone"

    return {"Point": Point, "Named": Named, "Mutable": Mutable, "Alone": Alone}


OURS, THEIRS = make(dataclass), make(dataclasses.dataclass)

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
    lambda of: dataclasses.is_dataclass(of["Mutable"]),
    lambda of: of["Mutable"].__hash__,
    lambda of: of["Mutable"](1) == of["Mutable"](1),
    lambda of: vars(of["Mutable"][int](1))["value"],
    lambda of: (of["Alone"]() == of["Alone"](), repr(of["Alone"]())),
    lambda of: of["Point"](),
    lambda of: of["Point"](-1),
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


@dataclass(frozen=True)
class Sent:
    x: int = 1


def late() -> set[str]:
    return {name for name in ("__init__", "__eq__", "__dataclass_fields__") if isinstance(vars(Sent)[name], _Late)}
