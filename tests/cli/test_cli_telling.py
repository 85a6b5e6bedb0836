"""--ping and --on-error: a monitor and a command hear how it went."""

from __future__ import annotations

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
