"""``--format`` and what a vault is for, and how snapshots that name no files are shown."""

import json

import pytest

pytest.importorskip("click")

import needs_zstd  # noqa: F401 - skips this module where there is none
from no_zstd import lose_zstd

from colony_memory._format.v2.zstd import WANTED


def formats(cli):
    return [each["format"][-1] for each in json.loads(cli("list", "--json")[1])["snapshots"]]


def test_backups_are_written_as_the_vault_is_for(folder, vault, cli, tmp_path):
    def grow(*arguments):
        with (folder / "MEMORY.md").open("a") as file:
            file.write("a day\n")
        assert cli(*arguments, folder)[0] == 0

    grow("backup")
    grow("backup", "--format", "1")
    grow("watch", "--once")
    assert formats(cli) == ["2", "1", "2"]
    assert cli("init", "--format", "1")[1] == f"the vault {vault.path} was there already, and is for format 1 now\n"
    grow("backup")
    assert json.loads(cli("init", "--json")[1]) == {"vault": str(vault.path), "made": False, "format": 1}
    grow("backup", "--format", "2")
    assert formats(cli) == ["2", "1", "2", "1", "2"]
    assert cli("verify")[0] == cli("restore", tmp_path / "out")[0] == 0
    plan = json.loads(cli("backup", "--dry-run", "--json", folder)[1])
    assert plan["would"]["unchanged"]


def test_a_new_vault_says_which_and_the_unchosen_one_is_like_any(folder, cli, monkeypatch):
    assert json.loads(cli("init", "one", "--format", "1", "--json")[1])["format"] == 1
    assert json.loads(cli("init", "two", "--json")[1])["format"] == 2
    assert cli("init", "colony:", "--format", "2")[0] == 2
    monkeypatch.delenv("COLONY_MEMORY_VAULT", raising=False)
    assert cli("backup", "--quiet", folder)[0] == 0
    assert formats(cli) == ["2"]


def test_without_zstd_what_to_install_is_said(folder, vault, cli, refused, monkeypatch):
    assert cli("backup", folder)[0] == 0
    (folder / "MEMORY.md").write_text("more")
    with lose_zstd():
        code, _, err = cli("init", "three")
        assert (code, len(err.splitlines())) == (0, 1)
        assert f"it is for format 1; format 2 takes less room: install {WANTED}, then run init with --format 2" in err
        assert WANTED in refused(1, "init", "four", "--format", "2")
        assert WANTED in refused(1, "backup", "--format", "2", folder)
        code, _, err = cli("backup", "--quiet", folder)
        assert (code, len(err.splitlines())) == (0, 1)
        assert err.startswith(f"warning: saving in format 1: this vault is for format 2, which needs {WANTED}")
        assert cli("backup", "--quiet", folder) == (0, "", "")
        assert formats(cli) == ["1", "2"]
