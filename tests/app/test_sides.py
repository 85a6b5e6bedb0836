"""What a comparison is of: a snapshot, or a folder."""

from __future__ import annotations

import pytest

from colony_memory import ColonyMemory
from colony_memory.app.compare import patch_of, read_side
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ColonyMemory(backend=MemoryVault())


def test_what_differs_as_a_patch(memory, tmp_path):
    (tmp_path / "notes" / "empty").mkdir(parents=True)
    (tmp_path / "notes" / "a.md").write_text("b\n")
    memory.backup({"a.md": "a\n"})
    before, after = (read_side(memory, name, label="default") for name in ("latest", "./notes"))
    changed = "diff --git a/a.md b/a.md\n--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-a\n+b\n"
    assert patch_of(before, after) == f"{changed}Only in b: empty/\n"
    assert patch_of(after, before).endswith("Only in a: empty/\n")
    assert patch_of(after, after) == ""
