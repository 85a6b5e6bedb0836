"""``--format`` of ``backup`` and ``watch``, and how snapshots that name no files are shown."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("typer")

import cli_runs
import needs_zstd  # noqa: F401 - skips this module where there is none

environment, folder, vault, cli = cli_runs.environment, cli_runs.folder, cli_runs.vault, cli_runs.cli


def test_a_chain_is_saved_shown_and_restored(folder, vault, cli, tmp_path):
    code, out, _ = cli("backup", "--format", "2", folder)
    assert code == 0
    assert out.splitlines()[1].startswith("2 files, ")
    (folder / "more.md").write_text("more\n")
    assert cli("watch", "--once", "--format", "2", folder)[0] == 0
    code, out, _ = cli("list", "--json")
    assert [each["format"] for each in json.loads(out)["snapshots"]] == ["colony-memory/2"] * 2
    code, out, _ = cli("show", "latest")
    assert (code, "parts" in out, "more.md" in out) == (0, False, True)
    assert cli("restore", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "more.md").read_text() == "more\n"
    assert cli("backup", folder)[0] == 0


def test_a_format_that_is_none_is_refused(folder, vault, cli):
    code, _, err = cli("backup", "--format", "3", folder)
    assert code == 2
    assert err.startswith("error: --format is 1 or 2, not '3'")
    assert not [name for name in vault.vault_list_files()["items"] if "cmem." in name["filename"]]
