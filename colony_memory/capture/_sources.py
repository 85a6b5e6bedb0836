"""The paths that a caller names, and the names under which what is in them is saved.

What a set of sources says of itself in a snapshot, and what differs between two of them.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import require_named
from colony_memory._format.json import canonical, load_object
from colony_memory._os.paths import decode_name
from colony_memory._values import dataclass
from colony_memory.capture._contents import reason_of
from colony_memory.capture._filenames import name_problem
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


RECORD_NAME = ".colony-memory/sources.json"
"""The document that says of a set what is in it: kinds, counts and versions."""

_FORMAT = "colony-memory/sources/1"


@dataclass(frozen=True)
class SourceDiff:
    """What differs in one source between two snapshots of a set; true where anything that is counted does.

    Attributes:
        path: The source.
        kind: Its kind.
        counts: What is counted, each with the number before and after; 0 where it was not there.
        versions: The programs whose version changed, each with the one before and after; empty where there was none.
    """

    path: str
    kind: str
    counts: Mapping[str, tuple[int, int]]
    versions: Mapping[str, tuple[str, str]]

    def __bool__(self) -> bool:
        return bool(self.versions) or any(before != after for before, after in self.counts.values())

    def __str__(self) -> str:
        changes = [
            f"{what} {before} -> {after}" if before != after else f"{what} {after}"
            for what, (before, after) in self.counts.items()
        ]
        changes += [
            f"{program} {before or '-'} -> {after or '-'}" for program, (before, after) in self.versions.items()
        ]
        # What a vault says may end on a terminal.
        text = f"{self.path}: {', '.join(changes)}"
        return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def compare_sources(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[SourceDiff, ...]:
    """What differs between two snapshots of a set, source by source, by what each has counted.

    Args:
        before: Documents of the earlier one; empty where there was none.
        after: Documents of the later one.

    Raises:
        ValueError: One is no snapshot of a set.
        SnapshotCorrupt: A record is malformed.
    """
    old, new = (read_record(each) if each else {} for each in (before, after))
    return tuple(_difference(path, old.get(path), new.get(path)) for path in sorted({*old, *new}))


def read_record(documents: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What the record of a set says, by path: ``kind``, ``counts`` and ``versions``.

    Raises:
        ValueError: There is none.
        SnapshotCorrupt: It is malformed.
    """
    if RECORD_NAME not in documents:
        raise ValueError(f"no snapshot of a set: it has no document {RECORD_NAME!r}")
    try:
        parsed = load_object(documents[RECORD_NAME])
    except ValueError as error:
        raise _corrupt(f"is not readable: {error}") from error
    if parsed.get("format") != _FORMAT:
        raise UnsupportedFormat(
            f"document {RECORD_NAME!r} has the format {parsed.get('format')!r}, and this version reads {_FORMAT!r}",
            file=RECORD_NAME,
        )
    sources = parsed.get("sources")
    if not isinstance(sources, dict):
        raise _corrupt("has no object 'sources'")
    for path, entry in sources.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str) or name_problem(path):
            raise _corrupt(f"has no kind for {path!r}")
        for key, kind in (("counts", int), ("versions", str)):
            values = entry.get(key)
            if not isinstance(values, dict) or not all(type(value) is kind for value in values.values()):
                raise _corrupt(f"has something other than numbers and versions for {path!r}")
    return sources


def write_record(sources: Mapping[str, Mapping[str, Any]]) -> str:
    """The document, of what :func:`read_record` gives."""
    return canonical({"format": _FORMAT, "sources": sources}).decode("utf-8", "surrogatepass")


def _difference(path: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> SourceDiff:
    nothing: dict[str, Any] = {"counts": {}, "versions": {}}
    one, other = old or nothing, new or nothing
    counts = {
        what: (one["counts"].get(what, 0), other["counts"].get(what, 0))
        for what in sorted({*one["counts"], *other["counts"]})
    }
    versions = {
        program: (one["versions"].get(program, ""), other["versions"].get(program, ""))
        for program in sorted({*one["versions"], *other["versions"]})
        if one["versions"].get(program) != other["versions"].get(program)
    }
    return SourceDiff(path, (new or old or {})["kind"], counts, versions)


def _corrupt(what: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(f"document {RECORD_NAME!r} {what}", file=RECORD_NAME)


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
