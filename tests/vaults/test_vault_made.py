"""A local vault is made once, on purpose: its marker, what passes for a vault without one, and who owns it."""

import errno
import json
import os
import re
import stat
import subprocess
import sys

import pytest

from colony_memory import ColonyMemory
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    Hint,
    QuotaExceeded,
    VaultDenied,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.vaults.local import LocalVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX links, pipes and owners")
as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root")

MARKER = ".cmem-vault.json"
NOTES = {"MEMORY.md": "two years of notes"}


@pytest.fixture
def vault(tmp_path):
    return LocalVault(tmp_path / "vault", create=True)


def names(place):
    return sorted(path.name for path in place.iterdir())


def every_call(vault):
    return (
        vault.vault_status,
        vault.vault_list_files,
        lambda: vault.vault_list_prefix("cmem."),
        lambda: vault.vault_get_file("cmem.default.latest.json"),
        lambda: vault.vault_upload_file("cmem.default.latest.json", "y"),
        lambda: vault.vault_upload_file_if("cmem.default.latest.json", "y", if_none_match="*"),
        lambda: vault.vault_delete_file("cmem.default.latest.json"),
    )


def every_verb(memory):
    return (
        memory.restore,
        lambda: memory.restore(default={}),
        lambda: memory.restore(fallback=True),
        lambda: memory.backup(NOTES),
        memory.list_snapshots,
        memory.latest,
        memory.verify,
        memory.inspect,
        memory.status,
        lambda: memory.prune(label="default"),
        lambda: memory.plan_prune(label="default"),
        lambda: memory.diff(None),
        lambda: memory.delete_snapshot(label="default", snapshot_id="20260101T000000000000Z-abcdef"),
    )


# --- made


@on_posix
def test_what_is_made_is_its_owners_and_says_what_it_is(tmp_path):
    LocalVault(tmp_path / "a" / "b", create=True)
    for path, mode in ((tmp_path / "a", 0o700), (tmp_path / "a" / "b", 0o700), (tmp_path / "a" / "b" / MARKER, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    marker = json.loads((tmp_path / "a" / "b" / MARKER).read_text())
    assert marker["format"] == "colony-memory/vault/1"
    assert re.fullmatch(r"[0-9a-f]{32}", marker["id"])
    assert set(marker) == {"format", "id", "snapshots"}


def test_the_marker_is_no_file_of_the_vault(vault):
    assert vault.vault_list_files()["items"] == []
    assert vault.vault_status()["file_count"] == 0
    for call in (vault.vault_get_file, vault.vault_delete_file, lambda name: vault.vault_upload_file(name, "x")):
        with pytest.raises(VaultError) as caught:
            call(MARKER)
        assert caught.value.status == 400
    assert vault.exists()


# --- not made


@pytest.mark.parametrize("what", ["nothing", "an empty directory", "a directory of other things"])
def test_where_none_was_made_every_call_says_so_and_makes_none(tmp_path, what):
    place = tmp_path / "vault"
    if what != "nothing":
        place.mkdir()
    if what == "a directory of other things":
        (place / "lost+found").mkdir()
        (place / "notes.md").write_text("mine")
        (place / ".lock").touch()
        (place / "cmem.d").mkdir()
    before = names(place) if place.exists() else None
    vault = LocalVault(place)
    assert not vault.exists()
    for call in (*every_call(vault), *every_verb(ColonyMemory(backend=vault))):
        with pytest.raises(VaultMissing) as caught:
            call()
        assert str(place) in caught.value.message
        assert "not mounted" in caught.value.message
        assert caught.value.hint == Hint("init", "create", value=True)
        assert "open_vault(create=True)" in str(caught.value)
    assert (names(place) if place.exists() else None) == before


@on_posix
def test_a_link_to_a_disk_that_is_away_is_no_vault(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "vault")
    vault = LocalVault(tmp_path / "link")
    with pytest.raises(VaultMissing):
        vault.vault_list_files()
    with pytest.raises(VaultUnavailable, match="is a link to nothing"):
        LocalVault(vault.path, create=True)
    assert not (tmp_path / "disk").exists()
    LocalVault(tmp_path / "disk" / "vault", create=True).vault_upload_file("x.json", "x")
    assert vault.vault_get_file("x.json")["content"] == "x"


def test_a_disk_that_goes_away_and_comes_back(tmp_path, vault):
    memory = ColonyMemory(backend=vault)
    memory.backup(NOTES)
    vault.path.rename(tmp_path / "away")
    vault.path.mkdir()
    for call in (memory.restore, lambda: memory.backup({"MEMORY.md": "new here"})):
        with pytest.raises(VaultMissing):
            call()
    assert names(vault.path) == []
    vault.path.rmdir()
    (tmp_path / "away").rename(vault.path)
    assert memory.restore() == NOTES


# --- markers that are none


GARBAGE = [b"", b"\x00" * 60, b"{", b"[]", b'{"format": 7, "id": "x"}', b'{"format": "tar"}', b"\xff\xfe", b"x" * 5000]
GARBAGE += [b'{"format": "colony-memory/vault/1"}', b'{"format": "colony-memory/vault/1", "id": 7}', b"[" * 4000]


@pytest.mark.parametrize("content", GARBAGE)
def test_a_damaged_marker_hides_no_snapshot_and_proves_no_vault(vault, content):
    memory = ColonyMemory(backend=vault)
    (vault.path / MARKER).write_bytes(content)
    for call in every_call(vault):
        with pytest.raises(VaultUnavailable, match="it is not known whether") as caught:
            call()
        assert not isinstance(caught.value, VaultMissing)
        assert MARKER in str(caught.value)
    (vault.path / MARKER).unlink()
    LocalVault(vault.path, create=True)
    memory.backup(NOTES)
    (vault.path / MARKER).write_bytes(content)
    with pytest.warns(
        ColonyMemoryWarning, match=r"\.cmem-vault\.json: .*; the snapshots beside it are read without it"
    ):
        assert memory.restore() == NOTES
    if len(content) < 4096:
        LocalVault(vault.path, create=True)  # mends it
        assert memory.restore() == NOTES


@on_posix
@pytest.mark.parametrize("kind", ["a link", "a named pipe", "a directory"])
def test_what_is_no_plain_file_is_no_marker_and_is_not_followed(tmp_path, vault, kind):
    memory = ColonyMemory(backend=vault)
    memory.backup(NOTES)
    (tmp_path / "elsewhere").write_bytes((vault.path / MARKER).read_bytes())
    (vault.path / MARKER).unlink()
    if kind == "a link":
        (vault.path / MARKER).symlink_to(tmp_path / "elsewhere")
    else:
        {"a named pipe": os.mkfifo, "a directory": os.mkdir}[kind](vault.path / MARKER)
    with pytest.warns(ColonyMemoryWarning, match=f"{kind}, not a plain file"):
        assert memory.restore() == NOTES
    with pytest.raises(VaultUnavailable, match=rf"\.cmem-vault\.json: {kind}, not a plain file"):
        LocalVault(vault.path, create=True)
    for path in vault.path.glob("cmem.*"):
        path.unlink()
    with pytest.raises(VaultUnavailable, match="it is not known whether"):
        memory.restore(default={})


@pytest.mark.parametrize("snapshots", [True, False])
def test_a_vault_of_a_later_version_is_left_alone(vault, snapshots):
    memory = ColonyMemory(backend=vault)
    if snapshots:
        memory.backup(NOTES)
    (vault.path / MARKER).write_text('{"format": "colony-memory/vault/2", "id": [1], "more": "x"}')
    before = {path.name: path.read_bytes() for path in vault.path.iterdir()}
    for call in (*every_call(vault), *every_verb(memory), lambda: LocalVault(vault.path, create=True)):
        with pytest.raises(VaultUnavailable, match="format colony-memory/vault/2, which this version does not know"):
            call()
    assert {path.name: path.read_bytes() for path in vault.path.iterdir()} == before


def test_a_marker_may_say_more_than_this_version_knows(vault):
    marker = json.loads((vault.path / MARKER).read_text())
    (vault.path / MARKER).write_text(json.dumps({**marker, "note": "x"}))
    assert vault.exists()


# --- disks and users that refuse


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, QuotaExceeded), (errno.EROFS, VaultDenied), (errno.EIO, VaultUnavailable)]
)
def test_a_vault_that_cannot_be_made_leaves_none_behind(tmp_path, monkeypatch, number, kind):
    def refuse(*args):
        raise OSError(number, os.strerror(number))

    place = tmp_path / "vault"
    place.mkdir()
    with monkeypatch.context() as patch, pytest.raises(kind, match=re.escape(os.strerror(number))) as caught:
        patch.setattr(os, "fsync", refuse)
        LocalVault(place, create=True)
    assert str(place) in str(caught.value)
    assert [name for name in names(place) if name != ".lock"] == []
    assert not LocalVault(place).exists()
    assert LocalVault(place, create=True).exists()


@on_posix
def test_a_vault_that_can_only_be_read_is_read_and_is_one_already(vault, monkeypatch):
    ColonyMemory(backend=vault).backup(NOTES)
    real = os.open

    def read_only(path, flags, *args, **kwargs):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    there = LocalVault(vault.path, create=True)
    assert there.exists()
    memory = ColonyMemory(backend=there)
    assert memory.restore() == NOTES
    with pytest.raises(VaultDenied, match="Read-only"):
        memory.backup({"MEMORY.md": "more"})


MAKER = """
import sys
from colony_memory import open_vault

sys.stdin.readline()
vault = open_vault(sys.argv[1], create=True)
vault.vault_upload_file(f"cmem.{sys.argv[2]}.latest.json", "x")
print(open(f"{sys.argv[1]}/.cmem-vault.json").read(), end="")
"""


def test_of_several_processes_that_make_one_vault_one_makes_it(tmp_path):
    place = tmp_path / "a" / "vault"
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER, str(place), f"m{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for maker in makers:
        maker.stdin.write("go\n")
        maker.stdin.flush()
    markers = [maker.communicate(timeout=60)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0] * 4
    assert set(markers) == {(place / MARKER).read_text()}
    assert names(place) == [MARKER, ".lock", *(f"cmem.m{number}.latest.json" for number in range(4))]


@on_posix
@pytest.mark.parametrize("kind", ["a named pipe", "a link", "a directory"])
def test_what_is_no_lock_file_is_named_and_blocks_nobody(tmp_path, vault, kind):
    ColonyMemory(backend=vault).backup(NOTES)
    (vault.path / ".lock").unlink()
    if kind == "a link":
        (vault.path / ".lock").symlink_to(tmp_path / "made-by-it")
    else:
        {"a named pipe": os.mkfifo, "a directory": os.mkdir}[kind](vault.path / ".lock")
    for call in (lambda: vault.vault_upload_file("x.json", "y"), lambda: vault.vault_delete_file("x.json")):
        with pytest.raises(VaultUnavailable, match=rf"\.lock: {kind}, not a plain file"):
            call()
    assert ColonyMemory(backend=vault).restore() == NOTES
    assert not (tmp_path / "made-by-it").exists()


# --- root


@as_root
def test_what_root_writes_belongs_to_the_vaults_owner(tmp_path):
    place = tmp_path / "vault"
    LocalVault(place, create=True, format=1)
    for path in (place, *place.iterdir()):
        os.chown(path, 1234, 1235)
    (place / ".lock").unlink()
    memory = ColonyMemory(backend=LocalVault(place))
    memory.backup(NOTES)
    memory.backup({"MEMORY.md": "more"}, prune_keep=1)
    assert len(names(place)) == 5
    assert {(path.stat().st_uid, path.stat().st_gid) for path in place.iterdir()} == {(1234, 1235)}


@as_root
def test_a_vault_that_root_makes_belongs_to_the_owner_of_the_place(tmp_path):
    os.chown(tmp_path, 1234, 1235)
    LocalVault(tmp_path / "a" / "vault", create=True)
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {1234}
