"""Pure: text as the bytes that a vault stores."""

from __future__ import annotations

from colony_memory.exceptions import VaultError


def encode_text(filename: str, content: str) -> bytes:
    """A file's text as it is stored."""
    try:
        return content.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(
            f"{filename}: character {exc.start} of the text is half of a surrogate pair, which UTF-8 cannot hold",
            status=400,
            code="INVALID_INPUT",
        ) from exc
