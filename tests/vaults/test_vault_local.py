"""The directory vault: the conformance suite, and what only a disk can do wrong."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_vault_marked import every_call

from colony_memory._os.files import locked
from colony_memory.exceptions import QuotaExceeded, VaultDenied, VaultError, VaultUnavailable
from colony_memory.vaults import local as local_module
from colony_memory.vaults.local import LocalVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions, links and signals")


@pytest.fixture
def vault(tmp_path):
    return LocalVault(tmp_path / "vault", create=True)


def names(vault):
    return [item["filename"] for item in vault.vault_list_files()["items"]]


def refusal(call, *args, **kwargs):
    with pytest.raises(VaultError) as caught:
        call(*args, **kwargs)
    return caught.value


# --- the directory


def test_a_path_that_is_a_file_is_refused_by_name(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="is not a directory") as caught:
            LocalVault(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_is_none(path):
    with pytest.raises(ValueError, match="not a path"):
        LocalVault(path)


def test_the_vault_stays_where_it_was_when_the_working_directory_changes(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    vault = LocalVault("vault", create=True)
    monkeypatch.chdir(tmp_path / "other")
    vault.vault_upload_file("x.json", "x")
    assert (tmp_path / "vault" / "x.json").read_text() == "x"
    assert repr(vault) == f"LocalVault({str(tmp_path / 'vault')!r})"


# --- what belongs to it


def test_hidden_files_and_directories_are_not_part_of_it(vault):
    vault.vault_upload_file("x.json", "x")
    (vault.path / "sub").mkdir()
    (vault.path / "sub" / "y.json").write_text("y")
    (vault.path / ".hidden.json").write_text("h")
    (vault.path / ".tmp-0123").write_text("t")
    assert names(vault) == ["x.json"]
    assert vault.vault_status()["file_count"] == 1
    assert vault.vault_status()["used_bytes"] == 1


# --- content


def test_times_are_utc(vault):
    vault.vault_upload_file("x.json", "x")
    os.utime(vault.path / "x.json", (0, 1_700_000_000.25))
    assert vault.vault_list_files()["items"][0]["updated_at"] == "2023-11-14T22:13:20.250000Z"


def test_a_time_that_no_calendar_has_does_not_hide_the_file(vault, monkeypatch):
    vault.vault_upload_file("x.json", "x")
    monkeypatch.setattr(local_module, "_scan", lambda *_: local_module._Contents({"x.json": (1, 1e20)}, {}))
    assert vault.vault_list_files()["items"] == [{"filename": "x.json", "content_size": 1, "updated_at": None}]


# --- limits


def test_a_full_quota_does_not_count_what_is_replaced(tmp_path):
    vault = LocalVault(tmp_path / "v", create=True, quota_bytes=10)
    vault.vault_upload_file("a.json", "123456")
    vault.vault_upload_file("b.json", "1234")
    assert vault.vault_status() == {"quota_bytes": 10, "used_bytes": 10, "available_bytes": 0, "file_count": 2}
    vault.vault_upload_file("a.json", "abcdef")
    error = refusal(vault.vault_upload_file, "b.json", "12345")
    assert (error.status, error.code) == (400, "QUOTA_EXCEEDED")
    assert "4 of 10" in str(error)
    assert vault.vault_get_file("b.json")["content"] == "1234"
    vault.vault_delete_file("b.json")
    assert vault.vault_status()["available_bytes"] == 4
    assert LocalVault(vault.path, quota_bytes=3).vault_status()["available_bytes"] == 0
    with pytest.raises(ValueError, match="quota_bytes"):
        LocalVault(vault.path, quota_bytes=0)


def test_without_a_quota_the_disk_is_the_limit(vault, monkeypatch):
    vault.vault_upload_file("a.json", "123456")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    assert vault.vault_status() == {"quota_bytes": 1006, "used_bytes": 6, "available_bytes": 1000, "file_count": 1}


# --- conditions


def test_a_lock_that_is_held_for_ever_is_told(vault, monkeypatch):
    vault.vault_upload_file("x.json", "x")
    monkeypatch.setattr(local_module, "_LOCK_PATIENCE", 0.02)
    with locked(vault.path / ".lock"):
        for call in (lambda: vault.vault_upload_file("x.json", "y"), lambda: vault.vault_delete_file("x.json")):
            error = refusal(call)
            assert isinstance(error, VaultUnavailable)
            assert str(vault.path) in str(error)
        assert vault.vault_get_file("x.json")["content"] == "x"
    vault.vault_upload_file("x.json", "y")


# --- crashes


def test_leftovers_of_a_crash_are_cleared_when_they_are_old(vault):
    vault.vault_upload_file("x.json", "x")
    for name, age in (("old", 3700), ("young", 3500)):
        leftover = vault.path / f".tmp-{name}"
        leftover.write_text("half a file")
        os.utime(leftover, (time.time() - age,) * 2)
    (vault.path / ".other").write_text("not ours")
    os.utime(vault.path / ".other", (0, 0))
    assert names(vault) == ["x.json"]
    assert vault.vault_get_file("x.json")["content"] == "x"
    vault.vault_delete_file("x.json")
    assert (vault.path / ".tmp-old").exists()
    # A look at every name is not for every upload: the first one of a client does it, and one an hour from then on.
    LocalVault(vault.path).vault_upload_file("x.json", "y")
    left = [".cmem-vault.json", ".lock", ".other", ".tmp-young", "x.json"]
    assert sorted(path.name for path in vault.path.iterdir()) == left


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc to name a descriptor")
def test_what_is_synced_when(vault, monkeypatch):
    events = []
    sync, rename, unlink = os.fsync, os.replace, os.unlink

    def synced(descriptor):
        facts = os.fstat(descriptor)
        place = Path(f"/proc/self/fd/{descriptor}").readlink().name
        events.append(f"sync {place}" if stat.S_ISDIR(facts.st_mode) else f"sync file of {facts.st_size}")
        sync(descriptor)

    def renamed(name, other, **places):
        events.append(f"rename to {os.fsdecode(other)}")
        return rename(name, other, **places)

    def unlinked(name, **places):
        events.append(f"unlink {os.fsdecode(name)}")
        unlink(name, **places)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(os, "unlink", unlinked)
    vault.vault_upload_file("x.json", "12345")
    assert events == ["sync file of 5", "rename to x.json", "sync vault"]
    events.clear()
    vault.vault_delete_file("x.json")
    assert events == ["unlink x.json", "sync vault"]
    events.clear()
    LocalVault(vault.path / "deep" / "er", create=True)
    assert events[:2] == ["sync vault", "sync deep"]
    assert events[2].startswith("sync file of ")
    assert events[3:] == ["rename to .cmem-vault.json", "sync er"]


@pytest.mark.parametrize(("place", "step"), [(os, "fsync"), (os, "replace")])
@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, QuotaExceeded),
        (errno.EDQUOT, QuotaExceeded),
        (errno.EROFS, VaultDenied),
        (errno.EPERM, VaultDenied),
        (errno.EIO, VaultUnavailable),
        (errno.ESTALE, VaultUnavailable),
    ],
)
def test_a_disk_that_refuses_a_write_leaves_the_old_file_alone(vault, monkeypatch, place, step, number, kind):
    vault.vault_upload_file("x.json", "old")
    before = sorted(path.name for path in vault.path.iterdir())

    def refuse(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch, pytest.raises(kind) as caught:
        patch.setattr(place, step, refuse)
        vault.vault_upload_file("x.json", "new text")
    assert str(vault.path / "x.json") in str(caught.value)
    assert os.strerror(number) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    if kind is QuotaExceeded:
        assert caught.value.needed == 8
    else:
        assert caught.value.status == (403 if kind is VaultDenied else None)
    assert sorted(path.name for path in vault.path.iterdir()) == before
    assert vault.vault_get_file("x.json")["content"] == "old"
    vault.vault_upload_file("x.json", "new text")
    assert vault.vault_get_file("x.json")["content"] == "new text"


@pytest.mark.parametrize(
    ("number", "kind", "status"),
    [(errno.EACCES, VaultDenied, 403), (errno.EIO, VaultUnavailable, None), (errno.ENOTDIR, VaultUnavailable, None)],
)
def test_a_directory_that_cannot_be_read_is_not_an_empty_one(vault, monkeypatch, number, kind, status):
    vault.vault_upload_file("x.json", "x")

    def refuse(path, *args, **kwargs):
        raise OSError(number, os.strerror(number), os.fspath(path))

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "open", refuse)
    for call in every_call(vault):
        error = refusal(call)
        assert type(error) is kind
        assert error.status == status
        assert str(vault.path) in str(error)


AS_NOBODY = """
import os, sys
from colony_memory.vaults.local import LocalVault

if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
vault = LocalVault("closed/vault")
for call in (
    vault.vault_status,
    vault.vault_list_files,
    lambda: vault.vault_get_file("x.json"),
    lambda: vault.vault_upload_file("x.json", "y"),
    lambda: vault.vault_delete_file("x.json"),
    lambda: LocalVault("readonly/vault", create=True),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__, error.status, os.getcwd() in str(error))
"""


@on_posix
def test_permissions_for_real():
    """As a user whom permissions bind: the directory, its files, and the place where it would be made."""
    with tempfile.TemporaryDirectory() as place:  # not below tmp_path, which its owner alone may enter
        vault = LocalVault(Path(place, "closed", "vault"), create=True)
        vault.vault_upload_file("x.json", "x")
        Path(place, "readonly").mkdir()
        for name, mode in ((".", 0o755), ("closed", 0o000), ("readonly", 0o555)):
            Path(place, name).chmod(mode)
        command = [sys.executable, "-c", AS_NOBODY]
        run = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=30, check=False)
        Path(place, "closed").chmod(0o700)
        assert (run.returncode, run.stdout) == (0, "VaultDenied 403 True\n" * 6), run.stderr
        assert vault.vault_get_file("x.json")["content"] == "x"


@pytest.mark.skipif(os.name == "nt", reason="POSIX modes")
@pytest.mark.parametrize(("mode", "files"), [(0o2770, 0o660), (0o2775, 0o660), (0o2750, 0o600), (0o770, 0o600)])
def test_a_directory_that_hands_on_its_group_and_is_open_to_it_has_files_that_are_so_too(tmp_path, mode, files):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    before = os.umask(0o077)
    try:
        vault = LocalVault(tmp_path / "shared", create=True)
        vault.vault_upload_file("a.json", "{}")
    finally:
        os.umask(before)
    made = [".cmem-vault.json", ".lock", "a.json"]
    assert {name: stat.S_IMODE((vault.path / name).stat().st_mode) for name in made} == dict.fromkeys(made, files)
    assert stat.S_IMODE(vault.path.stat().st_mode) == mode
