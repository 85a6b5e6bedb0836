import base64
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory import signing
from colony_memory.exceptions import ColonyMemoryError, UntrustedSnapshot
from colony_memory.trust import OPEN

SEED = bytes(range(32))
DID_KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
MANIFEST = {"format": "colony-memory/1", "label": "work", "doc_names": ["é", "😀"], "byte_size": 9, "extra": None}


@pytest.fixture
def signer():
    pytest.importorskip("cryptography")
    return signing.Ed25519Signer(SEED)


@pytest.fixture
def signed(signer):
    return {**MANIFEST, "signature": signing.sign_manifest(MANIFEST, signer)}


def b58(data):
    digits, number = "", int.from_bytes(data, "big")
    while number:
        number, digit = divmod(number, 58)
        digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[digit] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def with_sig(signed, sig):
    return {**signed, "signature": {**signed["signature"], "sig": sig}}


def raw_sig(signed):
    return base64.urlsafe_b64decode(signed["signature"]["sig"] + "==")


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# --- did:key ---


@unhurried
@given(st.binary(min_size=32, max_size=32))
def test_a_did_key_is_base58_of_prefix_and_key(key):
    did_key = signing.encode_did_key(key)
    assert did_key == "did:key:z" + b58(b"\xed\x01" + key)
    assert len(did_key) == len("did:key:z") + 47
    assert signing.decode_did_key(did_key) == key


KEY = signing.decode_did_key(DID_KEY)


@pytest.mark.parametrize(
    "did_key",
    [
        "",
        "did:key:z",
        DID_KEY.upper(),
        DID_KEY.replace("did:key:z", "did:key:"),
        DID_KEY.replace("did:key:z", "did:web:z"),
        DID_KEY.replace("did:key:z", "did:key:z1"),
        f"{DID_KEY}\n",
        f"{DID_KEY}#{DID_KEY[8:]}",
        f"{DID_KEY[:-1]}0",
        f"{DID_KEY[:-1]}é",
        "did:key:z" + b58(KEY),
        "did:key:z" + b58(b"\0\xed\x01" + KEY),
        "did:key:z" + b58(b"\xed\x81\x00" + KEY),  # the same prefix in a longer spelling
        "did:key:z" + b58(b"\xed\x01" + KEY[:-1]),
        "did:key:z" + b58(b"\xed\x01" + KEY + b"\0"),
        "did:key:z" + "z" * 1_000_000,
    ],
)
def test_any_other_spelling_of_a_did_key_is_refused_briefly(did_key):
    with pytest.raises(ValueError, match=r"not a did:key of an Ed25519 key|is not a base58 digit") as caught:
        signing.decode_did_key(did_key)
    assert len(str(caught.value)) < 250


@unhurried
@given(st.text("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", max_size=70))
def test_a_did_key_has_one_spelling(digits):
    did_key = "did:key:z" + digits
    try:
        key = signing.decode_did_key(did_key)
    except ValueError:
        return
    assert signing.encode_did_key(key) == did_key


# --- signers ---


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytes(64), "0" * 32, bytearray(32), None, 32])
def test_a_seed_is_32_bytes(seed):
    with pytest.raises(ValueError, match="an Ed25519 seed is 32 bytes"):
        signing.Ed25519Signer(seed)


# --- manifests ---


FRACTIONS = [9.0, -0.0, 1e300, float("nan"), float("inf")]


@pytest.mark.parametrize("number", FRACTIONS)
@pytest.mark.parametrize("nested", [lambda n: n, lambda n: [n], lambda n: {"a": [[1, {"b": n}]]}])
def test_a_number_that_each_language_writes_in_its_own_way_is_not_signed(signer, number, nested):
    with pytest.raises(ValueError, match="a number that is no integer"):
        signing.sign_manifest({**MANIFEST, "extra": nested(number)}, signer)


@pytest.mark.parametrize("number", FRACTIONS)
def test_a_signature_over_such_a_number_does_not_hold(signer, number):
    manifest = {**MANIFEST, "extra": [number]}
    message = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    sig = base64.urlsafe_b64encode(signer.sign(message)).rstrip(b"=").decode()
    signature = {"alg": "ed25519", "key_id": signer.did_key, "sig": sig}
    with pytest.raises(UntrustedSnapshot, match="cannot be checked: it holds a number that is no integer"):
        signing.verify_manifest({**manifest, "signature": signature})


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, -(2**63), pytest.param(10**4000, id="huge")])
def test_an_integer_of_any_size_is_signed_exactly(signer, number):
    manifest = {**MANIFEST, "extra": number}
    signed = {**manifest, "signature": signing.sign_manifest(manifest, signer)}
    assert signing.verify_manifest(json.loads(json.dumps(signed))) == signer.did_key
    with pytest.raises(UntrustedSnapshot, match="does not verify"):
        signing.verify_manifest({**signed, "extra": number + 1})


def test_lone_surrogates_in_keys_are_signed_exactly(signer):
    signed = {**MANIFEST, "\ud83d": {"\ude00": 1}, "\ud83d\ude00": 2, "😀": 3}
    signed["signature"] = signing.sign_manifest(signed, signer)
    assert signing.verify_manifest(signed) == signer.did_key
    for other in ({"\ud83d": {"\ud83d": 1}}, {"\ud83d\ude00": 3}, {"\\ud83d": 1}):
        with pytest.raises(UntrustedSnapshot, match="does not verify"):
            signing.verify_manifest({**signed, **other})


SIG = {"alg": "ed25519", "key_id": DID_KEY, "sig": "A" * 86}


@pytest.mark.parametrize(
    ("signature", "what"),
    [
        *((each, "the signature is malformed") for each in (None, "", "x", 7, True, [], ["ed25519"])),
        *(
            ({**SIG, "alg": alg}, "unsupported signature alg")
            for alg in (None, "", "Ed25519", "ed25519 ", "none", "hs256", 7, ["ed25519"], "x" * 10_000)
        ),
        *(({**SIG, "key_id": key_id}, "the signature is malformed") for key_id in (None, 7, [DID_KEY])),
        *(({**SIG, "sig": sig}, "the signature is malformed") for sig in (None, 7, b"A" * 86)),
        *(
            ({**SIG, "key_id": key_id}, "the signature is malformed: .*did:key")
            for key_id in ("", "me", "did:key:z", DID_KEY.replace("z6", "z16", 1), f"{DID_KEY}\n")
        ),
        *(
            ({**SIG, "sig": sig}, "sig is not 64 bytes")
            for sig in ("", "é" * 86, "\ud800" * 86, "A", "A" * 85, "A" * 87, "=" * 86, "A" * 100_000)
        ),
    ],
)
def test_what_is_no_signature_is_refused_briefly(signature, what):
    with pytest.raises(UntrustedSnapshot, match=what) as caught:
        signing.verify_manifest({**MANIFEST, "signature": signature})
    assert len(str(caught.value)) < 200


def test_a_signature_has_one_spelling(signed):
    sig, raw = signed["signature"]["sig"], raw_sig(signed)
    assert len(sig) == 86
    # 64 bytes are 85 digits and a third: the last digit has four bits that say nothing.
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    slack = [sig[:-1] + digit for digit in digits if base64.urlsafe_b64decode(sig[:-1] + digit + "==") == raw]
    assert len(slack) == 16
    spellings = {
        *slack,
        sig + "==",
        sig + "=",
        sig + "\n",
        " " + sig,
        sig[:40] + "\n" + sig[40:],
        sig[:40] + "!" + sig[40:],
        base64.b64encode(raw).decode(),
        base64.b64encode(raw).decode().rstrip("="),
    } - {sig}
    for spelling in spellings:
        with pytest.raises(UntrustedSnapshot, match="sig is not 64 bytes of base64url without padding"):
            signing.verify_manifest(with_sig(signed, spelling))


@pytest.mark.parametrize("key", [b"\xff" * 32, b"\x02" + bytes(31), b"\x09" + bytes(31)])
def test_a_key_that_is_no_point_does_not_verify(signed, key):
    signature = {**signed["signature"], "key_id": signing.encode_did_key(key)}
    with pytest.raises(UntrustedSnapshot, match=r"does not verify|not in canonical form"):
        signing.verify_manifest({**signed, "signature": signature})


P = 2**255 - 19
#: The y of the points of order 8: roots of d*y^4 + 2*y^2 - 1 for the d of edwards25519 (RFC 8032, section 5.1).
Y8 = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL = [y + sign for y in (0, 1, P - 1, P, P + 1, Y8, P - Y8) for sign in (0, 2**255)]


@pytest.mark.parametrize("key", SMALL, ids=range(len(SMALL)))
def test_a_key_of_small_order_signs_nothing(signed, key):
    """Under the neutral one, for example, one signature verifies for every message."""
    key_id = signing.encode_did_key(key.to_bytes(32, "little"))
    for sig in (signed["signature"]["sig"], b64url(b"\x01" + bytes(63)), b64url(bytes(64))):
        with pytest.raises(UntrustedSnapshot, match="a key of small order"):
            signing.verify_manifest({**signed, "signature": {"alg": "ed25519", "key_id": key_id, "sig": sig}})


# The group of RFC 8032, section 5.1.
ORDER = 2**252 + 27742317777372353535851937790883648493
SIGN_BIT = 2**255


def check(message, *, key, raw, monkeypatch):
    """Have the signature of a message that is no manifest checked as that of one."""
    monkeypatch.setattr(signing, "canonical", lambda value: message)
    key_id = signing.encode_did_key(key)
    return signing.verify_manifest({"signature": {"alg": "ed25519", "key_id": key_id, "sig": b64url(raw)}})


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


def test_a_point_in_another_spelling_is_not_that_point(signer, monkeypatch):
    """The neutral point is y = 1; y = p + 1 and a sign bit on x = 0 are spellings that section 5.1.3 refuses."""
    key = signing.decode_did_key(signer.did_key)
    # The one spelling satisfies the equation: that the others do not pass is due to their spelling alone.
    check(b"m", key=key, raw=sign_with_neutral_r(1, b"m"), monkeypatch=monkeypatch)
    for encoded in (P + 1, 1 | SIGN_BIT, P + 1 | SIGN_BIT):
        with pytest.raises(UntrustedSnapshot, match="does not verify"):
            check(b"m", key=key, raw=sign_with_neutral_r(encoded, b"m"), monkeypatch=monkeypatch)


@pytest.mark.parametrize("y", [P + offset for offset in range(19)])
@pytest.mark.parametrize("bit", [0, SIGN_BIT])
def test_a_key_in_a_spelling_that_is_not_canonical_signs_nothing(signed, y, bit):
    key_id = signing.encode_did_key((y | bit).to_bytes(32, "little"))
    for sig in (signed["signature"]["sig"], b64url((1).to_bytes(32, "little") + bytes(32))):
        signature = {"alg": "ed25519", "key_id": key_id, "sig": sig}
        with pytest.raises(UntrustedSnapshot, match=r"does not verify|small order|not in canonical form"):
            signing.verify_manifest({**signed, "signature": signature})


def test_a_manifest_too_deep_to_write_is_refused(signed):
    deep = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(UntrustedSnapshot, match="cannot be checked"):
        signing.verify_manifest({**signed, "extra": deep})


@pytest.mark.parametrize("key_id", [None, "", 7, b"did:key:z"])
def test_a_signer_without_a_key_is_refused(key_id):
    class Mute:
        did_key = key_id

        def sign(self, message):
            return bytes(64)

    with pytest.raises(ValueError, match="the signer has no did_key"):
        signing.sign_manifest(MANIFEST, Mute())


@pytest.mark.parametrize("raw", [b"", bytes(63), bytes(65), "s" * 64, None, bytearray(64)])
def test_a_signer_that_gives_no_signature_is_refused(raw):
    class Broken:
        did_key = DID_KEY

        def sign(self, message):
            return raw

    with pytest.raises(ValueError, match="did not give the 64 bytes of an Ed25519 signature"):
        signing.sign_manifest(MANIFEST, Broken())


# --- without the extra ---


@pytest.mark.usefixtures("without_cryptography")
def test_without_the_extra_a_signature_is_neither_right_nor_wrong():
    manifest = {**MANIFEST, "signature": {"alg": "ed25519", "key_id": DID_KEY, "sig": "A" * 86}}
    for check in (signing.verify_manifest, OPEN.judge):
        with pytest.raises(ColonyMemoryError, match=r"cannot be checked: .*colony-memory\[sign\]") as caught:
            check(manifest)
        assert not isinstance(caught.value, UntrustedSnapshot)


@pytest.mark.usefixtures("without_cryptography")
def test_without_the_extra_what_needs_none_is_untouched():
    assert OPEN.judge(MANIFEST) is None
    assert OPEN.judge({**MANIFEST, "signature": {"alg": "ed25519"}}, verify=False) is None
    with pytest.raises(UntrustedSnapshot, match="malformed"):
        OPEN.judge({**MANIFEST, "signature": "x"})
