"""status: whether the memory is protected."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest
from cli_runs import NOON, damage, save

from colony_memory import ColonyMemory
from colony_memory import words as text
from colony_memory._format.v2.zstd import is_installed
from colony_memory.app.protection import Problem
from colony_memory.cli.verbs import status
from colony_memory.schedule import last_run
from colony_memory.vaults.colony import calls


@pytest.fixture
def noon(monkeypatch):
    """The clock of the command line stands still at three hours after noon."""
    monkeypatch.setattr(text, "_clock", lambda: NOON + timedelta(hours=3))


ID = "20261101T130000300000Z-abcdef"


@pytest.mark.parametrize(
    ("problem", "command"),
    [
        (Problem("x", "delete", "default", ID), f"colony-memory delete {ID}"),
        (Problem("x", "delete", "other", ID), f"colony-memory delete {ID} --label other"),
        (Problem("x", "delete", "default"), "colony-memory verify"),
        (Problem("x", "judge", "other", ID), f"colony-memory verify {ID} --label other"),
        (Problem("x", "prune", "other"), "colony-memory prune --keep 5 --label other"),
        (Problem("x", "backup", "other"), "colony-memory backup PATH --label other"),
        (Problem("x", "wait"), "colony-memory status"),
        # Named by whoever can write to the vault, so that deleting it could delete another one.
        (Problem("x", "delete", "default", "latest"), "colony-memory verify"),
        (Problem("x", "delete", "default", ID[:8]), "colony-memory verify"),
        (Problem("x", "judge", "other", "latest"), "colony-memory verify --label other"),
    ],
)
def test_each_problem_has_its_command(problem, command):
    assert status.mending(problem, {}) == command
    here = {
        "vault": "my vault",
        "key_file": "-k",
        "trust": ["did:key:a", "did:key:b@1"],
        "witness": None,
        "quiet": True,
    }
    assert status.mending(problem, here) == (
        f"{command} --vault 'my vault' --key-file=-k --trust did:key:a --trust did:key:b@1"
    )


# --- as a verb


def test_protected_is_what_was_read(cli, vault, refused, noon):
    save(vault, {"a.md": "x" * 300}, at=NOON - timedelta(hours=1))
    damage(vault, save(vault, {"a.md": "y" * 300}, at=NOON))
    assert cli("status", "--quick")[1].startswith(
        "saved (not read, so damage would not show): last known backup 3h ago (2026-11-01 12:00 UTC), unsigned"
    )
    assert cli("status", "--quick", "--max-age", "1d", "-q") == (0, "", "")
    code, out, _ = cli("status")
    assert code == 0
    assert out.startswith("at risk: last good backup 4h ago ")
    mend, meanwhile = out.splitlines()[-2:]
    assert mend == f"mend it  colony-memory backup PATH --vault {vault.path}"
    assert meanwhile == f"restore  colony-memory restore --fallback DIR --vault {vault.path}"
    line = refused(4, "status", "--max-age", "1d", "--quiet")
    assert line.startswith("error: the memory is at risk: label default: ")
    assert line.endswith(f"; mend it with: {mend.removeprefix('mend it  ')}")
    (problem,) = json.loads(cli("status", "--json")[1])["problems"]
    assert problem["fallback"] == meanwhile.removeprefix("restore  ")


def test_a_risk_is_no_success_for_a_monitor(cli, vault, refused, noon):
    save(vault, {"a.md": "x"}, at=NOON, incomplete=["MEMORY.md: Permission denied"])
    (vault.path / "cmem.default.latest.json").unlink()
    line = refused(1, "status", "--max-age", "1d", "-q")
    assert "is incomplete, 1 left out: MEMORY.md: Permission denied" in line
    assert "(and 1 more problem)" in line
    assert "newest: 1 left out" in cli("status")[1]


def test_an_idle_agent_does_not_alarm(cli, vault, refused, monkeypatch, noon):
    info = save(vault, {"a.md": "x"}, at=NOON - timedelta(days=9))
    run = last_run.LastRun(NOON, True, "unchanged", info.snapshot_id, None, 1)
    log = last_run.RunLog(run, None, 0)
    monkeypatch.setattr(last_run, "read_runs", lambda url, label: {"default": log}.get(label))
    assert cli("status", "--max-age", "1d", "-q") == (0, "", "")
    assert "last good backup 9d ago (2026-10-23 12:00 UTC), unchanged 3h ago, " in cli("status")[1]
    failed = last_run.LastRun(NOON, False, "failed", None, None, 1)
    log = last_run.RunLog(run, failed, 1)
    assert cli("status", "--max-age", "1d", "-q") == (0, "", "")
    log = last_run.RunLog(None, failed, 1)
    assert "old, and at most 1d" in refused(1, "status", "--max-age", "1d", "-q")


def test_the_first_line_is_the_answer(cli, vault, noon):
    save(vault, {"a.md": "x" * 3000}, at=NOON)
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("protected: last good backup 3h ago (2026-11-01 12:00 UTC), unsigned, not encrypted, ")
    assert lines[0].endswith("B free")
    assert lines[2] == f"vault  {vault.path}"
    assert lines[3].startswith("used   ")
    assert lines[3].endswith(", in 3 vault files")
    assert lines[4].startswith("next   ")
    assert lines[6].split() == ["label", "state", "snapshots", "newest", "oldest", "size", "stored", "problems"]
    assert lines[7].split()[:6] == ["default", "protected", "1", "2026-11-01", "12:00", "UTC"]
    assert lines[7].endswith("  none found")
    assert len(lines) == 8


def test_what_is_wrong_stands_with_the_command_that_mends_it(cli, vault, noon):
    save(vault, {"a.md": "x"}, at=NOON)
    lost = save(vault, {"a.md": "x"}, label="other")
    (vault.path / f"cmem.other.{lost.snapshot_id}.manifest.json").write_text("{")
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    assert out.startswith("not protected: no good backup of label other, ")
    *_, row, blank, problem, mend = out.splitlines()
    assert (row.split()[:6], blank) == (["other", "not", "protected", "0", "-", "-"], "")
    assert "1 broken" in row
    assert problem.startswith("problem  label other: ")
    program, *words = shlex.split(mend.removeprefix("mend it  "))
    assert (program, words) == (
        "colony-memory",
        ["delete", lost.snapshot_id, "--label", "other", "--vault", str(vault.path)],
    )
    # It does.
    assert cli(*words, "--yes")[0] == 0
    assert cli("status")[1].startswith("protected: ")


HOUR = ["--max-age", "1h"]


def backed_up(cli, folder, vault):
    cli("backup", folder)


def of_another(cli, folder, vault):
    save(vault, {"other.md": "of another agent\n"})


def stale_beside_a_fresh_one(cli, folder, vault):
    save(vault, {"a.md": "x"}, at=NOON, label="old")
    cli("backup", folder)


def stale_and_replaced_by_a_restore(cli, folder, vault):
    save(vault, {"MEMORY.md": "x"}, at=NOON)
    cli("restore", "--force", "--snapshot-first", folder)


def only_what_a_restore_replaced(cli, folder, vault):
    cli("backup", folder, "--label", "default-before-restore")


def emptied(cli, folder, vault):
    cli("backup", folder)
    cli("backup", folder, "--label", "gone")
    cli("delete", "latest", "--label", "gone", "--yes")


def edited(cli, folder, vault):
    cli("backup", folder)
    with (folder / "MEMORY.md").open("a") as memory:
        memory.write("and\nmore\n")
    (folder / "new.bin").write_bytes(bytes(range(256)))


def less(cli, folder, vault):
    cli("backup", folder)
    (folder / "MEMORY.md").unlink()


def rewritten(cli, folder, vault):
    cli("backup", folder / "MEMORY.md")
    (folder / "MEMORY.md").write_text("all of it is new\n")


def rewritten_and_not_known(cli, folder, vault):
    save(vault, {"MEMORY.md": (folder / "MEMORY.md").read_text()})
    (folder / "MEMORY.md").write_text("all of it is new\n")


def under_a_label(cli, folder, vault):
    save(vault, {"other.md": "of another agent\n"})
    cli("backup", folder, "--label", "agent-a")


def in_conflict(cli, folder, vault):
    cli("backup", folder)
    other = ColonyMemory(backend=vault)
    other.backup({**other.restore(), "theirs.md": "theirs\n"})
    (folder / "ours.md").write_text("ours\n")
    assert cli("backup", folder)[0] == 1


def shrunk(cli, folder, vault):
    (folder / "large.md").write_text("".join(f"{n} lines of notes\n" for n in range(1000)))
    cli("backup", folder)
    (folder / "large.md").write_text("")
    cli("backup", folder)


def damaged(cli, folder, vault):
    cli("backup", folder)
    (folder / "more.md").write_text("more" * 300)
    cli("backup", folder)
    damage(vault, ColonyMemory(backend=vault).latest())


def stopped(cli, folder, vault):
    (vault.path / f"cmem.default.{ID}.p0.json").write_text("{}")


def garbled(cli, folder, vault):
    (vault.path / "cmem.default.latest.json").write_text("{")


@pytest.mark.parametrize(
    ("history", "asked", "codes", "answer"),
    [
        (None, [], (3, 3), "not protected: nothing is saved yet in the vault"),
        (None, ["FOLDER"], (3, 3), "not protected: nothing is saved yet in the vault"),
        (backed_up, [], (0, 0), "protected: last good backup"),
        (backed_up, ["FOLDER"], (0, 0), "protected: last good backup"),
        (backed_up, ["--quick"], (0, 0), "saved (not read, so damage would not show): last known backup"),
        (backed_up, ["FOLDER", "--label", "typo"], (3, 3), "not protected: nothing is saved under label 'typo' in the"),
        (of_another, ["FOLDER"], (3, 3), "not protected: nothing of this folder is in the latest of label 'default'"),
        (
            stale_beside_a_fresh_one,
            [],
            (0, 1),
            ("protected: last good backup of label old", "not protected: last good"),
        ),
        (stale_beside_a_fresh_one, ["FOLDER"], (0, 0), "protected: last good backup "),
        (stale_and_replaced_by_a_restore, [], (0, 1), ("protected: last good backup ", "not protected: last good")),
        (only_what_a_restore_replaced, [], (3, 3), "not protected: nothing is saved in the vault"),
        (only_what_a_restore_replaced, ["--label", "default-before-restore"], (0, 0), "protected: last good backup of"),
        (emptied, [], (0, 0), "protected: last good backup"),
        (emptied, ["--label", "gone"], (3, 3), "not protected: nothing is saved under label 'gone' in the vault"),
        (edited, [], (0, 0), "protected: last good backup"),
        (edited, ["FOLDER"], (0, 0), "ahead by 2 files, 3 lines: last good backup"),
        (less, ["FOLDER"], (0, 0), "protected: last good backup"),
        (rewritten, ["FOLDER/MEMORY.md"], (0, 0), "ahead by 1 file, 1 line: last good backup"),
        (rewritten_and_not_known, ["FOLDER/MEMORY.md"], (0, 1), "not protected, ahead by 1 file, 1 line: last good"),
        (under_a_label, ["FOLDER"], (0, 0), "protected: last good backup of label agent-a"),
        (under_a_label, ["FOLDER", "--label", "default"], (3, 3), "not protected: nothing of this folder is in the"),
        (in_conflict, [], (0, 1), "at risk: last good backup"),
        (in_conflict, ["FOLDER"], (0, 1), "at risk, ahead by 1 file, 1 line: last good backup"),
        (shrunk, [], (0, 0), "protected: last good backup"),
        (damaged, [], (0, 4), "at risk: last good backup"),
        (damaged, ["FOLDER"], (0, 4), "at risk: last good backup"),
        (stopped, [], (3, 3), "not protected: nothing is saved under label 'default' in the vault"),
        (garbled, [], (0, 4), "not protected: no good backup, "),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_said_answers_what_was_asked(cli, vault, folder, history, asked, codes, answer):
    """The first line and the exit code, without --max-age and with it, and the same in the document."""
    if history is not None:
        history(cli, folder, vault)
    asked = [word.replace("FOLDER", str(folder)) for word in asked]
    answers = (answer, answer) if isinstance(answer, str) else answer
    for more, code, first in zip(([], HOUR), codes, answers, strict=True):
        got, out, _ = cli("status", *asked, *more)
        assert (got, out.startswith(first)) == (code, True), out
        document = json.loads(cli("status", *asked, *more, "--json")[1])
        assert first.startswith(document["state"])
        compared = paths_in(asked) and history is not damaged
        assert (document["ahead"] is not None, document["same_disk"]) == (compared, paths_in(asked) or None)
        assert [each["label"] for each in document["labels"]].count("default-before-restore") == (
            "default-before-restore" in asked
        )
    latest = ColonyMemory(backend=vault).latest() if history is in_conflict else None
    assert document["conflict"] == (latest and latest.snapshot_id)
    assert (f", conflict with {latest and latest.snapshot_id}, " in out) == (latest is not None)
    kept = [each["shrunk"] for each in document["labels"]]
    assert ("is kept, as much less followed" in out) == (history is shrunk) == any(kept)


def taken_after_a_conflict(cli, folder, vault):
    in_conflict(cli, folder, vault)
    assert cli("restore", folder)[0] == 0


def signed_from_today(cli, folder, vault):
    pytest.importorskip("cryptography")
    in_conflict(cli, folder, vault)
    cli("backup", folder, "--label", "other")
    cli("keygen", folder.parent / "agent.pem")


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (signed_from_today, "older than signing"),
        (in_conflict, "conflict with "),
        (taken_after_a_conflict, "conflict with "),
        (damaged, "mend it  colony-memory backup "),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_mends_works_as_pasted(cli, vault, folder, monkeypatch, history, says):
    """Each command that is shown is run, until none is; in two labels, and with what both have after a conflict."""
    history(cli, folder, vault)
    if history is signed_from_today:
        monkeypatch.setenv("COLONY_MEMORY_KEY_FILE", str(folder.parent / "agent.pem"))
    assert says in cli("status", "--max-age", "1h")[1]
    asked = 0
    while cli("status", "--max-age", "1h", "-q")[0]:
        asked += 1
        assert asked < 4
        out = cli("status")[1]
        for line in [line for line in out.splitlines() if line.startswith("mend it  ")]:
            program, *words = shlex.split(line.removeprefix("mend it  "))
            assert (program, "PATH" in words) == ("colony-memory", False)
            cli(*words)
    assert cli("status")[1].startswith("protected: ")
    if history in (in_conflict, taken_after_a_conflict):
        assert {"ours.md", "theirs.md"} <= ColonyMemory(backend=vault).restore().keys()


def paths_in(asked):
    return bool(asked) and not asked[0].startswith("-")


def test_an_empty_vault_protects_nothing(cli, vault, server, monkeypatch):
    code, out, err = cli("status")
    assert (code, err) == (3, f"error: nothing is saved yet in the vault {vault.path}\n")
    assert out.startswith(f"not protected: nothing is saved yet in the vault {vault.path}, ")
    assert out.splitlines()[-1] == "no snapshots"
    monkeypatch.delenv("COLONY_MEMORY_VAULT")
    out = cli("status")[1].splitlines()
    assert out[0] == "not protected: nothing is saved yet in the hosted vault"
    assert out[2:5] == [
        "vault  colony:",
        "used   0 B, in 0 vault files; the vault gives room with the first backup",
        "",
    ]


def test_the_last_run_of_watch_is_told(cli, vault, monkeypatch, noon):
    ok = last_run.LastRun(NOON, True, "saved", ID, NOON + timedelta(hours=4), 1)
    ended = last_run.LastRun(NOON, False, "no\nroom", None, None, 1)
    logs = {"default": last_run.RunLog(ok, None, 0), "other": last_run.RunLog(None, ended, 7)}
    monkeypatch.setattr(last_run, "read_runs", lambda url, label: logs.get(label))
    save(vault, {"a.md": "x"}, at=NOON)
    save(vault, {"a.md": "x"}, at=NOON, label="other")
    lines = cli("status")[1].splitlines()
    assert lines[6:8] == [
        "watch  ok 3h ago: saved, next in 1h",
        r"watch  label other: FAILED 3h ago: no\nroom, ended; 7 failed, none succeeded",
    ]
    logs["other"] = last_run.RunLog(replace(ok, when=NOON - timedelta(days=2)), ended, 7)
    assert cli("status")[1].splitlines()[7].endswith("ended; 7 failed since the last success, 2d ago")
    watched = json.loads(cli("status", "--json")[1])["watch"]
    assert watched["default"] == {
        "when": "2026-11-01T12:00:00.300000+00:00",
        "ok": True,
        "message": "saved",
        "snapshot_id": ID,
        "next_run": "2026-11-01T16:00:00.300000+00:00",
        "last_success": "2026-11-01T12:00:00.300000+00:00",
        "failed_since": 0,
    }
    assert watched["other"]["next_run"] is None
    assert watched["other"]["failed_since"] == 7


def test_an_account_without_the_karma_to_save_is_told_it(cli, server, folder):
    assert cli("backup", folder)[0] == 0
    assert "karma" not in cli("status")[1]
    server.vault.karma_ok = False
    code, out, _ = cli("status")
    assert code == 0
    assert "problem this account may not save to the vault: that takes 10 karma" in " ".join(out.split())
    assert "10 karma" in json.loads(cli("status", "--json")[1])["problems"][0]["what"]
    server.fault("GET", "status", path="/me/capabilities", status=500, times=None)
    assert "karma" not in cli("status")[1]


@pytest.mark.skipif(not is_installed(), reason="format 2 takes zstd")
def test_what_format_2_would_keep_is_measured_on_this_memory(cli, server, folder):
    text = [sha256(b"%d" % number).hexdigest() for number in range(2_000)]
    for number in range(3):
        text[number] = "changed"
        (folder / "a.md").write_text("\n".join(text))
        assert cli("backup", folder)[0] == 0
    first, second = json.loads(cli("status", "--json")[1])["points"].values()
    assert (100 < first < 250, second > 20 * first) == (True, True)
    out = " ".join(cli("status")[1].split())
    told = f"format the vault keeps about {first} such snapshots, in format 2 {min(second, 10_000)}: "
    assert f"{told}colony-memory backup --format 2 PATH" in out
    assert json.loads(cli("status", "--quick", "--json")[1])["points"] is None
    assert cli("backup", folder, "--format", "2", "--note", "now")[0] == 0
    assert json.loads(cli("status", "--json")[1])["points"] is None


@pytest.mark.parametrize(("wait", "back"), [(None, ""), (1380, ", all of them again in 23m")])
def test_what_is_left_of_the_hour_is_told_where_the_service_said_it(cli, server, folder, monkeypatch, wait, back):
    clock = server.vault.clock
    with monkeypatch.context() as earlier:
        earlier.setattr(server.vault, "clock", lambda: clock() - 3700)
        assert cli("backup", folder)[0] == 0
        assert "last hour" not in cli("status")[1]
    (folder / "more.md").write_text("more")
    assert cli("backup", folder)[0] == 0
    assert "spent  at least 3 uploads and deletes of the last hour\n" in cli("status")[1]
    monkeypatch.setattr(calls.Budget, "left", lambda _: 12)
    monkeypatch.setattr(calls.Budget, "reset", lambda _: wait)
    assert f"left   12 uploads and deletes this hour{back}\n" in cli("status")[1]
    assert json.loads(cli("status", "--json")[1])["operations_reset_seconds"] == wait
