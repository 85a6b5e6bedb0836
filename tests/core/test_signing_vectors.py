"""Ed25519 by the book: signatures that satisfy a laxer reading of RFC 8032."""

import base64
import hashlib

import pytest

from colony_memory import signing
from colony_memory.exceptions import UntrustedSnapshot

pytest.importorskip("cryptography")

# The group of RFC 8032, section 5.1.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
SIGN_BIT = 2**255

SEED = bytes(range(32))
MANIFEST = {"format": "colony-memory/1", "label": "work"}


def check(message, *, key, raw, monkeypatch):
    """Have the signature of a message that is no manifest checked as that of one."""
    monkeypatch.setattr(signing, "canonical", lambda value: message)
    sig = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return signing.verify_manifest({"signature": {"alg": "ed25519", "key_id": signing.encode_did_key(key), "sig": sig}})


def sign_with_neutral_r(encoded, message):
    """A signature whose R is the neutral point, in a spelling of the caller's.

    With the nonce 0, S is the challenge times the secret scalar, and the equation holds for whoever takes the
    spelling for the neutral point.
    """
    digest = hashlib.sha512(SEED).digest()
    scalar = int.from_bytes(digest[:32], "little") & (2**254 - 8) | 2**254
    key = signing.decode_did_key(signing.Ed25519Signer(SEED).did_key)
    r = encoded.to_bytes(32, "little")
    challenge = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
    return r + (challenge * scalar % ORDER).to_bytes(32, "little")


def test_a_point_in_another_spelling_is_not_that_point(monkeypatch):
    """The neutral point is y = 1; y = p + 1 and a sign bit on x = 0 are spellings that section 5.1.3 refuses."""
    key = signing.decode_did_key(signing.Ed25519Signer(SEED).did_key)
    # The one spelling satisfies the equation: that the others do not pass is due to their spelling alone.
    check(b"m", key=key, raw=sign_with_neutral_r(1, b"m"), monkeypatch=monkeypatch)
    for encoded in (P + 1, 1 | SIGN_BIT, P + 1 | SIGN_BIT):
        with pytest.raises(UntrustedSnapshot, match="does not verify"):
            check(b"m", key=key, raw=sign_with_neutral_r(encoded, b"m"), monkeypatch=monkeypatch)


@pytest.mark.parametrize("y", [P + offset for offset in range(19)])
@pytest.mark.parametrize("bit", [0, SIGN_BIT])
def test_a_key_in_a_spelling_that_is_not_canonical_signs_nothing(y, bit):
    key_id = signing.encode_did_key((y | bit).to_bytes(32, "little"))
    genuine = signing.sign_manifest(MANIFEST, signing.Ed25519Signer(SEED))["sig"]
    neutral = base64.urlsafe_b64encode((1).to_bytes(32, "little") + bytes(32)).rstrip(b"=").decode()
    for sig in (genuine, neutral):
        signature = {"alg": "ed25519", "key_id": key_id, "sig": sig}
        with pytest.raises(UntrustedSnapshot, match=r"does not verify|small order|not in canonical form"):
            signing.verify_manifest({**MANIFEST, "signature": signature})
