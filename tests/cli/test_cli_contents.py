"""The number of files is the same wherever it is told, whatever they hold."""

from __future__ import annotations

import json

import cli_runs
import pytest
from cli_runs import POSIX, damage, save

vault_of_1 = cli_runs.vault_of_1


@pytest.fixture
def mixed(folder):
    """Two files of text and two of bytes, a link and an empty folder."""
    (folder / "face.png").write_bytes(b"\x89PNG\r\n\xff")
    (folder / "notes" / "a.md").write_text("a")
    (folder / "today.md").symlink_to("notes/a.md")
    return folder


@POSIX
def test_every_place_counts_alike(cli, vault, mixed, tmp_path):
    code, out, err = cli("backup", mixed)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("5 files, 1 empty folder, ")
    assert cli("backup", mixed)[1].splitlines()[2].startswith("5 files, 1 empty folder, ")
    out = cli("show", "latest")[1]
    assert out.partition("\n\n")[2].splitlines() == [
        "5 files, 1 empty folder:",
        "MEMORY.md",
        "face.png  (no text)",
        "notes/a.md",
        "notes/caf\u00e9.md  (no text)",
        "today.md -> notes/a.md",
        "logs/",
    ]
    assert cli("restore", "out")[1].splitlines()[-1] == "out: 5 created, 1 empty folder, 0 replaced, 0 unchanged"
    assert cli("restore", "out")[1].splitlines()[-1] == "out: 0 created, 0 replaced, 5 unchanged"
    answer = json.loads(cli("show", "latest", "--json")[1])
    assert answer["file_count"] == json.loads(cli("backup", mixed, "--json")[1])["file_count"] == 5
    assert answer["files"] == ["MEMORY.md", "face.png", "notes/a.md", "notes/caf\u00e9.md"]
    assert (answer["links"], answer["empty_dirs"]) == ({"today.md": "notes/a.md"}, ["logs"])
    written = json.loads(cli("restore", "again", "--json")[1])
    assert len(written["created"]) == 5


@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_read_is_shown_as_far_as_it_is_known(cli, vault_of_1, as_json):
    vault = vault_of_1
    info = save(vault, {"a.md": "x", "b.md": "y"})
    damage(vault, info)
    code, out, err = cli("show", "latest", *(["--json"] if as_json else []))
    assert (code, len(err.splitlines())) == (4, 1)
    if as_json:
        answer = json.loads(out)
        assert answer["snapshot"]["snapshot_id"] == info.snapshot_id
        assert (answer["file_count"], answer["files"]) == (None, None)
    else:
        assert out.splitlines()[-3:] == ["2 texts:", "a.md", "b.md"]
