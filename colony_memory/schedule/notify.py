"""Telling others of each run: a monitor as healthchecks.io and its like take pings, and of a failure a command."""

from __future__ import annotations

import contextlib
import os
import queue
import shlex
import threading
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit, urlunsplit

from colony_memory._os.machine import end_session
from colony_memory._values import dataclass, getLogger, pattern
from colony_memory._version import __version__

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

__all__ = ["Notifier", "clean"]


_logger = getLogger(__name__)

#: Seconds that a ping and its answer, and the command, may take.
PATIENCE = 5.0
LONGEST_COMMAND = 30.0
_PATHS = {"start": "/start", "success": "", "fail": "/fail"}
_MOST_WAITING = 8
_MOST_CHARS = 2000
_USER_INFO = pattern(r"(?<=//)[^/@\s]+@")


@dataclass(frozen=True)
class _News:
    event: Literal["start", "success", "fail"]
    message: str = ""
    kind: str = ""
    code: int = 0


class Notifier:
    """Tells of runs in a thread of its own, so that neither a monitor nor a command holds a backup up or fails it.

    What goes out is what happened in a line or two, with likely secrets, keys and the user names of addresses taken
    out; of what is saved nothing but names can be in it. Where telling is slower than what happens, the oldest is left
    out. What cannot be told is said to ``warn``.
    """

    def __init__(
        self,
        *,
        label: str = "default",
        ping: str | None = None,
        on_error: str | None = None,
        classify: Callable[[BaseException | None], tuple[str, int]] | None = None,
        warn: Callable[[str], object] | None = None,
    ) -> None:
        self._label = label
        self._ping = None if ping is None else read_ping_url(ping)
        self._command = None if on_error is None else _split(on_error)
        self._classify = classify or (lambda error: ("Incomplete" if error is None else type(error).__name__, 1))
        self._warn = warn or _logger.warning
        self._waiting: queue.Queue[_News | None] = queue.Queue(_MOST_WAITING)
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """A run begins."""
        self._post(_News("start"))

    def succeeded(self) -> None:
        """A run has saved everything, or found it saved."""
        self._post(_News("success"))

    def failed(self, message: str, error: BaseException | None = None) -> None:
        """A run has failed, or left something out."""
        self._post(_News("fail", clean(message), *self._classify(error)))

    def close(self, timeout: float) -> None:
        """Wait so many seconds at most until all is told; what is under way then is given up."""
        self._closed = True
        if self._thread is None:
            return
        self._put(None)
        self._thread.join(timeout)
        if self._thread.is_alive():
            for _ in range(_MOST_WAITING):
                self._put(None)
            self._kill()
            self._warn(f"not everyone could be notified within {timeout:g} s")

    def _post(self, news: _News) -> None:
        if self._closed or (self._ping is None and (self._command is None or news.event != "fail")):
            return
        self._put(news)
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="colony-memory-notify", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads
                self._warn("nobody can be notified: no thread can be started")
            else:
                self._thread = thread

    def _put(self, news: _News | None) -> None:
        while True:
            try:
                return self._waiting.put_nowait(news)
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._waiting.get_nowait()

    # The thread.

    def _work(self) -> None:
        for news in iter(self._waiting.get, None):
            assert news is not None  # noqa: S101 - for the type checker
            if self._ping is not None:
                problem = send_ping(self._ping, news)
                if problem is not None:
                    self._warn(problem)
            if self._command is not None and news.event == "fail":
                self._run(self._command, news)

    def _run(self, command: list[str], news: _News) -> None:
        import subprocess

        named = f"the command for failures, {shlex.quote(command[0])},"
        environment = {
            **os.environ,
            "COLONY_MEMORY_ERROR": news.message,
            "COLONY_MEMORY_KIND": news.kind,
            "COLONY_MEMORY_CODE": str(news.code),
            "COLONY_MEMORY_LABEL": self._label,
        }
        try:
            # In a session of its own: a Ctrl-C is for the backups, and what it starts can be ended with it.
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                command, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
            )
        except (OSError, ValueError) as error:
            self._warn(f"{named} cannot be run: {getattr(error, 'strerror', None) or error}")
            return
        self._process = process
        try:
            code = process.wait(LONGEST_COMMAND)
        except subprocess.TimeoutExpired:
            self._kill()
            self._warn(f"{named} was ended: it took longer than {LONGEST_COMMAND:g} s")
            return
        finally:
            self._process = None
            process.wait()
        if code:
            self._warn(f"{named} failed: exit code {code}")

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            end_session(process)


def read_ping_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError("the address to ping is not a URL") from error
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("the address to ping must begin with https:// or http:// and name a host")
    if parts.username is not None or parts.fragment or not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("the address to ping must have no user name, fragment, blank or character beyond ASCII")
    return text


def send_ping(url: str, news: _News) -> str | None:
    """Tell a check of an event; what went wrong, by the host and not the address."""
    from colony_memory.vaults.colony.transport import Request, Unanswered, transmit

    parts = urlsplit(url)
    # What stands behind a question mark stays there.
    address = urlunsplit(parts._replace(path=parts.path.rstrip("/") + _PATHS[news.event]))
    headers = {"User-Agent": f"colony-memory/{__version__}", "Content-Type": "text/plain;charset=utf-8"}
    body = news.message.encode("utf-8", "replace")
    try:
        reply = transmit(Request("POST" if body else "GET", address, headers, body or None), None, PATIENCE)
    except Unanswered as error:
        return f"the ping to {parts.hostname} failed: {error}"
    return None if reply.status < 300 else f"the ping to {parts.hostname} failed: it answered {reply.status}"


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
    # A NUL cannot be in an environment, and a control character has no business on a monitor's page.
    plain = "".join(char if char.isprintable() else " " for char in str(contents["message"]))
    return " ".join(plain.split())[:_MOST_CHARS]


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"the command for failures cannot be read: {error}") from error
    if not words or not words[0]:
        raise ValueError("the command for failures is empty")
    return words
