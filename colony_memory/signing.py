"""Pure: Ed25519 signatures of manifests, bound to a ``did:key``: ``ed01`` and the 32 bytes, in base58btc after
``did:key:z`` (https://w3c-ccg.github.io/did-key-spec/). Needs the extra ``sign``.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from colony_memory._boundary import read_written, require_text
from colony_memory._format.json import canonical, holds_fraction, shown
from colony_memory._format.names import TEXT, expect
from colony_memory._values import pattern
from colony_memory.exceptions import ColonyMemoryError, UntrustedSnapshot

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = "did:key:z"
_ED25519 = b"\xed\x01"
# Encodings, without the sign bit, of the points whose order divides 8: the points (x, y) of edwards25519 (RFC 8032,
# section 5.1) with y in {0, 1, -1} and the two y of order 8, and what equals them modulo p.
_P = 2**255 - 19
_Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER = frozenset({0, 1, _P - 1, _Y8, _P - _Y8})
_SIG = re.compile(r"[A-Za-z0-9_-]{86}")
_HEX = pattern(r"[0-9A-Fa-f]{64}")
_BASE64 = pattern(r"[A-Za-z0-9+/_-]{43}=?")
_PEM = "-----BEGIN "
_MAKE_ONE = "openssl genpkey -algorithm ed25519 makes one that does"
_MISSING = "signatures need the extra 'sign': pip install 'colony-memory[sign]'"


class Signer(Protocol):
    """Anything that signs: :class:`Ed25519Signer`, or an object over a key that never leaves its hardware."""

    @property
    def did_key(self) -> str:
        """The did:key of the Ed25519 public key."""

    def sign(self, message: bytes) -> bytes:
        """The 64-byte Ed25519 signature of the message."""


class Ed25519Signer:
    """Signs with a 32-byte seed; keep the seed to keep the identity.

    >>> signer = Ed25519Signer(bytes(range(32)))
    >>> signer.did_key
    'did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd'
    """

    def __init__(self, seed: bytes) -> None:
        """Make a signer of a seed of 32 bytes, which is secret. It takes the extra ``sign``."""
        if not isinstance(seed, bytes) or len(seed) != 32:
            raise ValueError("an Ed25519 seed is 32 bytes")
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ImportError as error:
            raise ColonyMemoryError(_MISSING) from error
        # Nothing else holds the seed, so that no attribute shows it.
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.did_key = encode_did_key(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> Self:
        """A signer with a fresh random seed."""
        return cls(os.urandom(32))

    @classmethod
    def from_pem(cls, text: str) -> Self:
        """The signer of a private key in PEM (PKCS#8), as written by ``openssl genpkey -algorithm ed25519``."""
        return cls(_parse(_read_pem, text))

    @classmethod
    def from_env(cls, name: str = "COLONY_MEMORY_KEY") -> Self:
        r"""The signer of the key in an environment variable: the seed as 64 hex digits or in base64 or base64url, or a
        PEM, in which a line end may be written as ``\n``.
        """
        value = os.environ.get(name, "")
        if not value.strip():
            raise ColonyMemoryError(
                f"the environment variable {name} is not set: it should hold the seed as 64 hex digits, or a PEM"
            )
        return cls(_parse(_read_text, value, prefix=f"the environment variable {name} holds no key"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The signer of the key in a file: 32 raw bytes, or a text as :meth:`from_env` takes it.

        A ColonyMemoryError if it is missing, has no key in it, or anyone but its owner has access to it.
        """
        from colony_memory._ownfiles import read_key_file

        return cls(_parse(_read_file, read_key_file(path), prefix=f"key file {os.fspath(path)}"))

    def save(self, path: str | os.PathLike[str], *, encoding: Literal["pem", "raw"] = "pem") -> None:
        """Write the key to a new file, private to its owner (0600); it is on disk when this returns.

        A missing directory is made (0700). An existing file is never overwritten. The encoding is ``"pem"`` for PKCS#8
        PEM, which ``openssl pkey`` reads, or ``"raw"`` for the 32 bytes of the seed.
        """
        from colony_memory._ownfiles import write_key_file

        if encoding not in ("pem", "raw"):
            raise ValueError(f"encoding must be 'pem' or 'raw', not {encoding!r}")
        write_key_file(path, self.seed if encoding == "raw" else self.to_pem().encode("ascii"))

    def to_pem(self) -> str:
        """The private key as PEM (PKCS#8), not encrypted, and so as secret as the seed."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")

    @property
    def seed(self) -> bytes:
        """The 32 secret bytes."""
        return self._key.private_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message."""
        return self._key.sign(message)

    def __repr__(self) -> str:
        return f"Ed25519Signer({self.did_key!r})"


def _parse(read: Callable[[_T], bytes], source: _T, *, prefix: str = "") -> bytes:
    try:
        return read(source)
    except ImportError as error:
        raise ColonyMemoryError(_MISSING) from error
    except ValueError as error:
        if not prefix:
            raise
        raise ColonyMemoryError(f"{prefix}: {error}") from error


def _read_pem(text: str) -> bytes:
    """The 32-byte seed in a PEM of an Ed25519 private key."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if not isinstance(text, str) or _PEM not in text:
        raise ValueError("it is not PEM: a line such as '-----BEGIN PRIVATE KEY-----' is missing")
    if f"{_PEM}ENCRYPTED PRIVATE KEY" in text or "Proc-Type: 4,ENCRYPTED" in text:
        raise ValueError("the PEM key is encrypted; openssl pkey -in KEY -out NEW writes it without its password")
    if f"{_PEM}PRIVATE KEY-----" not in text:
        raise ValueError(f"the PEM holds no private key of a kind that is read here; {_MAKE_ONE}")
    key: object = None
    # Not the cause of the error below: it could quote the text that it could not read.
    with contextlib.suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_pem_private_key(text.encode("utf-8", "replace"), password=None)
    if key is None:
        raise ValueError("the PEM private key is damaged, or of an unknown kind")
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"the PEM key does not sign with Ed25519; {_MAKE_ONE}")  # noqa: TRY004 - what was read is wrong
    return key.private_bytes_raw()


def _read_text(text: str) -> bytes:
    """The seed in a PEM, 64 hex digits, or base64 or base64url of 32 bytes; white space around it is ignored."""
    text = text.strip()
    if _PEM in text:
        # Settings files have one line for each setting, and write a line end as \n.
        return _read_pem(text.replace("\\n", "\n"))
    if _HEX.fullmatch(text):
        return bytes.fromhex(text)
    if _BASE64.fullmatch(text):
        spelled = text.rstrip("=").translate(str.maketrans("-_", "+/"))
        seed = base64.b64decode(f"{spelled}=")
        # The last digit has two unused bits: if they are set, something was changed.
        if base64.b64encode(seed).decode("ascii") == f"{spelled}=":
            return seed
    raise ValueError("it is not a PEM private key, 64 hex digits, or 32 bytes in base64")


def _read_file(data: bytes) -> bytes:
    if len(data) == 32:
        return data
    try:
        text = read_written(data)
    except UnicodeDecodeError:
        text = ""
    return _read_text(text)


def encode_did_key(public_key: bytes) -> str:
    """The did:key of an Ed25519 public key of 32 bytes."""
    number = int.from_bytes(_ED25519 + public_key, "big")
    digits = ""
    while number:
        number, digit = divmod(number, 58)
        digits = _ALPHABET[digit] + digits
    return _PREFIX + digits


def decode_did_key(did_key: str) -> bytes:
    """The 32 bytes of public key in an Ed25519 did:key in its one canonical spelling; a ValueError for others."""
    digits = require_text("did_key", did_key)[len(_PREFIX) :]
    # An Ed25519 key has 47 digits; a bound keeps the arithmetic below small.
    if not did_key.startswith(_PREFIX) or len(digits) > 64:
        raise ValueError(f"{did_key[:80]!r} is not a did:key of an Ed25519 key")
    number = 0
    for char in digits:
        digit = _ALPHABET.find(char)
        if digit < 0:
            raise ValueError(f"{did_key!r}: {char!r} is not a base58 digit")
        number = number * 58 + digit
    body = number.to_bytes((number.bit_length() + 7) // 8, "big")
    if body[:2] != _ED25519 or len(body) != 34 or encode_did_key(body[2:]) != did_key:
        raise ValueError(f"{did_key!r} is not a did:key of an Ed25519 key")
    return body[2:]


def did_key_of(signer: Signer) -> str:
    """The did:key that a signer states; a ValueError if it has none."""
    # 0.1.1 also took signers that call it key_id.
    key_id = getattr(signer, "did_key", None) or getattr(signer, "key_id", None)
    if not isinstance(key_id, str):
        raise ValueError("the signer has no did_key")  # noqa: TRY004 - one type for every bad argument
    return key_id


def require_cryptography(what_for: str) -> None:
    """Raise a ColonyMemoryError with what to install, unless signatures can be checked here."""
    import importlib.util

    if importlib.util.find_spec("cryptography") is None:
        raise ColonyMemoryError(f"{what_for}, {_MISSING}")


def sign_manifest(manifest: Mapping[str, object], signer: Signer) -> dict[str, str]:
    """The ``signature`` field for a manifest without one; a ValueError if the signer gives none."""
    key_id = did_key_of(signer)
    raw = signer.sign(_message(manifest))
    if not isinstance(raw, bytes) or len(raw) != 64:
        raise ValueError("the signer did not give the 64 bytes of an Ed25519 signature")
    return {"alg": "ed25519", "key_id": key_id, "sig": base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")}


def verify_manifest(manifest: Mapping[str, Any]) -> str:
    """Check the signature of a manifest, and return the did:key that made it; else raise UntrustedSnapshot."""
    signature = manifest.get("signature")
    try:
        if not isinstance(signature, dict):
            raise ValueError("it is not an object")  # noqa: TRY004 - what was read is wrong
        if signature.get("alg") != "ed25519":
            raise ValueError(f"unsupported signature alg: {shown(signature.get('alg'))}")
        key_id, sig = expect(signature, "key_id", TEXT), expect(signature, "sig", TEXT)
        public_key = decode_did_key(key_id)
        y = int.from_bytes(public_key, "little") % 2**255
        if y % _P in _SMALL_ORDER:
            raise ValueError("a key of small order signs everything")
        if y >= _P:
            raise ValueError("the key is not in canonical form")
        raw = _decode_sig(sig)
    except ValueError as error:
        raise UntrustedSnapshot(f"the signature is malformed: {error}") from error
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ColonyMemoryError(f"this snapshot is signed and the signature cannot be checked: {_MISSING}") from error
    try:
        message = _message(manifest)
    except (ValueError, RecursionError) as error:
        raise UntrustedSnapshot(f"the signature cannot be checked: {error}") from error
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(raw, message)
    except InvalidSignature as error:
        raise UntrustedSnapshot("snapshot signature does not verify") from error
    return str(key_id)


def _message(manifest: Mapping[str, Any]) -> bytes:
    unsigned = {key: value for key, value in manifest.items() if key != "signature"}
    if holds_fraction(unsigned):
        raise ValueError("it holds a number that is no integer")
    return canonical(unsigned)


def _decode_sig(sig: str) -> bytes:
    """The 64 bytes of an unpadded base64url text in its one canonical spelling."""
    # Text of another alphabet is never decoded: Python would ignore the foreign characters.
    raw = base64.urlsafe_b64decode(f"{sig}==") if _SIG.fullmatch(sig) else b""
    if not raw or base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii") != sig:
        raise ValueError("sig is not 64 bytes of base64url without padding")
    return raw
