"""The options of a backup of folders and files, the same for every interface, and the command run before one."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import Passing, several
from colony_memory._engine.backup.job import check_arguments
from colony_memory._os.machine import end_session
from colony_memory._values import Value, names_of, replace
from colony_memory.capture.folder import read_choices
from colony_memory.capture.secrets import judge_words, read_allowed
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.config import settled_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from colony_memory.retention import Retention


LONGEST = 600.0
"""Seconds that it may take."""
_SHOWN = 4096


def run_before(command: str, folder: Path) -> None:
    """Run a command in a folder, without a shell and without input; its output is shown only if it fails."""
    import shutil
    import subprocess
    import tempfile

    words = shlex.split(command)
    named = f"the command that goes before each backup, {shlex.quote(words[0])},"
    # Never run a program from the folder itself, which a relative entry of PATH would find.
    path = os.pathsep.join(entry for entry in os.get_exec_path() if os.path.isabs(entry))  # noqa: PTH117
    program = None if words[0].startswith("~") else shutil.which(words[0], path=path)
    if program is None:
        why = "~ is not expanded here" if words[0].startswith("~") else "there is no such program"
        raise ColonyMemoryError(f"{named} cannot be run: {why}; nothing was saved")
    with tempfile.TemporaryFile() as out:
        # In a session of its own, so that its child processes can be ended with it.
        kw: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "start_new_session": True}
        try:
            process = subprocess.Popen([program, *words[1:]], cwd=folder, **kw)  # noqa: S603 - the user's own command
            try:
                code = process.wait(LONGEST)
            finally:
                if process.poll() is None:
                    end_session(process)
                    process.wait()
        except OSError as error:
            raise ColonyMemoryError(f"{named} cannot be run: {error.strerror}; nothing was saved") from error
        except subprocess.TimeoutExpired as error:
            raise Passing(f"{named} was ended: it took longer than {LONGEST:g} s; nothing was saved") from error
        if code:
            out.seek(max(0, out.seek(0, os.SEEK_END) - _SHOWN))
            lines = out.read().decode("utf-8", "replace").split("\n")
            last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
            raise Passing(f"{named} failed with exit code {code}{last}; nothing was saved")


_OF_FOLDER = ("exclude", "secrets", "allow_secrets", "agent")


class BackupOptions(Value):
    """Options for reading and saving folders and files; valid once constructed."""

    label: str = "default"  # label to save under
    prune_keep: int | None = None  # of :meth:`ColonyMemory.backup`, as are those up to ``tags``
    retention: Retention | None = None
    on_conflict: str = "raise"  # what to do if another client saved in between
    note: str | None = None  # a remark on the snapshot
    tags: str | Iterable[str] = ()  # words to find it by
    exclude: str | Iterable[str] = ()  # of :func:`colony_memory.capture.read_folder`, as are the next two
    secrets: str = "stop"  # what to do about likely secrets
    allow_secrets: str | Iterable[str] = ()  # findings that may be saved
    before: str | None = None  # a command to run before reading, in the first of the folders
    agent: str | None = None  # the host that the memory belongs to: its links are followed

    def __post_init__(self) -> None:
        for name in ("exclude", "allow_secrets"):
            object.__setattr__(self, name, tuple(several(name, getattr(self, name))))
        if self.before is not None:
            object.__setattr__(self, "before", settled_command(self.before))
        label, _, facts = check_arguments(**self.of_snapshot)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "tags", facts["tags"])
        if self.agent is not None and self.agent not in AGENTS:
            raise ValueError(f"no agent host is called {self.agent!r}")
        read_choices(secrets=self.secrets, allow_secrets=self.allow_secrets, exclude=self.exclude)

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> BackupOptions:
        """The options among a function's arguments, as ``locals()`` returns them."""
        return cls(**{name: arguments[name] for name in names_of(cls) if name in arguments})

    @classmethod
    def of_known(cls, known: Mapping[str, Any], **more: Any) -> BackupOptions:
        """The options of a folder's last save, from its index, updated by ``more``; ``more`` alone if invalid."""
        usual = {name: known[name] for name in _OF_FOLDER if name in known}
        try:
            return cls(**{**usual, **more})
        except (TypeError, ValueError):
            return cls(**more)

    def for_a_look(self) -> BackupOptions:
        """The same for a comparison, where nothing is saved and secrets need not stop anything."""
        return replace(self, secrets="mask" if self.secrets == "mask" else "allow")

    def cleared(self) -> BackupOptions:
        """The same after a check of note and tags for likely secrets, unless secrets are allowed."""
        if self.secrets == "allow" or not (self.note or self.tags):
            return self
        return replace(self, note=judge_words(self.note, self.tags, self.secrets, read_allowed(self.allow_secrets)))

    @property
    def removes(self) -> bool:
        return self.prune_keep is not None or self.retention is not None

    @property
    def of_snapshot(self) -> dict[str, Any]:
        names = ("label", "prune_keep", "retention", "on_conflict", "note", "tags")
        return {name: getattr(self, name) for name in names}

    @property
    def of_folder(self) -> dict[str, Any]:
        """The options for reading a folder that its index keeps."""
        return {name: getattr(self, name) for name in _OF_FOLDER}

    @property
    def of_reading(self) -> dict[str, Any]:
        chosen = self.of_folder
        agent = chosen.pop("agent")
        return {**chosen, "follow": None if agent is None else AGENTS[agent].following()}
