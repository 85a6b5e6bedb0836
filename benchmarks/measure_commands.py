"""Fresh commands on folders and a database, beside restic, Borg and tar: what they cost in CPU, and at their start.

Each command is a process of its own, as cron and people start it. restic compares by size and times, as we do, and
always encrypts; Borg is told not to. What is not installed is left out, and said.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from environments import CACHE, clean_environ
from evolving import sentences
from figures import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from peers import Peers

# Name, files, bytes of each; a folder without files is a database of so many bytes.
_SHAPES = (
    ("2 MB", 100, 20_000),
    ("20 MB", 400, 50_000),
    ("100 MB", 1000, 100_000),
    ("5,000 files", 5000, 2_000),
    ("SQLite of 185 MB", 0, 185_000_000),
)
# To restic's, of those that the figure is given for, and to that of tar.
_UNCHANGED, _A_LINE, _FIRST = 1.0, 3.0, 2.0
_LIMITED = ("20 MB", "100 MB", "SQLite of 185 MB")
# CPU of a start to that of Python itself: 60, 100, 120 and 120 ms where that takes 16.
_STARTS = {"--version": 60 / 16, "list": 100 / 16, "backup": 120 / 16, "hook": 120 / 16}
_ROUNDS = 3
# A file is compared by its content while it is younger than the time step of a file system.
_SETTLED = 1.2
_RUNS = 5


class _Tool(NamedTuple):
    """A program that saves a folder: how its store is made, and how the folder is saved."""

    init: list[str]
    save: list[str]


def folders(peers: Peers, rounds: int) -> list[Figure]:
    """CPU of a first backup, of an unchanged one, and of one with a line more."""
    out = []
    for name, files, size in _SHAPES:
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            folder = Path(scratch, "memory")
            try:
                _make(folder, files, size)
            except ImportError as error:
                out.append(_left_out("folders", name, f"this Python lacks {error.name}"))
                continue
            out += _compare(peers, name, folder, Path(scratch), min(rounds, _ROUNDS))
    return out


def startup(peers: Peers, rounds: int) -> list[Figure]:
    """CPU of commands on next to nothing, to that of an interpreter that ends at once."""
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        folder = Path(scratch, "memory")
        _make(folder, 2, 500)
        ours = [str(peers.sides.ours), "-I", "-m", "colony_memory"]
        where = ["--vault", str(Path(scratch, "vault")), "--quiet"]
        environ = _environ(Path(scratch))
        event = json.dumps({"hook_event_name": "SessionEnd", "session_id": "s", "cwd": scratch})
        commands = {
            "Python": [str(peers.sides.ours), "-I", "-c", "pass"],
            "--version": [*ours, "--version"],
            "list": [*ours, "list", *where],
            "backup": [*ours, "backup", str(folder), *where],
            "hook": [*ours, "hook", str(folder), *where],
        }
        _cpu([*ours, "init", *where[1:]], environ)
        _cpu(commands["backup"], environ)
        time.sleep(_SETTLED)
        spent: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(max(rounds, 7)):
            for name, command in commands.items():
                spent[name].append(1000 * _cpu(command, environ, stdin=event))
    own = median(spent.pop("Python"))
    return [
        Figure("startup", f"{name}: CPU, to Python's own", own, median(each), " ms", median(each) / own, _STARTS[name])
        for name, each in spent.items()
    ]


def watch(peers: Peers, rounds: int) -> list[Figure]:  # noqa: ARG001 - one that goes on is measured once
    """CPU of a run of ``watch`` that finds nothing new, and what the process holds."""
    if not Path("/proc/self/stat").exists():
        return [_left_out("watch", "an unchanged folder", "this system has no /proc")]
    out = []
    for name, files, size in _SHAPES[:2]:
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            folder, environ = Path(scratch, "memory"), _environ(Path(scratch))
            _make(folder, files, size)
            vault = str(Path(scratch, "vault"))
            ours = [str(peers.sides.ours), "-I", "-m", "colony_memory"]
            _cpu([*ours, "init", vault], environ)
            command = [*ours, "watch", str(folder), "--vault", vault, "--every", "2s", "--json"]
            spent, resident = _watched(command, environ)
            fresh = _cpu([*ours, "backup", str(folder), "--vault", vault, "--quiet"], environ)
        what = f"{name}, unchanged: CPU of a run of watch, to a fresh command's"
        note = f"{_RUNS} runs; the process holds {resident / 1e6:.0f} MB"
        out.append(Figure("watch", what, 1000 * fresh, 1000 * spent, " ms", spent / fresh, note=note))
    return out


def _watched(command: list[str], environ: dict[str, str]) -> tuple[float, int]:
    """CPU seconds of a run after the first three, on average, and the bytes that the process holds in the end."""
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = process.stdout or ()
        for n, _ in enumerate(lines):
            if n == 2:
                before = _ticks(process.pid)
            if n == 2 + _RUNS:
                break
        else:
            raise RuntimeError(f"watch ended: {process.stderr and process.stderr.read().decode()}")
        spent = (_ticks(process.pid) - before) / os.sysconf("SC_CLK_TCK") / _RUNS
        pages = int(Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1])
        process.send_signal(signal.SIGTERM)
        process.communicate()
    return spent, pages * resource.getpagesize()


def _ticks(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(stat[11]) + int(stat[12])


def _compare(peers: Peers, name: str, folder: Path, scratch: Path, rounds: int) -> Iterator[Figure]:
    environ, tools = _environ(scratch), _tools(peers, folder, scratch)
    for tool in tools.values():
        _cpu(tool.init, environ)
    steps: dict[str, tuple[int, Callable[[int], None]]] = {
        "first backup": (1, lambda _: None),
        "unchanged": (rounds, lambda _: None),
        "a line more": (rounds, lambda number: _add_a_line(folder, number)),
    }
    for step, (times, change) in steps.items():
        spent: dict[str, list[float]] = {}
        for number in range(times):
            change(number)
            time.sleep(_SETTLED)
            for each in sorted(tools, reverse=bool(number % 2)):
                spent.setdefault(each, []).append(_cpu(tools[each].save, environ))
            if step == "first backup" and shutil.which("tar"):
                spent["tar cz"] = [_cpu(["tar", "czf", str(scratch / "all.tar.gz"), str(folder)], environ)]
        yield _figure(name, step, {each: median(seconds) for each, seconds in spent.items()})


def _figure(name: str, step: str, spent: dict[str, float]) -> Figure:
    ours = spent.pop("ours")
    peer, limit = ("tar cz", _FIRST) if step == "first backup" else ("restic", _A_LINE)
    if step == "unchanged":
        limit = _UNCHANGED
    there = spent.pop(peer, None)
    what = f"{name}, {step}: CPU, to {peer}"
    note = "; ".join(f"{each} {seconds:.2f} s" for each, seconds in spent.items())
    if there is None:
        return Figure("folders", what, None, ours, " s", note=f"{peer} is not installed, so it is not compared; {note}")
    # Of the small ones a start is most of it.
    bound = limit if name in _LIMITED else None
    return Figure("folders", what, there, ours, " s", ours / there, bound, note=note)


def _left_out(group: str, name: str, why: str) -> Figure:
    return Figure(group, f"{name}: not measured", None, 0, note=why)


def _tools(peers: Peers, folder: Path, scratch: Path) -> dict[str, _Tool]:
    """Those that are installed, and ours."""
    ours, vault = [str(peers.sides.ours), "-I", "-m", "colony_memory"], str(scratch / "vault")
    restic, borg = ["restic", "--quiet", "--repo", str(scratch / "restic")], str(scratch / "borg")
    tools = {
        "ours": _Tool([*ours, "init", vault], [*ours, "backup", str(folder), "--vault", vault, "--quiet"]),
        "restic": _Tool([*restic, "init"], [*restic, "backup", str(folder)]),
        "borg": _Tool(
            ["borg", "init", "--encryption", "none", borg], ["borg", "create", f"{borg}::{{now:%s%f}}", str(folder)]
        ),
    }
    return {name: tool for name, tool in tools.items() if name == "ours" or shutil.which(name)}


def _environ(scratch: Path) -> dict[str, str]:
    """Homes of their own: no tool finds a cache, or leaves one."""
    homes = {f"XDG_{kind}_HOME": str(scratch / kind.lower()) for kind in ("DATA", "STATE", "CONFIG", "CACHE")}
    return {
        **clean_environ(),
        **homes,
        "HOME": str(scratch),
        "BORG_BASE_DIR": str(scratch),
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
        "RESTIC_PASSWORD": "benchmark",
    }


def _cpu(command: list[str], environ: dict[str, str], stdin: str = "") -> float:
    """CPU seconds of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environ, input=stdin, capture_output=True, encoding="utf-8", check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        msg = f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        raise RuntimeError(msg)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _make(folder: Path, files: int, size: int) -> None:
    """Fill a folder with prose, each sentence with a number: it compresses as prose does, and no two are alike."""
    folder.mkdir()
    chance, pool = random.Random(7), sentences()
    if not files:
        import sqlite3

        with closing(sqlite3.connect(folder / "memory.sqlite")) as database, database:
            database.execute("create table said (id integer primary key, text text)")
            left = size
            while left > 0:
                text = f"{chance.randrange(10**9)} {chance.choice(pool)}"
                database.execute("insert into said (text) values (?)", (text,))
                left -= len(text) + 8
        return
    for number in range(files):
        path = folder / f"{number // 100:02}" / f"{number:04}.md"
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8") as out:
            left = size
            while left > 0:
                left -= out.write(f"{chance.randrange(10**9)} {chance.choice(pool)}\n"[:left])


def _add_a_line(folder: Path, number: int) -> None:
    if (folder / "memory.sqlite").exists():
        import sqlite3

        with closing(sqlite3.connect(folder / "memory.sqlite")) as database, database:
            database.execute("insert into said (text) values (?)", (f"one more line, the {number}th",))
        return
    path = sorted(folder.rglob("*.md"))[number]
    with path.open("a", encoding="utf-8") as out:
        out.write(f"one more line, the {number}th\n")
