"""Folders and files into a vault, without a command line."""

import os

import pytest
from capture_trees import posix

from colony_memory import AsyncColonyMemory, ColonyMemory, open_vault, restore_folder, save_folder, save_paths
from colony_memory.capture import write_folder
from colony_memory.shell.app.compare import file_history, find_unsaved, search_files
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.run import begin
from colony_memory.shell.app.save import read_for
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

BYTES = b"\x89PNG\r\n\xff"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "MEMORY.md").write_bytes(b"two years\r\n")
    (path / "notes" / "face.png").write_bytes(BYTES)
    return path


def read_warning(memory, path):
    return read_for(memory, path, BackupOptions(secrets="warn"))


def test_a_folder_is_saved_byte_for_byte(memory, folder, tmp_path):
    seen = []
    saved = save_folder(memory, folder, note="before the move", on_progress=lambda *told: seen.append(told))
    assert saved
    assert (saved.left_out, saved.info.note, saved.info.incomplete) == ((), "before the move", ())
    assert seen[-1][0] == 2
    assert memory.latest().snapshot_id == saved.info.snapshot_id
    write_folder(memory.restore(), tmp_path / "again")
    assert (tmp_path / "again" / "notes" / "face.png").read_bytes() == BYTES
    assert (tmp_path / "again" / "MEMORY.md").read_bytes() == b"two years\r\n"
    assert save_folder(memory, str(folder)).info.reused


@pytest.mark.parametrize("call", [save_folder, lambda memory, path: save_paths(memory, [path]), read_warning, begin])
def test_the_vault_does_not_save_itself(folder, call):
    memory = ColonyMemory(backend=LocalVault(folder / "vault", create=True))
    with pytest.raises(ValueError, match=r"is inside .*: each backup would hold all the ones before"):
        call(memory, folder)
    assert memory.list_snapshots() == []


def test_what_nobody_would_await_is_refused(folder, tmp_path):
    client = AsyncColonyMemory(backend=MemoryVault())
    calls = [
        lambda: save_folder(client, folder),
        lambda: save_paths(client, [folder]),
        lambda: restore_folder(client, tmp_path / "out"),
        lambda: find_unsaved(client, [folder]),
        lambda: file_history(client, "a.md"),
        lambda: search_files(client, "a"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is asynchronous"):
            call()


# What a folder holds, before something is restored over it.


@posix
@pytest.mark.parametrize("place", ["memory:", "vault"])
def test_permissions_and_times_come_back_exactly(folder, tmp_path, place):
    url = place if place == "memory:" else str(tmp_path / place)
    client = ColonyMemory(backend=open_vault(url, create=place != "memory:"))
    modes = {"MEMORY.md": 0o444, "notes/face.png": 0o640, "notes": 0o750, "empty": 0o700}
    (folder / "empty").mkdir()
    for number, (name, mode) in enumerate(modes.items()):
        (folder / name).chmod(mode)
        os.utime(folder / name, ns=(0, 1_760_000_000_123_456_789 + number * 10**15))
    first = save_folder(client, folder)
    os.utime(folder / "MEMORY.md")  # a time changes nothing by itself
    assert save_folder(client, folder).info.reused
    (folder / "notes" / "face.png").chmod(0o600)
    second = save_folder(client, folder)
    assert not second.info.reused
    restore_folder(client, tmp_path / "out", snapshot=first.info.snapshot_id)
    for number, (name, mode) in enumerate(modes.items()):
        status = (tmp_path / "out" / name).stat()
        assert (status.st_mode & 0o777, status.st_mtime_ns) == (mode, 1_760_000_000_123_456_789 + number * 10**15)
    restore_folder(client, tmp_path / "again")
    assert (tmp_path / "again" / "notes" / "face.png").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "again" / "MEMORY.md").stat().st_mtime_ns == (folder / "MEMORY.md").stat().st_mtime_ns
    restored = restore_folder(client, tmp_path / "one", only=["MEMORY.md"])
    assert restored.written.created == ("MEMORY.md",)
    assert (tmp_path / "one" / "MEMORY.md").stat().st_mode & 0o777 == 0o444
