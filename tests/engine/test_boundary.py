from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.client
import json
import socket
import ssl
from typing import Any

import pytest
from colony_sdk import (
    ColonyAPIError,
    ColonyAuthError,
    ColonyConflictError,
    ColonyNotFoundError,
    ColonyRateLimitError,
    ColonyServerError,
    ColonyValidationError,
)

from colony_memory import exceptions
from colony_memory._boundary import translate
from colony_memory.exceptions import (
    ColonyMemoryError,
    Hint,
    QuotaExceeded,
    RateLimited,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)

DOING = "writing cmem.work.x.manifest.json"


def shown(error: Exception) -> ColonyMemoryError:
    """The translation; it says what was being done, what was raised, and fits one line."""
    out = translate(error, DOING)
    assert str(out).startswith(f"{DOING} failed: {type(error).__name__}")
    assert "\n" not in str(out)
    return out


def told(error: ColonyMemoryError) -> tuple[Any, Any, Any]:
    assert isinstance(error, VaultError)
    return error.status, error.code, error.retry_after


# --- what the SDK raises ---


@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (401, "AUTH_INVALID_TOKEN", "check the API key"),
        (401, None, "check the API key"),
        (403, "KARMA_TOO_LOW", "10 karma"),
        (403, "AUTH_AGENT_ONLY", "use an agent's key"),
        (403, "AUTH_PENDING_ACTIVATION", "not active yet"),
        (403, "SOMETHING_NEW", "may not do that"),
        (403, None, "may not do that"),
    ],
)
def test_a_denial_says_what_to_do(status: int, code: str | None, hint: str) -> None:
    out = shown(ColonyAuthError("no", status, {}, code))
    assert type(out) is VaultDenied
    assert told(out) == (status, code, None)
    assert hint in str(out)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ColonyNotFoundError("gone", 404, {}, "NOT_FOUND"), 404, "NOT_FOUND"),
        (ColonyNotFoundError("gone", 404), 404, None),
        (ColonyValidationError("bad", 400, {}, "INVALID_INPUT"), 400, "INVALID_INPUT"),
        (ColonyValidationError("bad", 422), 422, None),
        (ColonyConflictError("twice", 409, {}, "CONFLICT"), 409, "CONFLICT"),
        (ColonyAPIError("changed", 412, {}, "PRECONDITION_FAILED"), 412, "PRECONDITION_FAILED"),
        (ColonyAPIError("gone", 410), 410, None),
        (ColonyAPIError("odd", 499), 499, None),
        (ColonyAPIError("odd", 1), 1, None),
    ],
)
def test_a_refusal_keeps_its_status_and_code(error: Exception, status: int, code: str | None) -> None:
    out = shown(error)
    assert type(out) is VaultError
    assert told(out) == (status, code, None)


@pytest.mark.parametrize("code", ["QUOTA_EXCEEDED", "LIMIT_EXCEEDED"])
def test_a_full_vault_is_told_as_one(code: str) -> None:
    out = shown(ColonyValidationError("full", 400, {}, code))
    assert type(out) is QuotaExceeded
    assert (out.needed, out.available) == (None, None)
    assert "the vault is full" in out.message
    assert out.hint == Hint("prune")


@pytest.mark.parametrize(
    ("retry_after", "seconds", "words"),
    [
        (60, 60.0, "try again in 60 s"),
        (0, 0.0, "try again in 0 s"),
        (1.6, 1.6, "try again in 2 s"),
        (None, None, "try again later"),
        (-5, None, "try again later"),
        ("60", None, "try again later"),
        (True, None, "try again later"),
        (float("nan"), None, "try again later"),
        (float("inf"), None, "try again later"),
        (10**400, None, "try again later"),
        (366 * 86400 + 1, None, "try again later"),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None, "try again later"),
    ],
)
@pytest.mark.parametrize("code", ["RATE_LIMIT", "RATE_LIMITED", None])
def test_a_rate_limit_says_how_long(code: str | None, retry_after: Any, seconds: float | None, words: str) -> None:
    out = shown(ColonyRateLimitError("slow", 429, {}, code, retry_after))
    assert type(out) is RateLimited
    assert told(out) == (429, code, seconds)
    assert isinstance(out.retry_after, float) or seconds is None
    assert words in str(out)


def test_a_fault_of_the_server_may_say_how_long_too() -> None:
    error = ColonyServerError("busy", 503)
    error.retry_after = 7  # type: ignore[attr-defined]
    assert told(shown(error)) == (503, None, 7.0)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 507, 599])
def test_a_fault_of_the_server_says_nothing_of_what_is_stored(status: int) -> None:
    out = shown(ColonyServerError("oops", status, {}, "INTERNAL"))
    assert type(out) is VaultUnavailable
    assert told(out) == (status, "INTERNAL", None)
    assert "this says nothing about what is stored" in str(out)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308, 399])
def test_a_redirect_says_nothing_of_what_is_stored(status: int) -> None:
    out = shown(ColonyAPIError("Found", status, {}, "NOT_FOUND"))
    assert type(out) is VaultUnavailable
    assert told(out) == (status, "NOT_FOUND", None)
    assert "redirects are not followed" in out.message
    assert out.hint == Hint("open", "base_url")


# --- what escapes the SDK, and what other clients raise ---


def json_error() -> json.JSONDecodeError:
    try:
        json.loads("<html>")
    except json.JSONDecodeError as error:
        return error
    raise AssertionError


def unicode_error() -> UnicodeDecodeError:
    try:
        b"\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        TimeoutError("timed out"),
        asyncio.TimeoutError(),
        concurrent.futures.TimeoutError(),
        http.client.RemoteDisconnected("closed"),
        http.client.IncompleteRead(b"{", 100),
        http.client.BadStatusLine("x"),
        http.client.CannotSendRequest(),
        ConnectionResetError(errno.ECONNRESET, "reset"),
        ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
        BrokenPipeError(errno.EPIPE, "pipe"),
        socket.gaierror(-2, "unknown"),
        ssl.SSLError(1, "bad record"),
        ssl.SSLCertVerificationError("expired"),
        ssl.SSLEOFError(8, "eof"),
        OSError(errno.ENETUNREACH, "unreachable"),
        OSError(errno.EIO, "io"),
        OSError("just so"),
        json_error(),
        unicode_error(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_usable_answer_says_nothing_of_what_is_stored(error: Exception) -> None:
    out = shown(error)
    assert type(out) is VaultUnavailable
    assert told(out) == (None, None, None)
    assert "this says nothing about what is stored, try again" in str(out)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        RuntimeError("not found"),
        ValueError("odd"),
        IndexError(),
        AttributeError("vault_get_file"),
        AssertionError(),
        NotImplementedError(),
        Exception(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_anything_else_is_an_error_of_the_vault(error: Exception) -> None:
    out = shown(error)
    assert type(out) is VaultError
    assert told(out) == (None, None, None)


def test_a_status_that_is_no_status_is_none() -> None:
    for status in (0, -1, False, True, "404", 404.0, None, [404]):
        error = RuntimeError("x")
        error.status = status  # type: ignore[attr-defined]
        error.code = 404  # type: ignore[attr-defined]
        out = shown(error)
        assert type(out) is VaultError
        assert told(out) == (None, None, None)


# --- our own, and the message ---


@pytest.mark.parametrize("name", ["SnapshotNotFound", "SnapshotCorrupt", "QuotaExceeded", "VaultError", "RateLimited"])
def test_an_error_of_this_package_passes_as_it_is(name: str) -> None:
    error = getattr(exceptions, name)("as it is")
    assert translate(error, DOING) is error
    refusal = VaultError("as it is", status=404, code="NOT_FOUND")
    assert translate(refusal, DOING) is refusal


def test_a_message_moves_no_cursor_and_hides_nothing() -> None:
    out = shown(ColonyAPIError("\x1b[2J\x1b]0;t\x07 \u202e \udcff \x00 caf\u00e9", 499))
    assert out.message.isprintable()
    assert "\\x1b[2J\\x1b]0;t\\x07 \\u202e \\udcff \\x00 caf\u00e9" in out.message
