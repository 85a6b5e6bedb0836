"""rewrite on the command line, and what delete and prune say of what stays."""

from __future__ import annotations

import json
import os
import time

import pytest
from cli_runs import vault_of_1

from colony_memory import ColonyMemory
from colony_memory.cli.verbs.tidy import read_replacements
from colony_memory.vaults.local import LocalVault

__all__ = ["vault_of_1"]

SECRET = "hunter2-secret-word"


@pytest.fixture
def memory_dir(tmp_path, cli, vault_of_1):
    path = tmp_path / "agent"
    path.mkdir()
    (path / "MEMORY.md").write_text(f"line\n{SECRET}\n")
    (path / "keys.md").write_text(f"{SECRET}\n")
    assert cli("backup", path, "--quiet")[0] == 0
    return path


def replacements(tmp_path, text):
    (tmp_path / "texts.txt").write_text(text)
    return tmp_path / "texts.txt"


def test_the_plan_is_shown_and_nothing_is_written(cli, memory_dir, tmp_path):
    before = sorted((tmp_path / "vault").iterdir())
    code, out, err = cli("rewrite", "--replace-text", replacements(tmp_path, f"{SECRET}\n"), "--dry-run")
    assert out.startswith("label default: 3 files to write, ")
    assert out.endswith("0 snapshots stay as they are\nnothing written\n")
    assert (code, err.count("still holds it")) == (1, 2)
    assert sorted((tmp_path / "vault").iterdir()) == before


def test_a_text_and_a_file_go_and_folders_that_hold_them_are_named(cli, refused, memory_dir, tmp_path):
    arguments = ("rewrite", "--replace-text", replacements(tmp_path, f"{SECRET}==>***\n"), "--exclude", "keys.md")
    assert "--yes" in refused(2, *arguments)
    code, out, err = cli(*arguments, "--yes")
    assert (code, out) == (1, "label default: 1 snapshot saved anew, 1 snapshot deleted\n")
    held = [str(memory_dir / name) for name in ("MEMORY.md", "keys.md")]
    assert all(f"{name} on this host still holds it" in err for name in held)
    mem = ColonyMemory(backend=LocalVault(tmp_path / "vault"))
    assert mem.restore()["MEMORY.md"] == "line\n***\n"
    assert "keys.md" not in mem.restore()
    (memory_dir / "keys.md").unlink()
    (memory_dir / "MEMORY.md").write_text("line\n***\n")
    code, out, err = cli(*arguments, "--yes", "--json")
    found = json.loads(out)
    assert (code, err, found["held_by"]) == (0, "", [])
    assert [(each["label"], each["unchanged"], each["deleted"]) for each in found["rewritten"]] == [("default", 1, 0)]
    assert cli("backup", memory_dir, "--quiet")[0] == 0  # its basis was rewritten, which is no conflict


def test_what_is_no_list_of_texts_is_refused(refused, memory_dir, tmp_path):
    for text, told in (("", "no text to replace"), ("regex:a+\n", "no patterns"), ("==>x\n", "no text to replace")):
        assert told in refused(2, "rewrite", "--replace-text", replacements(tmp_path, text), "--yes")
    assert "cannot be read" in refused(2, "rewrite", "--replace-text", tmp_path / "none", "--yes")
    assert "nothing to do" in refused(2, "rewrite", "--yes")
    assert read_replacements(str(replacements(tmp_path, "a\nliteral:b==>c\n\nd==>\n"))) == {
        "a": "***REMOVED***",
        "b": "c",
        "d": "",
    }


def test_delete_and_prune_say_what_stays_in_packs(cli, vault, tmp_path):
    path = tmp_path / "agent"
    path.mkdir()
    lines = "".join(f"line {n}\n" for n in range(3000))
    for n in range(4):
        (path / "MEMORY.md").write_text(f"{lines}{n}\n")
        assert cli("backup", path, "--quiet")[0] == 0
    ids = [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots()]
    _, out, _ = cli("delete", ids[-1], "--yes")
    assert f"what {ids[-1]} held stays readable in packs that other snapshots share" in out
    for file in (tmp_path / "vault").iterdir():
        os.utime(file, (time.time() - 10_800,) * 2)
    (path / "MEMORY.md").write_text(f"{lines}later\n")
    assert cli("backup", path, "--quiet")[0] == 0
    _, out, _ = cli("prune", "--keep", "1", "--yes")
    assert "to take a text out: colony-memory rewrite" in out
    assert cli("rewrite", "--exclude", "nothing", "--yes")[0] == 0
