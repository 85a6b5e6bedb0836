"""The user's own command that is told of a backup that failed, or left something out."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

from colony_memory._os.machine import end_session
from colony_memory._values import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OnError", "clean"]

#: Seconds that the command may take where somebody waits for it.
LONGEST = 30.0
_MOST_CHARS = 2000
_USER_INFO = pattern(r"(?<=//)[^/@\s]+@")


class OnError:
    """Starts the command after each failure; one that still runs at the next, or at the end, is ended.

    It hears of the failure by variables of its environment, with likely secrets, keys and the user names of addresses
    taken out. What becomes of it fails no backup: it is said to ``warn``.
    """

    def __init__(self, command: str, *, label: str, warn: Callable[[str], object]) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"the command for failures cannot be read: {error}") from error
        if not self._words or not self._words[0]:
            raise ValueError("the command for failures is empty")
        self._label, self._warn = label, warn
        self._named = f"the command for failures, {shlex.quote(self._words[0])},"
        self._process: subprocess.Popen[bytes] | None = None

    def failed(self, message: str, *, kind: str, code: int) -> None:
        """Start it."""
        self.wait(0.0)
        facts = {"ERROR": clean(message), "KIND": kind, "CODE": str(code), "LABEL": self._label}
        environment = {**os.environ, **{f"COLONY_MEMORY_{name}": value for name, value in facts.items()}}
        try:
            # In a session of its own: a Ctrl-C is for the backups, and what it starts can be ended with it.
            self._process = subprocess.Popen(  # noqa: S603 - the user's own command
                self._words, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
            )
        except (OSError, ValueError) as error:
            self._warn(f"{self._named} cannot be run: {getattr(error, 'strerror', None) or error}")

    def wait(self, seconds: float) -> None:
        """Wait for its end so many seconds, and then end it."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            end_session(process)
            process.wait()
            self._warn(f"{self._named} was ended before it was done")
            return
        if code:
            self._warn(f"{self._named} failed: exit code {code}")


def clean(message: str) -> str:
    """A message that may leave the host: on one line, bounded, without what is likely a secret.

    >>> clean("no answer from https://me:hunter2@example.org/x")
    'no answer from https://…@example.org/x'
    """
    from colony_memory.capture.secrets import mask_contents

    text = _USER_INFO.sub("…@", message)
    key = os.environ.get("COLONY_API_KEY", "").strip()
    if key:
        text = text.replace(key, "…")
    contents: dict[str, str | bytes] = {"message": text}
    mask_contents(contents)
    # A NUL cannot be in an environment.
    plain = "".join(char if char.isprintable() else " " for char in str(contents["message"]))
    return " ".join(plain.split())[:_MOST_CHARS]
