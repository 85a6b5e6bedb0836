"""Ed25519 by the book: the long vectors of RFC 8032, and signatures that satisfy a laxer reading of it."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from colony_memory import signing
from colony_memory.exceptions import UntrustedSnapshot

pytest.importorskip("cryptography")

# RFC 8032, section 7.1, test 1024.
LONG = bytes.fromhex(
    "08b8b2b733424243760fe426a4b54908632110a66c2f6591eabd3345e3e4eb98fa6e264bf09efe12ee50f8f54e9f77b1e355f6c50544e23f"
    "b1433ddf73be84d879de7c0046dc4996d9e773f4bc9efe5738829adb26c81b37c93a1b270b20329d658675fc6ea534e0810a4432826bf58c"
    "941efb65d57a338bbd2e26640f89ffbc1a858efcb8550ee3a5e1998bd177e93a7363c344fe6b199ee5d02e82d522c4feba15452f80288a82"
    "1a579116ec6dad2b3b310da903401aa62100ab5d1a36553e06203b33890cc9b832f79ef80560ccb9a39ce767967ed628c6ad573cb116dbef"
    "efd75499da96bd68a8a97b928a8bbc103b6621fcde2beca1231d206be6cd9ec7aff6f6c94fcd7204ed3455c68c83f4a41da4af2b74ef5c53"
    "f1d8ac70bdcb7ed185ce81bd84359d44254d95629e9855a94a7c1958d1f8ada5d0532ed8a5aa3fb2d17ba70eb6248e594e1a2297acbbb39d"
    "502f1a8c6eb6f1ce22b3de1a1f40cc24554119a831a9aad6079cad88425de6bde1a9187ebb6092cf67bf2b13fd65f27088d78b7e883c8759"
    "d2c4f5c65adb7553878ad575f9fad878e80a0c9ba63bcbcc2732e69485bbc9c90bfbd62481d9089beccf80cfe2df16a2cf65bd92dd597b07"
    "07e0917af48bbb75fed413d238f5555a7a569d80c3414a8d0859dc65a46128bab27af87a71314f318c782b23ebfe808b82b0ce26401d2e22"
    "f04d83d1255dc51addd3b75a2b1ae0784504df543af8969be3ea7082ff7fc9888c144da2af58429ec96031dbcad3dad9af0dcbaaaf268cb8"
    "fcffead94f3c7ca495e056a9b47acdb751fb73e666c6c655ade8297297d07ad1ba5e43f1bca32301651339e22904cc8c42f58c30c04aafdb"
    "038dda0847dd988dcda6f3bfd15c4b4c4525004aa06eeff8ca61783aacec57fb3d1f92b0fe2fd1a85f6724517b65e614ad6808d6f6ee34df"
    "f7310fdc82aebfd904b01e1dc54b2927094b2db68d6f903b68401adebf5a7e08d78ff4ef5d63653a65040cf9bfd4aca7984a74d371459867"
    "80fc0b16ac451649de6188a7dbdf191f64b5fc5e2ab47b57f7f7276cd419c17a3ca8e1b939ae49e488acba6b965610b5480109c8b17b80e1"
    "b7b750dfc7598d5d5011fd2dcc5600a32ef5b52a1ecc820e308aa342721aac0943bf6686b64b2579376504ccc493d97e6aed3fb0f9cd71a4"
    "3dd497f01f17c0e2cb3797aa2a2f256656168e6c496afc5fb93246f6b1116398a346f1a641f3b041e989f7914f90cc2c7fff357876e506b5"
    "0d334ba77c225bc307ba537152f3f1610e4eafe595f6d9d90d11faa933a15ef1369546868a7f3a45a96768d40fd9d03412c091c6315cf4fd"
    "e7cb68606937380db2eaaa707b4c4185c32eddcdd306705e4dc1ffc872eeee475a64dfac86aba41c0618983f8741c5ef68d3a101e8a3b8ca"
    "c60c905c15fc910840b94c00a0b9d0"
)
# Seed, public key, message, signature of section 7.1. Tests 1 to 3 are in test_signing.py.
VECTORS = {
    "1024": (
        "f5e5767cf153319517630f226876b86c8160cc583bc013744c6bf255f5cc0ee5",
        "278117fc144c72340f67d0f2316e8386ceffbf2b2428c9c51fef7c597f1d426e",
        LONG,
        (
            "0aab4c900501b3e24d7cdf4663326a3a87df5e4843b2cbdb67cbf6e460fec350"
            "aa5371b1508f9f4528ecea23c436d94b5e8fcd4f681e30a6ac00a9704a188a03"
        ),
    ),
    "SHA(abc)": (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").digest(),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
            "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
        ),
    ),
}
# The group of RFC 8032, section 5.1.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
SIGN_BIT = 2**255

SEED = bytes(range(32))
MANIFEST = {"format": "colony-memory/1", "label": "work"}


def check(message: bytes, *, key: bytes, raw: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have the signature of a message that is no manifest checked as that of one."""
    monkeypatch.setattr(signing, "canonical", lambda value: message)
    sig = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return signing.verify_manifest({"signature": {"alg": "ed25519", "key_id": signing.encode_did_key(key), "sig": sig}})


@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_of_rfc_8032_are_signed_and_verified(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seed, public_key, message, signature = VECTORS[name]
    signer = signing.Ed25519Signer(bytes.fromhex(seed))
    key, raw = bytes.fromhex(public_key), bytes.fromhex(signature)
    assert signing.decode_did_key(signer.did_key) == key
    assert signer.sign(message) == raw
    assert check(message, key=key, raw=raw, monkeypatch=monkeypatch) == signer.did_key
    with pytest.raises(UntrustedSnapshot, match="does not verify"):
        check(message + b"\0", key=key, raw=raw, monkeypatch=monkeypatch)
    for other, (_, another_key, _, another_raw) in VECTORS.items():
        if other != name:
            with pytest.raises(UntrustedSnapshot, match="does not verify"):
                check(message, key=bytes.fromhex(another_key), raw=raw, monkeypatch=monkeypatch)
            with pytest.raises(UntrustedSnapshot, match="does not verify"):
                check(message, key=key, raw=bytes.fromhex(another_raw), monkeypatch=monkeypatch)


def test_the_vectors_differ_in_every_part() -> None:
    assert len(LONG) == 1023
    assert len({part for vector in VECTORS.values() for part in vector}) == 8


@pytest.mark.parametrize("times", range(1, 16))
def test_a_signature_is_not_one_with_a_larger_s(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every S plus a multiple of the order satisfies the equation; section 5.1.7 wants S below the order."""
    signer = signing.Ed25519Signer(SEED)
    raw = signer.sign(b"m")
    larger = int.from_bytes(raw[32:], "little") + times * ORDER
    with pytest.raises(UntrustedSnapshot, match="does not verify"):
        varied = raw[:32] + larger.to_bytes(32, "little")
        check(b"m", key=signing.decode_did_key(signer.did_key), raw=varied, monkeypatch=monkeypatch)


def sign_with_neutral_r(encoded: int, message: bytes) -> bytes:
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


def test_a_point_in_another_spelling_is_not_that_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neutral point is y = 1; y = p + 1 and a sign bit on x = 0 are spellings that section 5.1.3 refuses."""
    key = signing.decode_did_key(signing.Ed25519Signer(SEED).did_key)
    # The one spelling satisfies the equation: that the others do not pass is due to their spelling alone.
    check(b"m", key=key, raw=sign_with_neutral_r(1, b"m"), monkeypatch=monkeypatch)
    for encoded in (P + 1, 1 | SIGN_BIT, P + 1 | SIGN_BIT):
        with pytest.raises(UntrustedSnapshot, match="does not verify"):
            check(b"m", key=key, raw=sign_with_neutral_r(encoded, b"m"), monkeypatch=monkeypatch)


@pytest.mark.parametrize("y", [P + offset for offset in range(19)])
@pytest.mark.parametrize("bit", [0, SIGN_BIT])
def test_a_key_in_a_spelling_that_is_not_canonical_signs_nothing(y: int, bit: int) -> None:
    key_id = signing.encode_did_key((y | bit).to_bytes(32, "little"))
    genuine = signing.sign_manifest(MANIFEST, signing.Ed25519Signer(SEED))["sig"]
    neutral = base64.urlsafe_b64encode((1).to_bytes(32, "little") + bytes(32)).rstrip(b"=").decode()
    for sig in (genuine, neutral):
        signature: dict[str, Any] = {"alg": "ed25519", "key_id": key_id, "sig": sig}
        with pytest.raises(UntrustedSnapshot, match=r"does not verify|small order|not in canonical form"):
            signing.verify_manifest({**MANIFEST, "signature": signature})
