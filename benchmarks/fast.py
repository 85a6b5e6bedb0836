"""What the extra ``fast`` saves on texts of several kinds, against 0.1.1 in pairs of the same run."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import corpus
from environments import prepare
from figures import table
from peers import Peer, in_turn, medians

if TYPE_CHECKING:
    from pathlib import Path

_TEXTS = {"prose": corpus.prose, "notes": corpus.notes, "source": corpus.text_8mb, "logs": corpus.logs}
_LEVELS = (6, 7, 8)


def fast(rounds: int) -> tuple[str, list[dict[str, float | str]]]:
    """A table for people, and its numbers."""
    sides = prepare()
    published, plain, extra = Peer(sides.published), Peer(sides.ours), Peer(sides.ours, without=())
    asked = {"zlib": (plain, None)} | {f"libdeflate {level}": (extra, level) for level in _LEVELS}
    rows: list[dict[str, float | str]] = []
    try:
        for text, make in _TEXTS.items():
            text_corpus = make()
            documents = str(text_corpus.path)
            for name, (peer, level) in asked.items():
                more = {} if level is None else {"fast_level": level}
                pairs = in_turn(
                    rounds,
                    ((published, {}), (peer, more)),
                    lambda side, documents=documents: side[0].ask("backup", corpus_file=documents, **side[1]),
                )
                cpu, stored = medians(pairs, "cpu")[2], medians(pairs, "stored")[2]
                peak = _peak(sides.ours, text_corpus, with_extra=level is not None)
                rows.append({"text": text, "compressed by": name, "cpu": cpu, "stored": stored, "peak": peak})
    finally:
        for peer in (published, plain, extra):
            peer.close()
    shown = {"cpu": ".2f", "stored": ".4f", "peak": ".2f"}
    cells = [
        (str(row["text"]), str(row["compressed by"]), *(format(row[key], how) for key, how in shown.items()))
        for row in rows
    ]
    head = ("text", "compressed by", "CPU to 0.1.1", "stored to 0.1.1", "peak memory to text")
    return f"backup with and without the extra fast, {rounds} pairs each\n\n{table(head, cells)}", rows


def _peak(python: Path, documents: corpus.Corpus, *, with_extra: bool) -> float:
    """Bytes resident at the peak of a backup beyond what is there before, to the text; in a process of its own."""
    peer = Peer(python, without=()) if with_extra else Peer(python)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asked: dict[str, Any] = {"verb": "backup", "how": "resident", "folder": folder}
            return float(peer.ask("memory", corpus_file=str(documents.path), **asked)["peak"] / documents.size)
    finally:
        peer.close()
