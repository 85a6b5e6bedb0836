"""status: whether the memory is protected."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import NOON, damage, fails, process, save

from colony_memory import SnapshotInfo
from colony_memory.cli import standing, tables, text
from colony_memory.protection import Problem, assess
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


def snapshot(**changes):
    fields = {
        "snapshot_id": "20261101T120000300000Z-abcdef",
        "label": "default",
        "created_at": "2026-11-01T12:00:00Z",
        "doc_names": ["a.md"],
        "part_count": 1,
        "byte_size": 10,
        "plaintext_sha256": "sha256:" + "0" * 64,
    }
    return SnapshotInfo(**{**fields, **changes})


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
    verdict = assess(found, now=NOON + timedelta(hours=3), max_age=max_age)
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


# --- as a verb


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
    assert set(problem) == {"label", "snapshot_id", "what", "mend"}


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
