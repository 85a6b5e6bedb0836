"""zstd frames of bytes against bytes, for tests that make packs by hand."""

from __future__ import annotations

from colony_memory._format.v2 import zstd


def compress(content: bytes, prefix: bytes = b"") -> bytes:
    """One frame, as a pack has it."""
    return zstd.compress([content], len(content), zstd.Prefix([prefix]))


def decompress(frame: bytes, prefix: bytes = b"", *, at_most: int) -> bytearray:
    """What it holds."""
    return zstd.decompress(frame, zstd.Prefix([prefix]), at_most=at_most)
