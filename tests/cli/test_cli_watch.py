"""The verb ``watch``: in this process on a clock of its own, and as the process that a supervisor runs."""

import dataclasses
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from cli_runs import POSIX, main
from turning_clock import TurningClock

from colony_memory import ColonyMemory
from colony_memory.schedule import loop, watch
from colony_memory.schedule.watch import LastRun, Watch, read_runs
from colony_memory.shell.cli import output
from colony_memory.shell.cli.program import verb_of
from colony_memory.shell.cli.verbs import backup

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
ID = r"\d{8}T\d{12}Z-[0-9a-f]{6}"


class BetweenRuns(TurningClock):
    """Something happens each time that everybody sleeps after a run; after the last, a SIGTERM comes."""

    def __init__(self, happenings):
        super().__init__(sleepers=2, until=math.inf)
        self.happenings = happenings
        self.told = False

    def _next(self):
        return -1.0 if self.told else super()._next()  # time waits for what is to happen

    def happens(self):
        if not self.told:
            return False
        self.told = False
        happening = self.happenings.pop(0) if self.happenings else lambda: signal.raise_signal(signal.SIGTERM)
        happening()
        return True


@pytest.fixture
def waits(monkeypatch):
    happenings, tell = [], watch.Watch._publish

    def tell_of_it(self, *args, **options):
        self._clock.told = True
        tell(self, *args, **options)

    monkeypatch.setattr(watch.Watch, "_publish", tell_of_it)
    monkeypatch.setattr(loop, "Clock", lambda: BetweenRuns(happenings))
    return happenings


# The lines.


def test_a_line_a_run(cli, waits, vault, folder):
    waits += [lambda: None, lambda: (folder / "MEMORY.md").write_text("three years")]
    code, out, err = cli("watch", folder, "--every", "90m")
    assert code == 0
    assert err == f"saving to the vault {vault.path} every 1h30m; SIGTERM or Ctrl-C to stop\n"
    saved, unchanged, again, last = out.splitlines()
    assert re.fullmatch(rf"{TIME} saved {ID}; next in 1h30m", saved)
    assert re.fullmatch(rf"{TIME} unchanged since {ID}; next in 1h30m", unchanged)
    assert re.fullmatch(rf"{TIME} saved {ID}; next in 1h30m", again)
    assert re.fullmatch(rf"{TIME} unchanged since {ID} \(last backup, on SIGTERM\)", last)
    assert len(ColonyMemory(backend=vault).list_snapshots()) == 2


def test_for_programs_a_document_a_run(cli, waits, vault, folder):
    waits += [lambda: folder.rename(folder.with_name("away"))]
    code, out, err = cli("watch", folder, "--json")
    assert (code, err) == (2, "")
    first, failed, last = map(json.loads, out.splitlines())
    assert list(first) == [each.name for each in dataclasses.fields(LastRun)]
    assert (first["ok"], first["pid"], first["next_run"] > first["when"]) == (True, os.getpid(), True)
    assert (failed["ok"], failed["snapshot_id"]) == (False, None)
    assert last["message"].endswith("no such file or directory (last backup, on SIGTERM)")
    assert last["next_run"] is None


@POSIX
def test_a_link_that_has_taken_the_place_of_the_folder_is_not_followed(cli, waits, vault, folder):
    """Nobody looks on, with --once neither: a timer may run it."""
    assert cli("watch", "--once", folder)[0] == 0
    there = folder.rename(folder.parent / "elsewhere")
    folder.symlink_to(there)
    for again in ((), ("--once",)):
        code, _, err = cli("watch", *again, folder)
        assert (code, "a link has taken its place" in err) == (1, True)
    assert cli("backup", folder)[0] == 0
    assert cli("watch", "--once", folder)[0] == 0


def test_the_options_are_those_of_backup(cli, waits, vault, folder):
    own, theirs = ({each.name for each in verb_of(verb).params} for verb in ("watch", "backup"))
    assert own - {"every", "final_timeout", "once"} == theirs - {"dry_run", "no_index", "verbose"}
    waits += [lambda n=n: (folder / "MEMORY.md").write_text("x" * n) for n in (5, 6, 7)]
    assert cli("watch", folder, "--label", "research", "--keep", "2")[0] == 0
    assert len(ColonyMemory(backend=vault).list_snapshots(label="research")) == 2
    assert read_runs(str(vault.path), "research").last.ok


# What ends it at once.


@pytest.mark.once
@POSIX
@pytest.mark.parametrize(("signals", "code"), [([signal.SIGTERM], 5), ([signal.SIGINT, signal.SIGINT], 130)])
def test_an_end_in_spite_of_a_backup_that_hangs(monkeypatch, vault, folder, capsys, signals, code):
    left, heard, let_go, on_signal = [], [], threading.Event(), Watch._on_signal

    def hear(self, *args):
        heard.append(args)
        on_signal(self, *args)

    def hang(*args, **options):
        for number, count in zip([] if heard else signals, (1, 2), strict=False):  # in the first of two runs
            os.kill(os.getpid(), number)
            while len(heard) < count:  # two that come at once are one
                time.sleep(0.01)
        let_go.wait(20)

    monkeypatch.setattr(Watch, "_on_signal", hear)
    monkeypatch.setattr(backup, "save", hang)
    monkeypatch.setattr(output, "leave", left.append)
    assert main(["watch", str(folder), "--final-timeout", "1s"]) == code
    assert left == [code]
    let_go.set()
    for thread in threading.enumerate():  # its run is still told
        if thread.name == "colony-memory-watch":
            thread.join(20)


@POSIX
def test_a_second_interrupt_where_nothing_hangs(monkeypatch, refused, vault, folder):
    def interrupted(watch):
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "run", interrupted)
    assert refused(130, "watch", folder) == "error: interrupted"


# As a process.


class Process:
    """``colony-memory watch`` in a process of its own."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "colony_memory", "watch", *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def line(self, pattern):
        """Read on until such a line."""
        return next(line for line in self.process.stdout if re.search(pattern, line))

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(20)


@pytest.mark.once
@POSIX
def test_killed_and_started_again_with_nobody_to_read_its_lines(vault, folder):
    memory = ColonyMemory(backend=vault)
    with Process(folder, "--every", "1h") as watch:
        watch.line(" saved ")
        assert watch.end(signal.SIGKILL) == -signal.SIGKILL
    assert read_runs(str(vault.path), "default").last.next_run is not None
    with Process(folder, "--every", "1s") as watch:
        watch.line(" unchanged ")
        watch.process.stdout.close()
        for text in ("one", "two"):
            (folder / "MEMORY.md").write_text(text)
            deadline = time.monotonic() + 20
            while memory.restore()["MEMORY.md"] != text:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        (folder / "MEMORY.md").write_text("last words")
        assert watch.end(signal.SIGTERM) == 0
    assert memory.restore()["MEMORY.md"] == "last words"
    last = read_runs(str(vault.path), "default").last
    assert (last.ok, last.next_run, last.pid) == (True, None, watch.process.pid)
