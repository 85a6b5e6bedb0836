"""The hooks in a host's settings: what would change there, and the change itself."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.files import create_file, make_directory, read_file, replace_file
from colony_memory._os.paths import real_path
from colony_memory.app.values import settled_path
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from colony_memory.hooks.hosts import Host

__all__ = ["Change", "change_settings", "settings_path", "switched_off"]

_MOST_BYTES = 2**20


@dataclass(frozen=True)
class Change:
    """A change of a settings file; true where it changes anything."""

    path: Path
    before: str  # its text, empty where it is not there
    after: str  # what that becomes
    facts: os.stat_result | None  # the file's facts, None where it is not there

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def difference(self) -> str:
        """Line by line, as ``patch`` takes it; empty where nothing changes."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = unified_diff(before, after, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def make(self) -> None:
        """Write it, whole or not at all. A file that is there keeps its owner and its mode."""
        if not self:
            return
        data = self.after.encode()
        try:
            if self.facts is None:
                make_directory(self.path.parent)
                create_file(self.path, data)
            else:
                replace_file(self.path, data, like=self.facts)
        except FileExistsError as error:
            raise ColonyMemoryError(f"{self.path} was changed meanwhile; nothing was written, try again") from error
        except OSError as error:
            raise ColonyMemoryError(f"{self.path} cannot be written: {error.strerror}") from error


def settings_path(host: Host) -> Path:
    """The user's own settings file of a host."""
    if not host.file:
        raise ValueError(f"{host.title} has no settings for hooks: {host.afterwards}")
    chosen = os.environ.get(host.variable, "") if host.variable else ""
    folder = Path(settled_path(host.variable, chosen)) if chosen.strip() else Path.home() / host.directory
    return folder / host.file


def switched_off(path: Path, host: Host) -> str | None:
    """The file beside a settings file that switches the hooks of its host off, where one does."""
    name, pattern = host.switch
    place = path.with_name(name)
    try:
        found = read_file(real_path(place), _MOST_BYTES)
    except OSError:
        return None
    text = "" if found is None else found.data.decode("utf-8", "replace")
    return str(place) if re.search(pattern, text) else None


def change_settings(path: Path, edit: Callable[[str], str]) -> Change:
    """What an edit would make of a settings file. Where a link leads to it, the file that it leads to is meant."""
    real = real_path(path)
    try:
        found = read_file(real, _MOST_BYTES)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        before = "" if found is None else found.data.decode("utf-8")
        return Change(real, before, edit(before), None if found is None else found.facts)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is left as it is: it is not UTF-8 text") from error
    except ValueError as error:
        raise ValueError(f"{path} is left as it is: {error}") from error
