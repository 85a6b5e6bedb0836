"""The paths that a caller names, and the names under which what is in them is saved."""

from __future__ import annotations

import os
import stat
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._boundary import require_named
from colony_memory._os.paths import decode_name
from colony_memory._values import dataclass
from colony_memory.capture._steady import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Source:
    """A path that the caller named.

    Attributes:
        path: As it was given.
        is_directory: What stands there, links followed.
        prefix: Where it is saved: the name of a file; for a directory what comes before its files' names, without
            the slash, empty where it is the only source.
    """

    path: Path
    is_directory: bool
    prefix: str = ""


def find_sources(paths: Iterable[str | os.PathLike[str]]) -> list[Source]:
    """Look at the paths and give each its name. A path that is given twice counts once.

    Raises:
        ValueError: A path is missing, not readable, or neither a file nor a directory, or two cannot be told apart.
    """
    found: dict[tuple[str, ...], Source] = {}
    for path in paths:
        source = _look_at(path)
        found.setdefault(_components(source.path), source)
    if len(found) == 1:
        ((components, source),) = found.items()
        return [source if source.is_directory else Source(source.path, False, decode_name(components[-1]))]
    names = _tell_apart(found)
    return [Source(source.path, source.is_directory, names[components]) for components, source in found.items()]


def require_directory(path: str | os.PathLike[str]) -> Source:
    """Look at a path that has to be a directory.

    Raises:
        ValueError: It is none, or cannot be looked at.
    """
    source = _look_at(path)
    if not source.is_directory:
        raise ValueError(f"{os.fspath(path)!r} is not a directory")
    return source


def _look_at(path: str | os.PathLike[str]) -> Source:
    require_named(path)
    try:
        status = Path(path).stat()
    except FileNotFoundError as error:
        raise ValueError(f"{os.fspath(path)!r}: no such file or directory") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be read: {reason_of(error)}") from error
    if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{os.fspath(path)!r} is neither a file nor a directory")
    return Source(Path(path), stat.S_ISDIR(status.st_mode))


def _components(path: Path) -> tuple[str, ...]:
    """The path from the root, spelled out, with links left in: a link's own name is the one that was chosen."""
    return Path(os.path.abspath(path)).parts[1:]  # noqa: PTH100 - Path.absolute() keeps '..'


def _tell_apart(found: dict[tuple[str, ...], Source]) -> dict[tuple[str, ...], str]:
    """Give each path the shortest end of it that is neither another's nor a directory above another's."""
    length = dict.fromkeys(found, 1)
    while True:
        longer = set()
        for one in found:
            for other in found:
                if one != other and _is_within(_end(other, length[other]), _end(one, length[one])):
                    longer.add(one)
        if not longer:
            return {components: "/".join(map(decode_name, components[-length[components] :])) for components in found}
        for components in longer:
            if length[components] >= len(components):
                raise ValueError(
                    f"{str(found[components].path)!r} would share its name with another path: back it up separately"
                )
            length[components] += 1


def _end(components: tuple[str, ...], length: int) -> tuple[str, ...]:
    # Names that some file systems take for one are told apart too.
    return tuple(unicodedata.normalize("NFC", part).casefold() for part in components[-length:])


def _is_within(inner: tuple[str, ...], outer: tuple[str, ...]) -> bool:
    return inner[: len(outer)] == outer
