"""One file of a snapshot, and those that match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colony_memory import ColonyMemoryError, SnapshotInfo
from colony_memory.app.content import content_of, narrow
from colony_memory.capture import read_folder, write_folder
from colony_memory.capture._metadata import METADATA_NAME, METADATA_NAMES

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


def test_a_part_restores_as_it_was(documents, tmp_path):
    before = (tmp_path / "memory" / "face.png").stat()
    write_folder(narrow(documents, ["face.*", "empty", "link"]), tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["empty", "face.png", "link"]
    assert (tmp_path / "out" / "face.png").read_bytes() == BYTES
    after = (tmp_path / "out" / "face.png").stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert (tmp_path / "out" / "link").readlink().as_posix() == "notes/a.md"
    assert {"notes/a.md"} == narrow(documents, ["notes/*"]).keys() - METADATA_NAMES
    with pytest.raises(ValueError, match=r"nothing in the snapshot matches '\*\.txt', 'x'"):
        narrow(documents, ["*.txt", "x"])
