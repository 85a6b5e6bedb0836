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


if TYPE_CHECKING:
    from dataclasses import asdict, dataclass, field, replace
else:

    def asdict(instance: Any) -> dict[str, Any]:
        """The fields by name, and those of the dataclasses in them."""
        return {name: _plain(getattr(instance, name)) for name in names_of(instance)}

    def replace(instance: Any, /, **changes: Any) -> Any:
        """One with other values in some fields."""
        kind = type(instance)
        if not hasattr(kind, "__given__"):
            import dataclasses

            return dataclasses.replace(instance, **changes)
        arguments = (name for name, given in kind.__given__.items() if given[1])
        return kind(**{name: changes[name] if name in changes else getattr(instance, name) for name in arguments})

    def field(**options: Any) -> Any:
        """A field with more to say than its default."""
        return _Field(options)

    def dataclass(cls: type | None = None, /, *, frozen: bool = False, eq: bool = True) -> Any:
        """The decorator, with those of its options that this package uses."""
        return (lambda kind: _prepared(kind, frozen, eq)) if cls is None else _prepared(cls, frozen, eq)


if TYPE_CHECKING:
    from logging import getLogger
    from re import compile as pattern
    from typing import NamedTuple
else:

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

    class getLogger:  # noqa: N801 - stands for a function
        """The logger of this name, once something is asked of it."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            import logging

            return getattr(logging.getLogger(self._name), name)

    class pattern:  # noqa: N801 - stands for a function
        """What ``re.compile`` gives, once something is asked of it."""

        def __init__(self, *given: Any) -> None:
            self._given = given

        def __getattr__(self, name: str) -> Any:
            found = getattr(re.compile(*self._given), name)
            setattr(self, name, found)
            return found


class _Field:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options


def names_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass, or of an instance."""
    if not hasattr(kind, "__given__"):
        import dataclasses

        return tuple(each.name for each in dataclasses.fields(kind))
    return tuple(kind.__given__)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        made = map(_plain, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    is_one = hasattr(type(value), "__given__") or hasattr(type(value), "__dataclass_fields__")
    return asdict(value) if is_one else value


_OWN = ("__module__", "__qualname__", "__annotations__", "__init__", "__repr__", "__eq__", "__hash__")
_NONE = object()


class _Late:
    """Stands for an attribute of a class until that is first asked for; then all of them are put in place."""

    def __init__(self, name: str, make: Any) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        found = self._make()[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _told(value: Any) -> tuple[bool, Any, Any, bool]:
    """Of what stands behind a field: if it is an argument, its default, what makes one, and if it is compared."""
    told = value.options if isinstance(value, _Field) else {"default": value}
    default, factory = told.get("default", _NONE), told.get("default_factory", _NONE)
    return told.get("init", True), default, factory, told.get("compare", True)


def _prepared(cls: Any, frozen: bool, eq: bool) -> Any:
    own = dict(vars(cls))
    names = cls.__annotations__ if "__annotations__" in own or "__annotate_func__" in own else {}
    given = {
        name: (names[name], *_told(own.get(name, _NONE))) for name in names if not names[name].startswith("ClassVar")
    }
    for name, (_, _, default, *_) in given.items():
        if default is not _NONE:
            setattr(cls, name, default)
        elif name in own:
            delattr(cls, name)
    methods = ["__repr__", "__dataclass_params__", *(["__replace__"] if sys.version_info >= (3, 13) else [])]

    def make(whole: bool, wanted: list[str]) -> dict[str, Any]:
        import dataclasses  # slow to import, and not needed for most

        # Of a twin, and without a lock: of two threads that are first at once neither finds a method missing, and a
        # process that is forked meanwhile waits for nothing.
        space = {name: own[name] for name in (*_OWN, *names) if name in own}
        space |= {
            name: dataclasses.field(**value.options) for name, value in space.items() if isinstance(value, _Field)
        }
        # One without a text of its own is given its signature as that, which takes longer than all the rest.
        space |= {"__annotations__": names, "__qualname__": cls.__qualname__, "__doc__": "-"}
        bases: Any = tuple(filter(dataclasses.is_dataclass, cls.__bases__))
        options = {"repr": whole, "frozen": frozen and bool(whole or bases)}
        twin: type = dataclasses.dataclass(init=False, eq=whole and eq, **options)(type(cls.__name__, bases, space))
        made = {name: vars(twin)[name] for name in wanted}
        for name, value in made.items():
            setattr(cls, name, value)
        return made

    cls.__given__ = getattr(cls, "__given__", {}) | given
    for group, made in (
        (["__match_args__", "__dataclass_fields__"], functools.partial(make, False)),
        (methods, functools.partial(make, True)),
    ):
        wanted = [name for name in group if name not in own]
        for name in wanted:
            setattr(cls, name, _Late(name, functools.partial(made, wanted)))
    if "__init__" not in own:
        cls.__init__ = _LateInit(cls, frozen)
    if eq:
        _compare(cls, own, frozen)
    if frozen:
        cls.__setattr__, cls.__delattr__ = _set_one, _delete_one
    return cls


class _LateInit:
    """An ``__init__`` that is compiled once there are more than a few instances, as of most classes there never are."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen, self._left = cls, frozen, 3

    def __get__(self, instance: Any, owner: type) -> Any:
        if isinstance(instance, self._cls) and self._left:  # inspect.signature binds it to the class
            self._left -= 1
            return functools.partial(self._fill, instance)
        made = self._cls.__init__ = _init_of(self._cls, self._frozen)
        return made if instance is None else made.__get__(instance, owner)

    def _fill(self, instance: Any, /, *args: Any, **kwargs: Any) -> None:
        given = self._cls.__given__
        names = [name for name, (_, is_argument, *_) in given.items() if is_argument]
        values = dict(zip(names, args, strict=False)) | kwargs
        fits = len(values) == len(args) + len(kwargs) and kwargs.keys() <= {*names}
        for name, (_, is_argument, default, factory, _) in given.items():
            if name not in values and factory is not _NONE:
                values[name] = factory()
            elif name not in values and is_argument:
                values[name] = default
        if not fits or any(value is _NONE for value in values.values()):
            _init_of(self._cls, self._frozen)(instance, *args, **kwargs)  # which says what is wrong
            return
        for name, value in values.items():
            object.__setattr__(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _compare(cls: Any, own: dict[str, Any], frozen: bool) -> None:
    names = [name for name, (*_, is_compared) in cls.__given__.items() if is_compared]
    cls.__content__ = operator.attrgetter(*names or ["__class__"])
    if "__eq__" not in own:
        cls.__eq__ = _equal
    if "__hash__" not in own:
        cls.__hash__ = _hash if frozen else None


def _equal(self: Any, other: Any) -> bool:
    same_class = other.__class__ is self.__class__
    return self.__content__(self) == self.__content__(other) if same_class else NotImplemented


def _hash(self: Any) -> int:
    return hash(self.__content__(self))


def _init_of(cls: Any, frozen: bool) -> Any:
    head, body, defaults, space = ["self"], [], [], {"_put": object.__setattr__, "_new": _NEW}
    kinds = {}
    for name, (kind, is_argument, default, factory, _) in cls.__given__.items():
        value, space[f"_of_{name}"] = name, factory
        if not is_argument:
            if factory is _NONE:
                continue
            value = f"_of_{name}()"
        else:
            kinds[name] = kind
            head.append(name)
        if is_argument and factory is not _NONE:
            value = f"_of_{name}() if {name} is _new else {name}"
            defaults.append(_NEW)
        elif is_argument and default is not _NONE:
            defaults.append(default)
        body.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else [] if body else ["pass"]
    exec(f"def __init__({', '.join(head)}): {'; '.join(body)}", space)  # noqa: S102 - as dataclasses does
    made: Any = space["__init__"]
    made.__defaults__, made.__annotations__ = tuple(defaults), {**kinds, "return": None}
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


class _New:
    """Stands for what a field's factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_NEW = _New()


def _set_one(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete_one(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


def _refuse(self: Any, name: str, doing: str) -> None:
    if "__given__" in vars(type(self)) or name in self.__given__:
        import dataclasses

        raise dataclasses.FrozenInstanceError(f"cannot {doing} field {name!r}")
