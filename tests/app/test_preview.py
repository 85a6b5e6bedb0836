"""What a backup would do, and what is not saved yet, from the library."""

from __future__ import annotations

import warnings

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryWarning,
    Ed25519Signer,
    FileWitness,
    Retention,
    VaultMissing,
    open_vault,
)
from colony_memory.app.compare import find_unsaved, preview_capture
from colony_memory.app.options import BackupOptions
from colony_memory.app.save import read_for, save_folder, save_paths
from colony_memory.testing import FakeVault

OPTIONS = BackupOptions()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "MEMORY.md").write_text("two years\n")
    (path / "notes/a.md").write_text("a\n")
    return path


def test_options_reach_the_reading_and_the_snapshot(folder):
    (folder / "a.log").write_text("x")
    (folder / "keys.md").write_text("ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5")
    memory = ColonyMemory(backend=FakeVault())
    options = {"exclude": "*.log", "secrets": "stop", "allow_secrets": "keys.md:github-token", "tags": "first"}
    saved = save_folder(memory, folder, **options)
    assert (saved.info.tags, saved.capture.ignored) == (("first",), ("a.log",))
    assert [each.name for each in saved.capture.allowed] == ["keys.md"]
    assert save_paths(memory, [folder], **options).info.reused
    for bad in ({"tags": "two words"}, {"exclude": "[a"}, {"allow_secrets": "x"}, {"label": "no label!"}):
        with pytest.raises(ValueError, match=r"is not a tag|not a rule|names no finding|label"):
            save_folder(memory, folder, **bad)
    with pytest.raises(ValueError, match="is not a tag"):  # before anything is read
        save_folder(memory, folder / "gone", tags="two words")


def test_a_preview_is_what_the_backup_is(folder):
    memory = ColonyMemory(backend=FakeVault())
    capture = read_for(memory, folder, OPTIONS)
    found = preview_capture(memory, capture, BackupOptions(tags=["a"], retention=Retention(keep_last=1)))
    assert found
    assert (found.unsaved.latest, found.unsaved.changes.added) == (None, ("MEMORY.md", "notes/a.md"))
    saved = save_folder(memory, folder, tags=["a"])
    plan = found.plan
    assert (plan.info.doc_names, plan.info.byte_size, plan.info.tags) == (
        saved.info.doc_names,
        saved.info.byte_size,
        saved.info.tags,
    )
    assert not plan.unchanged
    again = preview_capture(memory, capture, OPTIONS)
    assert (again.plan.unchanged, bool(again.unsaved), again.plan.needed_bytes) == (True, False, 0)
    (folder / "MEMORY.md").write_text("three years\n")
    changed = preview_capture(memory, read_for(memory, folder, OPTIONS), BackupOptions(prune_keep=1))
    assert (set(changed.unsaved.changes.changed), changed.plan.removed) == ({"MEMORY.md"}, (saved.info.snapshot_id,))


def test_neither_vault_nor_witness_nor_client_is_told(folder, tmp_path):
    pytest.importorskip("cryptography")
    signer, vault, witness = Ed25519Signer.generate(), FakeVault(), tmp_path / "w.json"
    writer = ColonyMemory(backend=vault, signer=signer)
    save_folder(writer, folder)
    files = dict(vault.files)
    memory = ColonyMemory(backend=vault, signer=signer, witness=FileWitness(witness))
    assert preview_capture(memory, read_for(memory, folder, OPTIONS), OPTIONS).plan.unchanged
    assert not find_unsaved(memory, [folder])
    assert not witness.exists()
    assert (memory._session.homes, memory._session.heads, memory._session.newest) == ({}, {}, {})
    assert vault.files == files
    # A witness that has seen more is heard all the same.
    memory.latest()
    assert witness.exists()
    (folder / "MEMORY.md").write_text("three years\n")
    save_folder(memory, folder)
    vault.files.clear()
    vault.files.update(files)
    fresh = ColonyMemory(backend=vault, signer=signer, witness=FileWitness(witness))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        found = preview_capture(fresh, read_for(fresh, folder, OPTIONS), BackupOptions(prune_keep=1))
    assert found.unsaved.problem is not None
    assert found.plan.removed == ()


def test_what_a_hostile_vault_holds_is_a_problem_and_no_crash(folder):
    memory = ColonyMemory(backend=FakeVault())
    memory.backup({".colony-memory/folder.json": '{"format": "colony-memory/folder/1", "files": 7}', "a.md": "x"})
    found = find_unsaved(memory, folder)
    assert found.problem is not None
    assert set(found.changes.added) == {"MEMORY.md", "notes/a.md"}


def test_where_there_is_no_vault_that_is_said(folder, tmp_path):
    memory = ColonyMemory(backend=open_vault(str(tmp_path / "nowhere")))
    capture = read_for(memory, folder, OPTIONS)
    with pytest.raises(VaultMissing):
        preview_capture(memory, capture, OPTIONS)
    with pytest.raises(VaultMissing):
        find_unsaved(memory, folder)
    with pytest.raises(ValueError, match="asynchronous"):
        preview_capture(AsyncColonyMemory(backend=open_vault("memory:")), capture, OPTIONS)


def test_a_file_too_long_for_the_vault_does_not_fit():
    memory = ColonyMemory(backend=FakeVault())
    names = {f"{number:05}{'x' * 60}": "" for number in range(15_000)}
    from colony_memory.capture import Capture

    found = preview_capture(memory, Capture(names, ()), OPTIONS)
    assert "its list of document names is too long" in (found.plan.problem or "")
    assert not found
