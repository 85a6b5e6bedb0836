"""The verb ``guard``: a snapshot before a command, and the command that leads back."""

import json
import shlex
import shutil

import pytest
from cli_runs import POSIX, tree

from colony_memory import ColonyMemory

pytestmark = pytest.mark.usefixtures("child")


def test_the_way_back_is_a_command_to_paste(cli, vault, folder, child):
    before = tree(folder)

    def life(self):
        assert self.program == ["rm", "-r", "notes"]
        shutil.rmtree(folder / "notes")
        (folder / "MEMORY.md").write_text("spoilt")
        return 3

    child.life = life
    code, out, err = cli("guard", folder, "--", "rm", "-r", "notes")
    assert (code, out) == (3, "")
    (info,) = ColonyMemory(backend=vault).list_snapshots()
    assert (info.pinned, info.note) == (True, "before: rm -r notes")
    first, second = err.splitlines()
    assert first == f"saved snapshot {info.snapshot_id} of label default, and pinned it for 30 days"
    told, _, back = second.partition(": ")
    assert told == "the command ended with exit code 3; to get back what was there"
    _, *arguments = shlex.split(back)
    assert cli(*arguments)[0] == 0
    assert tree(folder) == before


def test_quiet_tells_the_way_back_and_json_has_it(cli, vault, folder):
    (line,) = cli("guard", "--quiet", "--label", "notes", folder, "--", "true")[2].splitlines()
    assert "colony-memory restore --snapshot-first 2" in line
    assert line.endswith(f"--label notes --vault {vault.path}")
    code, out, err = cli("guard", "--json", folder, "--", "true")
    assert (code, out) == (0, "")
    told = json.loads(err)
    assert (set(told), told["exit_code"]) == ({"snapshot", "exit_code", "way_back"}, 0)
    assert told["snapshot"]["snapshot_id"] in told["way_back"]


def test_a_note_has_no_secret_and_an_end(cli, vault, folder):
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    assert cli("guard", folder, "--", "agent", "--token", token, "x" * 5000)[0] == 0
    (info,) = ColonyMemory(backend=vault).list_snapshots()
    assert info.note.startswith("before: agent --token ghp_[masked: GitHub token] xxx")
    assert len(info.note) == 200


def test_where_it_cannot_be_saved_the_command_is_not_started(refused, server, folder, tmp_path, child):
    server.fault("*", "status", status=500, times=None)
    refused(5, "guard", folder, "--", "agent")
    server.heal()
    refused(5, "guard", "--vault", tmp_path / "away", folder, "--", "agent")
    refused(2, "guard", tmp_path / "nowhere", "--", "agent")
    refused(2, "guard", folder)
    server.vault.quota_bytes = 10
    refused(1, "guard", folder, "--", "agent")
    assert child.started == 0


@POSIX
def test_what_is_left_out_stops_it(cli, refused, vault, folder, child):
    (folder / "link").symlink_to("/etc/hostname")
    assert "there would be no way back for " in refused(1, "guard", folder, "--", "agent")
    assert child.started == 0
    assert cli("guard", "--exclude", "link", folder, "--", "agent")[0] == 0
