"""Substitutes for parts of the standard library that load slowly: records, lazy patterns, a lock-free property."""

# ruff: noqa: PLC0414 - an import under its own name is for others to import

from __future__ import annotations

import collections
import functools
import operator
import re
import sys
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - takes the place of the one with this name
        """Computed without a lock, and so more than once if several threads ask first at the same time."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """The value; once computed it lies in the instance, where Python looks first."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


def names_of(kind: Any) -> tuple[str, ...]:
    """The names of the fields of a record, or of its class."""
    return tuple(kind.__fields__)


_NONE = object()


class _Late:
    """The result of a call, which is made at the first access to an attribute of it."""

    def __init__(self, make: Any, *arguments: Any) -> None:
        self._make, self._arguments = make, arguments

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._make(*self._arguments), name)
        setattr(self, name, value)
        return value


class _Field:
    def __init__(self, **options: Any) -> None:
        self.options = options
        self.default = options.get("default", _NONE)
        self.factory = options.get("default_factory", _NONE)
        self.init = options.get("init", True)


class _Standard:
    """An attribute of dataclasses that is seldom asked for, taken from the twin."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return getattr(_twin(owner), self._name)


class _Layout:
    """The layout of a class, computed for its first instance, as most classes never have one."""

    def __get__(self, instance: Any, cls: Any) -> Any:
        fields = {name: spec for name, (_, spec) in cls.__fields__.items()}
        names = [name for name, spec in fields.items() if spec.init]
        required = [name for name in names if fields[name].default is _NONE and fields[name].factory is _NONE]
        defaults = {name: spec.default for name, spec in fields.items()}
        makers = [(name, spec.factory) for name, spec in fields.items() if spec.factory is not _NONE]
        compared = [name for name, spec in fields.items() if spec.options.get("compare", True)]
        content = operator.attrgetter(*compared or ["__class__"])
        cls.__layout__ = names, frozenset(names), frozenset(required), defaults, makers, content
        return cls.__layout__


_layout = _Layout()


_muted = False


def mute_log() -> None:
    """Silence this package's log, except for handlers of the program's own."""
    global _muted  # noqa: PLW0603 - there is one log
    _muted = True


def _logger(name: str) -> Any:
    import logging

    if _muted:
        logging.getLogger("colony_memory").addHandler(logging.NullHandler())
    return logging.getLogger(name)


if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import field as field
    from dataclasses import replace as replace
    from logging import getLogger as getLogger
    from typing import NamedTuple as NamedTuple

    from typing_extensions import dataclass_transform

    pattern = re.compile

    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    class Value:
        def __init_subclass__(cls, *, eq: bool = True) -> None: ...

    @dataclass_transform(field_specifiers=(field,))
    class Record:
        def __init_subclass__(cls, *, eq: bool = True) -> None: ...

else:
    getLogger = functools.partial(_Late, _logger)  # noqa: N816 - takes the place of the one with this name
    pattern = functools.partial(_Late, re.compile)
    field = _Field

    class _Named(type):
        def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> type:
            if not bases:
                return super().__new__(cls, name, bases, space)
            names = [*space.get("__annotations__", ())]
            defaults = [space.pop(key) for key in names if key in space]
            made = collections.namedtuple(name, names, defaults=defaults, module=space["__module__"])  # noqa: PYI024
            for key, value in space.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Named):
        """:class:`typing.NamedTuple`, but quick to make: that one compiles each annotation."""

    def asdict(instance: Any) -> dict[str, Any]:
        """The fields by name, and those of the records in them."""
        return {name: _plain(getattr(instance, name)) for name in instance.__fields__}

    def replace(instance: Any, /, **changes: Any) -> Any:
        """A copy with other values in some fields."""
        return type(instance)(**{name: getattr(instance, name) for name in instance.__layout__[0]} | changes)

    class Value:
        """A frozen dataclass by inheritance: nothing is compiled, and no method is put into each class."""

        __fields__: ClassVar[dict[str, tuple[str, _Field]]] = {}
        __dataclass_fields__ = _Standard()
        __dataclass_params__ = _Standard()
        __match_args__ = _Standard()
        __signature__ = _Standard()

        def __init_subclass__(cls, *, eq: bool = True) -> None:
            super().__init_subclass__()
            own, fields = vars(cls), dict(cls.__fields__)
            kinds = cls.__annotations__ if "__annotations__" in own or "__annotate_func__" in own else {}
            for name, kind in kinds.items():
                if "ClassVar" in str(kind):
                    continue
                value = own.get(name, _NONE)
                fields[name] = kind, value if isinstance(value, _Field) else _Field(default=value)
                if isinstance(value, _Field) and value.default is _NONE:
                    delattr(cls, name)
                elif isinstance(value, _Field):
                    setattr(cls, name, value.default)
            cls.__fields__, cls.__layout__ = fields, _layout
            if not eq:
                cls.__eq__, cls.__hash__ = object.__eq__, object.__hash__

        def __init__(self, *positional: Any, **named: Any) -> None:
            names, allowed, required, defaults, makers, _ = self.__layout__
            count = len(positional) + len(named)
            values = dict(zip(names, positional, strict=False), **named) if positional else named
            if not required <= values.keys() <= allowed or len(values) != count:
                _twin(type(self)).__init__(self, *positional, **named)  # which names the error
            own = self.__dict__
            if count < len(defaults):
                own.update(defaults)
                for name, make in makers:
                    if name not in values:
                        own[name] = make()
            own.update(values)
            self.__post_init__()

        def __post_init__(self) -> None:
            """Check the fields, or compute more."""

        def __eq__(self, other: object) -> bool:
            if other.__class__ is not self.__class__:
                return NotImplemented
            content = self.__layout__[-1]
            return content(self) == content(other)

        def __hash__(self) -> int:
            return hash(self.__layout__[-1](self))

        def __repr__(self) -> str:
            shown = [name for name, (_, spec) in self.__fields__.items() if spec.options.get("repr", True)]
            return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

        def __replace__(self, /, **changes: Any) -> Any:
            return replace(self, **changes)

        def __setattr__(self, name: str, value: object) -> None:
            raise _frozen(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise _frozen(f"cannot delete field {name!r}")

    class Record(Value):
        """A dataclass whose fields may be set."""

        __setattr__ = object.__setattr__
        __delattr__ = object.__delattr__
        __hash__ = None


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        items = map(_plain, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return asdict(value) if hasattr(type(value), "__fields__") else value


def _frozen(message: str) -> Exception:
    import dataclasses

    return dataclasses.FrozenInstanceError(message)


@functools.lru_cache(None)
def _twin(cls: Any) -> Any:
    """The equivalent dataclass of a class."""
    import dataclasses  # slow to import, as is the next
    import inspect

    space: dict[str, Any] = {"__annotations__": {}, "__qualname__": cls.__qualname__, "__module__": cls.__module__}
    for name, (kind, spec) in cls.__fields__.items():
        space["__annotations__"][name] = kind
        options = {key: value for key, value in spec.options.items() if value is not _NONE}
        space[name] = dataclasses.field(**options)
    frozen, eq = cls.__setattr__ is not object.__setattr__, cls.__eq__ is not object.__eq__
    twin: Any = dataclasses.dataclass(frozen=frozen, eq=eq)(type(cls.__name__, (), space))
    twin.__signature__ = inspect.signature(twin)
    return twin
