"""Names of files: what they are to the system, and what they are in a snapshot.

A name is bytes to POSIX systems. In a snapshot these are UTF-8, with surrogates for what is none, whatever the locale
says; so Python's own decoding, which goes by the locale, is undone.
"""

from __future__ import annotations

import os


def encode_name(name: str) -> bytes:
    """The bytes of a name."""
    return name.encode("utf-8", "surrogateescape")


def local_bytes(name: str) -> bytes:
    """The bytes that the system counts of a name.

    Raises:
        UnicodeEncodeError: There is no such name: it has surrogates that stand for no byte.
    """
    return os.fsencode(name) if os.name == "nt" else encode_name(name)


def decode_name(name: str) -> str:
    """A name as Python gives it, as it is saved."""
    return name if os.name == "nt" or name.isascii() else os.fsencode(name).decode("utf-8", "surrogateescape")


def local_name(name: str) -> str:
    """The other way round, for what takes paths."""
    return name if os.name == "nt" else os.fsdecode(encode_name(name))
