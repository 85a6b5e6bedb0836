"""Pure: plain text to base64 of gzip and back, within bounds, and the ``tree``, a digest of names and contents."""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TypeAlias

from colony_memory._format.json import canonical, utf8_pieces
from colony_memory._format.record import take_apart
from colony_memory._values import Value
from colony_memory.exceptions import SnapshotCorrupt

# benchmarks/README.md has the tables. Level 6 is zlib's fastest within 2 % of the size of its level 9 on source text.
_LEVEL = 6
# Level 7 is libdeflate's only one within 2 % of that size, and within 0.4 of its time, on every measured text.
_FAST_LEVEL = 7
_GZIP = 16 + zlib.MAX_WBITS
# Honest writers emit one; the limit keeps a stream of empty members from taking all of the processor's time.
_MAX_MEMBERS = 1000
# Most bytes to decompress at once; zlib takes no number larger than a C long.
_PIECE = 2**30


#: Called with the number of bytes that were unpacked, or are about to be.
Spend: TypeAlias = "Callable[[int], None]"


def spend_freely(_number: int) -> None:
    """No limit and no count."""


class Packed(Value):
    blob: str
    size: int
    sha256: str


def sha256(data: bytes | bytearray) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def measure(pieces: Iterable[bytes]) -> tuple[int, str]:
    hasher, size = hashlib.sha256(), 0
    for piece in pieces:
        hasher.update(piece)
        size += len(piece)
    return size, "sha256:" + hasher.hexdigest()


def pack(pieces: Iterable[bytes], *, digests: bool = False) -> Packed:
    """Compress pieces into one gzip member. In ``digests`` repetition is chance, for which zlib has a strategy."""
    compress = _libdeflate()
    if compress is not None:
        # It takes the text in one piece, and holds no more than that and its output.
        plain = b"".join(pieces)
        return Packed(_to_base64(compress(plain, _FAST_LEVEL)), len(plain), sha256(plain))
    strategy = zlib.Z_FILTERED if digests else zlib.Z_DEFAULT_STRATEGY
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, strategy)
    hasher, size, out = hashlib.sha256(), 0, list[bytes]()
    for piece in pieces:
        size += len(piece)
        hasher.update(piece)
        out.append(packer.compress(piece))
    return Packed(_to_base64(b"".join((*out, packer.flush()))), size, "sha256:" + hasher.hexdigest())


def _to_base64(data: bytes | bytearray) -> str:
    return base64.b64encode(data).decode("ascii")


@cache
def _libdeflate() -> Callable[[bytes, int], bytes | bytearray] | None:
    try:
        from deflate import gzip_compress
    except ImportError:  # without the extra, zlib does the same in more time
        return None
    return gzip_compress


def unpack(chunks: Iterable[str], *, size: int) -> bytearray:
    """Decompress chunks of base64 to exactly ``size`` bytes; never more than one byte beyond that is held."""
    out: list[bytes] = []
    remaining, unpacker, members = size, None, 0
    try:
        for piece in decode_base64(chunks):
            data = piece
            while data:
                if unpacker is None:
                    # gzip allows zeros between members.
                    data = data.lstrip(b"\0") if members else data
                    if not data:
                        break
                    unpacker, members = zlib.decompressobj(_GZIP), members + 1
                    if members > _MAX_MEMBERS:
                        raise ValueError("too many gzip members")
                out.append(unpacker.decompress(data, min(remaining + 1, _PIECE)))
                remaining -= len(out[-1])
                if remaining < 0:
                    raise ValueError(f"there is more than the {size} bytes that the manifest says")
                data = unpacker.unconsumed_tail or unpacker.unused_data
                if unpacker.eof:
                    unpacker = None
    except zlib.error as error:
        raise ValueError(f"the gzip stream is damaged: {str(error).rpartition(': ')[2]}") from error
    if unpacker is not None or not members:
        raise ValueError("the gzip stream is cut short")
    if remaining:
        raise ValueError(f"there are {size - remaining} bytes, not the {size} that the manifest says")
    return bytearray().join(out)


def decode_base64(chunks: Iterable[str]) -> Iterator[bytes]:
    """Decode chunks of base64 that are cut anywhere. Padding may only end the last chunk."""
    carry, ended = "", False
    for chunk in chunks:
        carry += chunk
        if ended and carry:
            raise ValueError("there is more after the base64 padding")
        cut = len(carry) - len(carry) % 4
        complete, carry = carry[:cut], carry[cut:]
        try:
            yield base64.b64decode(complete, validate=True)
        except binascii.Error as error:
            raise ValueError(f"the base64 is damaged: {error}") from error
        ended = ended or complete.endswith("=")
    if carry:
        raise ValueError("the base64 is cut short")


def document_digest(text: str) -> str:
    """Digest of one document in UTF-8, each surrogate in three bytes: for a text file's content that of the file."""
    return sha256(text.encode()) if text.isascii() else measure(utf8_pieces(text))[1]


def tree_of(documents: Mapping[str, str]) -> str:
    return tree_of_digests(digests_of(documents))


def digests_of(documents: Mapping[str, str]) -> dict[str, str]:
    """The digest of each document by name, and of each file in a folder's record in place of its base64."""
    texts, files = take_apart(documents)
    digests = {name: document_digest(text) for name, text in texts.items()}
    return digests | {name: of_file(sha256(data)) for name, data in files.items()}


def of_file(digest: str) -> str:
    return f"file:{digest}"


def tree_of_digests(digests: Mapping[str, str]) -> str:
    return sha256(canonical(dict(digests)))


def check_tree(tree: str, digests: Mapping[str, str], *, file: str) -> None:
    if tree and tree != tree_of_digests(digests):
        raise SnapshotCorrupt(f"{file} has another tree than its documents", file=file)
