"""What became of a file, and of what was in one."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    SnapshotCorrupt,
    SnapshotInfo,
    SnapshotNotFound,
    save_folder,
)
from colony_memory.app.compare import file_history, search_files
from colony_memory.app.content import content_of
from colony_memory.app.pick import count_left_out, left_out, made_at
from colony_memory.capture import read_folder
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


NOON = datetime(2026, 11, 1, 12, 0, 0, 300_000, tzinfo=timezone.utc)


def snapshot(**changes):
    given = {"snapshot_id": "20261101T120000300000Z-abcdef", "created_at": "2026-11-01T12:00:00Z", **changes}
    return SnapshotInfo(
        label="default", doc_names=["a.md"], part_count=1, byte_size=10, plaintext_sha256="sha256:" + "0" * 64, **given
    )


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
