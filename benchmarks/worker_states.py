"""A memory through all its states, inside one of the two environments: bytes, time, calls and memory of each verb."""

from __future__ import annotations

import gc
import time
import tracemalloc
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import vaults
from evolving import history

from colony_memory import ColonyMemory

if TYPE_CHECKING:
    from collections.abc import Callable

_DELAY = 0.05


def states(*, count: int, size: int, every: int, sample: int, format: int | None = None) -> dict[str, Any]:  # noqa: A002 - as the argument of the client
    """Save states of a memory and restore some.

    Args:
        count: How many states there are.
        size: Characters of the last one, about.
        every: Save each so many-th.
        sample: At each so many-th that is saved, a new client does it, and another one restores it.
        format: The format to write; None for what writes but one.
    """
    vault = vaults.MeteredVault(quota=10**12) if format is None else vaults.full_vault()
    given = {} if format is None else {"format": format}

    def new() -> ColonyMemory:
        return ColonyMemory(backend=vault, **given)

    client, out, saved = new(), _Samples(vault), 0
    for n, documents in enumerate(history(count, size)):
        if n % every:
            continue
        if saved and saved % sample == 0:
            client = new()
            out.run("cold", lambda client=client, documents=documents: client.backup(documents))
            restored = out.run("restore", lambda: new().restore())
            if restored != documents:
                raise RuntimeError("what was restored is not what was saved")
        else:
            out.run("warm" if saved else "first", lambda client=client, documents=documents: client.backup(documents))
        saved += 1
        out.stored.append(sum(map(len, vault.files.values())))
        last = documents
    text = sum(len(name.encode()) + len(text.encode()) for name, text in last.items())
    return {**out.figures(), "stored": out.stored, "text": text, **_waits_and_peaks(new, vault, last, text)}


def _waits_and_peaks(new: Callable[[], Any], vault: Any, last: dict[str, str], text: int) -> dict[str, float]:
    """Seconds at 50 ms a call, and the most that is allocated beyond the documents, to the text."""
    out, client = {}, new()
    client.restore()
    for how in ("wall", "peak"):
        for verb in ("warm", "cold", "restore"):
            last = {**last, "notes/one-more.md": f"{how} {verb}\n"}
            asked = client if verb == "warm" else new()
            gc.collect()
            if how == "wall":
                vault.delay, start = _DELAY, time.perf_counter()
            else:
                tracemalloc.start()
            # What is restored is the state before, which is as large.
            asked.restore() if verb == "restore" else asked.backup(last)
            if how == "wall":
                out[f"wall_{verb}"], vault.delay = time.perf_counter() - start, 0
            else:
                out[f"peak_{verb}"] = tracemalloc.get_traced_memory()[1] / text
                tracemalloc.stop()
            if verb == "restore":
                continue
            client = asked
    return out


class _Samples:
    def __init__(self, vault: Any) -> None:
        self.vault = vault
        self.stored: list[int] = []
        self._cpu: dict[str, list[float]] = {}
        self._calls: dict[str, list[dict[str, int]]] = {}

    def run(self, verb: str, work: Callable[[], Any]) -> Any:
        self.vault.calls.clear()
        gc.collect()
        start = time.process_time()
        result = work()
        self._cpu.setdefault(verb, []).append(time.process_time() - start)
        self._calls.setdefault(verb, []).append(vaults.count(self.vault.calls))
        return result

    def figures(self) -> dict[str, float]:
        out = {f"cpu_{verb}": mean(spent) for verb, spent in self._cpu.items()}
        for verb, counted in self._calls.items():
            for kind in ("reads", "writes"):
                out[f"{kind}_{verb}"] = median(calls[kind] for calls in counted)
        return out
