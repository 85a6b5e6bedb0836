"""age files that no honest writer makes, and passphrases that take no second: https://c2sp.org/age"""

import base64
import hashlib
import hmac

import needs_age  # noqa: F401 - skips what imports this where there is none
import pytest

pytest.importorskip("cryptography")

import pyrage
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_FILE_KEY, _SALT, _NONCE = b"k" * 16, b"s" * 16, b"n" * 16


def _hkdf(key, salt, info):
    drawn = hmac.new(salt or bytes(32), key, hashlib.sha256).digest()
    return hmac.new(drawn, info + b"\x01", hashlib.sha256).digest()


def _base64(data):
    return base64.b64encode(data).rstrip(b"=")


def locked_by(passphrase, plain, *, work=1, claimed=None):
    """A short text encrypted with a passphrase, of a work factor that may be another than it says."""
    salt = b"age-encryption.org/v1/scrypt" + _SALT
    key = hashlib.scrypt(passphrase.encode(), salt=salt, n=2**work, r=8, p=1, dklen=32, maxmem=2**26)
    body = ChaCha20Poly1305(key).encrypt(bytes(12), _FILE_KEY, None)
    said = work if claimed is None else claimed
    head = b"age-encryption.org/v1\n-> scrypt %s %d\n%s\n---" % (_base64(_SALT), said, _base64(body))
    mac = hmac.new(_hkdf(_FILE_KEY, b"", b"header"), head, hashlib.sha256).digest()
    payload = ChaCha20Poly1305(_hkdf(_FILE_KEY, _NONCE, b"payload")).encrypt(bytes(11) + b"\x01", plain, None)
    return head + b" " + _base64(mac) + b"\n" + _NONCE + payload


@pytest.fixture
def quick_passphrases(monkeypatch):
    """Encrypt with passphrases at the lowest work factor."""

    def encrypt(plain, passphrase, **_):
        return locked_by(passphrase, plain)

    monkeypatch.setattr(pyrage.passphrase, "encrypt", encrypt)
