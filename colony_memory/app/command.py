"""A command of the user's that runs in a folder before it is read, so that a store can make a copy of itself."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryError, passing

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

__all__ = ["run_before", "settled_command"]

LONGEST = 600.0
"""Seconds that it may take."""
_SHOWN = 4096


def settled_command(command: str) -> str:
    """A command with its program by a path that is the same in any directory, where it is named by one."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r} is no command: {error}") from error
    if not words or not words[0]:
        raise ValueError("the command is empty")
    program, *arguments = words
    if os.path.dirname(program) and not program.startswith("~"):  # noqa: PTH120 - a name alone is looked for in PATH
        program = os.path.abspath(program)  # noqa: PTH100 - a link stays
    return shlex.join([program, *arguments])


def run_before(command: str, folder: Path) -> None:
    """Run a command in a folder, without a shell and without input; what it prints is shown only where it fails."""
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
        try:
            # In a session of its own, so that what it starts can be ended with it.
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                [program, *words[1:]],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        except OSError as error:
            raise ColonyMemoryError(f"{named} cannot be run: {error.strerror}; nothing was saved") from error
        try:
            code = process.wait(LONGEST)
        except subprocess.TimeoutExpired as error:
            raise passing(f"{named} was ended: it took longer than {LONGEST:g} s; nothing was saved") from error
        finally:
            if process.poll() is None:
                _end(process)
        if code:
            said.seek(max(0, said.seek(0, os.SEEK_END) - _SHOWN))
            lines = said.read().decode("utf-8", "replace").split("\n")
            last = next((f": {line.strip()}" for line in reversed(lines) if line.strip()), "")
            raise passing(f"{named} failed with exit code {code}{last}; nothing was saved")


def _end(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or going
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
