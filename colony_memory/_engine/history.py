"""diff, history and search: reading every snapshot of a label once, to follow a memory, a document or a line."""

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


# The most that is read at once: vault files, and bytes of them together.
_BATCH_FILES, _BATCH_BYTES = 24, 4 * 2**20


async def walk(
    session: Session, state: State, see: Callable[[SnapshotInfo, Mapping[str, str]], None]
) -> tuple[Mapping[str, str], int]:
    """Pass each readable snapshot to ``see``, newest first; returns the problems of the others, and the number read."""
    label = state.label
    passed_over, count = dict[str, str](), 0
    for file, why in state.broken.items():
        snapshot_id = file.split(".")[2]
        passed_over[snapshot_id] = why
        _warn_passed_over(label, snapshot_id, why)
    infos, error = state.summaries, next(iter(state.untrusted.values()), None) or state.refusal
    reader = _Reading(session, state, infos)
    for info in infos:
        if (spent := spent_by(session)) is not None:
            passed_over[info.snapshot_id] = spent
            continue
        try:
            await session.vault.compute(see, *await reader.read(info))
        except (*UNREADABLE, Unreadable) as problem:
            error, passed_over[info.snapshot_id] = error or problem, message_of(problem)
            hint = problem.hint if isinstance(problem, DecryptionError) else None
            _warn_passed_over(label, info.snapshot_id, message_of(problem), hint)
            continue
        count += 1
    if (spent := spent_by(session)) is not None and spent in passed_over.values():
        number = [*passed_over.values()].count(spent)
        warn(f"{number} snapshots of label {label!r} are passed over: {spent}", hint=Hint("open", "max_bytes"))
    if not count and error is None and passed_over:
        error = SnapshotCorrupt(f"no snapshot of label {label!r} can be read: {next(iter(passed_over.values()))}")
    if not count:
        raise error or await nothing_saved(session, label=label)
    return passed_over, count


def _warn_passed_over(label: str, snapshot_id: str, why: str, hint: Hint | None = None) -> None:
    hint = hint or Hint("verify", "snapshot_id", snapshot_id, label=label)
    warn(f"snapshot {snapshot_id} of label {label!r} is passed over: {why}", hint=hint)


class _Reading(Walk):
    """Reads the snapshots one after the other, the files of several in one batch."""

    def __init__(self, session: Session, state: State, infos: Sequence[SnapshotInfo]) -> None:
        super().__init__(session, state)
        self._batches, self._done, self._total = dict[str, list[str]](), 0, 0
        files, batch, room = state.listed, list[str](), 0
        for info in infos:
            names = [manifest_filename(files.label, info.snapshot_id), *files.parts.get(info.snapshot_id, {}).values()]
            size = files.size(names)
            size = info.byte_size if size is None else size
            if not batch or room < size or len(batch) + len(names) > _BATCH_FILES:
                batch, room = self._batches.setdefault(info.snapshot_id, []), _BATCH_BYTES
            room -= size
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


#: Maps documents to the files that they stand for: a folder may have some that are not text.
View: TypeAlias = "Callable[[Mapping[str, str]], Mapping[str, File]]"

# A document's name, and the key of one line of it: the line itself, the digest of a long one, or _NOT_TEXT.
_Key: TypeAlias = "tuple[str, str | bytes]"

# Characters of all patches of one history together.
_PATCHES = 32 * 2**20
#: The most lines that a search returns.
MOST_LINES = 10_000
# The key of a document that is not text.
_NOT_TEXT = b""


def _plain(documents: Mapping[str, str]) -> Mapping[str, File]:
    return {name: File(text) for name, text in documents.items()}


class Histories(Value):
    changes: Mapping[str, tuple[Change, ...]]  # the changes of each document, newest first, by name
    passed_over: Mapping[str, str]  # the problem of each snapshot that was not read, by id
    read: int  # number of snapshots that were read


@observed("history")
async def changes(session: Session, name: str, *, label: str, patch: bool) -> tuple[Change, ...]:
    require_text("a document's name", name)
    return (await histories(session, name, label=label, patch=patch)).changes.get(name, ())


@observed("history")
async def histories(
    session: Session, name: str | None = None, *, label: str, patch: bool, view: View = _plain
) -> Histories:
    """The history of one document, or of all at once; ``view`` maps documents to the files that they stand for."""
    collector = _Changes(name, view, patch=patch)
    state = await look_at_all(session, label, "telling a document's history")
    passed_over, number = await walk(session, state, collector.see)
    return Histories(collector.finish(), passed_over, number)


class _Changes:
    def __init__(self, name: str | None, view: View, *, patch: bool) -> None:
        self._name, self._view, self._patch, self._room = name, view, patch, _PATCHES
        self._count_steps, self._patch_steps = Steps(), Steps()
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
        self, name: str, snapshot: SnapshotInfo, after: File | None, older: SnapshotInfo | None, before: File | None
    ) -> None:
        texts = ["" if file is None else file.text for file in (before, after)]
        lines = None if texts[0] is None or texts[1] is None else count_lines(texts[0], texts[1], self._count_steps)
        patch = None
        if self._patch and self._room > 0:
            patch = file_patch(name, before, after, self._patch_steps)
            self._room -= len(patch)
            patch = patch if self._room >= 0 else None
        kind = "removed" if after is None else "added" if before is None else "changed"
        change = Change(kind, snapshot, older, lines, _size(after), patch)  # type: ignore[arg-type]
        self._changes.setdefault(name, []).append(change)

    def finish(self) -> dict[str, tuple[Change, ...]]:
        """Changes by document, newest first; a document that is added again after its removal counts as returned."""
        self.see(None, {})
        return {
            name: tuple(
                replace(change, kind="returned") if change.kind == "added" and change is not changes[-1] else change
                for change in changes
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
    collector = _Matches(wanted, view, latest=state.follow)
    passed_over, number = await walk(session, state, collector.see)
    matches = collector.finish(unread=state.follow in passed_over)
    return SearchReport(state.label, matches, number, passed_over, collector.complete)


class _Line(Record):
    name: str
    found: Found
    last: SnapshotInfo  # the newest snapshot that has the line
    gone: SnapshotInfo | None  # the next newer one, which does not, None if there is none
    first: SnapshotInfo  # the oldest that has it
    snapshots: int = 0  # how many have it
    in_latest: bool = False


class _Matches:
    def __init__(self, pattern: Pattern, view: View, *, latest: str | None) -> None:
        self._pattern, self._view, self._latest = pattern, view, latest
        self._lines: dict[_Key, _Line] = {}
        self._newer: SnapshotInfo | None = None
        self.complete = True

    def see(self, info: SnapshotInfo, documents: Mapping[str, str]) -> None:
        """Note the matching lines: known ones always, new ones up to :data:`MOST_LINES`."""
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
            yield Found(0, _NOT_TEXT, None, (0, 0))

    def finish(self, *, unread: bool) -> tuple[Match, ...]:
        lines = sorted(self._lines.values(), key=lambda line: (id_order(line.first.snapshot_id), line.found.number))
        lines.sort(key=lambda line: id_order(line.last.snapshot_id), reverse=True)
        lines.sort(key=lambda line: line.name)
        out = list[Match]()
        for line in lines:
            where = (line.name, line.found.line, line.found.span, line.found.number)
            in_latest = None if unread else line.in_latest
            out.append(Match(*where, line.first, line.last, line.gone, line.snapshots, in_latest))
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


#: The most characters of a line that a report shows.
MAX_SHOWN = 300
# Characters before the match, in a line that is cut.
_LEAD = 60
# The time of most expressions grows with the square of a crafted line: longer ones are searched in overlapping pieces.
_PIECE = 2048
_MORE = 8 * _PIECE  # characters of a match that goes on after its piece, at most
# Elements of an expression: one that matches a character or a position, and a gap, which matches any characters.
_ONE = r"\\[^a-zA-Z0-9\n]|\\[bBdDsSwWt]|\[\^?[^\[\]\\^\n]+\]|[^\\\[\](){}*+?|^$\n]"
_GAP = r"\.[*+]\??"
_SIMPLE = re.compile(rf"\^?(?:{_GAP}|{_ONE})+\$?")
_GAPS = re.compile(rf"({_GAP})|{_ONE}")
_ELLIPSIS = "\u2026"


class Found(Value):
    """A matching line: its number from 1, its key, its text as reported, and the span of the match in that."""

    number: int
    key: str | bytes
    line: str | None
    span: tuple[int, int]


class Pattern:
    def __init__(self, pattern: str, *, fixed: bool = False, ignore_case: bool = False) -> None:
        """``pattern`` is a regular expression of :mod:`re`, with ``fixed`` a text; a ValueError if invalid or empty."""
        if not require_text("a pattern", pattern):
            raise ValueError("an empty pattern is in every line: say what to look for")
        if "\n" in pattern:
            raise ValueError("a pattern is searched for within single lines, so it must not hold a line feed")
        self._text = pattern if fixed and not ignore_case else None
        flags = re.IGNORECASE if ignore_case else 0
        self._regex = _compiled(re.escape(pattern) if fixed else pattern, flags)
        self._parts = () if fixed else tuple(_compiled(part, flags) for part in _split_at_gaps(pattern))

    def find(self, line: str) -> tuple[int, int] | None:
        """Span of the first match in a line (no line end); in long lines, repeats but ``.*`` reach 1,024 characters."""
        if self._text is not None:
            at = line.find(self._text)
            return None if at < 0 else (at, at + len(self._text))
        if self._parts:
            return self._find_parts(line)
        if len(line) <= _PIECE:
            found = self._regex.search(line)
            return found.span() if found else None
        return self._find_in_pieces(line)

    def _find_parts(self, line: str) -> tuple[int, int] | None:
        start, end = -1, 0
        for part in self._parts:
            # The first match also ends first, which leaves the most room for the parts after it.
            found = part.search(line, end)
            if found is None:
                return None
            start, end = found.start() if start < 0 else start, found.end()
        return start, end

    def _find_in_pieces(self, line: str) -> tuple[int, int] | None:
        half, at = _PIECE // 2, 0
        while True:
            end = min(at + _PIECE, len(line))
            found = self._regex.search(line, at, end)
            # A match that begins in the second half is found in the next piece, with the text after it.
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


def _split_at_gaps(pattern: str) -> list[str]:
    """The parts between the gaps of an expression without other repeats: ``a`` and ``b`` of ``a.*b``; else none."""
    if not _SIMPLE.fullmatch(pattern):
        return []
    parts, at = [""], 0
    for match in _GAPS.finditer(pattern):
        gap = match[1]
        parts[-1] += pattern[at : match.start()] + ("" if gap and gap[1] == "*" else "." if gap else match[0])
        at = match.end()
        if gap:
            parts.append("")
    parts[-1] += pattern[at:]
    return [part for part in parts if part]


def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that other versions of Python read differently
            return re.compile(pattern, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{shown(pattern)} is not a regular expression: {error}") from error


def _excerpt(line: str, start: int, end: int) -> tuple[str | bytes, str, tuple[int, int]]:
    """The key of a line, its text as reported, cut if it is long, and the span of the match in that."""
    if len(line) <= MAX_SHOWN:
        return line, line, (start, end)
    from hashlib import sha256

    begin = max(0, min(start - _LEAD, len(line) - MAX_SHOWN))
    stop = begin + MAX_SHOWN
    before, after = _ELLIPSIS if begin else "", _ELLIPSIS if stop < len(line) else ""
    shift = len(before) - begin
    key = sha256(line.encode("utf-8", "surrogatepass")).digest()
    return key, f"{before}{line[begin:stop]}{after}", (start + shift, min(end, stop) + shift)
