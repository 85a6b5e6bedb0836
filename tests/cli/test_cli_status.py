"""status: whether the memory is protected."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import NOON, damage, fails, process, save, snapshot

from colony_memory import ColonyMemory
from colony_memory.app.protection import Newest, Problem, assess, read_newest
from colony_memory.cli import standing, tables, text
from colony_memory.reports import LabelMap, VaultMap
from colony_memory.schedule import watch

environment, folder, vault, server, cli, refused = (
    cli_runs.environment,
    cli_runs.folder,
    cli_runs.vault,
    cli_runs.server,
    cli_runs.cli,
    cli_runs.refused,
)


@pytest.fixture
def noon(monkeypatch):
    """The clock of the command line stands still at three hours after noon."""
    monkeypatch.setattr(text, "now_utc", lambda: NOON + timedelta(hours=3))


def label_map(**changes):
    fields = {
        "label": "default",
        "snapshots": 1,
        "oldest": snapshot(),
        "newest": snapshot(),
        "plain_bytes": 10,
        "stored_bytes": 300,
        "latest": "20261101T120000300000Z-abcdef",
        "dangling": False,
        "next_bytes": 300,
    }
    return LabelMap(**{**fields, **changes})


def vault_map(*labels, **changes):
    fields = {
        "labels": labels,
        "files": 3,
        "foreign_files": 0,
        "complete": True,
        "quota_bytes": 1000,
        "used_bytes": 250,
        "available_bytes": 750,
        "operations_left": 59,
    }
    return VaultMap(**{**fields, **changes})


EMPTY = {"snapshots": 0, "oldest": None, "newest": None, "next_bytes": 0, "latest": None, "dangling": True}
ID = "20261101T130000300000Z-abcdef"
OLD = "cmem.default.20261101T110000300000Z-abcdef.manifest.json"
MANIFEST = f"cmem.default.{ID}.manifest.json"


# --- the verdict


@pytest.mark.parametrize(
    ("found", "max_age", "state", "stale", "problems"),
    [
        (vault_map(label_map()), None, "protected", False, []),
        (vault_map(label_map()), timedelta(hours=4), "protected", False, []),
        (vault_map(label_map()), timedelta(hours=2), "not protected", True, []),
        (vault_map(), None, "not protected", True, []),
        (vault_map(), timedelta(hours=4), "not protected", True, []),
        (vault_map(label_map(), complete=False), None, "at risk", False, [("wait", None, None)]),
        (vault_map(label_map(dangling=True)), None, "at risk", False, [("backup", "default", None)]),
        (vault_map(label_map(), available_bytes=299), None, "at risk", False, [("prune", "default", None)]),
        (vault_map(label_map(), available_bytes=None), None, "protected", False, []),
        (vault_map(label_map(orphans=("x",))), None, "protected", False, []),
        (
            vault_map(label_map(**EMPTY, orphans=("x",))),
            None,
            "not protected",
            True,
            [("backup", "default", None), ("backup", "default", None)],
        ),
        (
            vault_map(label_map(broken={MANIFEST: "bad"})),
            None,
            "at risk",
            False,
            [("delete", "default", ID)],
        ),
        (
            vault_map(label_map(broken={OLD: "x"}, untrusted=(OLD,))),
            None,
            "protected",
            False,
            [("judge", "default", OLD[13:42])],
        ),
        (
            vault_map(label_map(broken={MANIFEST: "x"}, untrusted=(MANIFEST,))),
            None,
            "at risk",
            False,
            [("judge", "default", ID)],
        ),
        (
            vault_map(label_map(**EMPTY, broken={"odd": "bad"})),
            None,
            "not protected",
            True,
            [("delete", "default", None)],
        ),
    ],
)
def test_the_verdict(found, max_age, state, stale, problems):
    read = {each.label: Newest(each.newest) for each in found.labels if each.newest}
    verdict = assess(found, now=NOON + timedelta(hours=3), max_age=max_age, read=read)
    unread = assess(found, now=NOON + timedelta(hours=3), max_age=max_age)
    assert (unread.state, bool(unread)) == ("saved" if state == "protected" else state, False)
    assert (verdict.state, verdict.stale, bool(verdict)) == (state, stale, state == "protected")
    assert [(each.mending, each.label, each.snapshot_id) for each in verdict.problems] == problems


def test_the_newest_of_all_labels_counts_and_the_future_is_no_age():
    late = snapshot(label="other", snapshot_id=ID, created_at="2026-11-01T13:00:00Z")
    verdict = assess(vault_map(label_map(), label_map(label="other", newest=late)), now=NOON)
    assert (verdict.newest, verdict.age) == (late, timedelta(0))


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
    assert standing.mending(problem, {}) == command
    here = {
        "vault": "my vault",
        "key_file": "-k",
        "trust": ["did:key:a", "did:key:b@1"],
        "witness": None,
        "quiet": True,
    }
    assert standing.mending(problem, here) == (
        f"{command} --vault 'my vault' --key-file=-k --trust did:key:a --trust did:key:b@1"
    )


def test_what_was_read_counts_and_not_what_is_listed():
    older = snapshot(snapshot_id="20261101T110000300000Z-abcdef", created_at="2026-11-01T11:00:00Z")
    found, now = vault_map(label_map()), NOON + timedelta(hours=1)
    read = {"default": Newest(older, {snapshot().snapshot_id: "the part is damaged"})}
    verdict = assess(found, now=now, read=read)
    assert (verdict.state, verdict.newest) == ("at risk", older)
    assert verdict.problems == (Problem("the part is damaged", "replace", "default", snapshot().snapshot_id),)
    assert assess(found, now=now, read=read, max_age=timedelta(minutes=90)).stale
    lost = assess(found, now=now, read={"default": Newest(None, {snapshot().snapshot_id: "no"})})
    assert (lost.state, lost.newest, lost.stale) == ("not protected", None, True)
    assert [each.mending for each in lost.problems] == ["backup"]
    # All of the labels have to be read.
    two = vault_map(label_map(), label_map(label="other", newest=snapshot(label="other")))
    assert assess(two, now=now, read={"default": Newest(snapshot())}).state == "saved"


def test_a_run_that_found_nothing_new_is_as_good_as_a_backup():
    found, now = vault_map(label_map()), NOON + timedelta(days=3)
    hour, day = timedelta(hours=1), timedelta(days=1)
    assert assess(found, now=now, max_age=day).stale
    seen = assess(found, now=now, max_age=day, confirmed={snapshot().snapshot_id: now - hour})
    assert (seen.stale, seen.age) == (False, hour)
    # A run of another snapshot, or of a time that is yet to come, tells nothing.
    for confirmed in ({ID: now - hour}, {snapshot().snapshot_id: now + hour}):
        assert assess(found, now=now, max_age=day, confirmed=confirmed).stale


def test_an_incomplete_snapshot_is_a_risk():
    def state(**changes):
        info = snapshot(
            incomplete=("MEMORY.md: Permission denied", *(f"{n}.sock: socket" for n in range(4))), **changes
        )
        found = vault_map(label_map(label=info.label, newest=info))
        return assess(found, now=NOON + timedelta(hours=3), read={info.label: Newest(info)})

    verdict = state()
    (problem,) = verdict.problems
    assert (verdict.state, problem.mending, problem.snapshot_id) == ("at risk", "backup", snapshot().snapshot_id)
    assert "MEMORY.md: Permission denied; 0.sock: socket; 1.sock: socket; …" in problem.what
    # What a restore has replaced is saved once.
    assert state(label="default-before-restore").state == "protected"


def test_reading_goes_back_to_the_newest_that_is_good(vault):
    good = save(vault, {"a.md": "good" * 99})
    bad = [save(vault, {"a.md": f"{n}" * 99}) for n in range(2)]
    memory = ColonyMemory(backend=vault)
    memory.restore()
    base = memory._session.bases["default"]
    for each in bad:
        damage(vault, each)
    found = memory.inspect()
    newest = read_newest(memory, found)["default"]
    assert newest.good.snapshot_id == good.snapshot_id
    assert set(newest.damaged) == {each.snapshot_id for each in bad}
    assert memory._session.bases["default"] == base
    damage(vault, good)
    assert read_newest(memory, found)["default"].good is None
    for file in vault.path.glob("cmem.*manifest*"):
        file.unlink()
    assert "deleted in between" in read_newest(memory, found)["default"].damaged[bad[-1].snapshot_id]


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
    assert "is incomplete: MEMORY.md: Permission denied" in line
    assert "(and 1 more problem)" in line
    assert "newest lacks 1" in cli("status")[1]


def test_an_idle_agent_does_not_alarm(cli, vault, refused, monkeypatch, noon):
    info = save(vault, {"a.md": "x"}, at=NOON - timedelta(days=9))
    run = watch.LastRun(NOON, True, "unchanged", info.snapshot_id, None, 1)
    monkeypatch.setattr(watch, "read_last_run", lambda url, label: {"default": run}.get(label))
    assert cli("status", "--max-age", "1d", "-q") == (0, "", "")
    assert "last good backup 9d ago (2026-10-23 12:00 UTC), unchanged 3h ago, " in cli("status")[1]
    failed = watch.LastRun(NOON, False, "failed", None, None, 1)
    monkeypatch.setattr(watch, "read_last_run", lambda url, label: {"default": failed}.get(label))
    assert "old, and at most 1d" in refused(1, "status", "--max-age", "1d", "-q")


def test_the_first_line_is_the_answer(cli, vault, noon):
    save(vault, {"a.md": "x" * 3000}, at=NOON)
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("protected: last good backup 3h ago (2026-11-01 12:00 UTC), unsigned, ")
    assert lines[0].endswith("B free")
    assert lines[2] == f"vault  {vault.path}"
    assert lines[3].startswith("used   ")
    assert lines[4] == "files  3"
    assert lines[6].split() == ["label", "snapshots", "newest", "oldest", "size", "stored", "problems"]
    assert lines[7].split()[:5] == ["default", "1", "2026-11-01", "12:00", "UTC"]
    assert lines[7].endswith("  none found")
    assert len(lines) == 8


def test_the_key_is_named(cli, vault):
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    save(vault, {"a.md": "x"}, signer=Ed25519Signer(bytes(range(32))), label="other")
    first = cli("status")[1].splitlines()[0]
    assert first.startswith("protected: last good backup of label other just now") or "s ago" in first
    assert ", signed by z6MkehRgf7, " in first


def test_what_is_wrong_stands_with_the_command_that_mends_it(cli, vault, noon):
    save(vault, {"a.md": "x"}, at=NOON)
    lost = save(vault, {"a.md": "x"}, label="other")
    (vault.path / f"cmem.other.{lost.snapshot_id}.manifest.json").write_text("{")
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    assert out.startswith("at risk: last good backup 3h ago")
    *_, row, blank, problem, mend = out.splitlines()
    assert (row.split()[:4], blank) == (["other", "0", "-", "-"], "")
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


def test_an_empty_vault_protects_nothing(cli, vault, server, monkeypatch):
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    assert out.startswith("not protected: nothing is saved yet, ")
    assert out.splitlines()[-1] == "no snapshots"
    monkeypatch.delenv("COLONY_MEMORY_VAULT")
    out = cli("status")[1].splitlines()
    assert out[0] == "not protected: nothing is saved yet"
    assert out[2:5] == ["vault  colony:", "used   0 B; the vault gives room with the first backup", "files  0"]


def test_the_table_counts_what_is_wrong():
    found = label_map(broken={MANIFEST: "x"}, dangling=True, orphans=("a", "b"))
    assert tables.problems(found) == ["1 broken", "no usable pointer", "2 leftover files"]


def test_only_damage_is_no_protection(cli, vault):
    info = save(vault, {"a.md": "x"})
    (vault.path / f"cmem.default.{info.snapshot_id}.p0.json").unlink()
    assert cli("status")[1].startswith("not protected: no good backup, ")


def test_a_monitor_needs_the_code_only(cli, refused, vault, noon):
    assert refused(3, "status", "--max-age", "26h", "--quiet") == "error: there is no good backup"
    save(vault, {"a.md": "x"}, at=NOON)
    save(vault, {"a.md": "x"}, at=NOON - timedelta(days=2), label="old")
    assert cli("status", "--max-age", "26h", "-q") == (0, "", "")
    line = refused(1, "status", "--max-age", "90m", "-q")
    assert line == "error: the last good backup is 3h old, and at most 1h30m is allowed"
    assert "2d3h" in refused(1, "status", "--label", "old", "--max-age", "1d", "-q")
    assert refused(3, "status", "--label", "none", "--max-age", "1d", "-q")
    code, out, err = cli("status", "--max-age", "90m")
    assert (code, len(err.splitlines())) == (1, 1)
    assert out.startswith("not protected: last good backup 3h ago ")
    assert "is no length of time" in refused(2, "status", "--max-age", "soon")


def test_a_monitor_over_http(server, folder):
    assert "no good backup" in fails(process("status", "--max-age", "1h", "-q"), 3)
    assert process("backup", folder).returncode == 0
    assert process("status", "--max-age", "1h", "-q").returncode == 0
    server.fault("*", "status", status=500, times=None)
    fails(process("status", "--max-age", "1h", "-q"), 5)


def test_for_programs(cli, vault, noon):
    info = save(vault, {"a.md": "x"}, at=NOON)
    damage(vault, save(vault, {"a.md": "x"}, label="other"))
    code, out, err = cli("status", "--label", "Default", "--json", "--max-age", "1d")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert set(answer) == {
        *("vault", "state", "newest", "age_seconds", "max_age_seconds", "stale", "problems", "watch"),
        *("labels", "files", "foreign_files", "complete", "quota_bytes", "used_bytes", "available_bytes"),
        "operations_left",
    }
    assert [each["label"] for each in answer["labels"]] == ["default"]
    assert (answer["vault"], answer["files"], answer["state"]) == (str(vault.path), 6, "protected")
    assert (answer["age_seconds"], answer["max_age_seconds"], answer["stale"]) == (10_800, 86_400, False)
    assert answer["newest"]["snapshot_id"] == info.snapshot_id
    assert (answer["problems"], answer["watch"]) == ([], {})
    code, out, _ = cli("status", "--label", "none", "--json", "--max-age", "1d")
    answer = json.loads(out)
    assert (code, answer["newest"], answer["age_seconds"], answer["stale"]) == (3, None, None, True)
    (vault.path / "cmem.default.latest.json").unlink()
    (problem,) = json.loads(cli("status", "--json", "--label", "default")[1])["problems"]
    assert set(problem) == {"label", "snapshot_id", "what", "mend", "fallback"}


def test_the_last_run_of_watch_is_told(cli, vault, monkeypatch, noon):
    ok = watch.LastRun(NOON, True, "saved", ID, NOON + timedelta(hours=4), 1)
    ended = watch.LastRun(NOON, False, "no\nroom", None, None, 1)
    monkeypatch.setattr(watch, "read_last_run", lambda url, label: {"default": ok, "other": ended}.get(label))
    save(vault, {"a.md": "x"}, at=NOON)
    save(vault, {"a.md": "x"}, at=NOON, label="other")
    lines = cli("status")[1].splitlines()
    assert lines[5:7] == [
        "watch  ok 3h ago: saved, next in 1h",
        r"watch  label other: FAILED 3h ago: no\nroom, ended",
    ]
    watched = json.loads(cli("status", "--json")[1])["watch"]
    assert watched["default"] == {
        "when": "2026-11-01T12:00:00.300000+00:00",
        "ok": True,
        "message": "saved",
        "snapshot_id": ID,
        "next_run": "2026-11-01T16:00:00.300000+00:00",
    }
    assert watched["other"]["next_run"] is None
