"""zstd frames of bytes against bytes, for tests that make packs by hand."""

from __future__ import annotations

from colony_memory._format.v2 import zstd


def compress(content: bytes, prefix: bytes = b"") -> bytes:
    return zstd.compress([content], len(content), zstd.Prefix([prefix]))


def decompress(frame: bytes, prefix: bytes = b"", *, at_most: int) -> bytearray:
    return zstd.decompress(frame, zstd.Prefix([prefix]), at_most=at_most)
