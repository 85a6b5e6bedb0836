"""Pure: what callers pass, looked at before anything is done with it: each error names the argument."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")


def require_type(argument: str, value: object, kind: type[_T]) -> _T:
    """The value, where it is of this type."""
    if not isinstance(value, kind):
        raise ValueError(f"{argument} must be of type {kind.__name__}, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_text(argument: str, value: object) -> str:
    """The value, where it is a text."""
    if not isinstance(value, str):
        raise ValueError(f"{argument} must be a string, not {type(value).__name__}")  # noqa: TRY004
    return value


def require_path(argument: str, value: object) -> str:
    """The text of a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{argument} must be a path, not {type(value).__name__}")  # noqa: TRY004
    path = os.fspath(value)
    if not isinstance(path, str):
        raise ValueError(f"{argument} must be a path of type str, not {path!r}")  # noqa: TRY004
    return path


def require_call(argument: str, value: object) -> None:
    """Go on where it can be called, or is None."""
    if value is not None and not callable(value):
        raise ValueError(f"{argument} must be a function or None, not {type(value).__name__}")


def read_written(data: bytes) -> str:
    """The text of a file that somebody has written: without the mark that editors and shells of Windows begin it with,
    and with LF for their line ends.
    """
    in_utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if in_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def require_as_meant(argument: str, value: str) -> str:
    """The value, unless it bears what a file of settings has around it for another reader.

    It is not repeated: it may be a key.
    """
    for what, is_there in (
        ("within quotes, which are taken for a part of it", len(value) > 1 and value[0] == value[-1] in "\"'"),
        (
            "with a line end or another control character",
            value.strip("\n") != value or any(sign < " " and sign not in "\n\t" for sign in value),
        ),
        ("with a byte order mark", "\ufeff" in value),
    ):
        if is_there:
            raise ValueError(f"{argument} is given {what}: give it without")
    return value


def several(argument: str, value: Any) -> list[Any]:
    """One text, or each of several; what each has to be is for the caller to see to."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
        raise ValueError(f"{argument} must be a string or several, not {type(value).__name__}")  # noqa: TRY004
    return list(value)


def texts(argument: str, value: Any) -> list[str]:
    """One text, or several."""
    return [require_text(f"each of {argument}", each) for each in several(argument, value)]


def is_coroutine(function: object) -> bool:
    """True if it is a coroutine function."""
    # inspect.iscoroutinefunction without its import, which is slow: the flag is that of PEP 492.
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    flags = getattr(code, "co_flags", None)  # a mock has every attribute, and they are mocks
    return isinstance(flags, int) and bool(flags & 0x80)
