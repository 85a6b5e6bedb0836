"""What format 2 takes for every state of a memory, and what its bounds cost and save."""

from __future__ import annotations

import gzip
import json
import os
import platform
import time
from base64 import b64encode
from statistics import mean

from evolving import history
from figures import table

from colony_memory._format.json import encode_documents
from colony_memory._format.v2 import chain, zstd
from colony_memory._format.v2.build import build

# Every so many states are compressed as 0.1.1 does it, which takes its time.
_SAMPLE = 20
_CHOICES = (
    {},
    {"MAX_PACKS": 8},
    {"MAX_PACKS": 24},
    {"MAX_PACKS": 32},
    {"MAX_ON_BASE": 128},
    {"MAX_ON_BASE": 400},
    {"_SEARCH_LOG": 4},
    {"_LEVEL": 6},
    {"_LEVEL": 12},
)


def packs() -> tuple[str, list[dict[str, float]]]:
    """A table for people, and its numbers."""
    states = list(history())
    sizes, spent = [], []
    for documents in states[::_SAMPLE]:
        start = time.process_time()
        sizes.append(len(b64encode(gzip.compress(b"".join(encode_documents(documents)), 9))))
        spent.append(time.process_time() - start)
    published = {"all": mean(sizes) * len(states), "first": sizes[0], "cpu": mean(spent)}
    rows = [_measure(states, choice, published) for choice in _CHOICES]
    head = ("what differs", "MB", "of 0.1.1", "first", "CPU", "packs read", "bases", "folds")
    cells = [
        (
            ", ".join(f"{name.strip('_').lower()} {value}" for name, value in choice.items()) or "nothing",
            f"{row['bytes'] / 1e6:.2f}",
            f"1/{row['ratio']:.0f}",
            f"{row['first']:.3f}",
            f"{row['cpu']:.2f}",
            f"{row['packs']:.1f}",
            f"{row['bases']:.0f}",
            f"{row['folds']:.0f}",
        )
        for choice, row in zip(_CHOICES, rows, strict=True)
    ]
    text = sum(map(len, states[0].values()))
    machine = f"Python {platform.python_version()}, libzstd {zstd._zstd().zstd_version}, {os.cpu_count()} cores"
    return f"format 2 on {len(states)} states of {text:,} characters ({machine})\n\n{table(head, cells)}", rows


def _measure(states: list[dict[str, str]], choice: dict[str, int], published: dict[str, float]) -> dict[str, float]:
    homes = {name: zstd if name.startswith("_") else chain for name in choice}
    before = {name: getattr(homes[name], name) for name in choice}
    for name, value in choice.items():
        setattr(homes[name], name, value)
    try:
        return _run(states, published)
    finally:
        for name, value in before.items():
            setattr(homes[name], name, value)


def _run(states: list[dict[str, str]], published: dict[str, float]) -> dict[str, float]:
    parent, stored, read, spent, bases, folds = None, list[int](), list[int](), list[float](), 0, 0
    for n, documents in enumerate(states):
        name = f"20260101T{n:012}Z-{n:06x}"
        start = time.process_time()
        built = build(documents, label="default", snapshot_id=name, created_at="2026-01-01T00:00:00Z", parent=parent)
        spent.append(time.process_time() - start)
        parent = built.chain
        links = parent.links if parent else ()
        stored.append(built.info.stored_bytes)
        read.append(len(links))
        bases += len(links) == 1
        folds += links[-1].level > 0
    return {
        "bytes": sum(stored),
        "ratio": published["all"] / sum(stored),
        "first": stored[0] / published["first"],
        "cpu": mean(spent[1:]) / published["cpu"],
        "packs": mean(read),
        "bases": bases,
        "folds": folds,
    }


if __name__ == "__main__":
    print(json.dumps(packs()))
