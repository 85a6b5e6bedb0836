"""CPU time of the import in fresh interpreters, and what it loads."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

from environments import HERE, clean_environ
from figures import Figure
from peers import in_turn, medians

if TYPE_CHECKING:
    from pathlib import Path

    from peers import Peers

_HEAVY = ("colony_sdk", "cryptography", "httpx", "click", "pyrage", "obstore", "compression.zstd", "backports.zstd")
_SCRIPT = """
import sys, time
before = set(sys.modules)
start = time.process_time()
{statement}
took = time.process_time() - start
import json
new = set(sys.modules) - before
print(json.dumps({{"milliseconds": 1000 * took, "modules": len(new), "heavy": sorted(new & set({heavy!r}))}}))
"""
_FIRST_USE = """
from colony_memory import ColonyMemory
sys.path.append({here!r})
from vaults import MeteredVault
memory = ColonyMemory(backend=MeteredVault())
memory.backup({{"MEMORY.md": "one line"}})
memory.restore()
"""


def importing(peers: Peers, rounds: int) -> list[Figure]:
    """The import as such, and up to the first backup and restore, since what is loaded late must be paid for too."""
    number = max(15, 4 * rounds)
    out = []
    for statement in ("import colony_memory", "from colony_memory import ColonyMemory"):
        pairs = in_turn(number, peers.sides, partial(_run, statement))
        published, ours, ratio = medians(pairs, "milliseconds")
        note = f"{number} pairs"
        out.append(Figure("import", f"{statement}: CPU", published, ours, " ms", ratio, limit=1, note=note))
        if statement == "import colony_memory":
            theirs, mine = pairs[0]
            counts = theirs["modules"], mine["modules"]
            out.append(Figure("import", "modules that it loads", *counts, ratio=counts[1] / counts[0]))
            heavy = len(theirs["heavy"]), len(mine["heavy"])
            note = ", ".join(mine["heavy"]) or "no " + ", ".join(_HEAVY[:4])
            out.append(Figure("import", "heavy ones among them", *heavy, limit=0, limited="ours", note=note))
    use = _FIRST_USE.format(here=str(HERE))
    pairs = in_turn(number, peers.sides, partial(_run, use))
    published, ours, ratio = medians(pairs, "milliseconds")
    out.append(Figure("import", "import, first backup, restore: CPU", published, ours, " ms", ratio))
    return out


def _run(statement: str, python: Path) -> dict[str, Any]:
    code = _SCRIPT.format(statement=statement, heavy=_HEAVY)
    done = subprocess.run(
        [str(python), "-I", "-B", "-c", code],
        env=clean_environ(),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
