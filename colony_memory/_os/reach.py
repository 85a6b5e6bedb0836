"""The directories of a folder by their names with ``/``: each reached from the one above it, none through a link."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from colony_memory._os import disk
from colony_memory._os.directory import Directory

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Reach:
    """The way to the directory last asked for stays open, so that its neighbours are near."""

    def __init__(self, top: Directory) -> None:
        self._stack: list[tuple[str, Directory]] = [("", top)]

    def directory(self, name: str) -> Directory:
        """Open a directory of the folder, empty for the folder itself. It stays open until another is asked for."""
        parts = name.split("/") if name else []
        known = 1
        while known < len(self._stack) and known <= len(parts) and self._stack[known][0] == parts[known - 1]:
            known += 1
        self._leave(known)
        for part in parts[known - 1 :]:
            self._stack.append((part, self._stack[-1][1].enter(part)))
        return self._stack[-1][1]

    def parent(self, name: str) -> tuple[Directory, str]:
        """The directory that a name is in, and its last component."""
        above, _, last = name.rpartition("/")
        return self.directory(above), last

    def look(self, name: str) -> os.stat_result | None:
        """What stands there itself, or None, also where a directory above it is missing."""
        try:
            directory, last = self.parent(name)
        except FileNotFoundError:
            return None
        return directory.look(last)

    def sync(self, names: Iterable[str], *, one_by_one: bool = False) -> None:
        """Make it last that files and directories of these names came to be there, or went.

        ``one_by_one`` where they are in several file systems.
        """
        top, names = self._stack[0][1], list(names)
        if top.descriptor is None:
            return
        if not one_by_one and disk.syncs_together(len(names)):
            disk.sync_file_system(top.descriptor)
            return
        for above in sorted({name.rpartition("/")[0] for name in names}):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # it went too
                self.directory(above).sync()

    def close(self) -> None:
        """Let go of all but the folder itself."""
        self._leave(1)

    def __enter__(self) -> Reach:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _leave(self, depth: int) -> None:
        while len(self._stack) > depth:
            self._stack.pop()[1].close()


@contextlib.contextmanager
def open_below(root: Path, inside: Iterable[str] = ()) -> Iterator[Directory]:
    """One directory of a folder, however deep, without those above it staying open.

    Args:
        root: The folder; it may be reached by links, since somebody chose it.
        inside: The names that lead on from there, none of which may be a link.

    Raises:
        OSError: One of them is none, or cannot be opened.
    """
    directory = Directory.open(root, follow=True)
    try:
        for name in inside:
            above, directory = directory, directory.enter(name)
            above.close()
        yield directory
    finally:
        directory.close()
