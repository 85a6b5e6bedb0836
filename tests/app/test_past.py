"""What became of a file, and of what was in one."""

from __future__ import annotations

import os

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryWarning,
    SnapshotCorrupt,
    SnapshotNotFound,
    save_folder,
)
from colony_memory.app.compare import file_history, search_files
from colony_memory.capture._metadata import METADATA_NAME
from colony_memory.vaults.memory import MemoryVault

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def memory():
    return ColonyMemory(backend=MemoryVault())


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "notes" / "a.md").write_text("tea\n")
    (path / "face.png").write_bytes(b"\x89PNG\xff tea")
    return path


def words(found):
    return [(each.kind, each.lines and (each.lines.added, each.lines.removed)) for each in found.changes]


@POSIX
def test_texts_pictures_and_links_have_a_history(memory, folder):
    (folder / "today").symlink_to("notes/a.md")
    save_folder(memory, folder)
    (folder / "face.png").write_bytes(b"\x89PNG\xfe")
    (folder / "notes" / "a.md").write_text("tea\ncoffee\n")
    (folder / "notes" / "a.md").chmod(0o755)
    save_folder(memory, folder)
    (folder / "today").unlink()
    (folder / "notes" / "a.md").chmod(0o644)
    save_folder(memory, folder)
    assert words(file_history(memory, "notes/a.md")) == [("changed", (1, 0)), ("added", (1, 0))]
    assert words(file_history(memory, "face.png")) == [("changed", None), ("added", None)]
    assert words(file_history(memory, "today")) == [("removed", (0, 1)), ("added", (1, 0))]
    assert len(file_history(memory, METADATA_NAME).changes) == 3
    first = file_history(memory, "today", patch=True).changes[-1]
    assert "new file mode 120000" in first.patch
    assert file_history(memory, "face.png").read == 3


def test_what_cannot_be_read_may_have_it(memory, folder):
    save_folder(memory, folder)
    (folder / "notes" / "a.md").write_text("x")
    info = save_folder(memory, folder).info
    vault = memory._session.vault.backend
    name = f"cmem.default.{info.snapshot_id}.p0.json"
    vault.vault_upload_file(name, vault.vault_get_file(name)["content"].replace("H4sI", "AAAA"))
    with (
        pytest.warns(ColonyMemoryWarning, match=info.snapshot_id),
        pytest.raises(
            SnapshotCorrupt, match="no 'zzz' in what can be read of label 'default', and 1 of 2 snapshots cannot be"
        ),
    ):
        file_history(memory, "zzz")
    with pytest.warns(ColonyMemoryWarning):
        assert list(file_history(memory, "notes/a.md").passed_over) == [info.snapshot_id]


def test_a_folder_that_is_described_wrongly_is_passed_over(memory):
    memory.backup({"a.md": "tea", METADATA_NAME: "{"})
    memory.backup({"a.md": "tea\nmore"})
    with pytest.warns(ColonyMemoryWarning, match=METADATA_NAME):
        report = search_files(memory, "tea")
    assert (len(report.passed_over), report.searched) == (1, 1)


def test_nothing_saved_and_a_client_that_is_not_awaited(memory):
    for call in (lambda one: file_history(one, "a.md"), lambda one: search_files(one, "a")):
        with pytest.raises(SnapshotNotFound, match="nothing is saved yet under label 'default'"):
            call(memory)
        with pytest.raises(ValueError, match="asynchronous"):
            call(AsyncColonyMemory(backend=MemoryVault()))
