"""Runs inside one of the two environments: answers one line of JSON with one line of JSON.

A request is ``{"do": NAME, …}``; NAME is a function below or in :mod:`worker_calls`. The arguments
of the script are modules that it must find missing.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import platform
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import corpus
import vaults
import worker_calls
import worker_states

import colony_memory
from colony_memory import ColonyMemory

# What takes a tenth of a second is measured more than once: another process on the same core makes it look longer.
_TIMES = 3
_SMALL = {"MEMORY.md": "one line\n", "notes/today.md": "another line\n"}


def hello() -> dict[str, Any]:
    """What this side is."""
    beside = {name: importlib.metadata.version(name) for name in ("colony-sdk", "cryptography")}
    return {"version": colony_memory.__version__, "python": platform.python_version(), "beside": beside}


def backup(*, corpus_file: str, which: str = "first", fast_level: int | None = None) -> dict[str, Any]:
    """CPU seconds and stored bytes of a backup.

    Args:
        corpus_file: The documents.
        which: ``"first"`` into an empty vault, or the next one: ``"changed"`` by a line, ``"unchanged"``.
        fast_level: Level of libdeflate in place of the one that the package has, where that is there.
    """
    if fast_level is not None:
        from colony_memory._format import payload

        payload._FAST_LEVEL = fast_level
    documents, vault = dict(_documents(corpus_file)), vaults.MeteredVault()
    _warm_up()
    if which != "first":
        ColonyMemory(backend=vault).backup(documents)
    if which == "changed":
        documents[next(iter(documents))] += "one more line\n"
    before = sum(map(len, vault.files.values()))
    client = ColonyMemory(backend=vault)
    cpu, info = _cpu(lambda: client.backup(documents))
    stored = sum(map(len, vault.files.values())) - before
    return {"cpu": cpu, "stored": stored, "plain": info.byte_size, "parts": info.part_count}


def restore(*, corpus_file: str, files: str | None = None) -> dict[str, Any]:
    """CPU seconds of a restore, the fastest of three, of its own snapshot or of the vault in a file."""
    documents = dict(_documents(corpus_file))
    vault = vaults.MeteredVault(json.loads(Path(files).read_text(encoding="utf-8")) if files else None)
    _warm_up()
    if files is None:
        ColonyMemory(backend=vault).backup(documents)
    spent = []
    for _ in range(_TIMES):
        cpu, restored = _cpu(ColonyMemory(backend=vault).restore)
        _same(restored, documents)
        spent.append(cpu)
    return {"cpu": min(spent)}


def restore_wall(*, corpus_file: str, delay: float) -> dict[str, Any]:
    """Wall seconds of a restore, the fastest of three, from a vault that takes ``delay`` seconds a call."""
    documents, vault = dict(_documents(corpus_file)), vaults.MeteredVault()
    info = ColonyMemory(backend=vault).backup(documents)
    vault.delay, vault.most_at_once, spent = delay, 0, []
    for _ in range(_TIMES):
        vault.calls.clear()
        wall, restored = _wall(ColonyMemory(backend=vault).restore)
        _same(restored, documents)
        spent.append(wall)
    return {"wall": min(spent), "parts": info.part_count, "calls": len(vault.calls), "at_once": vault.most_at_once}


def list_wall(*, files: str, delay: float, label: str) -> dict[str, Any]:
    """Wall seconds of listing a label."""
    vault = vaults.MeteredVault(json.loads(Path(files).read_text(encoding="utf-8")), delay=delay)
    client = ColonyMemory(backend=vault)
    wall, infos = _wall(lambda: client.list_snapshots(label=label))
    return {"wall": wall, "found": len(infos), "calls": len(vault.calls), "at_once": vault.most_at_once}


def save(*, corpus_file: str, to: str) -> dict[str, Any]:
    """Back a corpus up into a vault and write its files to a file."""
    vault = vaults.MeteredVault()
    ColonyMemory(backend=vault).backup(dict(_documents(corpus_file)))
    Path(to).write_text(json.dumps(vault.files), encoding="utf-8")
    return {}


def fill(*, to: str, labels: list[str], each: int) -> dict[str, Any]:
    """Make ``each`` snapshots in each label of a vault and write its files to a file."""
    vault = vaults.MeteredVault()
    worker_calls.fill(vault, labels, each)
    Path(to).write_text(json.dumps(vault.files), encoding="utf-8")
    return {"snapshots": sum(name.endswith(".manifest.json") for name in vault.files)}


def memory(*, verb: str, how: str, folder: str, corpus_file: str) -> dict[str, Any]:
    """Bytes that a verb takes at its peak beyond what is there before; in a process that does nothing else."""
    _warm_up()
    client = ColonyMemory(backend=vaults.FolderVault(Path(folder)))
    documents = dict(_documents(corpus_file)) if verb == "backup" else {}
    gc.collect()
    if how == "traced":
        tracemalloc.start()
    before = _peak_bytes(how, reset=True)
    if verb == "backup":
        client.backup(documents)
        return {"peak": _peak_bytes(how) - before}
    restored = client.restore()
    peak = _peak_bytes(how) - before
    _same(restored, dict(_documents(corpus_file)))
    return {"peak": peak}


def _peak_bytes(how: str, *, reset: bool = False) -> int:
    """The highest that memory has been; after a reset, what it is now."""
    if how == "traced":
        if reset:
            tracemalloc.reset_peak()
        return tracemalloc.get_traced_memory()[1]
    marks = Path("/proc/self/clear_refs")
    if reset and os.access(marks, os.W_OK):
        marks.write_text("5", encoding="ascii")
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _documents(corpus_file: str) -> Any:
    return corpus.load(Path(corpus_file))


def _warm_up() -> None:
    """Load what is loaded late, so that it is not part of what is measured."""
    client = ColonyMemory(backend=vaults.MeteredVault())
    client.backup(_SMALL)
    client.restore()


def _cpu(work: Any) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _wall(work: Any) -> tuple[float, Any]:
    gc.collect()
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def _same(restored: dict[str, str], documents: dict[str, str]) -> None:
    if restored != documents:
        raise RuntimeError("what was restored is not what was saved")


_VERBS = {
    verb.__name__: verb
    for verb in (
        hello,
        backup,
        restore,
        restore_wall,
        list_wall,
        save,
        fill,
        memory,
        worker_calls.calls,
        worker_states.states,
    )
}


def main() -> None:
    warnings.simplefilter("error")
    sys.modules.update(dict.fromkeys(sys.argv[1:]))  # type: ignore[arg-type]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as replies:
        os.dup2(2, 1)  # whatever a library prints must not end up among the replies
        for line in sys.stdin:
            request = json.loads(line)
            replies.write(json.dumps(_VERBS[request.pop("do")](**request)) + "\n")
            replies.flush()


if __name__ == "__main__":
    main()
