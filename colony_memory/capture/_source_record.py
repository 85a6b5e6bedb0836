"""What a set of sources says of itself in a snapshot, and what differs between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import canonical, load_object
from colony_memory.capture._filenames import name_problem
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

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
