"""What a comparison is of: a snapshot, or a folder."""

from __future__ import annotations

import pytest

from colony_memory import ColonyMemory, SnapshotNotFound
from colony_memory.app.compare import patch_of, read_side
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ColonyMemory(backend=MemoryVault())


@pytest.mark.parametrize("name", ["./notes", "notes", "../here/notes"])
def test_a_folder(memory, tmp_path, monkeypatch, name):
    (tmp_path / "here" / "notes").mkdir(parents=True)
    (tmp_path / "here" / "notes" / "a.md").write_text("a")
    (tmp_path / "here" / "notes" / "link").symlink_to("/etc/hostname")
    monkeypatch.chdir(tmp_path / "here")
    side = read_side(memory, name, label="default")
    assert (side.name, side.title, side.documents["a.md"]) == (name, f"the folder {name}", "a")
    assert [each.name for each in side.left_out] == ["link"]


def test_a_snapshot_before_a_folder_of_such_a_name(memory, tmp_path):
    info = memory.backup({"a.md": "a"})
    for name in ("latest", info.snapshot_id[:8], info.snapshot_id):
        (tmp_path / name).mkdir()
        side = read_side(memory, name, label="default")
        assert (side.name, side.documents, side.left_out) == (info.snapshot_id, {"a.md": "a"}, ())
    with pytest.raises(SnapshotNotFound, match="under label 'default'"):
        read_side(memory, "nothing", label="default")
    with pytest.raises(SnapshotNotFound, match="there is one under 'default': give that label"):
        read_side(memory, info.snapshot_id, label="other")


def test_what_differs_as_a_patch(memory, tmp_path):
    (tmp_path / "notes" / "empty").mkdir(parents=True)
    (tmp_path / "notes" / "a.md").write_text("b\n")
    memory.backup({"a.md": "a\n"})
    before, after = (read_side(memory, name, label="default") for name in ("latest", "./notes"))
    changed = "diff --git a/a.md b/a.md\n--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-a\n+b\n"
    assert patch_of(before, after) == f"{changed}Only in b: empty/\n"
    assert patch_of(after, before).endswith("Only in a: empty/\n")
    assert patch_of(after, after) == ""
