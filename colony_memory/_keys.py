"""Pure: a seed as text, and back. Nothing here repeats what it was given, in an error's message or its cause."""

from __future__ import annotations

import base64
import binascii
import contextlib
from typing import TYPE_CHECKING

from colony_memory._boundary import read_written
from colony_memory._values import pattern

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HEX = pattern(r"[0-9A-Fa-f]{64}")
_BASE64 = pattern(r"[A-Za-z0-9+/_-]{43}=?")
_PEM = "-----BEGIN "
_MAKE_ONE = "openssl genpkey -algorithm ed25519 makes one that does"


def write_pem(key: Ed25519PrivateKey) -> str:
    """The key as PKCS#8 PEM, not encrypted."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def read_pem(text: str) -> bytes:
    """The 32-byte seed in a PEM of an Ed25519 private key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not isinstance(text, str) or _PEM not in text:
        raise ValueError("it is not PEM: a line such as '-----BEGIN PRIVATE KEY-----' is missing")
    if f"{_PEM}PRIVATE KEY-----" not in text:
        raise ValueError(_explain(text))
    key: object = None
    # Not a cause of what is raised below: it could quote what it could not read.
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(text.encode("utf-8", "replace"), password=None)
    if key is None:
        raise ValueError("the PEM private key is damaged, or of an unknown kind")
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"the PEM key does not sign with Ed25519; {_MAKE_ONE}")  # noqa: TRY004 - what was read is wrong
    return key.private_bytes_raw()


def _explain(text: str) -> str:
    if f"{_PEM}ENCRYPTED PRIVATE KEY" in text or "Proc-Type: 4,ENCRYPTED" in text:
        return "the PEM key is encrypted; openssl pkey -in KEY -out NEW writes it without its password"
    if "PUBLIC KEY" in text or "CERTIFICATE" in text:
        return "the PEM holds no private key, which is what signs"
    return f"the PEM key is of a kind that is not read here; {_MAKE_ONE}"


def read_text(text: str) -> bytes:
    """The seed in a PEM, 64 hex digits, or base64 or base64url of 32 bytes; white space around it is passed over."""
    text = text.strip()
    if _PEM in text:
        # Files of settings have a line for each, and write a line end as \n.
        return read_pem(text.replace("\\n", "\n"))
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        spelled = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        try:
            seed = base64.b64decode(f"{spelled}=", validate=True)
        except binascii.Error:  # pragma: no cover - the pattern lets nothing through that does not decode
            seed = b""
        # The last digit has two bits that say nothing: where they are set, something was changed.
        if base64.b64encode(seed).decode("ascii") == f"{spelled}=":
            return seed
    raise ValueError("it is not 64 hex digits, 32 bytes in base64, or a PEM private key")


def read_file(data: bytes) -> bytes:
    """The seed in a key file: a PEM, 32 raw bytes, or 64 hex digits."""
    if len(data) == 32:
        return data
    text = ""
    with contextlib.suppress(UnicodeDecodeError):
        text = read_written(data)
    if _PEM in text:
        return read_pem(text)
    digits = text.removesuffix("\n")  # what an editor or a shell adds
    if _HEX.fullmatch(digits):
        return bytes.fromhex(digits)
    raise ValueError("it is not a PEM private key, 32 raw bytes, or 64 hex digits")
