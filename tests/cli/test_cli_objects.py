"""The command line over a vault in an object store."""

import pytest

pytest.importorskip("obstore")

import object_server

running, server = object_server.running, object_server.server

URL = "s3://bucket/agents/anna"


@pytest.fixture(autouse=True)
def settings(server, monkeypatch):
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLONY_MEMORY_VAULT", URL)


def test_a_vault_is_made_there_filled_and_restored(cli, refused, server, folder, tmp_path):
    line = refused(5, "backup", folder)
    assert f"there is no vault in {URL}" in line
    assert f"colony-memory init {URL}" in line
    assert server.objects == {}
    assert cli("init")[:2] == (0, f"made the vault {URL}\n")
    assert cli("init", URL + "/")[:2] == (0, f"the vault {URL}/ was there already\n")
    assert cli("backup", folder)[0] == 0
    assert cli("restore", tmp_path / "back")[0] == 0
    assert (tmp_path / "back" / "MEMORY.md").read_bytes() == (folder / "MEMORY.md").read_bytes()
    assert "protected" in cli("status", folder)[1]


def test_a_store_that_says_no_is_exit_code_5(refused, server, folder):
    server.fault = lambda verb, key: object_server.error(403, "AccessDenied")
    line = refused(5, "list")
    assert "HTTP 403, AccessDenied" in line
    assert object_server.SECRET not in line
