"""Telling others of each run: a monitor as healthchecks.io and its like take pings, and of a failure a command."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from colony_memory._os.machine import end_session
from colony_memory._values import dataclass, pattern
from colony_memory._version import __version__

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from urllib.parse import SplitResult

__all__ = ["Event", "Notifier", "PingFailed", "ping_address", "read_ping_url", "send_ping"]


Event = Literal["start", "success", "fail"]

#: Seconds that a ping and its answer may take.
PATIENCE = 5.0
_PATHS = {"start": "/start", "success": "", "fail": "/fail"}


class PingFailed(Exception):
    """A ping did not arrive, or was refused. The message names the monitor's host and not its address."""


def read_ping_url(text: str) -> str:
    """The address of a check, as it may be used."""
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


def ping_address(url: str, event: Event) -> str:
    """Where an event is told; what stands behind a question mark stays there.

    >>> ping_address("https://example.org/a1b2?rid=7", "fail")
    'https://example.org/a1b2/fail?rid=7'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + _PATHS[event]))


def send_ping(url: str, event: Event, body: str = "", *, timeout: float = PATIENCE) -> None:
    """Tell a check of an event."""
    import http.client
    import urllib.error
    import urllib.request

    from colony_memory.vaults.colony.transport import handlers

    class SameHost(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, *given: Any) -> Any:
            if not _may_lead(urlsplit(req.full_url), urlsplit(given[-1])):
                raise PingFailed("it leads to another host")
            return super().redirect_request(req, *given)

    headers = {"User-Agent": f"colony-memory/{__version__}"}
    if body:
        headers["Content-Type"] = "text/plain;charset=utf-8"
    data = body.encode("utf-8", "replace") if body else None
    # The address was looked at: no other scheme gets here, nor by a redirect.
    request = urllib.request.Request(ping_address(url, event), data=data, headers=headers)  # noqa: S310
    try:
        with urllib.request.build_opener(SameHost, *handlers(timeout)).open(request, timeout=timeout):
            pass
    except urllib.error.HTTPError as error:
        error.close()
        raise _failed(url, f"it answered {error.code}") from error
    except PingFailed as error:
        raise _failed(url, str(error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _failed(url, getattr(reason, "strerror", None) or type(reason).__name__) from error


def _may_lead(here: SplitResult, there: SplitResult) -> bool:
    """Whether a redirect stays on the host, and does not leave encryption."""
    return here.hostname == there.hostname and there.scheme in {here.scheme, "https"}


def _failed(url: str, why: str) -> PingFailed:
    return PingFailed(f"the ping to {urlsplit(url).hostname} failed: {why}")


_logger = logging.getLogger(__name__)

#: Seconds that the command may take.
LONGEST_COMMAND = 30.0
_MOST_WAITING = 8
_MOST_CHARS = 2000
_USER_INFO = pattern(r"(?<=//)[^/@\s]+@")


@dataclass(frozen=True)
class _News:
    event: Event
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
        warn: Callable[[str], object] = _logger.warning,
    ) -> None:
        self._label = label
        self._ping = None if ping is None else read_ping_url(ping)
        self._command = None if on_error is None else _split(on_error)
        self._classify = classify or _by_name
        self._warn = warn
        self._waiting: deque[_News] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    def started(self) -> None:
        """A run begins."""
        self._post(_News("start"))

    def succeeded(self) -> None:
        """A run has saved everything, or found it saved."""
        self._post(_News("success"))

    def failed(self, message: str, error: BaseException | None = None) -> None:
        """A run has failed, or left something out."""
        kind, code = self._classify(error)
        self._post(_News("fail", clean(message), kind, code))

    def close(self, timeout: float) -> None:
        """Wait so many seconds at most until all is told; what is under way then is given up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(timeout)
        if self._thread.is_alive():
            with self._changed:
                self._waiting.clear()
            self._kill()
            self._warn(f"not everyone could be notified within {timeout:g} s")

    def _post(self, news: _News) -> None:
        if self._ping is None and (self._command is None or news.event != "fail"):
            return
        with self._changed:
            if self._closed:
                return
            while len(self._waiting) >= _MOST_WAITING:
                self._waiting.popleft()
            self._waiting.append(news)
            self._changed.notify_all()
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="colony-memory-notify", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads
                    self._warn("nobody can be notified: no thread can be started")
                else:
                    self._thread = thread

    # The thread.

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                news = self._waiting.popleft()
            if self._ping is not None:
                try:
                    send_ping(self._ping, news.event, news.message)
                except PingFailed as error:
                    self._warn(str(error))
            if self._command is not None and news.event == "fail":
                self._run(self._command, news)

    def _run(self, command: list[str], news: _News) -> None:
        import subprocess

        named = f"the command for failures, {shlex.quote(command[0])},"
        try:
            # In a session of its own: a Ctrl-C is for the backups, and what it starts can be ended with it.
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                command, env=self._environment(news), stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
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

    def _environment(self, news: _News) -> Mapping[str, str]:
        return {
            **os.environ,
            "COLONY_MEMORY_ERROR": news.message,
            "COLONY_MEMORY_KIND": news.kind,
            "COLONY_MEMORY_CODE": str(news.code),
            "COLONY_MEMORY_LABEL": self._label,
        }

    def _kill(self) -> None:
        process = self._process
        if process is not None:
            end_session(process)


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


def _by_name(error: BaseException | None) -> tuple[str, int]:
    return ("Incomplete" if error is None else type(error).__name__), 1
