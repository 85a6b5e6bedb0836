"""What is in a vault's directory besides its files, and that directory after wrong clocks, copies and sync services."""

import os
import sys
import time
import warnings
from contextlib import contextmanager

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory
from colony_memory.exceptions import ColonyMemoryWarning, VaultError, VaultMissing, VaultUnavailable
from colony_memory.shell.app.protection import check_protection
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.vaults.local import LocalVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX links and pipes")

NOTES = {"MEMORY.md": "two years of notes"}
POINTER = "cmem.x.latest.json"


@pytest.fixture
def vault(tmp_path):
    return LocalVault(tmp_path / "vault", create=True)


@pytest.fixture
def memory(vault):
    memory = ColonyMemory(backend=vault, format=1)
    memory.backup(NOTES)
    return memory


def listed(vault, prefix=""):
    return [item["filename"] for item in vault.vault_list_prefix(prefix)["items"]]


def plant(place, kind):
    if kind == "a named pipe":
        os.mkfifo(place)
    elif kind == "a directory":
        place.mkdir()
        (place / "in it").write_text("x")
    elif kind == "a link":
        (place.parent.parent / "target").write_text('{"elsewhere": true}')
        place.symlink_to(place.parent.parent / "target")
    elif kind == "a link to nothing":
        place.symlink_to("nowhere")
    elif kind == "a link to itself":
        place.symlink_to(place.name)
    elif kind == "a device":
        try:
            os.mknod(place, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: it never ends
        except PermissionError:
            pytest.skip("needs the right to make a device")


STRAYS = ["a named pipe", "a directory", "a link", "a link to nothing", "a link to itself", "a device"]


# --- strays


@on_posix
@pytest.mark.parametrize("kind", STRAYS)
def test_a_stray_is_named_to_whoever_asks_for_it(vault, memory, kind):
    plant(vault.path / POINTER, kind)
    said = f"{POINTER}: {kind.removesuffix(' to nothing').removesuffix(' to itself')}, not a plain file"
    for call in (
        lambda: vault.vault_get_file(POINTER),
        lambda: vault.vault_upload_file(POINTER, "x"),
        lambda: vault.vault_upload_file_if(POINTER, "x", if_none_match="*"),
        lambda: vault.vault_upload_file_if(POINTER, "x", if_match="0" * 64),
        lambda: vault.vault_delete_file(POINTER),
        lambda: memory.restore(label="x"),
        lambda: memory.restore(label="x", default={}),
        lambda: memory.backup(NOTES, label="x"),
    ):
        with _unheard(), pytest.raises(VaultUnavailable) as caught:
            call()
        assert said in str(caught.value)
        assert caught.value.code == "UNFIT_FILE"
        assert caught.value.__cause__ is None
    with pytest.warns(ColonyMemoryWarning, match=f"{POINTER}.*not a plain file; it is passed over"):
        assert listed(vault, "cmem.x.") == []
    with pytest.warns(ColonyMemoryWarning, match=f"{POINTER}.*not a plain file; it is passed over"):
        assert vault.vault_look_up_files([POINTER])["items"] == []
    assert os.path.lexists(vault.path / POINTER)
    if kind == "a link":
        assert (vault.path.parent / "target").read_text() == '{"elsewhere": true}'


@on_posix
@pytest.mark.parametrize("kind", STRAYS)
def test_a_stray_is_in_nobodys_way(vault, memory, kind):
    for name in (POINTER, "cmem.x.20260101T000000000000Z-abcdef.manifest.json", "other.json", ".tmp-old"):
        plant(vault.path / name, kind)
        os.utime(vault.path / name, (0, 0), follow_symlinks=False)
        (vault.path.parent / "target").unlink(missing_ok=True)
    # Whoever asks for another label hears nothing of it.
    assert memory.restore() == NOTES
    memory.backup({"MEMORY.md": "more"}, prune_keep=1)
    assert memory.verify(label="default")
    assert memory.restore() == {"MEMORY.md": "more"}
    with pytest.warns(ColonyMemoryWarning, match="passed over"):
        assert len(memory.list_snapshots()) == 1
    assert vault.vault_status()["file_count"] == 3


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="names are text there")
def test_a_name_that_is_no_text_is_told_and_in_nobodys_way(vault, memory):
    for name in (b"cmem.\xff.latest.json", b"cmem.a\\b.latest.json", b"other\xff"):
        (vault.path / os.fsdecode(name)).touch()
    assert memory.restore() == NOTES
    with pytest.warns(ColonyMemoryWarning) as caught:
        assert len(listed(vault)) == 3
    assert sorted(str(each.message).rpartition("/")[2] for each in caught) == [
        "cmem.\\udcff.latest.json': not a name that a file of a vault may have; it is passed over",
        "cmem.a\\\\b.latest.json': not a name that a file of a vault may have; it is passed over",
    ]
    with _unheard():
        assert len(memory.list_snapshots()) == 1


def test_what_no_memory_holds_is_named_and_what_could_not_be_read_back_is_not_written(vault, memory, monkeypatch):
    with (vault.path / POINTER).open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(VaultUnavailable, match=f"{POINTER}: larger than 536870912 bytes"):
        vault.vault_get_file(POINTER)
    assert memory.restore() == NOTES
    monkeypatch.setattr("colony_memory.vaults.local.MOST_BYTES", 10)
    with pytest.raises(VaultError, match="may take 10"):
        vault.vault_upload_file("x.json", "x" * 11)


# --- elsewhere


SHAPES = [".{}.icloud", "{}.nextcloud", "{}.owncloud", ".syncthing.{}.tmp", "~syncthing~{}.tmp"]


def evict(vault, shape, names):
    for name in names:
        (vault.path / name).unlink()
        (vault.path / shape.format(name)).write_bytes(b"bplist00\xd3NSURLNameKey")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_elsewhere_is_not_absent(vault, memory, shape):
    names = listed(vault)
    evict(vault, shape, names)
    pointer = "cmem.default.latest.json"
    for call in (
        memory.restore,
        lambda: memory.restore(default={}),
        lambda: memory.backup({"MEMORY.md": "new here"}),
        memory.latest,
        lambda: vault.vault_get_file(pointer),
        lambda: vault.vault_upload_file(pointer, "x"),
        lambda: vault.vault_upload_file_if(pointer, "x", if_none_match="*"),
        lambda: vault.vault_delete_file(pointer),
    ):
        with _unheard(), pytest.raises(VaultUnavailable) as caught:
            call()
        assert pointer in str(caught.value)
        assert shape.format(pointer) in str(caught.value)
        assert caught.value.code == "ELSEWHERE"
        assert not isinstance(caught.value, VaultMissing)
    with pytest.warns(ColonyMemoryWarning, match="a sync service has placeholders in place of 3 files"):
        assert vault.vault_list_files()["items"] == [{"filename": name} for name in names]
    with pytest.warns(ColonyMemoryWarning, match="a sync service has placeholders in place of 2 files"):
        assert vault.vault_look_up_files(names[:2])["items"] == [{"filename": name} for name in names[:2]]
    assert listed(vault, "cmem.other.") == []
    assert vault.vault_status()["file_count"] == 3
    assert vault.vault_status()["used_bytes"] == 0


def test_a_vault_of_nothing_but_placeholders_is_one_without_its_marker(vault, memory):
    (vault.path / ".cmem-vault.json").unlink()
    evict(vault, ".{}.icloud", listed(vault))
    with pytest.raises(VaultUnavailable, match="elsewhere") as caught:
        memory.restore(default={})
    assert not isinstance(caught.value, VaultMissing)


def test_a_marker_that_is_elsewhere_is_a_marker(vault):
    (vault.path / ".cmem-vault.json").rename(vault.path / "..cmem-vault.json.icloud")
    assert vault.exists()
    assert vault.vault_list_files()["items"] == []


def test_an_old_snapshot_that_is_elsewhere_hinders_no_other(vault, memory):
    old = memory.latest().snapshot_id
    memory.backup({"MEMORY.md": "more"})
    evict(vault, ".{}.icloud", [name for name in listed(vault) if old in name])
    assert memory.restore() == {"MEMORY.md": "more"}
    with pytest.warns(ColonyMemoryWarning, match="placeholders in place of 2 files"):
        listed(vault)
    with _unheard():
        memory.backup({"MEMORY.md": "even more"})
        assert memory.restore() == {"MEMORY.md": "even more"}
        with pytest.raises(VaultUnavailable, match="elsewhere"):
            memory.restore(snapshot_id=old)


def test_a_file_that_is_there_is_there_whatever_lies_beside_it(vault, memory):
    (vault.path / ".cmem.default.latest.json.icloud").write_bytes(b"old")
    assert memory.restore() == NOTES
    vault.vault_delete_file("cmem.default.latest.json")
    with pytest.raises(VaultUnavailable, match="elsewhere"):
        vault.vault_get_file("cmem.default.latest.json")


_DAYS = 2 * 86_400
_POINTER = "cmem.default.latest.json"


def _save(vault, number, **options):
    text = "".join(f"line {n} of it, {n * 7919 % 1000}\n" for n in range(200 + number))
    return ColonyMemory(backend=vault).backup({"MEMORY.md": text, "number": str(number)}, **options).snapshot_id


def _ids(vault):
    return [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots(label="default")]


@contextmanager
def _unheard():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        yield


@pytest.mark.parametrize("wire", FORMATS)
def test_a_file_of_a_time_to_come_makes_no_upload_of_this_minute_old(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    _save(vault, 0)
    for path in tmp_path.iterdir():  # written while the clock was two days ahead
        os.utime(path, (time.time() + _DAYS,) * 2)
    slow = FaultyVault(vault)
    slow.hook("upload", lambda: ColonyMemory(backend=vault).prune(keep=5), match=".manifest.json")
    saved = _save(slow, 1)
    assert ColonyMemory(backend=vault).restore()["number"] == "1"
    assert ColonyMemory(backend=vault).verify(snapshot_id=saved)


@pytest.mark.parametrize("wire", FORMATS)
def test_an_older_pointer_put_over_the_vault_costs_no_snapshot(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    ids = [_save(vault, 0)]
    older = (tmp_path / _POINTER).read_text()
    ids += [_save(vault, number) for number in range(1, 5)]
    (tmp_path / _POINTER).write_text(older)
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        os.utime(path, (time.time() - _DAYS + number,) * 2)
    with _unheard():
        ids.append(_save(vault, 5, prune_keep=20))
        assert _ids(vault) == ids[::-1]
        assert _save(vault, 6, prune_keep=20)
        assert _ids(vault)[1:] == ids[::-1]
        assert ColonyMemory(backend=vault).verify()


@pytest.mark.parametrize("wire", FORMATS)
def test_what_a_restore_does_not_give_is_not_called_protected(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    older = [(_save(vault, number), (tmp_path / _POINTER).read_text())[1] for number in range(4)]
    mem = ColonyMemory(backend=vault)
    assert check_protection(mem).verdict.state == "protected"
    (tmp_path / _POINTER).write_text(older[1])
    assert mem.restore()["number"] == "1"
    verdict = check_protection(mem).verdict
    assert verdict.state == "at risk"
    assert "the pointer of label 'default' is an older one" in verdict.problems[0].what
    # The next backup is the latest again.
    with _unheard():
        _save(vault, 5)
    assert check_protection(mem).verdict.state == "protected"


@pytest.mark.parametrize("wire", FORMATS)
def test_a_copy_that_did_not_finish_leaves_what_was_there_and_goes_on(tmp_path, wire):
    here = LocalVault(tmp_path / "here", create=True, format=wire)
    there = LocalVault(tmp_path / "there", create=True, format=wire)
    mem = ColonyMemory(backend=here)
    _save(here, 0)
    mem.copy_to(ColonyMemory(backend=there))
    for number in range(1, 4):
        _save(here, number)
    dying = FaultyVault(there)
    dying.fail("upload", ProcessDied(0), match=_POINTER)
    dying.fail("delete", ProcessDied(0))
    with pytest.raises(ProcessDied):
        mem.copy_to(ColonyMemory(backend=dying))
    copied = ColonyMemory(backend=there)
    assert check_protection(copied).verdict.problems == ()
    assert copied.restore()["number"] == "0"
    for path in (tmp_path / "there").iterdir():  # hours later, as what is not listed yet may be on its way out
        os.utime(path, (path.stat().st_mtime - 7200,) * 2)
    assert mem.copy_to(copied)
    assert check_protection(copied).verdict.state == "protected"
    assert copied.restore()["number"] == "3"
