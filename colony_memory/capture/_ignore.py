"""Rules of .gitignore, as git's own wildmatch.c reads them, and the names and kinds of files that are not saved.

A pattern may be a stranger's: it becomes a regex that takes each piece where it first fits, so that the time of a match
grows with the product of both lengths, and with no higher power.
"""

from __future__ import annotations

import re
import stat
import string
from itertools import count
from typing import TYPE_CHECKING

from colony_memory._boundary import texts
from colony_memory._format.names import is_cortex_file
from colony_memory._os.directory import open_below
from colony_memory._os.paths import decode_name, is_directory, is_file, is_link, local_name, name_kind, real_path
from colony_memory._values import Record, Value, field
from colony_memory._values import pattern as compiled
from colony_memory.capture._filenames import LONGEST_NAME, depth_problem, is_staging, name_problem, parents_of
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path


GIT_NAME, IGNORE_NAME = ".git", ".cmemignore"
LARGEST = 1 << 16  # bytes of a file of rules: each name is matched with each rule

_LONGEST = 4096  # bytes of a rule: no path is longer
# Steps for a name, and more for all, of a folder's rules, maybe a stranger's; a hundred usual ones take a thousand.
_STEPS_FOR_A_NAME = 50_000
_STEPS_MORE = 10_000_000
VAULT = "a vault: each backup would hold all the ones before; keep it elsewhere"
_MARKER = ".cmem-vault.json"
# Placeholders of sync services: a suffix of their own, or a flag of the system.
_PLACEHOLDER_SUFFIXES = (".nextcloud", ".owncloud")
_DATALESS = 0x40000000  # SF_DATALESS of macOS
_RECALLED = 0x00401000 | 0x00040000  # FILE_ATTRIBUTE_OFFLINE and RECALL_ON_… of Windows
_SPECIAL = b"*?[\\"
_LONG = 128  # bytes of a pattern for which a match may take one more step at each place
_DIRECTORIES = b"(?:.*?/)??"
_PRINTED = frozenset(range(0x20, 0x7F))
_WORD = frozenset((string.ascii_letters + string.digits).encode())
_ITEM = compiled(rb"(?s)\[:(?P<name>[^\]]*):\]|\\.|.")  # of a bracket
_UPTO = compiled(rb"(?s)(?!\]|\\\Z)\\?(.)")  # the end of a range
_CLASSES = {
    b"alnum": _WORD,
    b"alpha": frozenset(string.ascii_letters.encode()),
    b"blank": frozenset(b" \t"),
    b"cntrl": frozenset([*range(0x20), 0x7F]),
    b"digit": frozenset(string.digits.encode()),
    b"graph": _PRINTED - frozenset(b" "),
    b"lower": frozenset(string.ascii_lowercase.encode()),
    b"print": _PRINTED,
    b"punct": _PRINTED - frozenset(b" ") - _WORD,
    b"space": frozenset(b" \t\n\r"),
    b"upper": frozenset(string.ascii_uppercase.encode()),
    b"xdigit": frozenset(string.hexdigits.encode()),
}


class Rule(Value):
    """A rule, from one line of a file."""

    excludes: bool  # else it brings back
    anchored: bool  # for a path from the file's directory; else for a name at any depth
    for_directories: bool  # for them alone
    prefix: bytes  # plain start of the pattern, without a leading slash
    suffix: bytes | None  # plain end of the pattern, if there is only a `*` in between; else None
    rest: re.Pattern[bytes]  # the pattern after `prefix`
    size: int  # of that, as it was written

    def matches(self, name: bytes) -> bool:
        if not name.startswith(self.prefix):
            return False
        rest = name[len(self.prefix) :]
        if self.suffix is None:
            return self.rest.fullmatch(rest) is not None
        return rest.endswith(self.suffix) and b"/" not in rest[: len(rest) - len(self.suffix)]

    def steps(self, name: bytes) -> int:
        """The greatest cost of a match, in steps of less than a microsecond."""
        if not self.size or self.suffix is not None or not name.startswith(self.prefix):
            return 1
        return 1 + (len(name) - len(self.prefix)) * (1 + self.size // _LONG)


class IgnoreRules(Record):
    """Rules by the directory that they are for, the last one first."""

    _rules: dict[bytes, list[Rule]] = field(default_factory=dict)
    _steps: int = field(default_factory=lambda: _STEPS_MORE)

    def add(self, directory: str, data: bytes | bytearray, *, where: str) -> None:
        """Add the file of a directory, empty for the folder itself; ``where`` is the file's path in messages."""
        rules = []
        for number, line in enumerate(bytes(data).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            try:
                rule = parse(line.removesuffix(b"\r"))
            except ValueError as error:
                shown = line.decode("utf-8", "backslashreplace").rstrip("\r")
                raise ColonyMemoryError(f"{where}:{number}: {shown!r} is not a rule of gitignore: {error}") from error
            if rule is not None:
                rules.append(rule)
        if rules:
            self._rules[_bytes(directory)] = rules[::-1]

    def exclude(self, name: str, *, is_directory: bool) -> bool | None:
        """True if the rules exclude this very name, false if they bring it back, None if none matches."""
        if not self._rules:
            return None
        self._steps += _STEPS_FOR_A_NAME
        path = directory = _bytes(name)
        last_name = path[path.rfind(b"/") + 1 :]
        while directory:
            directory = directory.rpartition(b"/")[0]
            below = path[len(directory) + 1 :] if directory else path
            for rule in self._rules.get(directory, ()):
                text = below if rule.anchored else last_name
                self._steps -= rule.steps(text)
                if self._steps < 0:
                    why = "are too many to try on each name: write fewer, or simpler ones"
                    raise ColonyMemoryError(f"the rules of {IGNORE_NAME} for {name!r} {why}")
                if (is_directory or not rule.for_directories) and rule.matches(text):
                    return rule.excludes
        return None

    def covers(self, name: str, *, is_directory: bool) -> bool:
        """True if the rules exclude this name or a directory above it."""
        above = any(self.exclude(parent, is_directory=True) for parent in parents_of(name))
        return above or bool(self.exclude(name, is_directory=is_directory))


def read_excluded(patterns: str | Iterable[str]) -> IgnoreRules:
    """The rules of a caller, of which the last match decides; ValueError if one can exclude nothing."""
    rules = []
    for pattern in texts("exclude", patterns):
        try:
            # Arguments have no comments, as for git.
            rule = parse(_bytes(f"\\{pattern}" if pattern.startswith("#") else pattern))
        except ValueError as error:
            raise ValueError(f"{pattern!r} is not a rule of gitignore: {error}") from error
        if rule is None:
            raise ValueError(f"{pattern!r} excludes nothing")
        rules.append(rule)
    return IgnoreRules({b"": rules[::-1]} if rules else {})


def _bytes(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, from Windows
        return name.encode("utf-8", "surrogatepass")


def parse(line: bytes) -> Rule | None:
    """Read a line; None if it has no rule, ValueError if the rule could match nothing."""
    if line.startswith(b"#"):
        return None
    if b"\0" in line:
        raise ValueError("a byte of zero")
    # Trailing blanks count only after a backslash.
    bare = line.rstrip(b" ")
    line = bare + b" " if len(bare) < len(line) and (len(bare) - len(bare.rstrip(b"\\"))) % 2 else bare
    body = line.removeprefix(b"!")
    pattern = body.removesuffix(b"/")
    if len(pattern) > _LONGEST:
        raise ValueError("longer than any path")
    if not pattern:
        if body != line:
            raise ValueError("there is nothing to bring back")
        return None
    is_anchored, is_of_directories, pattern = b"/" in pattern, pattern != body, pattern.removeprefix(b"/")
    plain = next((place for place, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    prefix, rest = pattern[:plain], pattern[plain:]
    only_star = rest.startswith(b"*") and not any(byte in _SPECIAL for byte in rest[1:]) and b"/" not in rest
    regex = re.compile(b"" if only_star else _regex(rest), re.DOTALL)
    suffix = rest[1:] if only_star else None
    return Rule(body == line, is_anchored, is_of_directories, prefix, suffix, regex, len(rest))


def _regex(pattern: bytes) -> bytes:
    """Convert a pattern to a regex that never tries a second place for a piece: its time grows with both lengths."""
    runs = [(b"", [b""])]  # a wildcard that may cross slashes, and the pieces after it, each two with a `*` in between
    place = 0
    while place < len(pattern):
        byte, start, pieces = pattern[place : place + 1], place, runs[-1][1]
        if byte == b"*":
            place = len(pattern) - len(pattern[start:].lstrip(b"*"))
            before, after = pattern[start - 1 : start], pattern[place : place + 2]
            # Two or more stars alone between slashes. The start counts as a slash, also after plain characters.
            if place - start < 2 or before not in (b"", b"/") or not (after[:1] in (b"", b"/") or after == b"\\/"):
                pieces.append(b"")
            elif after[:1] != b"/":
                runs.append((b".*?", [b""]))
            else:
                place += 1
                if runs[-1] != (_DIRECTORIES, [b""]):
                    runs.append((_DIRECTORIES, [b""]))
        elif byte == b"[":
            takes, place = _bracket(pattern, place + 1)
            sign, few = (b"^", {*range(256)} - takes) if len(takes) > 128 else (b"", takes)
            pieces[-1] += b"[%s%s]" % (sign, b"".join(b"\\x%02x" % code for code in sorted(few))) if takes else b"(?!)"
        else:
            place += 1 + (byte == b"\\")
            if place > len(pattern):
                raise ValueError("a backslash at the end")
            pieces[-1] += b"[^/]" if byte == b"?" else re.escape(pattern[place - 1 : place])
    # A piece between two stars can be taken where it first fits: text after a later fit is also after that one.
    numbers = count()
    *earlier, (last, pieces) = runs
    parts = [_first(cross + _one_by_one(run_pieces, numbers), numbers) for cross, run_pieces in earlier]
    if len(pieces) == 1:
        return b"".join([*parts, last, *pieces])
    return b"".join([*parts, last, _one_by_one(pieces[:-1], numbers), b"[^/]*", pieces[-1]])


def _one_by_one(pieces: list[bytes], numbers: Iterator[int]) -> bytes:
    return b"".join([pieces[0], *(_first(b"[^/]*?" + piece, numbers) for piece in pieces[1:])])


def _first(regex: bytes, numbers: Iterator[int]) -> bytes:
    """A regex for the first match of another only, without backtracking."""
    return b"(?=(?P<n%d>%s))(?P=n%d)" % (number := next(numbers), regex, number)


def _bracket(pattern: bytes, place: int) -> tuple[set[int], int]:
    """The bytes that a bracket stands for, and the place after it."""
    negated = pattern[place : place + 1] in (b"!", b"^")
    start = place = place + negated
    taken: set[int] = set()
    before: int | None = None  # the byte that a range may begin with
    while (item := _ITEM.match(pattern, place)) and (item[0] != b"]" or place == start):
        place = item.end()
        upto = _UPTO.match(pattern, place) if item[0] == b"-" and before is not None else None
        if item["name"] is not None:
            if item["name"] not in _CLASSES:
                raise ValueError(f"an unknown class {item['name'].decode('ascii', 'replace')!r}")
            taken |= _CLASSES[item["name"]]
        elif upto is not None and before is not None:
            place = upto.end()
            if upto[1][0] < before:
                raise ValueError("a range that ends before it begins")
            taken.update(range(before, upto[1][0] + 1))
        else:
            taken.add(item[0][-1])
        before = None if item["name"] is not None or upto is not None else item[0][-1]
    if item is None:
        raise ValueError("a bracket that is not closed")
    takes = {*range(256)} - taken if negated else taken
    return takes - {*b"/"}, item.end()


# --- names and kinds of files that are not saved


def is_of_vault(name: str, status: os.stat_result) -> bool:
    return is_file(status) and (is_cortex_file(name) or name == _MARKER)


def is_vault(entries: Mapping[str, os.stat_result]) -> bool:
    """True for the directory of a vault: it has files of one, and otherwise only hidden names."""
    own = [name for name, status in entries.items() if is_of_vault(name, status)]
    return bool(own) and all(name in own or (name.startswith(".") and name != IGNORE_NAME) for name in entries)


def why_unsaved(own: str, name: str, status: os.stat_result) -> str:
    """Say why a file or directory is not saved, or return an empty text."""
    if is_staging(own):
        return "left by a restore that was cut off; it may hold originals, look and then delete it"
    if own == GIT_NAME and is_link(status):
        return "a link in the place of a git repository, which is not followed"
    problem = name_problem(name) or depth_problem(name)
    if problem:
        return f"{problem}; rename it"
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
        return f"has a path longer than {LONGEST_NAME} bytes"
    if is_link(status) and not stat.S_ISLNK(status.st_mode):
        return "leads to another directory, and is not followed"
    if not (stat.S_ISLNK(status.st_mode) or is_file(status) or is_directory(status)):
        return (name_kind(status.st_mode) or "").removeprefix("a ")
    return _placeholder(own, status) if is_file(status) else ""


def _placeholder(own: str, status: os.stat_result) -> str:
    """Say that a file's bytes are elsewhere, or return an empty text: reading would fetch them, or give others."""
    if own.startswith(".") and own.endswith(".icloud") and len(own) > len("..icloud"):
        return f"a placeholder: iCloud keeps {own[1 : -len('.icloud')]!r} elsewhere; download it first"
    marked = getattr(status, "st_flags", 0) & _DATALESS or getattr(status, "st_file_attributes", 0) & _RECALLED
    if marked or (own.endswith(_PLACEHOLDER_SUFFIXES) and status.st_size <= 1):
        return "a placeholder: a sync service keeps its bytes elsewhere; download it first"
    return ""


# --- links of a host's own memory that lead out of its folder

# Links to one directory, or into it: a stranger's links must not multiply a home without limit.
_MOST_LINKS = 10


class Following(Value):
    """The rule for links out of a folder that are followed."""

    home: Path  # a real path, below which they have to end
    refuse: Callable[[str, bool], str]  # says why a path below it is not followed, or returns an empty text


class NotFollowed(OSError):
    """Raised for a link that is not followed; the text is the reason."""


def find_end(follow: Following, root: Path, name: str, links: Counter[tuple[str, ...]]) -> tuple[tuple[str, ...], bool]:
    """The end of a link in a folder: its path below the home, free of links, and true for a directory."""
    link = root.joinpath(*map(local_name, name.split("/")))
    end = real_path(link)
    if end == follow.home or not end.is_relative_to(follow.home):
        raise NotFollowed(f"that is not below {str(follow.home)!r}")
    if real_path(root).is_relative_to(end):
        raise NotFollowed("the folder itself is in there")
    *inside, own = parts = tuple(map(decode_name, end.relative_to(follow.home).parts))
    with open_below(follow.home, inside) as place:
        status = place.look(own)
    if status is None:
        raise NotFollowed("nothing is there")
    is_dir = is_directory(status)
    why = follow.refuse("/".join(parts), is_dir) or why_unsaved(own, name, status)
    if status.st_uid != (owner := link.lstat().st_uid) and owner:
        why = "that belongs to somebody else"
    elif is_of_vault(own, status):
        why = VAULT
    elif links[parts] >= _MOST_LINKS:
        why = f"{links[parts]} others lead there, too"
    if why or not (is_dir or is_file(status)):
        raise NotFollowed(why or "that is neither a file nor a directory")
    # Counted for a directory: the links that lead to it, or into it.
    links.update(parts[:depth] for depth in range(1, len(parts) + 1) if is_dir)
    return parts, is_dir
