import asyncio
import concurrent.futures
import errno
import http.client
import json
import socket
import ssl

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
from colony_memory.exceptions import Hint, QuotaExceeded, RateLimited, VaultDenied, VaultError, VaultUnavailable

DOING = "writing cmem.work.x.manifest.json"


def shown(error):
    """The translation; it says what was being done, what was raised, and fits one line."""
    out = translate(error, DOING)
    assert str(out).startswith(f"{DOING} failed: {type(error).__name__}")
    assert "\n" not in str(out)
    return out


def json_error():
    try:
        json.loads("<html>")
    except json.JSONDecodeError as error:
        return error
    raise AssertionError


BUSY = ColonyServerError("busy", 503)
BUSY.retry_after = 7
UNSTORED = "this says nothing about what is stored"
#: What was raised; its kind, status, code, seconds to wait, and a part of its message.
RAISED = [
    *(
        (ColonyAuthError("no", status, {}, code), VaultDenied, status, code, None, hint)
        for status, code, hint in (
            (401, "AUTH_INVALID_TOKEN", "check the API key"),
            (401, None, "check the API key"),
            (403, "KARMA_TOO_LOW", "10 karma"),
            (403, "AUTH_AGENT_ONLY", "use an agent's key"),
            (403, "AUTH_PENDING_ACTIVATION", "not active yet"),
            (403, "SOMETHING_NEW", "may not do that"),
            (403, None, "may not do that"),
        )
    ),
    (ColonyNotFoundError("gone", 404, {}, "NOT_FOUND"), VaultError, 404, "NOT_FOUND", None, ""),
    (ColonyNotFoundError("gone", 404), VaultError, 404, None, None, ""),
    (ColonyValidationError("bad", 400, {}, "INVALID_INPUT"), VaultError, 400, "INVALID_INPUT", None, ""),
    (ColonyConflictError("twice", 409, {}, "CONFLICT"), VaultError, 409, "CONFLICT", None, ""),
    (ColonyAPIError("changed", 412, {}, "PRECONDITION_FAILED"), VaultError, 412, "PRECONDITION_FAILED", None, ""),
    (ColonyAPIError("odd", 499), VaultError, 499, None, None, ""),
    (ColonyAPIError("odd", 1), VaultError, 1, None, None, ""),
    *(
        (ColonyRateLimitError("slow", 429, {}, code, given), RateLimited, 429, code, seconds, words)
        for code in ("RATE_LIMIT", None)
        for given, seconds, words in (
            (60, 60.0, "try again in 60 s"),
            (0, 0.0, "try again in 0 s"),
            (1.6, 1.6, "try again in 2 s"),
            *((each, None, "try again later") for each in (None, -5, "60", True, float("nan"), float("inf"))),
            *((each, None, "try again later") for each in (10**400, 366 * 86400 + 1, "Wed, 21 Oct 2026 07:28:00 GMT")),
        )
    ),
    (BUSY, VaultUnavailable, 503, None, 7.0, UNSTORED),
    *(
        (ColonyServerError("oops", status, {}, "INTERNAL"), VaultUnavailable, status, "INTERNAL", None, UNSTORED)
        for status in (500, 502, 503, 504, 507, 599)
    ),
    *(
        (ColonyAPIError("Found", status, {}, "X"), VaultUnavailable, status, "X", None, "redirects are not followed")
        for status in (300, 301, 302, 303, 304, 307, 308, 399)
    ),
    *(
        (error, VaultUnavailable, None, None, None, f"{UNSTORED}, try again")
        for error in (
            TimeoutError("timed out"),
            asyncio.TimeoutError(),
            concurrent.futures.TimeoutError(),
            http.client.RemoteDisconnected("closed"),
            http.client.IncompleteRead(b"{", 100),
            http.client.BadStatusLine("x"),
            ConnectionResetError(errno.ECONNRESET, "reset"),
            BrokenPipeError(errno.EPIPE, "pipe"),
            socket.gaierror(-2, "unknown"),
            ssl.SSLCertVerificationError("expired"),
            OSError(errno.ENETUNREACH, "unreachable"),
            OSError("just so"),
            json_error(),
            UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        )
    ),
    *(
        (error, VaultError, None, None, None, "")
        for error in (
            KeyError("x"),
            RuntimeError("not found"),
            AttributeError("vault_get_file"),
            AssertionError(),
            NotImplementedError(),
            Exception(),
            UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
        )
    ),
]


@pytest.mark.parametrize(("error", "kind", "status", "code", "seconds", "words"), RAISED)
def test_what_was_raised_is_told_as_an_error_of_the_package(error, kind, status, code, seconds, words):
    out = shown(error)
    assert type(out) is kind
    assert isinstance(out, VaultError)
    assert (out.status, out.code, out.retry_after) == (status, code, seconds)
    assert isinstance(out.retry_after, float) or seconds is None
    assert words in str(out)


def test_what_to_do_is_a_hint():
    assert shown(ColonyAPIError("Found", 302)).hint == Hint("open", "base_url")
    for code in ("QUOTA_EXCEEDED", "LIMIT_EXCEEDED"):
        out = shown(ColonyValidationError("full", 400, {}, code))
        assert type(out) is QuotaExceeded
        assert (out.needed, out.available, out.hint) == (None, None, Hint("prune", "keep"))
        assert "the vault is full" in out.message


def test_a_status_that_is_no_status_is_none():
    for status in (0, -1, False, True, "404", 404.0, None, [404]):
        error = RuntimeError("x")
        error.status = status
        error.code = 404
        out = shown(error)
        assert isinstance(out, VaultError)
        assert (type(out), out.status, out.code) == (VaultError, None, None)


@pytest.mark.parametrize("name", ["SnapshotNotFound", "SnapshotCorrupt", "QuotaExceeded", "VaultError", "RateLimited"])
def test_an_error_of_this_package_passes_as_it_is(name):
    error = getattr(exceptions, name)("as it is")
    assert translate(error, DOING) is error
    refusal = VaultError("as it is", status=404, code="NOT_FOUND")
    assert translate(refusal, DOING) is refusal


def test_a_message_moves_no_cursor_and_hides_nothing():
    out = shown(ColonyAPIError("\x1b[2J\x1b]0;t\x07 \u202e \udcff \x00 caf\u00e9", 499))
    assert out.message.isprintable()
    assert "\\x1b[2J\\x1b]0;t\\x07 \\u202e \\udcff \\x00 caf\u00e9" in out.message
