"""Folders and files into a vault, without a command line."""

from __future__ import annotations

import asyncio
import os
import warnings

import pytest
from capture_trees import posix

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    Retention,
    open_vault,
    restore_folder,
    save_folder,
    save_paths,
)
from colony_memory.app import save
from colony_memory.app.options import BackupOptions
from colony_memory.app.pick import BEFORE_RESTORE
from colony_memory.app.restore import save_present
from colony_memory.app.save import read_for, save_capture
from colony_memory.capture import read_folder, write_folder
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
BYTES = b"\x89PNG\r\n\xff"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "MEMORY.md").write_bytes(b"two years\r\n")
    (path / "notes" / "face.png").write_bytes(BYTES)
    return path


@pytest.fixture
def memory():
    return ColonyMemory(backend=MemoryVault())


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


def test_what_could_not_be_saved_is_told_and_is_in_the_record(memory, folder):
    (folder / "link").symlink_to("/etc/hostname")
    saved = save_folder(memory, folder)
    assert not saved
    assert [each.name for each in saved.left_out] == ["link"]
    assert memory.latest().incomplete == tuple(map(str, saved.left_out))
    assert saved.capture.documents == memory.restore()


def test_paths_are_saved_each_under_its_name(memory, folder, tmp_path):
    (tmp_path / "more.md").write_text("more")
    saved = save_paths(memory, (each for each in (folder, tmp_path / "more.md")), label="all")
    assert "memory/MEMORY.md" in saved.info.doc_names
    assert "more.md" in saved.info.doc_names
    # One alone, given as it is, and not letter by letter.
    assert "MEMORY.md" in save_paths(memory, str(folder)).info.doc_names
    assert save_paths(memory, folder).info.reused
    for paths in ([""], [folder, ""]):
        with pytest.raises(ValueError, match="an empty path"):
            save_paths(memory, paths)
    with pytest.raises(ValueError, match="no path was given"):
        save_paths(memory, [])


@pytest.mark.parametrize("call", [save_folder, lambda memory, path: save_paths(memory, [path]), read_warning])
def test_the_vault_does_not_save_itself(folder, call):
    memory = ColonyMemory(backend=LocalVault(folder / "vault", create=True))
    with pytest.raises(ValueError, match=r"is inside .*: each backup would hold all the ones before"):
        call(memory, folder)
    assert memory.list_snapshots() == []


def test_what_to_do_about_secrets_is_passed_on(memory, folder):
    (folder / "keys.md").write_text(f"token = {TOKEN}\n")
    with pytest.warns(ColonyMemoryWarning, match=r"keys\.md:1"):
        save_folder(memory, folder)  # a key in a note does not cost an agent its last backup
    with pytest.raises(ColonyMemoryError, match="nothing was saved"):
        save_folder(memory, folder, secrets="stop")
    saved = save_folder(memory, folder, secrets="mask")
    assert "[masked: GitHub token]" in memory.restore()["keys.md"]
    assert TOKEN not in memory.restore()["keys.md"]
    assert [each.name for each in saved.capture.secrets] == ["keys.md"]


def test_a_retention_and_a_conflict_are_those_of_a_backup(memory, folder):
    for number in range(4):
        (folder / "MEMORY.md").write_text(f"year {number}")
        save_folder(memory, folder, **({"prune_keep": 2} if number < 3 else {"retention": Retention(keep_last=3)}))
    assert len(memory.list_snapshots()) == 3
    other = ColonyMemory(backend=memory._session.vault.backend)
    other.backup({"MEMORY.md": "theirs"})
    (folder / "MEMORY.md").write_text("ours")
    with pytest.raises(ConflictDetected):
        save_folder(memory, folder)
    assert save_folder(memory, folder, on_conflict="continue").info.diverged_from


def test_the_limit_of_the_memory_is_that_of_the_reading(folder):
    (folder / "large.md").write_text("x" * 5000)
    saved = save_folder(ColonyMemory(backend=MemoryVault(), max_bytes=2000), folder)
    assert [each.name for each in saved.left_out] == ["large.md"]


def test_two_steps_are_the_same_as_one(memory, folder):
    info = save_capture(memory, read_warning(memory, folder), BackupOptions()).info
    assert save_folder(memory, folder).info.snapshot_id == info.snapshot_id


def test_what_nobody_would_await_is_refused(folder, tmp_path):
    client = AsyncColonyMemory(backend=MemoryVault())
    calls = [
        lambda: save_folder(client, folder),
        lambda: save_paths(client, [folder]),
        lambda: save_capture(client, read_folder(folder), BackupOptions()),
        lambda: restore_folder(client, tmp_path / "out"),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is asynchronous"):
            call()


def test_in_an_event_loop_it_goes_to_a_thread(memory, folder):
    saved = asyncio.run(asyncio.to_thread(save_folder, memory, folder))
    assert memory.latest().snapshot_id == saved.info.snapshot_id


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


def test_what_is_there_is_saved_beside_the_memory(memory, folder):
    memory.backup({"a.md": "x"})
    before = save_present(memory, folder, label="default", needed=["MEMORY.md"])
    assert before.info.label == f"default{BEFORE_RESTORE}"
    assert memory.restore() == {"a.md": "x"}
    assert memory.restore(label=before.info.label) == read_folder(folder, attributes=True).documents


def test_where_nothing_is_there_is_nothing_to_save(memory, tmp_path):
    (tmp_path / "empty").mkdir()
    assert save_present(memory, tmp_path / "empty", label="default") is None
    assert save_present(memory, tmp_path / "none", label="default") is None
    assert memory.list_snapshots() == []


def test_what_would_be_replaced_must_be_in_it(memory, folder):
    (folder / "link").symlink_to("/etc/hostname")
    (folder / ".cmemignore").write_text("*.log\n")
    (folder / "a.log").write_text("x")
    for name, why in (("link", "is a link"), ("a.log", "is ignored")):
        with pytest.raises(ColonyMemoryError, match=f"'{name}' would be replaced, and is not in it .*{why}"):
            save_present(memory, folder, label="default", needed=[name])
    assert memory.list_snapshots() == []
    before = save_present(memory, folder, label="default", needed=["MEMORY.md"])
    assert [each.name for each in before.left_out] == ["link"]
    (folder / "keys.md").write_text(TOKEN)
    with pytest.raises(ColonyMemoryError, match="likely secret"):
        save_present(memory, folder, label="default")


def test_nothing_is_printed(memory, folder, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert save_folder(memory, folder)
    assert capfd.readouterr() == ("", "")
    assert save.__all__ == sorted(save.__all__)
