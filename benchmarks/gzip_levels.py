"""What each gzip level costs and saves, relative to level 9, which 0.1.1 uses."""

from __future__ import annotations

import json
import os
import platform
import time
import zlib
from statistics import median

import corpus
from figures import table


def levels(rounds: int) -> tuple[str, list[dict[str, float]]]:
    """A table for people, and its numbers."""
    text = json.dumps(dict(corpus.load(corpus.text_8mb().path)), ensure_ascii=False, sort_keys=True)
    plain = text.encode("utf-8")
    seconds: dict[int, list[float]] = {level: [] for level in range(1, 10)}
    sizes: dict[int, int] = {}
    for _ in range(rounds):
        for level, spent in seconds.items():
            packer = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
            start = time.process_time()
            sizes[level] = len(packer.compress(plain)) + len(packer.flush())
            spent.append(time.process_time() - start)
    rows = []
    for level, spent in seconds.items():
        cpu = median(a / b for a, b in zip(spent, seconds[9], strict=True))
        rows.append({"level": level, "cpu": cpu, "size": sizes[level] / sizes[9], "plain": len(plain) / sizes[level]})
    head = ("level", "CPU to level 9", "size to level 9", "plain to size")
    cells = [(str(row["level"]), f"{row['cpu']:.2f}", f"{row['size']:.4f}", f"{row['plain']:.2f}") for row in rows]
    machine = f"Python {platform.python_version()}, zlib {zlib.ZLIB_RUNTIME_VERSION}, {os.cpu_count()} cores"
    return f"gzip on {len(plain):,} bytes of text ({machine})\n\n{table(head, cells)}", rows
