"""Snapshots and folders compared: what a backup would do, what is not saved yet, two sides, and the past of a file."""

import os
import warnings
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from snapshots import NOON, snapshot

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    Ed25519Signer,
    FileWitness,
    Retention,
    SnapshotCorrupt,
    SnapshotInfo,
)
from colony_memory.capture import Capture, read_folder
from colony_memory.capture._metadata import METADATA_NAME
from colony_memory.shell.app.compare import (
    file_history,
    find_unsaved,
    patch_of,
    preview_capture,
    read_side,
    search_files,
)
from colony_memory.shell.app.content import content_of
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.pick import count_left_out, left_out, made_at
from colony_memory.shell.app.save import read_for, save_folder, save_paths
from colony_memory.testing import FakeVault

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
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


def test_a_file_too_long_for_the_vault_does_not_fit():
    memory = ColonyMemory(backend=FakeVault())
    names = {f"{number:05}{'x' * 60}": "" for number in range(15_000)}
    found = preview_capture(memory, Capture(names, ()), OPTIONS)
    assert "its list of document names is too long" in (found.plan.problem or "")
    assert not found


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "notes" / "a.md").write_text("tea\n")
    (path / "face.png").write_bytes(b"\x89PNG\xff tea")
    return path


def words(found):
    return [(each.kind, each.lines and (each.lines.added, each.lines.removed)) for each in found.changes]


@POSIX
def test_texts_pictures_and_links_have_a_history(memory, notes):
    (notes / "today").symlink_to("notes/a.md")
    save_folder(memory, notes)
    (notes / "face.png").write_bytes(b"\x89PNG\xfe")
    (notes / "notes" / "a.md").write_text("tea\ncoffee\n")
    (notes / "notes" / "a.md").chmod(0o755)
    save_folder(memory, notes)
    (notes / "today").unlink()
    (notes / "notes" / "a.md").chmod(0o644)
    save_folder(memory, notes)
    assert words(file_history(memory, "notes/a.md")) == [("changed", (1, 0)), ("added", (1, 0))]
    assert words(file_history(memory, "face.png")) == [("changed", None), ("added", None)]
    assert words(file_history(memory, "today")) == [("removed", (0, 1)), ("added", (1, 0))]
    assert len(file_history(memory, METADATA_NAME).changes) == 3
    first = file_history(memory, "today", patch=True).changes[-1]
    assert "new file mode 120000" in first.patch
    assert file_history(memory, "face.png").read == 3


def test_what_cannot_be_read_may_have_it(memory, notes):
    save_folder(memory, notes)
    (notes / "notes" / "a.md").write_text("x")
    info = save_folder(memory, notes).info
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


INFO = SnapshotInfo("20261101T120000300000Z-abcdef", "default", "?", ["a.md"], 1, 10, "sha256:" + "0" * 64)
LACKING = replace(INFO, incomplete=("b.md: gone",))
BYTES = b"\x89PNG\r\n\xff"


@pytest.fixture
def documents(tmp_path):
    folder = tmp_path / "memory"
    (folder / "notes").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "notes" / "a.md").write_text("a")
    (folder / "face.png").write_bytes(BYTES)
    (folder / "link").symlink_to("notes/a.md")
    (folder / "face.png").chmod(0o640)
    return read_folder(folder, attributes=True).documents


def test_a_file_as_it_was(documents):
    assert content_of(INFO, documents, "notes/a.md") == "a"
    assert content_of(INFO, documents, "face.png") == BYTES
    assert content_of(INFO, documents, METADATA_NAME) == documents[METADATA_NAME]


@pytest.mark.parametrize(
    ("info", "name", "says"),
    [
        (INFO, "link", r"'link' is a link, to 'notes/a\.md'"),
        (INFO, "notes/b.md", rf"no 'notes/b\.md' in snapshot {INFO.snapshot_id}; the nearest is 'notes/a\.md'$"),
        (INFO, "notes/", r"the nearest is 'notes/a\.md'$"),
        (INFO, "nothing like it at all", "in snapshot [^;]*$"),
        (LACKING, "what", r"; the snapshot is incomplete, 1 left out: b\.md: gone$"),
    ],
)
def test_what_is_not_there(documents, info, name, says):
    with pytest.raises(ColonyMemoryError, match=says):
        content_of(info, documents, name)


@pytest.mark.parametrize(
    ("changes", "moment"),
    [
        ({}, NOON),
        ({"snapshot_id": "handmade"}, NOON.replace(microsecond=0)),
        ({"created_at": "2026-11-01T11:59:00Z"}, datetime(2026, 11, 1, 11, 59, tzinfo=timezone.utc)),
        ({"created_at": "9999-12-31T23:59:59Z"}, NOON),
        ({"created_at": "?"}, NOON),
        ({"created_at": "?", "snapshot_id": "x"}, datetime.min.replace(tzinfo=timezone.utc)),
    ],
)
def test_when_a_snapshot_was_made(changes, moment):
    assert made_at(snapshot(**changes)) == moment


def test_what_is_lacking_is_told_by_a_few_names_and_the_number():
    lines = tuple(f"{number}.md: gone" for number in range(5))
    assert left_out(snapshot(incomplete=lines[:1])) == "1 left out: 0.md: gone"
    assert left_out(snapshot(incomplete=lines)) == "5 left out: 0.md: gone; 1.md: gone; 2.md: gone; and 2 more"
    # As a catalogue has it, which is cut.
    assert (
        left_out(snapshot(incomplete=(*lines[:2], "and 9 more"))) == "11 left out: 0.md: gone; 1.md: gone; and 9 more"
    )
    assert [count_left_out(snapshot(incomplete=each)) for each in ((), lines, (*lines, "and 7 more"))] == [0, 5, 12]


def test_what_differs_as_a_patch(memory, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes" / "empty").mkdir(parents=True)
    (tmp_path / "notes" / "a.md").write_text("b\n")
    memory.backup({"a.md": "a\n"})
    before, after = (read_side(memory, name, label="default") for name in ("latest", "./notes"))
    changed = "diff --git a/a.md b/a.md\n--- a/a.md\n+++ b/a.md\n@@ -1 +1 @@\n-a\n+b\n"
    assert patch_of(before, after) == f"{changed}Only in b: empty/\n"
    assert patch_of(after, before).endswith("Only in a: empty/\n")
    assert patch_of(after, after) == ""
