"""diff, history and search: every snapshot of a label read once, and what became of a memory, a document, a line."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from colony_memory._boundary import require_text
from colony_memory._diff import File, Steps, each_line, file_patch
from colony_memory._engine.load import UNREADABLE, Walk, most_stored, nothing_saved
from colony_memory._engine.observe import observed, spent_by
from colony_memory._engine.restore import read
from colony_memory._engine.session import Session, warn
from colony_memory._engine.state import State, look_at_all
from colony_memory._engine.store import Unreadable
from colony_memory._format.json import exact_documents, shown
from colony_memory._format.names import id_order, manifest_filename
from colony_memory._values import Record, Value, replace
from colony_memory.exceptions import DecryptionError, Hint, SnapshotCorrupt, message_of
from colony_memory.reports import Change, Match, SearchReport, SnapshotDiff, compare, count_lines

if TYPE_CHECKING:
    from colony_memory.snapshot import SnapshotInfo


# What is asked for at once: vault files, and bytes of them together.
_BATCH_FILES, _BATCH_BYTES = 24, 4 * 2**20


async def walk(
    session: Session, state: State, see: Callable[[SnapshotInfo, Mapping[str, str]], None]
) -> tuple[Mapping[str, str], int]:
    """Have every snapshot seen that restores by its id, newest first; why others did not, and how many were read."""
    label = state.label
    passed, read = dict[str, str](), 0
    for file, why in state.broken.items():
        each = file.split(".")[2]
        passed[each] = why
        _pass_over(label, each, why)
    infos, error = state.summaries, next(iter(state.untrusted.values()), None) or state.refusal
    reading = _Reading(session, state, infos)
    for info in infos:
        if (spent := spent_by(session)) is not None:
            passed[info.snapshot_id] = spent
            continue
        try:
            await session.vault.compute(see, *await reading.read(info))
        except (*UNREADABLE, Unreadable) as wrong:
            error, passed[info.snapshot_id] = error or wrong, message_of(wrong)
            closed = wrong.hint if isinstance(wrong, DecryptionError) else None
            _pass_over(label, info.snapshot_id, message_of(wrong), closed)
            continue
        read += 1
    if (spent := spent_by(session)) is not None and spent in passed.values():
        number = [*passed.values()].count(spent)
        warn(f"{number} snapshots of label {label!r} are passed over: {spent}", hint=Hint("open", "max_bytes"))
    if not read and error is None and passed:
        error = SnapshotCorrupt(f"no snapshot of label {label!r} can be read: {next(iter(passed.values()))}")
    if not read:
        raise error or await nothing_saved(session, label=label)
    return passed, read


def _pass_over(label: str, snapshot_id: str, why: str, hint: Hint | None = None) -> None:
    hint = hint or Hint("verify", "snapshot_id", snapshot_id, label=label)
    warn(f"snapshot {snapshot_id} of label {label!r} is passed over: {why}", hint=hint)


class _Reading(Walk):
    """The files of several are read at once."""

    def __init__(self, session: Session, state: State, infos: Sequence[SnapshotInfo]) -> None:
        super().__init__(session, state)
        self._batches, self._done, self._total = dict[str, list[str]](), 0, 0
        files, batch, left = state.listed, list[str](), 0
        for info in infos:
            names = [manifest_filename(files.label, info.snapshot_id), *files.parts.get(info.snapshot_id, {}).values()]
            size = files.size(names)
            size = info.byte_size if size is None else size
            if not batch or left < size or len(batch) + len(names) > _BATCH_FILES:
                batch, left = self._batches.setdefault(info.snapshot_id, []), _BATCH_BYTES
            left -= size
            batch += names
            self._total += len(names)

    async def read(self, info: SnapshotInfo) -> tuple[SnapshotInfo, dict[str, str]]:
        names = self._batches.get(info.snapshot_id)
        if names is not None:
            at_most = most_stored(self.session.max_bytes)
            try:
                self.shelf.ahead = await self.session.vault.get_many(
                    names, self._tell, at_most=at_most, shelf=self.shelf
                )
            except (Unreadable, SnapshotCorrupt):
                self.shelf.ahead = {}  # one of several: each is read on its own
            self._done += len(names)
        documents = (await self.load(info.snapshot_id)).documents
        entry = self.state.entry(info.snapshot_id)
        return info if entry is None else self.session.known_info(entry, info), documents

    def _tell(self, action: Any, name: str, done: int, _: int) -> None:
        self.session.tell(action, name, self._done + done, self._total)


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


class Histories(Value):
    changes: Mapping[str, tuple[Change, ...]]  # the changes of each, newest first, by name
    passed_over: Mapping[str, str]  # why each snapshot that was not read was not, by id
    read: int  # how many were


@observed("history")
async def changes(session: Session, name: str, *, label: str, patch: bool) -> tuple[Change, ...]:
    require_text("a document's name", name)
    return (await histories(session, name, label=label, patch=patch)).changes.get(name, ())


@observed("history")
async def histories(
    session: Session, name: str | None = None, *, label: str, patch: bool, view: View = _plain
) -> Histories:
    """The history of one document, or of every one at once; ``view`` says what the documents stand for."""
    fold = _Changes(name, view, patch=patch)
    state = await look_at_all(session, label, "telling a document's history")
    passed_over, number = await walk(session, state, fold.see)
    return Histories(fold.finish(), passed_over, number)


class _Changes:
    def __init__(self, name: str | None, view: View, *, patch: bool) -> None:
        self._name, self._view, self._patch, self._room = name, view, patch, _PATCHES
        self._counted, self._shown = Steps(), Steps()
        self._newer: tuple[SnapshotInfo | None, Mapping[str, File]] = (None, {})
        self._changes: dict[str, list[Change]] = {}

    def see(self, info: SnapshotInfo | None, documents: Mapping[str, str]) -> None:
        files = self._view(documents) if documents else {}
        if self._name is not None:
            files = {name: file for name, file in files.items() if name == self._name}
        snapshot, newer = self._newer
        self._newer = info, files
        if snapshot is not None:
            for name in sorted({*newer, *files}):
                if newer.get(name) != files.get(name):
                    self._add(name, snapshot, newer.get(name), info, files.get(name))

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
        """Changes by document, the newest first; what comes after it was removed has returned."""
        self.see(None, {})
        return {
            name: tuple(
                replace(each, kind="returned") if each.kind == "added" and each is not changes[-1] else each
                for each in changes
            )
            for name, changes in sorted(self._changes.items())
        }


def _size(file: File | None) -> int:
    content = b"" if file is None else file.content
    return len(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))


@observed("search")
async def search(
    session: Session, pattern: str, *, label: str, fixed: bool, ignore_case: bool, view: View = _plain
) -> SearchReport:
    wanted = Pattern(pattern, fixed=fixed, ignore_case=ignore_case)
    state = await look_at_all(session, label, "searching every snapshot")
    fold = _Matches(wanted, view, latest=state.follow)
    passed_over, number = await walk(session, state, fold.see)
    matches = fold.finish(unread=state.follow in passed_over)
    return SearchReport(state.label, matches, number, passed_over, fold.complete)


class _Line(Record):
    name: str
    found: Found
    last: SnapshotInfo
    gone: SnapshotInfo | None
    first: SnapshotInfo
    snapshots: int = 0
    in_latest: bool = False


class _Matches:
    def __init__(self, pattern: Pattern, view: View, *, latest: str | None) -> None:
        self._pattern, self._view, self._latest = pattern, view, latest
        self._lines: dict[_Key, _Line] = {}
        self._newer: SnapshotInfo | None = None
        self.complete = True

    def see(self, info: SnapshotInfo, documents: Mapping[str, str]) -> None:
        """Note the lines that have it: those that are known, and new ones for as long as there is room."""
        for name, file in self._view(documents).items():
            for found in self._find(file):
                key = (name, found.key)
                line = self._lines.get(key)
                if line is None and len(self._lines) < MOST_LINES:
                    line = self._lines[key] = _Line(name, found, info, self._newer, info)
                if line is None:
                    self.complete = False
                elif line.first is not info or not line.snapshots:
                    line.first = info
                    line.snapshots += 1
                    line.in_latest |= info.snapshot_id == self._latest
        self._newer = info

    def _find(self, file: File) -> Iterator[Found]:
        text, content = file.text, file.content
        if text is not None:
            yield from self._pattern.find_lines(text)
            return
        text = content if isinstance(content, str) else content.decode("utf-8", "surrogateescape")
        if any(self._pattern.find_lines(text)):
            yield Found(0, _WHOLE, None, (0, 0))

    def finish(self, *, unread: bool) -> tuple[Match, ...]:
        found = sorted(self._lines.values(), key=lambda each: (id_order(each.first.snapshot_id), each.found.number))
        found.sort(key=lambda each: id_order(each.last.snapshot_id), reverse=True)
        found.sort(key=lambda each: each.name)
        out = list[Match]()
        for each in found:
            where = (each.name, each.found.line, each.found.span, each.found.number)
            in_latest = None if unread else each.in_latest
            out.append(Match(*where, each.first, each.last, each.gone, each.snapshots, in_latest))
        return tuple(out)


@observed("diff")
async def diff(
    session: Session, a: str | Mapping[str, str], b: str | Mapping[str, str] | None, *, label: str
) -> SnapshotDiff:
    before, after = await _documents(session, a, label), await _documents(session, b, label)
    return await session.vault.compute(compare, before, after)


async def _documents(session: Session, side: str | Mapping[str, str] | None, label: str) -> Mapping[str, str]:
    if side is None or isinstance(side, str):
        return (await read(session, label=label, snapshot_id=side)).documents
    if not isinstance(side, Mapping):
        raise ValueError(f"a and b must each be an id or documents, not {type(side).__name__}")  # noqa: TRY004
    return exact_documents(side if isinstance(side, dict) else dict(side))


#: Characters of a line that a report gives at most.
MAX_SHOWN = 300
# Characters before what was found, in a line that is cut.
_LEAD = 60
# Most expressions take time that grows with the square of a line that someone chose for it. A longer line than this is
# looked at in pieces that overlap by half.
_PIECE = 2048
_MORE = 8 * _PIECE
# What stands for one character or none, and what stands for any number of any.
_ONE = r"\\[^a-zA-Z0-9\n]|\\[bBdDsSwWt]|\[\^?[^\[\]\\^\n]+\]|[^\\\[\](){}*+?|^$\n]"
_GAP = r"\.[*+]\??"
_ROW = re.compile(rf"\^?(?:{_GAP}|{_ONE})+\$?")
_GAPS = re.compile(rf"({_GAP})|{_ONE}")
_ELLIPSIS = "\u2026"


class Found(Value):
    """A line that has what is looked for: which from 1, it or what stands for it, what is told of it, and where."""

    number: int
    key: str | bytes
    line: str | None
    span: tuple[int, int]


class Pattern:
    def __init__(self, pattern: str, *, fixed: bool = False, ignore_case: bool = False) -> None:
        """Take a regular expression of :mod:`re`, or with ``fixed`` a text; a ValueError where it is none, or empty."""
        if not require_text("a pattern", pattern):
            raise ValueError("an empty pattern is in every line: say what to look for")
        if "\n" in pattern:
            raise ValueError("a pattern is looked for in one line, and there is a line feed in it")
        self._text = pattern if fixed and not ignore_case else None
        flags = re.IGNORECASE if ignore_case else 0
        self._regex = _compiled(re.escape(pattern) if fixed else pattern, flags)
        self._row = () if fixed else tuple(_compiled(each, flags) for each in _row(pattern))

    def find(self, line: str) -> tuple[int, int] | None:
        """Where it is first in a line without its end. In a long one, what repeats more than ``.`` spans 1,024."""
        if self._text is not None:
            at = line.find(self._text)
            return None if at < 0 else (at, at + len(self._text))
        if self._row:
            return self._find_row(line)
        if len(line) <= _PIECE:
            found = self._regex.search(line)
            return found.span() if found else None
        return self._find_in_pieces(line)

    def _find_row(self, line: str) -> tuple[int, int] | None:
        start, end = -1, 0
        for each in self._row:
            # The first that ends first: whatever comes after it has the most room.
            found = each.search(line, end)
            if found is None:
                return None
            start, end = found.start() if start < 0 else start, found.end()
        return start, end

    def _find_in_pieces(self, line: str) -> tuple[int, int] | None:
        half, at = _PIECE // 2, 0
        while True:
            end = min(at + _PIECE, len(line))
            found = self._regex.search(line, at, end)
            # What begins in the second half is seen in the next piece, with what comes after it.
            if found and (found.start() < at + half or end == len(line)):
                if found.end() == end < len(line):
                    found = self._regex.match(line, found.start(), min(found.start() + _MORE, len(line)))
                if found:
                    return found.span()
            if end == len(line):
                return None
            at += half

    def find_lines(self, text: str) -> Iterator[Found]:
        if self._text is not None and self._text not in text:
            return
        for number, line in enumerate(each_line(text), 1):
            span = self.find(line)
            if span is not None:
                yield Found(number, *_excerpt(line, *span))


def _row(pattern: str) -> list[str]:
    """The texts in a row where an expression is no more: ``a.*b`` is an ``a`` and a ``b`` behind it."""
    if not _ROW.fullmatch(pattern):
        return []
    parts, at = [""], 0
    for each in _GAPS.finditer(pattern):
        gap = each[1]
        parts[-1] += pattern[at : each.start()] + ("" if gap and gap[1] == "*" else "." if gap else each[0])
        at = each.end()
        if gap:
            parts.append("")
    parts[-1] += pattern[at:]
    return [part for part in parts if part]


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what another version of Python may take it for
            return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{shown(pattern)} is not a regular expression: {error}") from error


def _excerpt(line: str, start: int, end: int) -> tuple[str | bytes, str, tuple[int, int]]:
    """What stands for a line, as much of it as is told, and where in that what was found is."""
    if len(line) <= MAX_SHOWN:
        return line, line, (start, end)
    from hashlib import sha256

    begin = max(0, min(start - _LEAD, len(line) - MAX_SHOWN))
    stop = begin + MAX_SHOWN
    before, after = _ELLIPSIS if begin else "", _ELLIPSIS if stop < len(line) else ""
    shift = len(before) - begin
    key = sha256(line.encode("utf-8", "surrogatepass")).digest()
    return key, f"{before}{line[begin:stop]}{after}", (start + shift, min(end, stop) + shift)
