"""restore on the command line."""

import json
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from cli_runs import NOON, POSIX, content_file, save, tree

from colony_memory import ColonyMemory
from colony_memory.shell.words import errors

# The time at which an inode changed cannot be set: what is older than a snapshot is older than one to come.
SOON = datetime.now(timezone.utc).replace(microsecond=300_000) + timedelta(hours=1)


def test_restore_shows_a_plan_and_writes_nothing(cli, vault, folder, tmp_path):
    out = tmp_path / "out"
    cli("backup", folder)
    code, said, err = cli("restore", "--dry-run", "--quiet", out)
    assert (code, err) == (0, "")
    assert said.splitlines()[:3] == [
        "would create  MEMORY.md",
        "would create  notes/caf\u00e9.md",
        "would create  logs/",
    ]
    assert not out.exists()
    cli("restore", out)
    for each in (folder, out):
        with (each / "MEMORY.md").open("a") as file:
            file.write("\nthe next day\n")
    (folder / "MEMORY.md").write_text("the next day\nand the next\n")
    cli("backup", folder)
    code, said, err = cli("restore", "--dry-run", out)
    assert (code, err) == (0, "")
    lines = said.splitlines()
    assert lines[0].startswith("would replace MEMORY.md (the snapshot has all its lines that are not of 20")
    assert lines[1].startswith("would restore snapshot ")
    assert lines[1].endswith(" of label default; nothing written")
    assert lines[2].startswith("made 20")
    assert lines[3] == f"{out}: 0 to create, 1 to replace, 1 unchanged"


def test_the_newest_of_a_time_is_restored(cli, refused, vault, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        for hour in (0, 2, 30):
            save(vault, {"a.md": f"after {hour} h"}, at=NOON + timedelta(hours=hour))
        for at, found in [
            ("2026-11-01T12:01Z", 0),
            ("2026-11-01T14:01", 0),
            ("2026-11-01T13:59:59.9Z", 0),
            ("2026-11-01 14:00:01z", 2),
            ("2026-11-01T14:00:01+0000", 2),
            ("2026-11-01", 2),
            ("2027-01-01", 30),
        ]:
            code, _, err = cli("restore", "--at", at, "--force", tmp_path / "out")
            assert (code, err) == (0, "")
            assert (tmp_path / "out" / "a.md").read_text() == f"after {found} h", at
        line = refused(3, "restore", "--at", "2026-11-01T11:59Z", tmp_path / "none")
        assert "no snapshot from 2026-11-01 11:59 UTC or before; its oldest is 20261101T12" in line
        assert "nothing is saved yet" in refused(3, "restore", "--at", "2026-11-01", "--label", "x", tmp_path / "none")
        for at in ("yesterday", "2026-11-01T12", "2026-13-01", "2026-11-01T25:00", "9999-12-31T23:59-23:59"):
            assert f"'{at}' is not a time" in refused(2, "restore", "--at", at, tmp_path / "none")
        assert "each name" in refused(2, "restore", "--at", "2026-11-01", "--snapshot", "latest", tmp_path / "none")
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_would_stop_a_restore_is_told_with_what_helps(cli, vault, tmp_path):
    save(vault, {"a.md": "saved", "b.md": "b"}, at=NOON)
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.md").write_text("mine")
    code, plan, err = cli("restore", "--dry-run", out)
    assert code == 1
    lines = plan.splitlines()
    assert lines[:2] == ["would create  b.md", "saved nowhere a.md"]
    assert lines[-1] == f"{out}: 1 to create, 0 to replace, 1 saved nowhere, 0 unchanged"
    again = f"colony-memory restore --dry-run {out} --vault {vault.path} --snapshot-first"
    assert err == f"error: it would be refused: what 1 file has here is saved nowhere; try: {again}\n"
    code, plan, _ = cli("restore", "--dry-run", "--snapshot-first", out)
    assert (code, plan.splitlines()[1]) == (0, "would replace a.md (it is saved first)")
    code, said, _ = cli("restore", "--snapshot-first", "--json", out)
    answer = json.loads(said)
    assert code == 0
    assert (answer["replaced"], answer["unsaved"], answer["masked"]) == (["a.md"], [], [])
    assert tree(out) == {"a.md": b"saved", "b.md": b"b"}


def test_with_delete_what_the_snapshot_lacks_goes_and_is_in_the_plan(cli, refused, vault, tmp_path):
    out = tmp_path / "out"
    (out / "old").mkdir(parents=True)
    (out / "old/a.md").write_text("b")
    (out / "b.md").write_text("b")
    save(vault, {"b.md": "b"}, at=SOON)
    code, plan, _ = cli("restore", "--delete", "--dry-run", out)
    assert code == 0
    assert plan.splitlines()[:2] == ["would remove  old/", "would remove  old/a.md (the snapshot has it)"]
    assert plan.splitlines()[-1] == f"{out}: 0 to create, 0 to replace, 2 to remove, 1 unchanged"
    assert (out / "old/a.md").exists()
    assert "give one of them" in refused(2, "restore", "--delete", "--only", "b*", out)
    (out / "new.md").write_text("x")
    assert "'new.md'" in refused(1, "restore", "--delete", out)
    assert (out / "old/a.md").exists()
    code, said, _ = cli("restore", "--delete", "--force", out)
    assert code == 0
    assert said.splitlines()[:3] == ["removed  new.md", "removed  old/", "removed  old/a.md"]
    assert sorted(path.name for path in out.iterdir()) == ["b.md"]


def test_what_was_there_is_saved_first_under_a_label_of_its_own(cli, refused, vault, tmp_path):
    wanted = save(vault, {"a.md": "saved"}, at=NOON)
    out = tmp_path / "out"
    code, said, _ = cli("restore", "--snapshot-first", out)
    assert (code, "saved what was here" in said) == (0, False)
    (out / "a.md").write_text("mine")
    (out / "link").symlink_to("/etc/hostname")
    assert cli("restore", "--snapshot-first", "--dry-run", out)[0] == 0
    assert {info.label for info in ColonyMemory(backend=vault).list_snapshots()} == {"default"}
    code, said, err = cli("restore", "--snapshot-first", out)
    assert code == 0
    assert re.match(r"saved what was here as \S+ of label default-before-restore\n", said)
    assert err.startswith("left out of it: link: is a link to '/etc/hostname', ")
    assert (out / "a.md").read_text() == "saved"
    assert ColonyMemory(backend=vault).latest(label="default").snapshot_id == wanted.snapshot_id
    assert cli("restore", "--label", "default-before-restore", out)[0] == 0
    assert (out / "a.md").read_text() == "mine"
    # What was restored last is one of those that are asked.
    code, said, _ = cli("restore", "--json", out)
    assert (code, json.loads(said)["before"]) == (0, None)
    (out / "a.md").write_text("mine again")
    code, said, _ = cli("restore", "--snapshot-first", "--json", out)
    assert json.loads(said)["before"]["label"] == "default-before-restore"
    for number in range(12):
        (out / "a.md").write_text(f"edit {number}")
        assert cli("restore", "--snapshot-first", "--quiet", out)[0] == 0
    kept = ColonyMemory(backend=vault).list_snapshots(label="default-before-restore")
    assert len(kept) == len({info.plaintext_sha256 for info in kept}) == 10


def test_what_cannot_be_saved_first_stops_the_restore(cli, refused, vault, tmp_path):
    save(vault, {"a.md": "saved"}, at=NOON)
    out = tmp_path / "out"
    out.mkdir()
    (out / "a.md").write_text("mine")
    (out / ".cmemignore").write_text("a.md\n")
    line = refused(1, "restore", "--snapshot-first", out)
    assert "'a.md' would be replaced but is not in that save (is ignored); nothing was written" in line
    assert (out / "a.md").read_text() == "mine"
    assert "is inside" in refused(2, "restore", "--snapshot-first", tmp_path)


SLOW = """
import os, sys, time
from colony_memory.capture._moves import Moves
from colony_memory.__main__ import main

real = Moves._take

def slow(moves, reach, step):
    real(moves, reach, step)
    if step.name == "b.md":
        print("half", flush=True)
        for _ in range(400):  # a signal just before a sleep does not cut it short
            time.sleep(0.05)

Moves._take = slow
sys.exit(main())
"""


@POSIX
@pytest.mark.parametrize(("number", "code", "word"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_in_the_middle_undoes_and_says_so_in_one_line(vault, tmp_path, number, code, word):
    save(vault, {"a.md": "new a", "b.md": "new b", "c.md": "new c", "d.md": "d"}, at=NOON)
    out = tmp_path / "out"
    out.mkdir()
    for name in "abc":
        (out / f"{name}.md").write_text("old")
    before = tree(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "restore", "--force", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "half\n"
        assert (out / "a.md").read_text() == "new a"
        for _ in range(3):  # impatience does not break the undoing off
            process.send_signal(getattr(signal, number))
        said, err = process.communicate(timeout=20)
    assert (process.returncode, said, err) == (code, "", f"error: {word}\n")
    assert tree(tmp_path) == before


@POSIX
def test_a_kill_in_the_middle_is_made_good_by_the_next_command(cli, vault, tmp_path):
    save(vault, {"a.md": "new a", "b.md": "new b", "c.md": "new c"}, at=NOON)
    out = tmp_path / "out"
    out.mkdir()
    for name in "abc":
        (out / f"{name}.md").write_text("old")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, "restore", "--force", str(out)], stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.kill()
    left = {name: data for name, data in tree(out).items() if not name.startswith(".colony")}
    assert left == {"a.md": b"new a", "b.md": b"new b", "c.md": b"old"}
    code, _, err = cli("restore", "--force", "--quiet", out)
    assert code == 0
    assert err == f"warning: a restore was cut off in '{out}': all files are as they were before it\n"
    assert set(tree(out).values()) == {b"new a", b"new b", b"new c"}
    assert sorted(path.name for path in out.iterdir()) == ["a.md", "b.md", "c.md"]


def test_signals_are_left_alone_in_a_thread_and_where_they_are_ignored():
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(handlers).result() == (signal.default_int_handler, signal.getsignal(signal.SIGTERM))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert handlers()[0] == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def handlers():
    with errors.signals_raise(first_only=True):
        return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_what_is_proven_of_a_damaged_snapshot_is_written_and_dated(cli, refused, vault, tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "out"
    folder.mkdir()
    (folder / "a.md").write_text("first\n")
    (folder / "face.png").write_bytes(b"\x89PNG\xff")
    cli("backup", folder)
    first = vault_ids(cli)[0]
    (folder / "a.md").write_text("second\n")
    (folder / "new.md").write_text("new\n")
    cli("backup", folder)
    assert cli("restore", "--salvage", out)[0] == 0
    assert tree(out) == tree(folder)
    last = vault_ids(cli)[0]
    content_file(vault, SimpleNamespace(label="default", snapshot_id=last)).write_text("{}")
    refused(4, "restore", tmp_path / "none")
    code, said, err = cli("restore", "--salvage", tmp_path / "none")
    assert code == 1
    assert f"snapshot {last} is damaged" in err
    assert f"2 documents from snapshot {first} of 20" in err
    assert "attributes.json" not in err
    assert "missing: 1 document whose names" in err
    assert ((tmp_path / "none" / "a.md").read_text(), (tmp_path / "none" / "face.png").read_bytes()) == (
        "first\n",
        b"\x89PNG\xff",
    )
    assert "created" in said
    (out / "a.md").write_text("written since\n")
    assert "'a.md'" in refused(1, "restore", "--salvage", out)
    assert (out / "a.md").read_text() == "written since\n"
    code, said, _ = cli("restore", "--salvage", "--json", "--dry-run", "--force", last, out)
    told = json.loads(said)["salvaged"]
    assert (code, told["snapshot_id"], told["missing"]) == (1, last, [])
    assert {*told["sources"].values()} == {first}
    assert "documents" not in told
    refused(2, "restore", "--salvage", "--delete", out)
    refused(2, "restore", "--salvage", "--merge", out)
    # Whoever still has the text saves it anew.
    assert cli("backup", folder)[0] == 0
    assert cli("restore", tmp_path / "again")[0] == 0
    assert tree(tmp_path / "again") == tree(folder)


def vault_ids(cli):
    return [each["snapshot_id"] for each in json.loads(cli("list", "--json")[1])["snapshots"]]
