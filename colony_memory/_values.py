"""Substitutes for the standard library's, quick to load: dataclasses and patterns made late, a property unlocked."""

from __future__ import annotations

import collections
import functools
import operator
import re
import sys
from typing import TYPE_CHECKING, Any

__all__ = [
    "NamedTuple",
    "asdict",
    "cached_property",
    "dataclass",
    "field",
    "getLogger",
    "names_of",
    "pattern",
    "replace",
]


if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - takes the place of the one with this name
        """Worked out twice at most where two threads are first at once."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """The value; once worked out, it lies where it is found before this is asked."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def names_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass, or of an instance."""
    return tuple(kind.__given__)


_NONE = object()


class _Late:
    """The result of a call, made once something is asked of it."""

    def __init__(self, make: Any, *given: Any) -> None:
        self._make, self._given = make, given

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._make(*self._given), name)
        setattr(self, name, found)
        return found


class _Field:
    """A field with more to say than its default."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.default = options.get("default", _NONE)
        self.factory = options.get("default_factory", _NONE)
        self.init = options.get("init", True)


def _logger(name: str) -> Any:
    import logging

    return logging.getLogger(name)


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, replace
    from logging import getLogger
    from re import compile as pattern
    from typing import NamedTuple
else:
    getLogger = functools.partial(_Late, _logger)  # noqa: N816 - takes the place of the one with this name
    pattern = functools.partial(_Late, re.compile)
    field = _Field

    class _Named(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            names = [*space.get("__annotations__", ())]
            defaults = [space.pop(each) for each in names if each in space]
            made = collections.namedtuple(name, names, defaults=defaults, module=space["__module__"])  # noqa: PYI024
            for key, value in space.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Named):
        """That of typing, which compiles each annotation."""

    def asdict(instance: Any) -> dict[str, Any]:
        """The fields by name, and those of the dataclasses in them."""
        return {name: _plain(getattr(instance, name)) for name in instance.__given__}

    def replace(instance: Any, /, **changes: Any) -> Any:
        """One with other values in some fields."""
        names = [name for name, (_, given) in instance.__given__.items() if given.init and name not in changes]
        return type(instance)(**{name: getattr(instance, name) for name in names}, **changes)

    def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
        """The decorator, with those of its options that this package uses."""
        if cls is None:
            return functools.partial(dataclass, frozen=frozen, eq=eq)
        own, fields = dict(vars(cls)), dict(getattr(cls, "__given__", {}))
        kinds = cls.__annotations__ if "__annotations__" in own or "__annotate_func__" in own else {}
        for name, kind in kinds.items():
            if kind.startswith("ClassVar"):
                continue
            value = own.get(name, _NONE)
            _, given = fields[name] = kind, value if isinstance(value, _Field) else _Field(default=value)
            if given.default is not _NONE:
                setattr(cls, name, given.default)
            elif name in own:
                delattr(cls, name)
        compared = [name for name, (_, given) in fields.items() if given.options.get("compare", True)]
        cls.__given__, cls.__content__ = fields, operator.attrgetter(*compared or ["__class__"])
        made = {"__init__": _Init(cls, frozen)}
        made |= {"__eq__": _equal, "__hash__": _hash if frozen else None} if eq else {}
        made |= {"__setattr__": _set, "__delattr__": _delete} if frozen else {}
        wanted = [name for name in _STANDARD if name not in own]
        standard = functools.partial(_standard, cls, own, kinds, wanted, {"frozen": frozen, "eq": eq})
        made |= {name: _Standard(name, standard) for name in wanted}
        for name, value in made.items():
            if name not in own:
                setattr(cls, name, value)
        return cls


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        made = map(_plain, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return asdict(value) if hasattr(type(value), "__given__") else value


_STANDARD = ["__repr__", "__match_args__", "__dataclass_fields__", "__dataclass_params__"]
_STANDARD += ["__replace__"] if sys.version_info >= (3, 13) else []


class _Standard:
    """The methods that the standard decorator gives a class; once it is first asked for, all of it is put in place."""

    def __init__(self, name: str, make: Any) -> None:
        self._name, self._make = name, make

    def __get__(self, instance: Any, owner: type) -> Any:
        found = self._make()[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _standard(
    cls: Any, own: dict[str, Any], kinds: dict[str, Any], wanted: list[str], options: dict[str, bool]
) -> dict[str, Any]:
    import dataclasses  # slow to import, and not needed for most

    # Of a twin, and without a lock: of two threads that are first at once neither finds a method missing, and a
    # process that is forked meanwhile waits for nothing.
    space = {name: own[name] for name in ("__module__", "__repr__", "__eq__", "__hash__", *kinds) if name in own}
    space |= {name: dataclasses.field(**value.options) for name, value in space.items() if isinstance(value, _Field)}
    # One without a text of its own is given its signature as that, which takes longer than all the rest.
    space |= {"__annotations__": kinds, "__qualname__": cls.__qualname__, "__doc__": "-"}
    bases: Any = tuple(filter(dataclasses.is_dataclass, cls.__bases__))
    twin: type = dataclasses.dataclass(init=False, **options)(type(cls.__name__, bases, space))
    made = {name: vars(twin)[name] for name in wanted}
    for name, value in made.items():
        setattr(cls, name, value)
    return made


class _Init:
    """An ``__init__`` that is compiled for the first instance, as of most classes there never is one."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: Any, owner: type) -> Any:
        made = self._cls.__init__ = _compiled(self._cls, self._frozen)
        return made if instance is None else made.__get__(instance, owner)


class _New:
    """Stands for what a field's factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_NEW = _New()


def _compiled(cls: Any, frozen: bool) -> Any:
    head, body, defaults, kinds = ["self"], list[str](), list[Any](), {}
    space: dict[str, Any] = {"_put": object.__setattr__, "_new": _NEW}
    for name, (kind, given) in cls.__given__.items():
        value, default = name, given.default
        if given.factory is not _NONE:
            space[f"_of_{name}"], default = given.factory, _NEW
            value = f"_of_{name}()" + (f" if {name} is _new else {name}" if given.init else "")
        elif not given.init:
            continue
        if given.init:
            head.append(name)
            kinds[name] = kind
            defaults += [] if default is _NONE else [default]
        body.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else [] if body else ["pass"]
    exec(f"def __init__({', '.join(head)}): {'; '.join(body)}", space)  # noqa: S102 - as dataclasses does
    made = space["__init__"]
    made.__defaults__, made.__annotations__ = tuple(defaults), {**kinds, "return": None}
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


def _equal(self: Any, other: Any) -> bool:
    same_class = other.__class__ is self.__class__
    return self.__content__(self) == self.__content__(other) if same_class else NotImplemented


def _hash(self: Any) -> int:
    return hash(self.__content__(self))


def _frozen(doing: str, act: Any) -> Any:
    def method(self: Any, name: str, *value: object) -> None:
        if "__given__" in vars(type(self)) or name in self.__given__:
            import dataclasses

            raise dataclasses.FrozenInstanceError(f"cannot {doing} field {name!r}")
        act(self, name, *value)

    return method


_set, _delete = _frozen("assign to", object.__setattr__), _frozen("delete", object.__delattr__)
