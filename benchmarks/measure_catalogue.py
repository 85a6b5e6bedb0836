"""What a snapshot more costs where there are many: bytes in the pointer, and CPU of a small backup.

It runs as a program in the environment of this tree, since 0.1.1 has no catalogue.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import tempfile
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from evolving import history
from figures import Figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from peers import Peers

FEW, MANY = 10, 1000
_BYTES, _RATIO = 150, 2.0
_POINTER = "cmem.default.latest.json"
_STEP = timedelta(minutes=10)
_SMALL = 20_000


def catalogue(peers: Peers, rounds: int) -> list[Figure]:
    """What this program finds there."""
    found = json.loads(peers.run_ours(__file__, str(rounds)))
    return [Figure(**{name: value for name, value in each.items() if name != "holds"}) for each in found]


def _measure(rounds: int) -> list[Figure]:
    """Figures of both formats, over a vault in memory and over a directory, by clients that go on and by new ones.

    What a vault in memory takes itself is not counted: it stands for one that is elsewhere.
    """
    out = []
    for wire in (1, 2):
        few, many = _Memory(wire, FEW), _Memory(wire, MANY)
        grown = (many.pointer_bytes - few.pointer_bytes) / (MANY - FEW)
        name = f"format {wire}: bytes of the pointer a snapshot"
        out.append(Figure("catalogue", name, None, grown, " B", limit=_BYTES, limited="ours"))
        for place in ("in memory", "in a directory"):
            for client in ("goes on", "is new"):
                name = f"format {wire}, {place}: CPU at {MANY:,} snapshots to {FEW}, the client {client}"
                with tempfile.TemporaryDirectory() as folder:
                    sides = [side.opened(place, Path(folder, str(side.size))) for side in (few, many)]
                    before, now, ratio = _pairs(sides, rounds, new=client == "is new")
                note = f"{before:.2f} ms at {FEW}"
                out.append(Figure("catalogue", name, None, now, " ms", ratio, _RATIO, note=note))
    return out


def _pairs(sides: list[_Memory], rounds: int, *, new: bool) -> tuple[float, float, float]:
    """CPU of a small backup in milliseconds on both sides, taken in turn, and the median of the ratios."""
    for side in sides:
        side.backup(new=False)  # what is loaded late
    gc.collect()
    gc.freeze()  # the vault's own objects are no work of the client's
    pairs = []
    for n in range(rounds):
        spent = {n % 2: sides[n % 2].backup(new=new)}
        spent[1 - n % 2] = sides[1 - n % 2].backup(new=new)
        pairs.append((spent[0], spent[1]))
    before, now = (median(times) * 1000 for times in zip(*pairs, strict=True))
    return before, now, median(late / early for early, late in pairs)


def _elsewhere(kind: type[Any]) -> type[Any]:
    """The vault with the CPU in ``spent`` that its own calls took."""

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            start = time.process_time()
            try:
                return method(self, *args, **kwargs)
            finally:
                self.spent += time.process_time() - start

        return call

    verbs = {name: timed(method) for name, method in vars(kind).items() if name.startswith("vault_")}
    return type("Elsewhere", (kind,), {**verbs, "spent": 0.0})


class _Memory:
    """A vault in memory that so many snapshots of a small memory were saved into, one every ten minutes."""

    def __init__(self, wire: int, size: int) -> None:
        from colony_memory.vaults.memory import MemoryVault

        self.wire, self.size = wire, size
        self.chance = random.Random(1)
        self.documents, left = dict[str, str](), _SMALL
        for name, text in next(iter(history())).items():
            self.documents[name], left = text[:left], left - len(text[:left])
            if left <= 0:
                break
        self.now = datetime(2026, 11, 27, 8, 15, tzinfo=timezone.utc)
        self.vault: Any = MemoryVault(clock=self._seconds)
        self.client = self._client()
        for _ in range(size):
            self.backup(new=False)

    @property
    def pointer_bytes(self) -> int:
        return len(self.vault.files[_POINTER])

    def opened(self, place: str, folder: Path) -> _Memory:
        """The same files in a vault of their own."""
        import copy
        import os

        from colony_memory.vaults.local import LocalVault
        from colony_memory.vaults.memory import MemoryVault

        other = copy.copy(self)
        other.documents = dict(self.documents)
        if place == "in memory":
            other.vault = _elsewhere(MemoryVault)(clock=other._seconds)
            other.vault.files |= self.vault.files
            other.vault._known |= self.vault._known
        else:
            other.vault = LocalVault(folder, create=True)
            for name, text in self.vault.files.items():
                (folder / name).write_text(text, encoding="utf-8")
                os.utime(folder / name, (self.vault._known[name].updated_at,) * 2)
        other.client = other._client()
        return other

    def backup(self, *, new: bool) -> float:
        """Save a line more; seconds of CPU."""
        self.now += _STEP + timedelta(microseconds=self.chance.randrange(10**6))
        name = next(iter(self.documents))
        self.documents[name] = f"{self.documents[name][-5000:]}\nsaid at {self.now}"
        client = self._client() if new else self.client
        start, before = time.process_time(), getattr(self.vault, "spent", 0.0)
        client.backup(self.documents)
        return time.process_time() - start - (getattr(self.vault, "spent", 0.0) - before)

    def _seconds(self) -> float:
        return self.now.timestamp()

    def _client(self) -> Any:
        from colony_memory import ColonyMemory

        client = ColonyMemory(backend=self.vault, format=self.wire)
        client._session.now = lambda: self.now
        return client


if __name__ == "__main__":
    print(json.dumps([each.as_json() for each in _measure(int(sys.argv[1]))]))
