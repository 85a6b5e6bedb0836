"""zstd frames of bytes against bytes, for tests that make packs by hand."""

from colony_memory._format.v2 import zstd


def compress(content, prefix=b""):
    return zstd.compress([content], len(content), zstd.Prefix([prefix]))


def decompress(frame, prefix=b"", *, at_most):
    return zstd.decompress(frame, zstd.Prefix([prefix]), at_most=at_most)
