"""Which files ``.cmemignore`` files exclude, by the rules of gitignore (https://git-scm.com/docs/gitignore).

A rule holds for the directory of its file and all below; of several that match, the last one of the innermost file
decides; what is in an excluded directory cannot be brought back. Needs the extra ``cli`` (pathspec) where there is one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from pathspec.pattern import Pattern

IGNORE_NAME = ".cmemignore"


@dataclass(frozen=True)
class _Rule:
    """A line of a file.

    Attributes:
        pattern: It, without the slash at its end.
        anchored: Whether it is for a path from the file's directory on; else it is for a name at any depth.
        for_directories: Whether it had that slash.
    """

    pattern: Pattern
    anchored: bool
    for_directories: bool

    def matches(self, path: str, *, is_directory: bool) -> bool:
        """Whether it names this very path."""
        if self.for_directories and not is_directory:
            return False
        found = self.pattern.match_file(path if self.anchored else path[path.rfind("/") + 1 :])
        # pathspec also matches what is below a directory, and marks it by a group. For git only the directory itself
        # is matched, which makes a difference where the rules of several files meet.
        return found is not None and not any(found.match.groupdict().values())


@dataclass
class IgnoreRules:
    """The rules found so far in a folder, by the directory that they are for."""

    _rules: dict[str, list[_Rule]] = field(default_factory=dict)

    def add(self, directory: str, data: bytes, *, where: str) -> None:
        """Take in the file of a directory.

        Args:
            directory: Name of the directory in the folder, empty for the folder itself.
            data: What is in the file.
            where: What to call the file.

        Raises:
            ColonyMemoryError: A rule cannot be read, or the extra ``cli`` is not installed.
        """
        text = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")  # as names are decoded
        rules = []
        for number, line in enumerate(text.split("\n"), 1):
            rule = _parse(line.removesuffix("\r"), where=f"{where}:{number}")
            if rule is not None:
                rules.append(rule)
        if rules:
            self._rules[directory] = rules[::-1]

    def exclude(self, name: str, *, is_directory: bool) -> bool:
        """Whether the rules exclude what has this name in the folder; directories above it are not looked at."""
        if not self._rules:
            return False
        directory = name
        while directory:
            directory = directory.rpartition("/")[0]
            below = name[len(directory) + 1 :] if directory else name
            for rule in self._rules.get(directory, ()):
                if rule.matches(below, is_directory=is_directory):
                    return bool(rule.pattern.include)
        return False


def _parse(line: str, *, where: str) -> _Rule | None:
    if not line.strip() or line.startswith("#"):
        return None
    try:
        from pathspec import GitIgnoreSpec
    except ImportError as error:
        raise ColonyMemoryError(
            f"{where}: the rules of a {IGNORE_NAME} need the extra 'cli': pip install 'colony-memory[cli]'"
        ) from error
    # A space at the end counts only behind a backslash.
    line = line if line.endswith("\\ ") else line.rstrip(" ")
    body = line.rstrip("/")
    try:
        patterns = list(GitIgnoreSpec.from_lines([body]).patterns)
    except (ValueError, re.error) as error:
        raise ColonyMemoryError(f"{where}: {line!r} is not a rule of gitignore") from error
    if not patterns or patterns[0].include is None:  # a slash alone
        return None
    path = body.removeprefix("!")
    while path.startswith("**/"):  # the same as without
        path = path[3:]
    return _Rule(patterns[0], "/" in path, body != line)
