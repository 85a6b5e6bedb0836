"""The options of a backup of folders and files, as every face passes them, and the command that runs before one."""

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
    """Run a command in a folder, without a shell and without input; what it prints is shown only where it fails."""
    import shutil
    import subprocess
    import tempfile

    words = shlex.split(command)
    named = f"the command that goes before each backup, {shlex.quote(words[0])},"
    # Never what lies in the folder itself, which a relative entry of PATH would lead to.
    path = os.pathsep.join(each for each in os.get_exec_path() if os.path.isabs(each))  # noqa: PTH117
    program = shutil.which(words[0], path=path)
    if program is None:
        raise ColonyMemoryError(f"{named} cannot be run: there is no such program; nothing was saved")
    with tempfile.TemporaryFile() as said:
        # In a session of its own, so that what it starts can be ended with it.
        how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said, "start_new_session": True}
        try:
            process = subprocess.Popen([program, *words[1:]], cwd=folder, **how)  # noqa: S603 - the user's own command
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
            said.seek(max(0, said.seek(0, os.SEEK_END) - _SHOWN))
            lines = said.read().decode("utf-8", "replace").split("\n")
            last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
            raise Passing(f"{named} failed with exit code {code}{last}; nothing was saved")


_OF_FOLDER = ("exclude", "secrets", "allow_secrets", "agent")


class BackupOptions(Value):
    """How folders and files are read and saved. Once there is one, nothing in it is wrong."""

    label: str = "default"  # label to save under
    prune_keep: int | None = None  # of :meth:`ColonyMemory.backup`, as are those up to ``tags``
    retention: Retention | None = None
    on_conflict: str = "raise"  # what to do where another client saves in between
    note: str | None = None  # what to say of the snapshot
    tags: str | Iterable[str] = ()  # what to file it under
    exclude: str | Iterable[str] = ()  # of :func:`colony_memory.capture.read_folder`, as are the next two
    secrets: str = "stop"  # what to do about likely secrets
    allow_secrets: str | Iterable[str] = ()  # findings that may be saved
    before: str | None = None  # A command that is run in the folder before it is read, of several in the first
    agent: str | None = None  # the host whose memory it is: its links are followed

    def __post_init__(self) -> None:
        for name in ("exclude", "allow_secrets"):
            object.__setattr__(self, name, tuple(several(name, getattr(self, name))))
        if self.before is not None:
            object.__setattr__(self, "before", settled_command(self.before))
        label, _, facts = check_arguments(**self.of_snapshot)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "tags", facts["tags"])
        if self.agent is not None and self.agent not in AGENTS:
            raise ValueError(f"no host of agents is called {self.agent!r}")
        read_choices(secrets=self.secrets, allow_secrets=self.allow_secrets, exclude=self.exclude)

    @classmethod
    def among(cls, arguments: Mapping[str, Any]) -> BackupOptions:
        """Those among the arguments of a function, as ``locals()`` gives them."""
        return cls(**{name: arguments[name] for name in names_of(cls) if name in arguments})

    @classmethod
    def of_known(cls, known: Mapping[str, Any], **more: Any) -> BackupOptions:
        """Those by which a folder was read for its last save, as its index has them, with more; without, if spoiled."""
        usual = {name: known[name] for name in _OF_FOLDER if name in known}
        try:
            return cls(**{**usual, **more})
        except (TypeError, ValueError):
            return cls(**more)

    def for_a_look(self) -> BackupOptions:
        """The same for what is compared and not saved, so that secrets stop nothing."""
        return replace(self, secrets="mask" if self.secrets == "mask" else "allow")

    def cleared(self) -> BackupOptions:
        """The same, with no likely secret in its note and tags, unless it was to be saved."""
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
        """Those by which a folder is read, as its index keeps them."""
        return {name: getattr(self, name) for name in _OF_FOLDER}

    @property
    def of_reading(self) -> dict[str, Any]:
        chosen = self.of_folder
        agent = chosen.pop("agent")
        return {**chosen, "follow": None if agent is None else AGENTS[agent].following()}
