"""Pure: zstd frames with a raw prefix, within bounds. The only module that imports zstd."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from colony_memory._format import FORMAT, FORMAT_2
from colony_memory.exceptions import ColonyMemoryError, UnsupportedFormat

#: Most bytes to look back, as a power of two: every decoder's default limit.
WINDOW_LOG = 27
#: Shorter prefixes count as none, as they do for zstd.
MIN_PREFIX = 8

# benchmarks/README.md has the table: level 9 with four times the search steps takes 3 % less room and no more memory;
# from 10 on memory grows by a third and more.
_LEVEL = 9
_SEARCH_LOG = 6
_MIN_WINDOW_LOG = 10
# Bytes of input and of output at a time.
_IN, _OUT = 2**17, 2**15
_MAGIC, _SKIPPABLE = b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18"
#: The requirement of format 2, as the end of a message. From 3.14 on it comes with Python, though not with every build.
WANTED = (
    "a Python with the module compression.zstd, which this one was built without"
    if sys.version_info >= (3, 14)
    else "the extra 'zstd': pip install 'colony-memory[zstd]'"
)


class TooLarge(ValueError):
    """Larger than the reader allows; it may be intact."""


@cache
def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd  # type: ignore[no-any-return,unused-ignore]


def require_zstd() -> None:
    if not is_installed():
        raise ColonyMemoryError(f"writing snapshots of format 2 needs {WANTED}")


def is_installed() -> bool:
    try:
        _zstd()
    except ImportError:
        return False
    return True


def is_readable(name: str) -> bool:
    """True if this client reads snapshots of this format: it knows the name, and the requirements are installed."""
    return name == FORMAT or (name == FORMAT_2 and is_installed())


def require_reader(what: str, *, file: str | None = None, wanted: str = WANTED) -> None:
    """Raise an UnsupportedFormat that says what to install unless snapshots of format 2 can be read here."""
    if not is_installed():
        raise UnsupportedFormat(f"{what} is of format 2, and reading that needs {wanted}", file=file)


class Prefix:
    """The prefix of a frame, from pieces cut anywhere; zstd keeps the only copy of its bytes."""

    def __init__(self, pieces: Iterable[bytes | memoryview] = ()) -> None:
        self._data: Any = b"".join(pieces)
        self.size = len(self._data)
        if self.size >= MIN_PREFIX:
            self._data = _zstd().ZstdDict(self._data, is_raw=True)

    @property
    def zstd_dict(self) -> Any:
        return self._data.as_prefix if self.size >= MIN_PREFIX else None


def compress(pieces: Iterable[bytes | memoryview], size: int, prefix: Prefix) -> bytes:
    """One frame that declares its size, compressed against a prefix; the same bytes each time for one libzstd."""
    zstd = _zstd()
    parameter = zstd.CompressionParameter
    reach = (prefix.size + size).bit_length()
    options = {
        parameter.compression_level: _LEVEL,
        parameter.search_log: _SEARCH_LOG,
        parameter.window_log: min(WINDOW_LOG, max(_MIN_WINDOW_LOG, reach)),
        # Finds repetition at any distance, as in a long text that grew by a line.
        parameter.enable_long_distance_matching: int(prefix.size > 0),
        parameter.content_size_flag: 1,
        parameter.checksum_flag: 0,  # the digests of pack and memory prove more
    }
    packer = zstd.ZstdCompressor(options=options, zstd_dict=prefix.zstd_dict)
    packer.set_pledged_input_size(size)
    frame = [packer.compress(piece) for piece in pieces]
    return b"".join((*frame, packer.flush(packer.FLUSH_FRAME)))


def with_lead(lead: bytes, frame: bytes) -> bytes:
    """A frame after a skippable frame of some bytes, which every reader of zstd passes over."""
    return _SKIPPABLE + len(lead).to_bytes(4, "little") + lead + frame


def split_lead(data: bytes) -> tuple[bytes | None, bytes]:
    if not data.startswith(_SKIPPABLE):
        return None, data
    end = 8 + int.from_bytes(data[4:8], "little")
    return data[8:end], data[end:]


def decompress(frame: bytes, prefix: Prefix, *, at_most: int) -> bytearray:
    """The content of a frame, which has to declare its size and to end where the bytes end."""
    zstd = _zstd()
    try:
        size = zstd.get_frame_info(frame).decompressed_size if frame.startswith(_MAGIC) else None
        if size is None:
            raise ValueError("it is no zstd frame that tells its size")
        if size > at_most:
            raise TooLarge(f"it says {size} bytes, more than the {at_most} that this client takes")
        options = {zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        unpacker = zstd.ZstdDecompressor(zstd_dict=prefix.zstd_dict, options=options)
        # Piece by piece: in one go, all of it would be held twice.
        content, rest = bytearray(), memoryview(frame)
        while not unpacker.eof and (rest or not unpacker.needs_input):
            chunk = rest[:_IN] if unpacker.needs_input else b""
            rest = rest[len(chunk) :]
            content += unpacker.decompress(chunk, min(_OUT, size + 1 - len(content)))
            if len(content) > size:
                raise ValueError("the zstd frame holds more than it says")
    except zstd.ZstdError as error:
        raise ValueError(f"the zstd frame is damaged: {error}") from error
    if len(content) != size or not unpacker.eof:
        raise ValueError("the zstd frame is cut short")
    if rest or unpacker.unused_data:
        raise ValueError("there is more than one frame")
    return content
