"""diff, history and search: what became of a memory, of a document, and of a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from colony_memory._engine.observe import observed
from colony_memory._engine.restore import read
from colony_memory._engine.walk import look_at_all, walk
from colony_memory._format.names import id_order
from colony_memory._lines import Steps
from colony_memory._matching import Found, Pattern
from colony_memory._patch import File, file_patch
from colony_memory.reports import Change, Match, SearchReport, SnapshotDiff, compare, count_lines
from colony_memory.snapshot import exact_documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory._engine.session import Session
    from colony_memory.snapshot import SnapshotInfo

#: What documents stand for: a memory that is of files has some that no text holds.
View: TypeAlias = "Callable[[Mapping[str, str]], Mapping[str, File]]"

# A document, and one line of it or what stands for that.
_Key: TypeAlias = "tuple[str, str | bytes]"

# Characters of all patches of one history together.
_PATCHES = 32 * 2**20
#: Lines that a search gives at most.
MOST_LINES = 10_000
# What stands for a document that is no text.
_WHOLE = b""


def _plain(documents: Mapping[str, str]) -> Mapping[str, File]:
    return {name: File(text) for name, text in documents.items()}


@dataclass(frozen=True)
class Histories:
    """What became of documents.

    Attributes:
        changes: The changes of each, newest first, by name.
        passed_over: Why each snapshot that was not read was not, by id.
        read: How many were.
    """

    changes: Mapping[str, tuple[Change, ...]]
    passed_over: Mapping[str, str]
    read: int


@observed("history")
async def history(session: Session, name: str, *, label: str, patch: bool, view: View | None = None) -> Histories:
    """See :meth:`colony_memory.ColonyMemory.history`; ``view`` says what the documents stand for."""
    if not isinstance(name, str):
        msg = f"a document's name must be a string, not {type(name).__name__}"
        raise ValueError(msg)  # noqa: TRY004 - one type for every bad argument
    files = view or _plain

    def only(documents: Mapping[str, str]) -> Mapping[str, File]:
        file = files(documents).get(name)
        return {} if file is None else {name: file}

    return await histories(session, label=label, patch=patch, view=only)


async def histories(session: Session, *, label: str, patch: bool, view: View | None = None) -> Histories:
    """The history of every document at once; ``view`` says what the documents stand for."""
    fold = _Changes(patch=patch)
    state = await look_at_all(session, label, "telling a document's history")
    walked = await walk(session, state, view or _plain, fold.see, _weight)
    return Histories(fold.finish(), walked.passed_over, walked.read)


def _weight(files: Mapping[str, File]) -> int:
    return sum(len(file.content) for file in files.values())


class _Changes:
    """The changes of documents, by snapshots from the newest to the oldest."""

    def __init__(self, *, patch: bool) -> None:
        self._patch, self._room = patch, _PATCHES
        self._counted, self._shown = Steps(), Steps()
        self._newer: tuple[SnapshotInfo, Mapping[str, File]] | None = None
        self._changes: dict[str, list[Change]] = {}

    def see(self, info: SnapshotInfo, files: Mapping[str, File]) -> None:
        """Compare a snapshot with the one after it."""
        if self._newer is not None:
            self._compare(*self._newer, info, files)
        self._newer = info, files

    def _compare(
        self, snapshot: SnapshotInfo, after: Mapping[str, File], info: SnapshotInfo | None, before: Mapping[str, File]
    ) -> None:
        for name in sorted({*after, *before}):
            if after.get(name) != before.get(name):
                self._add(name, snapshot, after.get(name), info, before.get(name))

    def _add(
        self, name: str, snapshot: SnapshotInfo, after: File | None, info: SnapshotInfo | None, before: File | None
    ) -> None:
        texts = ["" if file is None else file.text for file in (before, after)]
        lines = None if texts[0] is None or texts[1] is None else count_lines(texts[0], texts[1], self._counted)
        patch = None
        if self._patch and self._room > 0:
            patch = file_patch(name, before, after, self._shown)
            self._room -= len(patch)
            patch = patch if self._room >= 0 else None
        kind = "removed" if after is None else "added" if before is None else "changed"
        change = Change(kind, snapshot, info, lines, _size(after), patch)  # type: ignore[arg-type]
        self._changes.setdefault(name, []).append(change)

    def finish(self) -> dict[str, tuple[Change, ...]]:
        """All of them, the newest first."""
        if self._newer is not None:
            self._compare(*self._newer, None, {})
            self._newer = None
        return {name: _told(changes) for name, changes in sorted(self._changes.items())}


def _told(changes: list[Change]) -> tuple[Change, ...]:
    """Changes of one document, the newest first; what comes after it was removed has returned."""
    been, out = False, []
    for change in reversed(changes):
        out.append(replace(change, kind="returned") if been and change.kind == "added" else change)
        been = True
    return tuple(reversed(out))


def _size(file: File | None) -> int:
    if file is None:
        return 0
    return len(file.content if isinstance(file.content, bytes) else file.content.encode("utf-8", "surrogatepass"))


@observed("search")
async def search(
    session: Session, pattern: str, *, label: str, fixed: bool, ignore_case: bool, view: View | None = None
) -> SearchReport:
    """See :meth:`colony_memory.ColonyMemory.search`; ``view`` says what the documents stand for."""
    wanted = Pattern(pattern, fixed=fixed, ignore_case=ignore_case)
    state = await look_at_all(session, label, "searching every snapshot")
    fold = _Matches(wanted, view or _plain, latest=state.decision.follow)
    walked = await walk(session, state, fold.take, fold.see, len)
    matches = fold.finish(unread=state.decision.follow in walked.passed_over)
    return SearchReport(state.label, matches, walked.read, walked.passed_over, fold.complete)


@dataclass
class _Line:
    """A line that was found, as it is in the newest snapshot that has it."""

    name: str
    found: Found
    last: SnapshotInfo
    gone: SnapshotInfo | None
    first: SnapshotInfo
    snapshots: int = 0
    in_latest: bool = False


class _Matches:
    """The lines that were found, by snapshots from the newest to the oldest."""

    def __init__(self, pattern: Pattern, view: View, *, latest: str | None) -> None:
        self._pattern, self._view, self._latest = pattern, view, latest
        self._lines: dict[_Key, _Line] = {}
        self._newer: SnapshotInfo | None = None
        self.complete = True

    def take(self, documents: Mapping[str, str]) -> dict[_Key, Found]:
        """The lines of one snapshot that have it: those that are known, and new ones for as long as there is room."""
        out: dict[_Key, Found] = {}
        room = MOST_LINES - len(self._lines)
        for name, file in self._view(documents).items():
            for found in self._find(file):
                key = (name, found.key)
                if key in out:
                    continue
                if key not in self._lines:
                    if not room:
                        self.complete = False
                        continue
                    room -= 1
                out[key] = found
        return out

    def _find(self, file: File) -> Iterator[Found]:
        text, content = file.text, file.content
        if text is not None:
            yield from self._pattern.find_lines(text)
            return
        text = content if isinstance(content, str) else content.decode("utf-8", "surrogateescape")
        if any(self._pattern.find_lines(text)):
            yield Found(0, _WHOLE, None, (0, 0))

    def see(self, info: SnapshotInfo, found: Mapping[_Key, Found]) -> None:
        """Note which lines a snapshot has."""
        for key, line in found.items():
            known = self._lines.setdefault(key, _Line(key[0], line, info, self._newer, info))
            known.first = info
            known.snapshots += 1
            known.in_latest |= info.snapshot_id == self._latest
        self._newer = info

    def finish(self, *, unread: bool) -> tuple[Match, ...]:
        """All of them; ``unread`` says that the latest was not."""
        found = sorted(self._lines.values(), key=lambda each: (id_order(each.first.snapshot_id), each.found.number))
        found.sort(key=lambda each: id_order(each.last.snapshot_id), reverse=True)
        found.sort(key=lambda each: each.name)
        return tuple(
            Match(
                each.name,
                each.found.line,
                each.found.span,
                each.found.number,
                each.first,
                each.last,
                each.gone,
                each.snapshots,
                None if unread else each.in_latest,
            )
            for each in found
        )


@observed("diff")
async def diff(
    session: Session, a: str | Mapping[str, str], b: str | Mapping[str, str] | None, *, label: str
) -> SnapshotDiff:
    """See :meth:`colony_memory.ColonyMemory.diff`."""
    before, after = await _documents(session, a, label), await _documents(session, b, label)
    return await session.vault.compute(compare, before, after)


async def _documents(session: Session, side: str | Mapping[str, str] | None, label: str) -> Mapping[str, str]:
    if side is None or isinstance(side, str):
        return (await read(session, label=label, snapshot_id=side)).documents
    if not isinstance(side, Mapping):
        raise ValueError(f"a and b must each be an id or documents, not {type(side).__name__}")  # noqa: TRY004
    return exact_documents(side if isinstance(side, dict) else dict(side))
