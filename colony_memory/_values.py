"""``dataclass`` as :mod:`dataclasses` has it, but the methods are made when a class is first used.

To make them compiles source text, six times a class. A short command loads some ninety classes and uses a third of
them; making all took a quarter of its time.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
        """The decorator, with those of its options that this package uses."""
        return (lambda kind: _prepared(kind, frozen, eq)) if cls is None else _prepared(cls, frozen, eq)


_MADE = ("__repr__", "__match_args__", "__dataclass_fields__", "__dataclass_params__", "__init__")
_OWN = ("__module__", "__qualname__", "__annotations__", "__init__", "__repr__", "__eq__", "__hash__")


class _Late:
    """Stands for an attribute of a class until that is first asked for; then all of them are put in place."""

    def __init__(self, name: str, make: Any) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        found = self._make()[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _prepared(cls: Any, frozen: bool, eq: bool) -> Any:
    own = dict(vars(cls))
    names = cls.__annotations__ if "__annotations__" in own or "__annotate_func__" in own else {}
    space = {name: own[name] for name in (*_OWN, *names) if name in own}
    space |= {"__annotations__": names, "__qualname__": cls.__qualname__, "__doc__": ""}
    if hasattr(cls, "__post_init__"):
        space["__post_init__"] = cls.__post_init__
    for name in names:
        value = own.get(name)
        if isinstance(value, dataclasses.Field) and value.default is dataclasses.MISSING:
            delattr(cls, name)
        elif isinstance(value, dataclasses.Field):
            setattr(cls, name, value.default)
    late = [*_MADE[:-1], *(["__replace__"] if sys.version_info >= (3, 13) else []), *(["__eq__"] if eq else [])]
    late += [*(["__hash__"] if frozen and eq else []), _MADE[-1]]
    late = [name for name in late if name not in own]

    def make() -> dict[str, Any]:
        # Of a twin, and without a lock: of two threads that are first at once neither finds a method missing, and a
        # process that is forked meanwhile waits for nothing.
        bases: Any = tuple(filter(dataclasses.is_dataclass, cls.__bases__))
        twin: type = dataclasses.dataclass(frozen=frozen, eq=eq)(type(cls.__name__, bases, dict(space)))
        made = {name: vars(twin)[name] for name in late}
        for name, value in made.items():
            setattr(cls, name, value)
        return made

    for name in late:
        setattr(cls, name, _Late(name, make))
    if frozen:
        _freeze(cls)
    elif eq and "__hash__" not in own:
        cls.__hash__ = None
    return cls


def _freeze(cls: Any) -> None:
    def refused(instance: Any, name: str) -> bool:
        return type(instance) is cls or name in cls.__dataclass_fields__

    def set_one(self: Any, name: str, value: object) -> None:
        if refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_one(self: Any, name: str) -> None:
        if refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = set_one, delete_one
