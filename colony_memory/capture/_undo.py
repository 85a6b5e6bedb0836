"""Moves that can be taken back: each is noted before it is made, and what it replaces is kept."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)


def replace(source: Path, path: Path) -> None:
    """Move ``source`` to ``path`` in one step, over what is there."""
    os.replace(source, path)  # noqa: PTH105 - Path.replace() of Python 3.10 holds on to a function of its own


@dataclass
class Undo:
    """The way back.

    Attributes:
        kept: Directory, on the same file system, for what is replaced. Made when it is needed.
    """

    kept: Path
    _steps: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    def make_directory(self, path: Path, name: str) -> None:
        """Make a directory unless it is there.

        Raises:
            ColonyMemoryError: A symbolic link has come to stand there.
        """
        if path.is_symlink():
            raise ColonyMemoryError(f"document {name!r}: {str(path)!r} has become a symbolic link; nothing was written")
        if not path.exists():
            path.mkdir(mode=0o700)
            self._steps.append((name, path.rmdir))

    def move(self, source: Path, path: Path, name: str, *, replaces: os.stat_result | None) -> None:
        """Move ``source`` to ``path``.

        Raises:
            ColonyMemoryError: At ``path`` is no longer what ``replaces`` says.
        """
        if replaces is None:
            if os.path.lexists(path):
                raise _meanwhile(name, path)
            self._steps.append((name, lambda: _take_away(source, path)))
        else:
            original = self.kept / name
            original.parent.mkdir(parents=True, exist_ok=True)
            self._steps.append((name, lambda: _put_back(original, path)))
            _keep(path, original)
            if _version(original.lstat()) != _version(replaces):
                raise _meanwhile(name, path)
        replace(source, path)

    def put_back(self) -> list[str]:
        """Undo every step, the last one first; return the names for which that failed."""
        return [name for name, step in reversed(self._steps) if not _succeeds(step)]


def _succeeds(step: Callable[[], None]) -> bool:
    try:
        step()
    except OSError:
        logger.warning("a file could not be put back", exc_info=True)
        return False
    return True


def _meanwhile(name: str, path: Path) -> ColonyMemoryError:
    return ColonyMemoryError(f"document {name!r}: {str(path)!r} was changed in the meantime; nothing was written")


def _keep(path: Path, original: Path) -> None:
    """Give the file at ``path`` a second name, so that it is never missing; move it where that is not possible."""
    try:
        os.link(path, original, follow_symlinks=False)
    except (OSError, NotImplementedError) as error:
        logger.debug("%s is moved, not linked: %s", path, error)
        replace(path, original)


def _put_back(original: Path, path: Path) -> None:
    if not os.path.lexists(original):
        return
    if not (os.path.lexists(path) and os.path.samestat(original.lstat(), path.lstat())):
        replace(original, path)


def _take_away(source: Path, path: Path) -> None:
    if not os.path.lexists(source):
        path.unlink()


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
