from __future__ import annotations

import inspect
from importlib import metadata
from typing import Any

import colony_sdk
import pytest
from colony_sdk import ColonyClient
from packaging.requirements import Requirement

VAULT_METHODS = {
    "vault_status": (),
    "vault_list_files": (),
    "vault_get_file": ("filename",),
    "vault_upload_file": ("filename", "content"),
    "vault_delete_file": ("filename",),
}
ERROR_STATUS = {
    "ColonyAuthError": 403,
    "ColonyNotFoundError": 404,
    "ColonyConflictError": 409,
    "ColonyValidationError": 400,
    "ColonyRateLimitError": 429,
    "ColonyServerError": 503,
    "ColonyNetworkError": 0,
}


def breaches(client: type, methods: dict[str, tuple[str, ...]], *, asynchronous: bool) -> list[str]:
    """Where ``client`` cannot be called with these arguments, by position or by name; empty if it can."""
    found = []
    for name, ours in methods.items():
        method = inspect.getattr_static(client, name, None)
        if not inspect.isfunction(method):
            found.append(f"{name} is missing")
            continue
        if inspect.iscoroutinefunction(method) is not asynchronous:
            found.append(f"{name} is {'a plain function' if asynchronous else 'a coroutine function'}")
        parameters = list(inspect.signature(method).parameters.values())[1:]
        named = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        if tuple(p.name for p in named[: len(ours)]) != ours:
            bare = inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])
            found.append(f"{name} takes {bare}, not ({', '.join(ours)})")
            continue
        optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        found += [
            f"{name} requires {p.name}"
            for p in parameters
            if p.name not in ours and p.default is inspect.Parameter.empty and p.kind not in optional
        ]
    return found


@pytest.fixture
def async_client() -> type:
    pytest.importorskip("httpx")
    return colony_sdk.AsyncColonyClient


def test_sync_client_has_the_vault_methods() -> None:
    assert breaches(ColonyClient, VAULT_METHODS, asynchronous=False) == []


def test_async_client_has_the_vault_methods(async_client: type) -> None:
    assert breaches(async_client, VAULT_METHODS, asynchronous=True) == []


def test_token_is_public() -> None:
    assert breaches(ColonyClient, {"get_auth_token": (), "refresh_token": ()}, asynchronous=False) == []


def test_token_is_public_on_the_async_client(async_client: type) -> None:
    assert breaches(async_client, {"get_auth_token": ()}, asynchronous=True) == []
    # Forgetting a token needs no request, so this one is a plain function on both clients.
    assert breaches(async_client, {"refresh_token": ()}, asynchronous=False) == []


ADDRESS = "http://127.0.0.1:9/api/v1"


def check_client_state(client: Any) -> None:
    assert client.base_url == ADDRESS
    assert client.timeout == 2.5


def check_retry_settings(retry: Any) -> None:
    assert (retry.max_retries, retry.base_delay, retry.max_delay, retry.max_retry_after) == (9, 1.0, 10.0, 60.0)
    assert retry.retry_on == {429, 502, 503, 504}


def test_retry_settings() -> None:
    given = colony_sdk.RetryConfig(max_retries=9)
    client = ColonyClient("col_x", retry=given, auth_token_retry=given)
    check_retry_settings(client.retry)
    check_retry_settings(client.auth_token_retry)


def test_retry_settings_of_the_async_client(async_client: type) -> None:
    check_retry_settings(async_client("col_x", client=object(), retry=colony_sdk.RetryConfig(max_retries=9)).retry)


def test_client_state() -> None:
    client = ColonyClient("col_x", timeout=2.5, base_url=ADDRESS + "/")
    check_client_state(client)
    assert client.proxy is None


def test_async_client_state(async_client: type) -> None:
    connections = object()
    check_client_state(async_client("col_x", timeout=2.5, base_url=ADDRESS + "/", client=connections))


@pytest.mark.parametrize(("name", "status"), ERROR_STATUS.items())
def test_errors(name: str, status: int) -> None:
    kind = getattr(colony_sdk, name)
    assert issubclass(kind, colony_sdk.ColonyAPIError)
    body = {"detail": {"message": "told"}}
    error = kind("told", status, body, "A_CODE")
    assert (error.status, error.code, error.response, str(error)) == (status, "A_CODE", body, "told")
    assert kind("told", status).code is None


def test_errors_stay_apart() -> None:
    kinds = [getattr(colony_sdk, name) for name in ERROR_STATUS]
    for kind in kinds:
        assert [other for other in kinds if issubclass(kind, other)] == [kind]


def test_rate_limit_error_says_when_to_come_back() -> None:
    error = colony_sdk.ColonyRateLimitError("told", 429, {}, "RATE_LIMIT", 3600)
    assert error.retry_after == 3600
    assert colony_sdk.ColonyRateLimitError("told", 429).retry_after is None


def sdk_requirement() -> Requirement:
    found = [Requirement(text) for text in metadata.requires("colony-memory") or []]
    [requirement] = [r for r in found if r.name == "colony-sdk" and r.marker is None]
    return requirement


def test_installed_version_is_in_range() -> None:
    assert sdk_requirement().specifier.contains(metadata.version("colony-sdk"))


def test_range_is_the_one_we_rely_on() -> None:
    specifier = sdk_requirement().specifier
    assert [specifier.contains(v) for v in ("1.34.9", "1.35.0", "1.38.0", "2.0.0")] == [
        False,
        True,
        True,
        False,
    ]
