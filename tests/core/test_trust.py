"""What a client accepts, rule by rule."""

import pytest

from colony_memory.exceptions import RollbackDetected, UntrustedSnapshot
from colony_memory.trust import OPEN, Trust, check_head, check_newer, follows_signed_pointer, previous_of, read_trust

ID_1, ID_2, ID_3 = (f"2026010{n}T000000000000Z-00000{n}" for n in (1, 2, 3))
OWN = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
DIGEST = "sha256:" + "ab" * 32


def signer(seed):
    signing = pytest.importorskip("colony_memory.signing")
    pytest.importorskip("cryptography")
    return signing.Ed25519Signer(bytes([seed]) * 32)


def signed(raw, by):
    from colony_memory.signing import sign_manifest

    return {**raw, "signature": sign_manifest(raw, by)}


def manifest(snapshot_id=ID_2, **more):
    return {"snapshot_id": snapshot_id, "label": "work", **more}


# --- a manifest, and a pointer ---


@pytest.mark.parametrize("signature", [{}, "x", 1, {"alg": "rsa"}, {"alg": "ed25519", "key_id": OWN, "sig": "A" * 86}])
def test_what_only_looks_like_a_signature_is_refused(signature):
    pytest.importorskip("cryptography")
    for trust in (OPEN, Trust({OWN: None}), Trust(require_signature=True)):
        for judge in (trust.judge, trust.judge_pointer):
            with pytest.raises(UntrustedSnapshot):
                judge(manifest(signature=signature))


# --- keys that were replaced ---


@pytest.mark.parametrize(
    ("last", "snapshot_id", "taken"),
    [
        (None, ID_3, True),
        (None, None, True),
        (ID_2, ID_1, True),
        (ID_2, ID_2, True),
        (ID_2, ID_3, False),
        (ID_2, "20260102T000000000000Z-000003", False),
        # An id without a time sorts before all that have one.
        (ID_2, "zzz", True),
        ("zzz", ID_1, False),
        (ID_2, None, False),
        (ID_2, 7, False),
        (ID_2, [ID_1], False),
    ],
)
def test_a_retired_key_is_taken_up_to_a_snapshot(last, snapshot_id, taken):
    trust = Trust({OWN: last})
    if taken:
        trust.admit(OWN, snapshot_id, what="it")
    else:
        with pytest.raises(
            UntrustedSnapshot, match=f"it is signed by {OWN}, which is trusted up to snapshot {last} only"
        ):
            trust.admit(OWN, snapshot_id, what="it")


def test_the_pointer_of_a_retired_key_is_taken_as_long_as_it_names_an_old_snapshot():
    old = signer(3)
    trust = Trust({old.did_key: ID_2}, require_signature=True)
    assert trust.judge_pointer(signed(manifest(ID_2), old)) == old.did_key
    for raw in (manifest(ID_3), manifest(ID_1, went_back_from=ID_3)):
        with pytest.raises(UntrustedSnapshot, match="up to snapshot"):
            trust.judge_pointer(signed(raw, old))
    assert trust.judge_pointer(signed(manifest(ID_1, went_back_from=ID_2), old)) == old.did_key


# --- what a client may write ---


@pytest.mark.parametrize(
    ("trust", "issuer", "refusal"),
    [
        (OPEN, None, None),
        (OPEN, OWN, None),
        (Trust({OWN: None}), OWN, None),
        (Trust({OWN: None}), None, None),
        (Trust(require_signature=True), OWN, None),
        (Trust({OWN: None}, require_signature=True), None, "has no key to sign one with"),
        (Trust({OWN: ID_2}), OWN, "trusted up to an older snapshot only"),
        (Trust({"did:key:other": None}), OWN, "not among those that are trusted"),
    ],
)
def test_a_client_writes_nothing_that_it_would_refuse(trust, issuer, refusal):
    if refusal is None:
        trust.check_signer(issuer)
    else:
        with pytest.raises(ValueError, match=refusal):
            trust.check_signer(issuer)


# --- the policy that arguments ask for ---


def read(trusted=None, required=None, *, signer=None, legacy=False):
    return read_trust(trusted, required, accept_legacy_pointer=legacy, signer=signer)


@pytest.mark.parametrize(
    ("given", "options", "issuers", "required"),
    [
        (None, {}, {}, False),
        (None, {"required": True}, {}, True),
        (None, {"signer": OWN}, {OWN: None}, True),
        (None, {"signer": OWN, "required": False}, {OWN: None}, False),
        (OWN, {}, {OWN: None}, True),
        ([OWN], {}, {OWN: None}, True),
        ((OWN, OWN), {"required": False}, {OWN: None}, False),
        ({OWN: ID_1}, {}, {OWN: ID_1}, True),
        (iter([OWN]), {}, {OWN: None}, True),
        # What is given takes the place of the signer's own.
        ({OWN: None}, {"signer": "did:key:other"}, {OWN: None}, True),
    ],
)
def test_what_a_client_is_told_to_trust(given, options, issuers, required):
    trust = read(given, **options)
    assert trust == Trust(issuers, required)
    assert trust.pins == bool(issuers or required)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], "no issuer is given"),
        ({}, "no issuer is given"),
        ("", "did:key"),
        ("did:key:z6Mk", "did:key"),
        ("did:web:example.org", "did:key"),
        (OWN.replace("z6M", "z6N"), "did:key"),
        (OWN + "\n", "base58"),
        ([OWN, 7], "7 is not a did:key"),
        ([None], "None is not a did:key"),
        ([b"did:key:z"], "is not a did:key"),
        ({OWN: "../x"}, "snapshot id"),
        ({OWN: 7}, "snapshot id"),
        ({OWN: ""}, "snapshot id"),
    ],
)
def test_what_no_client_can_trust(given, named):
    with pytest.raises(ValueError, match=named):
        read(given)


# --- the snapshot before ---


@pytest.mark.parametrize(
    ("previous", "named", "found"),
    [
        ({"snapshot_id": ID_1, "manifest_sha256": DIGEST}, True, (ID_1, DIGEST)),
        (None, False, None),
        ({}, True, None),
        (ID_1, True, None),
        ([ID_1, DIGEST], True, None),
        ({"snapshot_id": ID_1}, True, None),
        ({"snapshot_id": 7, "manifest_sha256": DIGEST}, True, None),
        ({"snapshot_id": ID_1, "manifest_sha256": None}, True, None),
    ],
)
def test_the_snapshot_before(previous, named, found):
    raw = manifest(previous=previous)
    assert follows_signed_pointer(raw) == named
    assert previous_of(raw) == found


# --- a pointer that was put back ---


def after(previous):
    return manifest(ID_3, previous={"snapshot_id": previous, "manifest_sha256": DIGEST})


@pytest.mark.parametrize(
    ("raw", "head", "back"),
    [
        (after(ID_1), ID_1, None),  # its writer died before it moved the pointer
        (after(ID_1), ID_2, None),  # it met another writer
        (manifest(ID_3), ID_1, None),  # 0.1.1 wrote it
        (after(ID_2), ID_1, ID_2),  # both were deleted, and the second deletion stopped half way
        (after(ID_2), ID_1, ID_3),
    ],
)
def test_a_newer_snapshot_that_a_pointer_need_not_know(raw, head, back):
    check_newer("work", head, raw, went_back_from=back)


@pytest.mark.parametrize(("head", "back"), [(ID_1, None), ("no-time", None), (ID_1, ID_1), ("a", ID_1)])
def test_a_newer_snapshot_that_shows_that_the_pointer_was_put_back(head, back):
    with pytest.raises(RollbackDetected, match=f"names snapshot {head}, and {ID_3} was made when it named {ID_2}"):
        check_newer("work", head, after(ID_2), went_back_from=back)


# --- heads that were seen before ---

HEAD, OTHER, STREAM = "ab" * 8, "cd" * 8, "0123456789abcdef"


@pytest.mark.parametrize(
    ("head", "stream", "seen"),
    [
        (f"5:{HEAD}", None, f"5:{HEAD}"),
        (f"5:{HEAD}", None, "5"),
        (f"5:{HEAD}", STREAM, 5),
        (f"6:{OTHER}", None, f"5:{HEAD}"),
        (f"6:{OTHER}", STREAM, f"5:{HEAD}:{STREAM}"),
        # Where one of them knows no stream, none is compared.
        (f"6:{OTHER}", None, f"5:{HEAD}:{STREAM}"),
        (f"6:{OTHER}", STREAM, f"5:{HEAD}"),
    ],
)
def test_a_head_that_holds(head, stream, seen):
    assert check_head("work", seen, head=head, stream=stream)


@pytest.mark.parametrize(
    ("head", "stream", "seen", "told"),
    [
        (f"4:{HEAD}", None, f"5:{HEAD}", "is at generation 4, and 5 was seen before"),
        (f"4:{HEAD}", None, 5, "is at generation 4, and 5 was seen before"),
        ("", None, "5", "no pointer with a generation, and generation 5"),
        (f"5:{OTHER}", None, f"5:{HEAD}", "a different snapshot from the one seen"),
        (f"9:{OTHER}", "f" * 16, f"5:{HEAD}:{STREAM}", f"of another history, begun as {'f' * 16}, and {STREAM} was"),
    ],
)
def test_a_head_that_shows_a_rollback(head, stream, seen, told):
    with pytest.raises(RollbackDetected, match=told) as caught:
        check_head("work", seen, head=head, stream=stream)
    assert isinstance(caught.value, UntrustedSnapshot)
    assert "'work'" in str(caught.value)
    assert caught.value.hint is not None


def test_without_conditional_upload_two_writers_may_both_write_one_generation():
    assert not check_head("work", f"5:{HEAD}", head=f"5:{OTHER}", stream=None, conditional=False)
    assert not check_head("work", f"1:{HEAD}:{STREAM}", head=f"1:{OTHER}", stream="f" * 16, conditional=False)
    with pytest.raises(RollbackDetected):
        check_head("work", f"6:{HEAD}", head=f"5:{OTHER}", stream=None, conditional=False)


@pytest.mark.parametrize("seen", ["", "x", "5:", f"0:{HEAD}", f"5:{HEAD}0", f"{2**60}:{HEAD}", -1, 0, True, 5.0, [5]])
def test_what_is_no_head(seen):
    with pytest.raises(ValueError, match="is not a head"):
        check_head("work", seen, head=f"9:{HEAD}", stream=None)


def test_a_retired_key_empties_no_label():
    retired = Trust({"did:key:zOld": ID_1}, require_signature=True)
    assert retired.accepts("did:key:zOld", ID_1)
    assert not retired.accepts("did:key:zOld", ID_3)
    assert not retired.accepts("did:key:zNew", ID_1)
    assert not retired.accepts(None, ID_1)
    assert Trust().accepts(None, ID_1)


def test_a_pointer_that_lists_what_was_seen_is_of_the_same_history():
    """Two clients may each have begun one where 0.1.1 writes over their pointers."""
    seen, listed = f"5:{HEAD}:{STREAM}", [f"sha256:{OTHER}{'0' * 48}", f"sha256:{HEAD}{'0' * 48}"]
    assert check_head("work", seen, head=f"6:{OTHER}", stream="f" * 16, listed=listed)
    with pytest.raises(RollbackDetected, match="of another history"):
        check_head("work", seen, head=f"6:{OTHER}", stream="f" * 16, listed=listed[:1])
    with pytest.raises(RollbackDetected, match="is at generation 4"):
        check_head("work", seen, head=f"4:{OTHER}", stream="f" * 16, listed=listed)
