"""--ping and --on-error: a monitor and a command hear how it went."""

from __future__ import annotations

import os
import shlex
import sys

import cli_runs
import pytest
from monitors import Monitor

from colony_memory.cli import output
from colony_memory.vaults.local import LocalVault

POSIX = cli_runs.POSIX


@pytest.fixture
def monitor():
    with Monitor() as monitor:
        yield monitor


@pytest.fixture
def note(tmp_path):
    """A command that notes what it hears, and what that was."""
    code = (
        "import os, sys; print(*(os.environ[f'COLONY_MEMORY_{n}'] for n in ('CODE', 'KIND', 'LABEL', 'ERROR')), "
        "file=open(sys.argv[1], 'a'))"
    )

    def heard():
        return (tmp_path / "heard").read_text().splitlines()

    return shlex.join([sys.executable, "-I", "-S", "-c", code, str(tmp_path / "heard")]), heard


def test_a_backup_is_told(cli, vault, folder, monitor):
    assert cli("backup", "--quiet", "--ping", monitor.url, folder) == (0, "", "")
    assert monitor.events == ["start", ""]


@POSIX
def test_what_a_backup_leaves_out_is_a_failure(cli, vault, folder, monitor, note):
    (folder / "link").symlink_to("/etc/hostname")
    assert cli("backup", "-q", "--ping", monitor.url, "--on-error", note[0], folder)[0] == 1
    assert monitor.events == ["start", "fail"]
    assert monitor.told[1][2].startswith("left out: link: is a link to ")
    assert note[1]()[0].startswith("1 Incomplete default left out: link: ")


@POSIX
def test_a_backup_that_fails_is_told_with_its_exit_code(refused, server, folder, monitor, note):
    server.fault("*", "status", status=403, code="KARMA_TOO_LOW", times=None)
    options = ["--label", "notes", "--ping", monitor.url, "--on-error", note[0]]
    line = refused(5, "backup", *options, folder)
    assert monitor.events == ["start", "fail"]
    assert line.startswith(f"error: {monitor.told[1][2]}")
    assert note[1]() == [f"5 VaultDenied notes {monitor.told[1][2]}"]


def test_a_vault_that_is_missing_is_told(refused, folder, monitor, tmp_path):
    refused(5, "backup", "--vault", tmp_path / "away", "--ping", monitor.url, folder)
    assert monitor.events == ["start", "fail"]
    assert "there is no vault in " in monitor.told[1][2]


def test_a_monitor_that_is_away_fails_nothing(cli, vault, folder, monitor):
    monitor.answer = 503
    code, _, err = cli("backup", "-q", "--ping", monitor.url, folder)
    assert code == 0
    assert err.splitlines() == ["warning: the ping to 127.0.0.1 failed: it answered 503"] * 2
    code, _, err = cli("backup", "--json", "--ping", monitor.url, folder)
    assert '{"warning": "the ping to 127.0.0.1 failed: it answered 503", "hint": null}' in err.splitlines()


def test_a_monitor_that_hangs_holds_nothing_up(cli, vault, folder, monitor, monkeypatch):
    monkeypatch.setattr(output, "AT_LEISURE", 0.05)
    monitor.let_go.clear()
    code, _, err = cli("backup", "-q", "--ping", monitor.url, folder)
    assert (code, err) == (0, "warning: not everyone could be notified within 0.05 s\n")
    assert LocalVault(vault.path).vault_list_files()


@pytest.mark.parametrize("verb", ["backup", "watch"])
@pytest.mark.parametrize(("option", "value"), [("--ping", "ftp://x/y"), ("--on-error", "mail 'x"), ("--ping", "")])
def test_what_cannot_be_told_so_is_a_usage_error(refused, vault, folder, verb, option, value):
    refused(2, verb, option, value, folder)
    assert vault.vault_list_files()["items"] == []


def test_a_dry_run_is_not_told(cli, vault, folder, monitor):
    assert cli("backup", "--dry-run", "--ping", monitor.url, folder)[0] == 0
    assert monitor.told == []


def test_a_watch_that_cannot_begin_is_told(refused, vault, tmp_path, monitor):
    refused(2, "watch", "--ping", monitor.url, tmp_path / "nowhere")
    assert monitor.events == ["start", "fail"]
    assert os.fspath(tmp_path / "nowhere") in monitor.told[1][2]
