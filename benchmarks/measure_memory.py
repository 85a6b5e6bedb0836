"""Peak memory beyond the caller's documents, in multiples of the plain text.

Counted twice: what Python allocates (``tracemalloc``), and what the process has resident. The vault is a folder, so
that what is stored is not in memory too; a restore's result is counted.
"""

from __future__ import annotations

import tempfile
from statistics import median
from typing import TYPE_CHECKING

import corpus
from figures import Figure
from peers import Pair

if TYPE_CHECKING:
    from peers import Peers

_LIMIT = 4


def memory(peers: Peers, rounds: int) -> list[Figure]:
    """Backup and restore of 8 MB in several shapes."""
    shapes = {
        "8 MB": (corpus.text_8mb(), _LIMIT),
        "8 MB with pictures": (corpus.with_pictures(), _LIMIT),
        "one document of 8 MB": (corpus.one_document(), _LIMIT),
        # Python holds a text with an emoji in four bytes a character: the document alone is four times its plain text.
        "the same with an emoji": (corpus.one_document("\N{BRAIN}"), None),
    }
    out = []
    for shape, (documents, limit) in shapes.items():
        for how, number in (("traced", 1), ("resident", min(rounds, 3))):
            peaks = {side: [_peaks(peers, side, how, documents) for _ in range(number)] for side in Pair._fields}
            for verb in ("backup", "restore"):
                published, ours = (median(peak[verb] for peak in peaks[side]) for side in Pair._fields)
                ratio = ours / published if published else None
                name = f"{verb} {shape}: {how}"
                out.append(Figure("memory", name, published, ours, " x", ratio, limit, limited="ours"))
    return out


def _peaks(peers: Peers, side: str, how: str, documents: corpus.Corpus) -> dict[str, float]:
    """Peak of a backup and of the restore after it, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {"how": how, "folder": folder, "corpus_file": str(documents.path)}
        return {
            verb: peers.ask_fresh(side, "memory", verb=verb, **asked)["peak"] / documents.size
            for verb in ("backup", "restore")
        }
