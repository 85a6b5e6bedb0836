"""The same states saved by restic, Borg and git, as far as they are installed: bytes, and CPU seconds of each verb."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Each compresses as hard as it can in the time that people would wait.
_RESTIC = ("restic", "--quiet", "--compression", "max", "--no-cache")
_ENVIRON = {
    "RESTIC_PASSWORD": "benchmark",
    "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "agent",
    "GIT_AUTHOR_EMAIL": "agent@localhost",
    "GIT_COMMITTER_NAME": "agent",
    "GIT_COMMITTER_EMAIL": "agent@localhost",
}


def installed() -> dict[str, str]:
    """Those that are there, with their versions."""
    asked = {"restic": ("restic", "version"), "borg": ("borg", "--version"), "git": ("git", "--version")}
    return {
        name: next(word for word in _output(*command).split() if word[:1].isdigit())
        for name, command in asked.items()
        if shutil.which(name)
    }


def save_all(tool: str, states: Iterable[dict[str, str]], every: int) -> dict[str, Any]:
    """Save each state with a tool, and restore the last one.

    Returns:
        ``curve``, the repository's bytes after each so many-th state; ``first``, after the first; ``all``, in the end
        and packed; ``cpu_warm``, seconds of each save after the first, on average, and ``cpu_restore``.
    """
    with tempfile.TemporaryDirectory() as scratch:
        work, repository, restored = (Path(scratch) / name for name in ("work", "repository", "restored"))
        work.mkdir()
        steps = _TOOLS[tool](work, repository, restored)
        _run(work, steps["init"])
        spent, curve, documents = [], [], dict[str, str]()
        for n, documents in enumerate(states):
            _write(work, documents)
            spent.append(_run(work, *(_filled(step, n) for step in steps["save"])))
            if n % every == 0:
                curve.append(_size(repository))
        _run(work, *steps["pack"])
        restored.mkdir()
        cpu = _run(restored, *(_filled(step, len(spent) - 1) for step in steps["restore"]))
        found = {path.name: path for path in restored.rglob("*") if path.is_file()}
        if any(found[Path(name).name].stat().st_size != len(text.encode()) for name, text in documents.items()):
            raise RuntimeError(f"{tool} did not restore what it saved")
        cpu = {"cpu_warm": mean(spent[1:]), "cpu_restore": cpu}
        return {"curve": curve, "first": curve[0], "all": _size(repository), **cpu}


def _restic(_work: Path, repository: Path, restored: Path) -> dict[str, list[list[str]] | Any]:
    restic = [*_RESTIC, "--repo", str(repository)]
    return {
        "init": [*restic, "init", "--repository-version", "2"],
        "save": [[*restic, "backup", "."]],
        "pack": [[*restic, "prune", "--max-unused", "0"]],
        "restore": [[*restic, "restore", "latest", "--target", str(restored)]],
    }


def _borg(_work: Path, repository: Path, _restored: Path) -> dict[str, list[list[str]] | Any]:
    return {
        "init": ["borg", "init", "--encryption", "none", str(repository)],
        "save": [["borg", "create", "--compression", "zstd,19", f"{repository}::state-{{n}}", "."]],
        "pack": [["borg", "compact", str(repository)]],
        "restore": [["borg", "extract", f"{repository}::state-{{n}}"]],
    }


def _git(work: Path, repository: Path, restored: Path) -> dict[str, list[list[str]] | Any]:
    git = ["git", f"--git-dir={repository}", f"--work-tree={work}"]
    return {
        "init": [*git, "init", "--quiet"],
        # Without the housekeeping that would run at some of the states only.
        "save": [
            [*git, "add", "--all"],
            [*git, "-c", "gc.auto=0", "commit", "--allow-empty", "--quiet", "--message", "a state"],
        ],
        "pack": [[*git, "gc", "--quiet", "--aggressive", "--prune=now"]],
        "restore": [["git", f"--git-dir={repository}", f"--work-tree={restored}", "checkout", "--quiet", "--", "."]],
    }


_TOOLS: dict[str, Callable[[Path, Path, Path], dict[str, Any]]] = {"restic": _restic, "borg": _borg, "git": _git}


def _filled(command: list[str], n: int) -> list[str]:
    return [word.replace("{n}", str(n)) for word in command]


def _write(folder: Path, documents: dict[str, str]) -> None:
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    for name in there.keys() - documents.keys():
        there[name].unlink()
    for name, text in documents.items():
        path, data = folder / name, text.encode("utf-8")
        if name not in there or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _run(folder: Path, *commands: list[str]) -> float:
    """CPU seconds of commands that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in commands:
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **_ENVIRON}, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode:
            msg = f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
            raise RuntimeError(msg)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
