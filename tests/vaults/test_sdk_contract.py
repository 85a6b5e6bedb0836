"""What this package relies on of the SDK: its methods, its settings, its errors, and the range of its versions."""

import inspect
from importlib import metadata

import colony_sdk
import pytest
from packaging.requirements import Requirement

METHODS = {
    "vault_status": (),
    "vault_list_files": (),
    "vault_get_file": ("filename",),
    "vault_upload_file": ("filename", "content"),
    "vault_delete_file": ("filename",),
    "get_auth_token": (),
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
ADDRESS = "http://127.0.0.1:9/api/v1"


@pytest.mark.parametrize("name", ["ColonyClient", "AsyncColonyClient"])
def test_a_client(name):
    if name == "AsyncColonyClient":
        pytest.importorskip("httpx")
    kind = getattr(colony_sdk, name)
    for method, arguments in METHODS.items():
        function = inspect.getattr_static(kind, method)
        assert inspect.iscoroutinefunction(function) is (name == "AsyncColonyClient")
        inspect.signature(function).bind(None, *arguments)
        inspect.signature(function).bind(None, **dict.fromkeys(arguments))
    # Forgetting a token needs no request, so this one is a plain function on both clients.
    assert not inspect.iscoroutinefunction(kind.refresh_token)
    client = kind("col_x", timeout=2.5, base_url=ADDRESS + "/", retry=colony_sdk.RetryConfig(max_retries=9))
    retry = client.retry
    assert (client.base_url, client.timeout) == (ADDRESS, 2.5)
    assert (retry.max_retries, retry.base_delay, retry.max_delay, retry.max_retry_after) == (9, 1.0, 10.0, 60.0)
    assert retry.retry_on == {429, 502, 503, 504}


def test_what_the_plain_client_has_besides():
    client = colony_sdk.ColonyClient("col_x")
    assert client.proxy is None
    assert client.auth_token_retry.max_retry_after == 60.0


@pytest.mark.parametrize(("name", "status"), ERROR_STATUS.items())
def test_errors(name, status):
    kinds = [getattr(colony_sdk, each) for each in ERROR_STATUS]
    kind = getattr(colony_sdk, name)
    assert [other for other in kinds if issubclass(kind, other)] == [kind]
    assert issubclass(kind, colony_sdk.ColonyAPIError)
    body = {"detail": {"message": "told"}}
    error = kind("told", status, body, "A_CODE")
    assert (error.status, error.code, error.response, str(error)) == (status, "A_CODE", body, "told")
    assert kind("told", status).code is None


def test_rate_limit_error_says_when_to_come_back():
    assert colony_sdk.ColonyRateLimitError("told", 429, {}, "RATE_LIMIT", 3600).retry_after == 3600
    assert colony_sdk.ColonyRateLimitError("told", 429).retry_after is None


def test_the_range_is_the_one_we_rely_on():
    found = [Requirement(text) for text in metadata.requires("colony-memory") or []]
    [requirement] = [each for each in found if each.name == "colony-sdk" and each.marker is None]
    versions = ("1.34.9", "1.35.0", "1.38.0", "2.0.0")
    assert [requirement.specifier.contains(each) for each in versions] == [False, True, True, False]
    assert requirement.specifier.contains(metadata.version("colony-sdk"))
