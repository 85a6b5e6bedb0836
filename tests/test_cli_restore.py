"""restore on the command line."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import NOON, damage, save, tree

from colony_memory import ColonyMemory
from colony_memory.cli import chosen, errors
from colony_memory.exceptions import (
    ColonyMemoryError,
    SnapshotCorrupt,
)
from colony_memory.vaults.memory import MemoryVault

environment, folder, vault, cli, refused = (
    cli_runs.environment,
    cli_runs.folder,
    cli_runs.vault,
    cli_runs.cli,
    cli_runs.refused,
)


def test_restore_shows_a_plan_and_writes_nothing(cli, vault, folder, tmp_path):
    cli("backup", folder)
    out = tmp_path / "out"
    out.mkdir()
    (out / "MEMORY.md").write_text("old")
    os.utime(out / "MEMORY.md", (0, 0))
    code, said, err = cli("restore", "--dry-run", out)
    assert (code, err) == (0, "")
    lines = said.splitlines()
    assert lines[:3] == ["would create  notes/caf\u00e9.md", "would create  logs/", "would replace MEMORY.md"]
    assert lines[3].startswith("would restore snapshot ")
    assert lines[3].endswith(" of label default; nothing written")
    assert lines[4].startswith("made 20")
    assert lines[5] == f"{out}: 1 to create, 1 empty folder, 1 to replace, 0 unchanged"
    assert tree(out) == {"MEMORY.md": b"old"}


def test_restore_never_replaces_newer_text_without_force(cli, refused, vault, tmp_path):
    save(vault, {"a.md": "saved"}, at=NOON)
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.md").write_text("newer")
    assert "'a.md'" in refused(1, "restore", out)
    assert (out / "a.md").read_text() == "newer"
    code, said, _ = cli("restore", "--force", out)
    assert (code, said.splitlines()[0]) == (0, "replaced a.md")
    assert (out / "a.md").read_text() == "saved"


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize(("seconds", "code"), [(-0.1, 0), (0.1, 1)])
def test_newer_is_told_to_a_fraction_of_a_second(cli, vault, tmp_path, seconds, code, by_id):
    info = save(vault, {"a.md": "saved"}, at=NOON)
    file = tmp_path / "out" / "a.md"
    file.parent.mkdir()
    file.write_text("other")
    changed = NOON.timestamp() + seconds
    os.utime(file, (changed, changed))
    assert cli("restore", tmp_path / "out", *(["--snapshot", info.snapshot_id] if by_id else []))[0] == code


def test_an_id_ahead_of_the_clock_does_not_make_local_text_look_old(cli, vault, tmp_path):
    save(vault, {"a.md": "from a wrong clock"}, at=datetime.now(timezone.utc) + timedelta(days=365))
    save(vault, {"a.md": "saved"}, at=NOON)
    file = tmp_path / "out" / "a.md"
    file.parent.mkdir()
    file.write_text("written after the snapshot")
    assert cli("restore", tmp_path / "out")[0] == 1
    assert file.read_text() == "written after the snapshot"


def test_a_certain_snapshot_is_restored_by_id(cli, refused, vault, tmp_path):
    first = save(vault, {"a.md": "first"}, at=NOON)
    save(vault, {"a.md": "second"})
    code, said, _ = cli("restore", tmp_path / "out", "--snapshot", first.snapshot_id, "--json")
    answer = json.loads(said)
    assert code == 0
    assert answer["snapshot"]["snapshot_id"] == first.snapshot_id
    assert (answer["directory"], answer["dry_run"]) == (str(tmp_path / "out"), False)
    assert (answer["created"], answer["replaced"], answer["unchanged"]) == (["a.md"], [], [])
    assert answer["directories"] == []
    assert (tmp_path / "out" / "a.md").read_text() == "first"
    refused(3, "restore", tmp_path / "out", "--snapshot", "20200101T000000000000Z-abcdef")


def test_restoring_by_id_is_silent_about_other_snapshots(cli, vault, tmp_path):
    first = save(vault, {"a.md": "first"})
    second = save(vault, {"a.md": "second"})
    (vault.path / f"cmem.default.{second.snapshot_id}.p0.json").unlink()
    code, _, err = cli("restore", tmp_path / "out", "--snapshot", first.snapshot_id)
    assert (code, err) == (0, "")


def test_fallback_goes_back_and_says_so_in_one_line(cli, refused, vault, tmp_path):
    first = save(vault, {"a.md": "first"}, at=NOON)
    damage(vault, save(vault, {"a.md": "second"}, at=NOON + timedelta(hours=2)))
    refused(4, "restore", tmp_path / "out")
    code, said, err = cli("restore", "--fallback", tmp_path / "out")
    assert code == 0
    assert said.splitlines()[1] == f"restored snapshot {first.snapshot_id} of label default"
    (line,) = err.splitlines()
    assert line.startswith(f"warning: restored the newest intact snapshot {first.snapshot_id}")


def test_fallback_compares_local_text_with_the_snapshot_it_took(cli, vault, tmp_path):
    save(vault, {"a.md": "first"}, at=NOON)
    damage(vault, save(vault, {"a.md": "second"}, at=NOON + timedelta(hours=2)))
    file = tmp_path / "out" / "a.md"
    file.parent.mkdir()
    file.write_text("between the two")
    between = NOON.timestamp() + 3600
    os.utime(file, (between, between))
    assert cli("restore", "--fallback", tmp_path / "out")[0] == 1
    assert file.read_text() == "between the two"
    before = NOON.timestamp() - 3600
    os.utime(file, (before, before))
    assert cli("restore", "--fallback", tmp_path / "out")[0] == 0
    assert file.read_text() == "first"


def test_fallback_changes_nothing_where_all_is_well(cli, vault, tmp_path):
    info = save(vault, {"a.md": "x"})
    code, said, err = cli("restore", "--fallback", tmp_path / "out")
    assert (code, err) == (0, "")
    assert info.snapshot_id in said


def test_fallback_from_a_certain_snapshot(cli, vault, tmp_path):
    first = save(vault, {"a.md": "first"}, at=NOON)
    second = save(vault, {"a.md": "second"})
    damage(vault, second)
    code, said, _ = cli("restore", "--fallback", "--snapshot", second.snapshot_id, tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(said)["snapshot"]["snapshot_id"] == first.snapshot_id


def test_a_snapshot_that_is_not_listed_counts_as_the_oldest(cli, vault, tmp_path, monkeypatch):
    damage(vault, save(vault, {"a.md": "x"}, at=NOON))
    monkeypatch.setattr(ColonyMemory, "restore", restore_of_elsewhere)
    file = tmp_path / "out" / "a.md"
    file.parent.mkdir()
    file.write_text("old")
    os.utime(file, (0, 0))
    assert cli("restore", "--fallback", tmp_path / "out")[0] == 1
    assert file.read_text() == "old"
    code, said, _ = cli("restore", "--fallback", "--force", tmp_path / "out")
    assert (code, said.splitlines()[1]) == (0, "restored a snapshot that the vault does not list")
    code, said, _ = cli("restore", "--fallback", "--json", tmp_path / "out")
    assert json.loads(said)["snapshot"] is None


def restore_of_elsewhere(self, *, fallback=False, **_):
    if not fallback:
        raise SnapshotCorrupt("damaged")
    return {"a.md": "elsewhere"}


def test_only_takes_globs_for_text_bytes_and_folders(cli, vault, folder, tmp_path):
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    cli("backup", folder)
    out = tmp_path / "out"
    assert cli("restore", "--only", "*.sh", "--only", "notes/*", out)[0] == 0
    assert sorted(tree(out)) == ["notes/caf\u00e9.md", "run.sh"]
    assert (out / "notes" / "caf\u00e9.md").read_bytes() == b"caf\xe9\n"
    assert os.name == "nt" or (out / "run.sh").stat().st_mode & 0o100
    assert not (out / "logs").exists()
    assert cli("restore", "--only", "logs", "--only", "M*", tmp_path / "logs")[0] == 0
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["MEMORY.md", "logs"]
    assert cli("restore", "--only", "MEM*", tmp_path / "text")[0] == 0
    assert sorted(tree(tmp_path / "text")) == ["MEMORY.md"]


def test_a_lost_pointer_is_worked_around_with_one_warning(cli, vault, tmp_path):
    save(vault, {"a.md": "x"})
    (vault.path / "cmem.default.latest.json").unlink()
    code, _, err = cli("restore", tmp_path / "out", "--quiet")
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: the newest whole snapshot of label 'default' is ")


class Racing:
    """A client beside which another one saves, keeping one snapshot, whenever the latest was looked up."""

    def __init__(self, rounds):
        self.vault = MemoryVault()
        self.rounds = rounds
        self.restore = ColonyMemory(backend=self.vault).restore
        self.save()

    def save(self):
        memory = ColonyMemory(backend=self.vault)
        memory.backup({"a.md": f"{self.rounds} to go"})
        memory.prune(label="default", keep=1)

    def latest(self, *, label):
        info = ColonyMemory(backend=self.vault).latest(label=label)
        if self.rounds:
            self.rounds -= 1
            self.save()
        return info


def test_a_snapshot_that_was_replaced_meanwhile_is_looked_up_again():
    found = chosen.fetch(Racing(2), label="default", snapshot_id=None, fallback=False)
    assert found.documents == {"a.md": "0 to go"}
    assert found.info.byte_size == len('{"a.md":"0 to go"}')


def test_a_label_that_never_holds_still_is_not_reported_as_empty():
    with pytest.raises(ColonyMemoryError, match="try again") as caught:
        chosen.fetch(Racing(9), label="default", snapshot_id=None, fallback=False)
    assert errors.exit_code(caught.value) == 1
