import subprocess
import sys

import pytest
from colony_sdk import ColonyAPIError, ColonyAuthError, ColonyNotFoundError, ColonyRateLimitError, ColonyValidationError
from faces import Clock

import colony_memory.testing as public
from colony_memory.testing import FakeVault

EMPTY = {"quota_bytes": 0, "used_bytes": 0, "available_bytes": 0, "file_count": 0}


def refusal(call, *args, **kwargs):
    with pytest.raises(ColonyAPIError) as caught:
        call(*args, **kwargs)
    return caught.value


def test_public_names():
    assert public.__all__ == ["FakeVault", "FaultyVault", "VaultBackendTests", "VaultServer"]
    for name in public.__all__:
        assert getattr(public, name).__name__ == name


def test_imports_are_light():
    code = (
        "import sys, colony_memory.testing as t; t.FakeVault; t.FaultyVault; t.VaultServer; t.VaultBackendTests;"
        "print(sorted({'pytest', 'colony_sdk', 'httpx', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_quota_is_provisioned_by_the_first_upload_that_succeeds():
    vault = FakeVault()
    assert vault.vault_status() == EMPTY
    refusal(vault.vault_upload_file, "a.exe", "x")
    refusal(vault.vault_delete_file, "a.md")
    assert vault.vault_status() == EMPTY
    vault.vault_upload_file("a.md", "é")
    assert vault.vault_status() == {
        "quota_bytes": 10_000_000,
        "used_bytes": 2,
        "available_bytes": 9_999_998,
        "file_count": 1,
    }
    vault.vault_delete_file("a.md")
    assert vault.vault_status() == {**EMPTY, "quota_bytes": 10_000_000, "available_bytes": 10_000_000}


def test_refusals_are_the_sdks_own():
    vault = FakeVault(max_files=1)
    vault.files["a.md"] = "x"
    for method, given, options, kind, status, code in (
        ("get_file", ("b.md",), {}, ColonyNotFoundError, 404, "NOT_FOUND"),
        ("delete_file", ("b.md",), {}, ColonyNotFoundError, 404, "NOT_FOUND"),
        ("upload_file", ("a.jsonl", "x"), {}, ColonyValidationError, 400, "INVALID_INPUT"),
        ("upload_file", ("b.md", "x"), {}, ColonyValidationError, 400, "LIMIT_EXCEEDED"),
        ("upload_file_if", ("a.md", "x"), {"if_match": "0"}, ColonyAPIError, 412, "PRECONDITION_FAILED"),
        ("upload_file", ("a.md", "x" * 1_100_001), {}, ColonyValidationError, 422, None),
        ("upload_file", ("a" * 253 + ".md", "x"), {}, ColonyValidationError, 422, None),
        ("upload_file", ("a.md", "\ud800"), {}, ColonyValidationError, 422, None),
        ("list_prefix", ("x" * 256,), {}, ColonyValidationError, 422, None),
    ):
        error = refusal(getattr(vault, f"vault_{method}"), *given, **options)
        assert (type(error), error.status, error.code) == (kind, status, code)
        detail = error.response["detail"]
        assert isinstance(detail, list) if code is None else detail == {"code": code, "message": str(error)}
    vault.karma_ok = False
    error = refusal(vault.vault_upload_file, "a.md", "x")
    assert (type(error), error.status, error.code) == (ColonyAuthError, 403, "KARMA_TOO_LOW")
    assert vault.files == {"a.md": "x"}


def test_checks_come_in_the_documented_order():
    """An upload that is wrong in every way is told one thing at a time."""
    vault = FakeVault(karma_ok=False, quota_bytes=15, max_file_bytes=10, max_files=0, operations_per_hour=0)
    vault.files["old.md"] = "0123456789"
    for mended, name, size, told in (
        ({}, "a.exe", 1_100_001, (422, None)),
        ({}, "a.exe", 11, (403, "KARMA_TOO_LOW")),
        ({"karma_ok": True}, "a.exe", 11, (400, "INVALID_INPUT")),
        ({}, "a.md", 11, (400, "QUOTA_EXCEEDED")),
        ({}, "a.md", 6, (400, "QUOTA_EXCEEDED")),
        ({}, "a.md", 5, (400, "LIMIT_EXCEEDED")),
        ({"max_files": 2}, "a.md", 5, (429, "RATE_LIMIT")),
        ({"operations_per_hour": 60}, "a.md", 5, (412, "PRECONDITION_FAILED")),
    ):
        vars(vault).update(mended)
        error = refusal(vault.vault_upload_file_if, name, "x" * size, if_match="stale")
        assert (error.status, error.code) == told
    assert vault.files == {"old.md": "0123456789"}
    assert vault.vault_upload_file("a.md", "x" * 5)["content_size"] == 5


def test_one_bucket_for_uploads_and_deletes():
    clock = Clock()
    vault = FakeVault(clock=clock)
    assert (vault.vault_operations_left(), vault.seconds_to_reset()) == (60, 3600)
    for number in range(30):
        vault.vault_upload_file("a.md", str(number))
        clock.now += 1
        vault.vault_delete_file("a.md")
    assert vault.vault_operations_left() == 0
    for call in (lambda: vault.vault_upload_file("a.md", "x"), lambda: vault.vault_delete_file("a.md")):
        error = refusal(call)
        assert isinstance(error, ColonyRateLimitError)
        assert (error.status, error.code, error.retry_after) == (429, "RATE_LIMIT", 3570)
    assert vault.vault_list_files()["total"] == 0  # reads are not counted
    clock.now += 3568.5
    assert refusal(vault.vault_upload_file, "a.md", "x").retry_after == 2  # never too short
    clock.now += 1
    assert refusal(vault.vault_upload_file, "a.md", "x").retry_after == 1
    clock.now += 0.5
    vault.vault_upload_file("a.md", "x")
    assert (vault.vault_operations_left(), vault.seconds_to_reset()) == (59, 3600)


def test_calls_are_logged_refused_or_not():
    vault = FakeVault()
    vault.vault_status()
    vault.vault_list_files()
    vault.vault_list_prefix("cmem.")
    refusal(vault.vault_get_file, "a.md")
    vault.vault_upload_file_if("a.md", "x", if_none_match="*")
    refusal(vault.vault_delete_file, "b.md")
    vault.vault_operations_left()
    listed = [("status", ""), ("list", ""), ("list", "cmem.")]
    assert vault.calls == [*listed, ("get", "a.md"), ("upload", "a.md"), ("delete", "b.md")]
