"""Pings to a monitor as healthchecks.io and its like take them: ``URL/start``, ``URL`` for success, ``URL/fail``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit, urlunsplit

from colony_memory._version import __version__

if TYPE_CHECKING:
    from urllib.parse import SplitResult

__all__ = ["Event", "PingFailed", "ping_address", "read_ping_url", "send_ping"]

Event = Literal["start", "success", "fail"]

#: Seconds that a ping and its answer may take.
PATIENCE = 5.0
_PATHS = {"start": "/start", "success": "", "fail": "/fail"}


class PingFailed(Exception):
    """A ping did not arrive, or was refused. The message names the monitor's host and not its address."""


def read_ping_url(text: str) -> str:
    """The address of a check, as it may be used.

    Raises:
        ValueError: It is none of http or https, or has what does not belong there. The message does not repeat it, as
            whoever knows it can ping.
    """
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
    """Tell a check of an event.

    Args:
        url: What :func:`read_ping_url` gave.
        event: What happened.
        body: Plain text to go with it.
        timeout: Seconds that it may take.

    Raises:
        PingFailed: It did not arrive, was refused, or was to go to another host.
    """
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
