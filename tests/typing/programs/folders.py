"""Folders: save, restore, guard; and one snapshot as a file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from colony_memory import ColonyMemory, SecretsFound, guard, open_vault, restore_folder, save_folder, save_paths
from colony_memory.capture import read_folder, write_folder
from colony_memory.transfer import ExportVault, load_export, save_export


def save(memory: ColonyMemory, folder: str | os.PathLike[str]) -> tuple[str, list[str]]:
    try:
        saved = save_folder(memory, folder, exclude=["*.tmp"], secrets="stop", tags="nightly", prune_keep=30)
    except SecretsFound as found:
        raise SystemExit("\n".join(str(finding) for finding in found.findings)) from found
    return saved.info.snapshot_id, [f"{each}" for each in saved.left_out]


def bring_back(memory: ColonyMemory, folder: Path, *, dry_run: bool = False) -> tuple[str, ...]:
    restored = restore_folder(memory, folder, only="*.md", force=True, dry_run=dry_run)
    return restored.written.created if restored else restored.written.unsaved


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        folder = here / "memory"
        folder.mkdir()
        plan = folder / "plan.md"
        plan.write_text("see the sea")
        memory = ColonyMemory(backend=open_vault("memory:"))
        snapshot_id, left_out = save(memory, folder)
        assert not left_out
        assert bring_back(memory, here / "again") == ("plan.md",)
        save_paths(memory, [plan], label="one")
        with guard(memory, folder, note="before the clean-up") as before:
            plan.unlink()
        assert before.restore().written.created == ("plan.md",)
        captured: dict[str, str] = read_folder(folder).documents
        write_folder(captured, here / "third")
        save_export(memory.export_snapshot(snapshot_id=snapshot_id), here / "one.json")
        offline = ExportVault(load_export(here / "one.json"))
        assert ColonyMemory(backend=offline).restore(label=offline.label, snapshot_id=offline.snapshot_id)


if __name__ == "__main__":
    main()
