"""Which files are excluded, by the rules of gitignore (https://git-scm.com/docs/gitignore).

A rule in a ``.cmemignore`` holds for the directory of its file and all below; of several that match, the last one of
the innermost file decides; what is in an excluded directory cannot be brought back. The caller's own rules come before
all of these. What git would pass over as a rule that matches nothing is refused: it was to keep something out.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from colony_memory._boundary import several
from colony_memory._values import dataclass
from colony_memory.capture._wildmatch import Wildcard, read_pattern
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable

IGNORE_NAME = ".cmemignore"
LARGEST = 1 << 16  # bytes of a file of rules: each name is held against each rule

_LONGEST = 4096  # bytes of a rule: no path is longer
# The rules of all directories above are held against a name, and all may be a stranger's. So many steps there are for
# each name, and so many more for all together; a hundred usual rules take about a thousand.
_STEPS_FOR_A_NAME = 50_000
_STEPS_MORE = 10_000_000


@dataclass(frozen=True)
class _Rule:
    """A line of a file.

    Attributes:
        pattern: It, without the slashes at its ends.
        excludes: Whether it excludes; else it brings back.
        anchored: Whether it is for a path from the file's directory on; else it is for a name at any depth.
        for_directories: Whether it is for them alone.
    """

    pattern: Wildcard
    excludes: bool
    anchored: bool
    for_directories: bool

    def matches(self, path: bytes, *, is_directory: bool) -> bool:
        """Whether it names this very path."""
        if self.for_directories and not is_directory:
            return False
        return self.pattern.matches(self._of(path))

    def steps(self, path: bytes) -> int:
        """What that costs at most."""
        return self.pattern.steps(self._of(path))

    def _of(self, path: bytes) -> bytes:
        return path if self.anchored else path[path.rfind(b"/") + 1 :]


@dataclass(frozen=True)
class Excluded:
    """What the caller wants to leave out: rules for names as they are among all that is saved."""

    _rules: tuple[_Rule, ...] = ()

    def judge(self, name: str, *, is_directory: bool) -> bool | None:
        """Whether the rules exclude (true) or bring back (false) what has this name, None where they do not say.

        Directories above it are not looked at.
        """
        if not self._rules:
            return None
        path = _bytes(name)
        return next((rule.excludes for rule in self._rules if rule.matches(path, is_directory=is_directory)), None)

    def covers(self, name: str, *, is_directory: bool) -> bool:
        """Whether they exclude what has this name, or a directory that it is in."""
        places = [place for place, char in enumerate(name) if char == "/"]
        return any(self.judge(name[:place], is_directory=True) for place in places) or bool(
            self.judge(name, is_directory=is_directory)
        )


def read_excluded(patterns: str | Iterable[str]) -> Excluded:
    """The rules that a caller gives, one a text; the last that matches decides.

    Raises:
        ValueError: One is no rule of gitignore, or could exclude nothing.
    """
    rules = []
    for pattern in several("exclude", patterns):
        if not isinstance(pattern, str):
            raise ValueError(f"a pattern of what to exclude must be a string, not {pattern!r}")  # noqa: TRY004 - one type
        try:
            # There are no comments among arguments, as for git.
            rule = _parse(_bytes(f"\\{pattern}" if pattern.startswith("#") else pattern))
        except ValueError as error:
            raise ValueError(f"{pattern!r} is not a rule of gitignore: {error}") from error
        if rule is None:
            raise ValueError(f"{pattern!r} excludes nothing")
        rules.append(rule)
    return Excluded(tuple(reversed(rules)))


@dataclass
class IgnoreRules:
    """The rules found so far in a folder, by the directory that they are for."""

    _rules: dict[bytes, list[_Rule]] = field(default_factory=dict)
    _steps: int = field(default_factory=lambda: _STEPS_MORE)

    def add(self, directory: str, data: bytes | bytearray, *, where: str) -> None:
        """Take in the file of a directory.

        Args:
            directory: Name of the directory in the folder, empty for the folder itself.
            data: What is in the file.
            where: What to call the file.

        Raises:
            ColonyMemoryError: A rule cannot be read.
        """
        rules = []
        for number, line in enumerate(bytes(data).removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
            try:
                rule = _parse(line.removesuffix(b"\r"))
            except ValueError as error:
                shown = line.decode("utf-8", "backslashreplace").rstrip("\r")
                raise ColonyMemoryError(f"{where}:{number}: {shown!r} is not a rule of gitignore: {error}") from error
            if rule is not None:
                rules.append(rule)
        if rules:
            self._rules[_bytes(directory)] = rules[::-1]

    def exclude(self, name: str, *, is_directory: bool) -> bool:
        """Whether the rules exclude what has this name in the folder; directories above it are not looked at.

        Raises:
            ColonyMemoryError: They are so many, or so involved, that it would take for ever to hold them against all
                names.
        """
        if not self._rules:
            return False
        self._steps += _STEPS_FOR_A_NAME
        path = directory = _bytes(name)
        while directory:
            directory = directory.rpartition(b"/")[0]
            below = path[len(directory) + 1 :] if directory else path
            for rule in self._rules.get(directory, ()):
                self._steps -= rule.steps(below)
                if self._steps < 0:
                    raise ColonyMemoryError(
                        f"the rules of {IGNORE_NAME} for {name!r} are too many to try on each name: write fewer, or "
                        "simpler ones"
                    )
                if rule.matches(below, is_directory=is_directory):
                    return rule.excludes
        return False


def _bytes(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate in a name of Windows
        return name.encode("utf-8", "surrogatepass")


def _parse(line: bytes) -> _Rule | None:
    """Read a line.

    Raises:
        ValueError: It is no rule; the text says why.
    """
    if line.startswith(b"#"):
        return None
    if b"\0" in line:
        raise ValueError("a byte of zero")
    line = _without_blanks(line)
    body = line.removeprefix(b"!")
    pattern = body.removesuffix(b"/")
    if len(pattern) > _LONGEST:
        raise ValueError("longer than any path")
    if not line or not pattern:
        if line.startswith(b"!"):
            raise ValueError("there is nothing to bring back")
        return None
    anchored = b"/" in pattern
    return _Rule(read_pattern(pattern.removeprefix(b"/")), body == line, anchored, pattern != body)


def _without_blanks(line: bytes) -> bytes:
    """Blanks at the end count only behind a backslash."""
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and len(kept) < len(line) else kept
