"""One file of a snapshot, and those that match."""

from __future__ import annotations

from dataclasses import replace

import pytest

from colony_memory import ColonyMemoryError, SnapshotInfo
from colony_memory.app.content import content_of
from colony_memory.capture import read_folder
from colony_memory.capture._metadata import METADATA_NAME

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
