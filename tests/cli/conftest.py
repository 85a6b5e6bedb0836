"""The fixtures of all tests of the command line."""

import contextlib

import pytest

with contextlib.suppress(pytest.skip.Exception):  # where there is no click, each module skips itself
    from cli_runs import child, cli, environment, folder, no_command, refused, server, vault, vault_of_1

    __all__ = ["child", "cli", "environment", "folder", "no_command", "refused", "server", "vault", "vault_of_1"]
