"""Notes, pins, and what a backup says of another client that saved meanwhile."""

from __future__ import annotations

import json
import warnings

import pytest
from cli_runs import NOON, save

from colony_memory import ColonyMemory
from colony_memory.vaults.local import LocalVault

# --- notes


# --- pins


def test_what_is_pinned_stays_until_it_is_unpinned(cli, vault):
    first = save(vault, {"a.md": "1"}, at=NOON)
    save(vault, {"a.md": "2"})
    assert cli("pin", "latest~1") == (0, f"pinned snapshot {first.snapshot_id} of label default\n", "")
    assert cli("pin", first.snapshot_id, "--quiet") == (0, "", "")
    assert cli("list")[1].splitlines()[2].endswith("  pinned")
    assert "pinned     kept until it is unpinned" in cli("show", first.snapshot_id)[1]
    assert cli("prune", "--keep", "1", "--yes")[0] == 0
    assert [info.pinned for info in ColonyMemory(backend=vault).list_snapshots()] == [False, True]
    answer = {"label": "default", "unpinned": first.snapshot_id}
    assert json.loads(cli("unpin", first.snapshot_id, "--json")[1]) == answer
    assert cli("unpin", first.snapshot_id)[0] == 0
    assert cli("prune", "--keep", "1", "--yes")[0] == 0
    assert len(ColonyMemory(backend=vault).list_snapshots()) == 1


def test_tags_are_given_and_taken_afterwards(cli, vault, refused):
    info = save(vault, {"a.md": "1"}, at=NOON)
    save(vault, {"a.md": "2"})
    assert cli("tag", "--add", "good", "--add", "v1", "latest~1")[1].endswith(" has the tags: good, v1\n")
    assert cli("list", "--tag", "v1", "--json")[1].count(info.snapshot_id)
    assert "tags       good, v1" in cli("show", "latest~1")[1]
    answer = {"label": "default", "tagged": info.snapshot_id, "tags": ["good"]}
    assert json.loads(cli("tag", "--remove", "v1", info.snapshot_id, "--json")[1]) == answer
    assert cli("tag", "--remove", "good", info.snapshot_id)[1].endswith(" has the tags: none\n")
    assert "say which tags" in refused(2, "tag", "latest")
    assert "is not a tag" in refused(2, "tag", "latest", "--add", "a b")
    code, _, err = cli("tag", "latest", "--add", "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE5fG7")
    assert (code, "likely secret: tag: GitHub token" in err) == (1, True)


# --- another client that saves in between


@pytest.fixture
def raced(vault, monkeypatch):
    """While the command line uploads, another client saves; gives what that saved."""
    put, theirs = LocalVault.vault_upload_file, []

    def upload(self, name, content, *args, **options):
        done = put(self, name, content, *args, **options)
        if name.endswith(".manifest.json") and not theirs:
            theirs.append(None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the other one is told
                theirs[0] = save(vault, {"MEMORY.md": "theirs\n", "other.md": "x\n"})
        return done

    monkeypatch.setattr(LocalVault, "vault_upload_file", upload)
    return theirs


def test_a_backup_goes_on_where_that_was_asked_for(cli, folder, vault, raced):
    code, out, err = cli("backup", folder, "--on-conflict", "continue")
    assert (code, out.startswith("saved ")) == (0, True)
    other = f"snapshot {raced[0].snapshot_id}, which another client saved meanwhile\n"
    latest = ColonyMemory(backend=vault).latest()
    assert (err, latest.snapshot_id) == (f"warning: saved, and the latest is {other}", raced[0].snapshot_id)


def test_of_nothing_new_it_is_said_that_the_latest_is_anothers(cli, folder, vault):
    cli("backup", folder)
    memory = ColonyMemory(backend=vault)
    documents, mine = memory.restore(), memory.latest()
    theirs = memory.backup({**documents, "theirs.md": "theirs\n"})
    code, out, err = cli("backup", folder)
    assert (code, out.splitlines()[1]) == (0, f"saved as snapshot {mine.snapshot_id} of label default")
    assert err == f"warning: nothing here is new, and the latest is snapshot {theirs.snapshot_id}; restore to get it\n"
