"""The file that tells how the latest run of a watch ended."""

import dataclasses
import json
import os
import stat
from datetime import datetime, timedelta, timezone

import pytest

from colony_memory._os import files
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning
from colony_memory.schedule import last_run as module
from colony_memory.schedule.watch import LastRun, RunLog, last_run_path, read_runs

NOON = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
RUN = LastRun(
    when=NOON, ok=True, message="saved caf\u00e9", snapshot_id="a", next_run=NOON + timedelta(minutes=15), pid=7
)


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return tmp_path / "state"


def test_what_was_written_is_read_and_only_by_its_owner():
    path = last_run_path("vault", "Default ")
    assert read_runs("vault", "default") is None
    module.write_last_run(path, RUN)
    assert read_runs("vault", "default").last == RUN
    failed = dataclasses.replace(RUN, ok=False, message="x" * 5000, snapshot_id=None, next_run=None)
    module.write_last_run(path, failed)
    assert read_runs("vault", "default").last == dataclasses.replace(failed, message="x" * 2000)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="label"):
        last_run_path("vault", "a/b")
    with pytest.raises(ValueError, match="empty vault URL"):
        read_runs("", "default")


def test_a_user_without_a_home_is_told(monkeypatch):
    import pwd

    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(ColonyMemoryError, match="no home directory: set XDG_STATE_HOME"):
        last_run_path("vault", "default")
    assert read_runs("vault", "default") is None


GOOD = {"when": NOON.isoformat(), "ok": True, "message": "m", "snapshot_id": None, "next_run": None, "pid": 1}


def log_of(**changes):
    return json.dumps({"version": 3, "failed_since": 0, "last_success": GOOD, "last_failure": None, **changes})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "Expecting value"),
        ("[" * 60_000, "recursion|Expecting value"),  # how deep JSON may be nested differs
        ("[]", "malformed"),
        (log_of(version=1), "of another version"),
        (log_of(last_success=None), "malformed"),
        (log_of(last_success=[]), "malformed"),
        (log_of(failed_since=1), "malformed"),
        (log_of(failed_since=-1), "malformed"),
        (log_of(failed_since=True), "malformed"),
        (log_of(last_success={"ok": True}), "malformed"),
        (log_of(last_success={**GOOD, "when": "yesterday"}), "Invalid isoformat"),
        (log_of(last_success={**GOOD, "when": None}), "malformed"),
        (log_of(last_failure={**GOOD, "next_run": "2026-11-01T12:00:00"}), "without its zone"),
        (b"\xff", "utf-8"),
        (" " * 2**20 + "{}", "larger than"),
        (None, "a directory, not a plain file"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_counts_for_none(content, why):
    path = last_run_path("vault", "default")
    path.parent.mkdir(parents=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(ColonyMemoryWarning, match=why) as caught:
        assert read_runs("vault", "default") is None
    assert str(path) in str(caught[0].message)
    if content is not None:  # it does not stand in the way of the next one
        with pytest.warns(ColonyMemoryWarning, match=why):
            module.write_last_run(path, RUN)
        assert read_runs("vault", "default") == RunLog(RUN, None, 0)


def test_a_success_is_remembered_however_many_runs_fail_after_it():
    path = last_run_path("vault", "default")
    failed = dataclasses.replace(RUN, ok=False, message="\U0001f600" * 3000, snapshot_id=None)
    assert read_runs("vault", "default") is None
    for run, success, failures in (
        (failed, None, 1),
        (RUN, RUN, 0),
        *((dataclasses.replace(failed, pid=number), RUN, number) for number in range(1, 20)),
        (dataclasses.replace(RUN, pid=8), dataclasses.replace(RUN, pid=8), 0),
    ):
        module.write_last_run(path, run)
        log = read_runs("vault", "default")
        assert (log.last_success, log.failed_since, log.last.ok) == (success, failures, run.ok)
    assert log.last_failure.pid == 19


def test_where_no_lock_can_be_had_everybody_is_the_only_one(monkeypatch):
    def refuse(*args, **options):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(files, "locked", refuse)
    with pytest.warns(ColonyMemoryWarning, match="No locks available"), module.alone(last_run_path("vault", "default")):
        pass
