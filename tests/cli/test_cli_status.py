"""status: whether the memory is protected, what is wrong, and what is not saved yet."""

import json
import os
import shlex
import shutil
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest
from cli_runs import NOON, POSIX, damage, save, tree

from colony_memory import ColonyMemory
from colony_memory._format.v2.zstd import is_installed
from colony_memory.schedule import last_run
from colony_memory.shell import words as text
from colony_memory.shell.app.protection import Problem
from colony_memory.shell.cli.verbs import status
from colony_memory.vaults import colony


@pytest.fixture
def noon(monkeypatch):
    """The clock of the command line stands still at three hours after noon."""
    monkeypatch.setattr(text, "_clock", lambda: NOON + timedelta(hours=3))


ID = "20261101T130000300000Z-abcdef"
ZSTD = pytest.mark.skipif(not is_installed(), reason="format 2 takes zstd")


@pytest.mark.parametrize(
    ("problem", "command"),
    [
        (Problem("x", "delete", "default", ID), f"colony-memory delete {ID}"),
        (Problem("x", "delete", "other", ID), f"colony-memory delete {ID} --label other"),
        (Problem("x", "delete", "default"), "colony-memory verify"),
        (Problem("x", "judge", "other", ID), f"colony-memory verify {ID} --label other"),
        (Problem("x", "prune", "other", keep=2), "colony-memory prune --keep 2 --label other"),
        (Problem("x", "exclude", "other"), "colony-memory backup --exclude GLOB PATH --label other"),
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


def all_deleted(cli, folder, vault):
    cli("backup", folder)
    cli("delete", "latest", "--yes")


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


def with_others(cli, folder, vault):
    for name in ("plan.md", "gone.md"):
        (folder.parent / name).write_text(f"{name}\n")
    cli("backup", folder.parent / "plan.md", folder, folder.parent / "gone.md")
    (folder.parent / "gone.md").unlink()


def in_conflict(cli, folder, vault):
    cli("backup", folder)
    other = ColonyMemory(backend=vault)
    other.backup({**other.restore(), "theirs.md": "theirs\n"})
    (folder / "ours.md").write_text("ours\n")
    assert cli("backup", folder)[0] == 1


def without_a_pack(cli, folder, vault):
    """What the first snapshot and all that build on it need is gone, and may come back."""
    cli("backup", folder, "--format", "2")
    (first,) = vault.path.glob("cmem.*.k0.json")
    (folder / "more.md").write_text("more\n")
    cli("backup", folder, "--format", "2")
    first.rename(folder.parent / first.name)


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
        (all_deleted, [], (3, 3), "not protected: nothing is saved in the vault VAULT, "),
        (edited, [], (0, 0), "protected: last good backup"),
        (edited, ["FOLDER"], (0, 0), "ahead by 2 files, 3 lines: last good backup"),
        (less, ["FOLDER"], (0, 0), "protected: last good backup"),
        (rewritten, ["FOLDER/MEMORY.md"], (0, 0), "ahead by 1 file, 1 line: last good backup"),
        (rewritten_and_not_known, ["FOLDER/MEMORY.md"], (0, 1), "not protected, ahead by 1 file, 1 line: last good"),
        (under_a_label, ["FOLDER"], (0, 0), "protected: last good backup of label agent-a"),
        (under_a_label, ["FOLDER", "--label", "default"], (3, 3), "not protected: nothing of this folder is in the"),
        (with_others, ["FOLDER"], (0, 0), "protected: last good backup"),
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
        assert (got, out.startswith(first.replace("VAULT", str(vault.path)))) == (code, True), out
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
    assert ("is kept, as a much smaller one followed" in out) == (history is shrunk) == any(kept)


def taken_after_a_conflict(cli, folder, vault):
    in_conflict(cli, folder, vault)
    assert cli("restore", folder)[0] == 0


def overtaken(cli, folder, vault):
    """Two folders are saved under one label, neither based on the other."""
    for path, name in ((folder, "ours.md"), (folder.with_name("other"), "theirs.md")):
        path.mkdir(exist_ok=True)
        (path / name).write_text(f"{name}\n")
        cli("backup", path)


def unsigned_since(cli, folder, vault):
    signed_from_today(cli, folder, vault)
    cli("backup", folder, "--key-file", folder.parent / "agent.pem")
    (folder / "more.md").write_text("more\n")
    cli("backup", folder)


def signed_from_today(cli, folder, vault):
    pytest.importorskip("cryptography")
    in_conflict(cli, folder, vault)
    cli("backup", folder, "--label", "other")
    cli("keygen", folder.parent / "agent.pem")


@pytest.mark.parametrize(
    ("history", "says"),
    [
        (signed_from_today, "older than signing"),
        (unsigned_since, "is not signed, "),
        (in_conflict, "conflict with "),
        (taken_after_a_conflict, "conflict with "),
        (overtaken, "conflict with "),
        (damaged, "mend it  colony-memory backup "),
        pytest.param(without_a_pack, "mend it  colony-memory backup ", marks=ZSTD),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("of", [False, True], ids=["all", "the folder"])
def test_what_mends_works_as_pasted(cli, vault, folder, monkeypatch, history, says, of):
    """Each command that is shown is run, until none is; in two labels, and with what both have after a conflict."""
    history(cli, folder, vault)
    of = [folder] if of else []
    if history in (signed_from_today, unsigned_since):
        monkeypatch.setenv("COLONY_MEMORY_KEY_FILE", str(folder.parent / "agent.pem"))
    assert says in cli("status", *of, "--max-age", "1h")[1]
    asked = 0
    while cli("status", *of, "--max-age", "1h", "-q")[0]:
        asked += 1
        assert asked < 4
        out = cli("status", *of)[1]
        for line in [line for line in out.splitlines() if line.startswith("mend it  ")]:
            program, *words = shlex.split(line.removeprefix("mend it  "))
            assert (program, {"PATH", "delete"} & {*words}) == ("colony-memory", set())
            cli(*words)
    assert cli("status", *of)[1].startswith(("protected: ", "ahead by 1 file"))
    if history is without_a_pack:
        shutil.move(next(folder.parent.glob("cmem.*.k0.json")), vault.path)
        assert cli("verify")[0] == 0
    if history in (in_conflict, taken_after_a_conflict, overtaken):
        cli("backup", folder)
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


def test_no_room_is_told_of_what_is_only_read(cli, vault, tmp_path):
    save(vault, {"a.md": "x"})
    assert cli("export", "latest", tmp_path / "export.json")[0] == 0
    out = cli("status", "--vault", f"export:{tmp_path / 'export.json'}")[1]
    assert (out.startswith("protected: "), " TB" in out, " fit" in out) == (True, False, False)


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


@ZSTD
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
    monkeypatch.setattr(colony.Budget, "left", lambda _: 12)
    monkeypatch.setattr(colony.Budget, "reset", lambda _: wait)
    assert f"left   12 uploads and deletes this hour{back}\n" in cli("status")[1]
    assert json.loads(cli("status", "--json")[1])["operations_reset_seconds"] == wait


KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"


def test_a_stranger_s_snapshot_is_one_problem(cli, vault):
    info = save(vault, {"a.md": "x"})
    code, out, _ = cli("verify", "--trust", KEY)
    problems = [line for line in out.splitlines() if info.snapshot_id in line and line.startswith("problem  ")]
    assert (code, len(problems)) == (4, 1)
    (problem,) = (line for line in cli("status", "--trust", KEY)[1].splitlines() if line.startswith("problem  "))
    assert problem.count("label") == 1


def test_the_paths_that_were_looked_at_are_in_the_command_that_mends(cli, vault, folder):
    for label in ("default", "other"):
        save(vault, {"a.md": "x"}, incomplete=["b.md: Permission denied"], label=label)
    out = cli("status")[1]
    assert f"mend it  colony-memory backup PATH --vault {vault.path}" in out
    assert f"mend it  colony-memory backup PATH --label other --vault {vault.path}" in out
    out = cli("status", folder)[1]
    assert f"mend it  colony-memory backup {folder} --vault {vault.path}" in out
    assert "--label other" not in out
    again = next(
        line.partition("  ")[2] for line in out.splitlines() if line.startswith("mend it") and "PATH" not in line
    )
    assert cli(*again.split()[1:])[0] == 0
    assert "mend it" not in cli("status", "--label", "default", folder)[1]


TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


def unsaved(cli, *args):
    """The lines about what is not saved."""
    _, out, _ = cli("status", *args)
    return out.partition("\n\nunsaved  ")[2].splitlines()


def test_what_is_not_saved_yet_is_told_beside_the_verdict(folder, vault, cli):
    assert unsaved(cli, folder) == ["all of it: nothing is saved under label default"]
    assert cli("status", folder)[0] == 3
    cli("backup", folder)
    first = json.loads(cli("list", "--json")[1])["snapshots"][0]["snapshot_id"]
    assert unsaved(cli, folder) == [f"nothing, since the latest of label default, {first}"]
    (folder / "MEMORY.md").write_text("three years\n")
    (folder / "notes/new.md").write_text("x")
    shutil.rmtree(folder / "logs")
    before = tree(vault.path), tree(folder)
    assert unsaved(cli, folder) == [
        f"1 added, 0 removed and 1 empty folder, 1 changed, since the latest of label default, {first}",
        "~ MEMORY.md  +1 -1 lines",
        "- logs/",
        "+ notes/new.md",
    ]
    assert (tree(vault.path), tree(folder)) == before
    code, out, _ = cli("status", folder, "--json")
    assert code == 0
    assert json.loads(out)["unsaved"] == {
        "latest": first,
        "not_compared": None,
        "added": ["notes/new.md"],
        "removed": ["logs/"],
        "changed": {"MEMORY.md": {"added": 1, "removed": 1, "exact": True}},
        "left_out": [],
    }
    assert json.loads(cli("status", "--json")[1])["unsaved"] is None
    # What is unsaved is no failure: the age of the backup is.
    assert cli("status", folder, "--max-age", "1h", "--quiet") == (0, "", "")


def test_masked_secrets_are_compared_as_they_were_saved(folder, vault, cli):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    (folder / "open.md").write_text(f"{TOKEN}\n")
    cli("backup", folder, "--secrets", "mask", "--allow-secret", "open.md:github-token")
    assert unsaved(cli, folder)[0].startswith("nothing, since ")
    (folder / "keys.md").write_text(f"y\n{TOKEN}\n")
    assert unsaved(cli, folder)[1:] == ["~ keys.md  +1 -1 lines"]


@POSIX
def test_what_cannot_be_saved_is_told_too(folder, vault, cli):
    cli("backup", folder)
    os.mkfifo(folder / "pi\x1b[2Jpe")
    assert unsaved(cli, folder)[1:] == ["1 name cannot be saved:", "pi\\x1b[2Jpe: named pipe"]


def test_bad_paths_are_refused(folder, vault, refused, tmp_path):
    before = tree(tmp_path)
    assert "no such file" in refused(2, "status", "gone")
    assert "an empty path" in refused(2, "status", "")
    assert "is inside" in refused(2, "status", tmp_path)
    assert "--exclude is for the PATHs" in refused(2, "status", "--exclude", "*.log")
    assert "is not a rule of gitignore" in refused(2, "status", folder, "--exclude", "[a")
    assert tree(tmp_path) == before


def test_a_forged_tag_cannot_command_a_terminal(vault, cli):
    info = save(vault, {"a.md": "x"}, at=NOON, tags=["good"])
    path = vault.path / f"cmem.default.{info.snapshot_id}.manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tags": ["\x1b[2J", "a\nb", "fine"]}))
    (vault.path / "cmem.default.latest.json").unlink()
    for verb in (["list"], ["show", "latest"], ["list", "--tag", "fine"]):
        out = cli(*verb)[1]
        assert "\x1b" not in out
        assert "fine" in out


def test_diff_alone_shows_what_has_changed_since(folder, vault, cli, refused, tmp_path):
    assert "nothing is saved yet" in refused(3, "diff")
    cli("backup", folder, "--exclude", "*.log")
    (folder / "new.md").write_text("one\n")
    (folder / "noise.log").write_text("no memory\n")
    code, out, err = cli("diff")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [f"to   the folder {folder}", "+ new.md", out.splitlines()[-1]]
    assert cli("diff", "--exit-code")[0] == 1
    assert "+one" in cli("diff", "--patch")[1]
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    cli("backup", other, "--on-conflict", "continue")
    assert "saves 2 folders under label 'default': say what to compare" in refused(1, "diff")
    shutil.rmtree(other)
    assert cli("diff")[0] == 0
    shutil.rmtree(folder)
    assert "saves no folders under label 'default'" in refused(1, "diff")


def test_a_page_is_written_for_its_owner_alone(cli, vault, tmp_path):
    save(vault, {"MEMORY.md": "two years of notes\n"})
    page = tmp_path / "report.html"
    assert cli("report", "--html", str(page)) == (0, f"the report on 1 snapshot is in {page}\n", "")
    assert "two years of notes" in page.read_text()
    if POSIX:
        assert page.stat().st_mode & 0o777 == 0o600
    code, _, err = cli("report", "--html", str(page))
    assert (code, err) == (1, f"error: {page} already exists and is not overwritten\n")
    code, out, _ = cli("report", "--html", str(page), "--force", "--json")
    assert (code, json.loads(out)) == (0, {"file": str(page), "snapshot_count": 1, "state": "protected"})
    assert '"snapshot_id":"' in cli("report", "--html", "-", "--quick")[1]
    assert cli("report", "--html", "-", "--json")[0] == 2
