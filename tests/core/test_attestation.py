"""Envelopes for snapshots, made by the SDK and checked by its own verifier where its extra is installed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from colony_sdk import attestation

from colony_memory import ColonyMemory, ColonyMemoryError, Ed25519Signer, open_vault
from colony_memory.attestation import HOSTED_FILES, to_attestation
from colony_memory.snapshot import SnapshotInfo

SEED = bytes(range(32))
DID_KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
OTHER_KEY = "did:key:z6MkqXg49z6QHRtUvYssy9AjVHuJeNicD7uisueaetXbM7H7"
INFO = SnapshotInfo(
    snapshot_id="20261101T120000000000Z-abcdef",
    label="work",
    created_at="2026-11-01T12:00:00Z",
    doc_names=["MEMORY.md"],
    part_count=1,
    byte_size=10,
    plaintext_sha256="sha256:" + "ab" * 32,
)
MANIFEST = "cmem.work.20261101T120000000000Z-abcdef.manifest.json"


class Stamp:
    """A signer that needs no extra: its signatures are well formed and worth nothing."""

    did_key = DID_KEY

    def __init__(self, raw: Any = bytes(64)) -> None:
        self.raw = raw
        self.signed: list[bytes] = []

    def sign(self, message: bytes) -> bytes:
        self.signed.append(message)
        raw: bytes = self.raw
        return raw


@pytest.fixture
def signer() -> Ed25519Signer:
    pytest.importorskip("cryptography")
    return Ed25519Signer(SEED)


@pytest.fixture
def verify() -> Any:
    """The SDK's verifier, of an envelope that went over a wire."""
    pytest.importorskip("nacl", reason="needs the SDK's extra 'attestation'")
    pytest.importorskip("base58", reason="needs the SDK's extra 'attestation'")

    def verify_copy(envelope: dict[str, Any], **options: Any) -> attestation.VerificationResult:
        return attestation.verify(json.loads(json.dumps(envelope)), **options)

    return verify_copy


def test_the_claim_names_the_snapshot_its_time_and_its_digest() -> None:
    envelope = to_attestation(INFO, signer=Stamp())
    assert envelope["envelope_version"] == "0.1"
    assert envelope["witnessed_claim"] == {
        "claim_type": "artifact_published",
        "artifact_uri": f"https://thecolony.ai/api/v1/vault/files/{MANIFEST}",
        "content_hash": INFO.plaintext_sha256,
        "published_at": "2026-11-01T12:00:00Z",
    }
    assert envelope["evidence"] == [
        {"pointer_type": "platform_receipt", "uri": f"{HOSTED_FILES}/{MANIFEST}", "platform_id": "thecolony.ai"}
    ]
    assert envelope["issuer"] == envelope["subject"] == {"id_scheme": "did:key", "id": DID_KEY}
    assert [entry["key_id"] for entry in envelope["sigchain"]] == [DID_KEY]
    assert envelope["validity"]["validity_model"] == "time_bounded"
    assert json.loads(json.dumps(envelope)) == envelope


@pytest.mark.parametrize(
    ("vault_url", "base"),
    [
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("s3://bucket", "s3://bucket"),
        ("file:///home/agent/vault", "file:///home/agent/vault"),
        ("https://example.org:8443/v/@me%20", "https://example.org:8443/v/@me%20"),
    ],
)
def test_another_vault_is_named_by_its_url(vault_url: str, base: str) -> None:
    envelope = to_attestation(INFO, signer=Stamp(), vault_url=vault_url)
    assert envelope["witnessed_claim"]["artifact_uri"] == f"{base}/{MANIFEST}"
    assert envelope["evidence"] == [{"pointer_type": "immutable_uri", "uri": f"{base}/{MANIFEST}"}]


@pytest.mark.parametrize(
    "vault_url",
    [
        "",
        "vault",
        "/home/agent/vault",
        "memory:",
        "colony:",
        "https://",
        "file:///",
        "://host/path",
        "https://agent:secret@host/path",
        "https://agent@host",
        "https://host/path?token=secret",
        "https://host/path#secret",
        "https://host/a secret",
        "https://host/secret\n",
        "https://host/sécret",
        "https://host/<secret>",
        7,
    ],
)
def test_what_is_no_url_of_a_vault_is_refused_and_not_repeated(vault_url: Any) -> None:
    with pytest.raises(ValueError, match=r"vault_url must be a URL such as s3://bucket/prefix") as caught:
        to_attestation(INFO, signer=Stamp(), vault_url=vault_url)
    assert "secret" not in str(caught.value)


def test_what_the_sdk_builds_is_taken_as_it_is() -> None:
    post = "https://thecolony.ai/api/v1/posts/7"
    envelope = to_attestation(
        INFO,
        signer=Stamp(),
        evidence=[attestation.evidence_platform_receipt(post, "thecolony.ai", INFO.plaintext_sha256)],
        subject=attestation.platform_handle_identity("thecolony.ai:agent"),
        validity=attestation.validity_perpetual("2026-11-01T12:00:00Z", "2026-11-01T12:00:00Z"),
        display_name="An agent",
    )
    assert [pointer["uri"] for pointer in envelope["evidence"]] == [post]
    assert envelope["subject"] == {"id_scheme": "platform-handle", "id": "thecolony.ai:agent"}
    assert envelope["validity"]["validity_model"] == "perpetual"
    assert envelope["issuer"] == {"id_scheme": "did:key", "id": DID_KEY, "display_name": "An agent"}


# --- the SDK's verifier


def test_the_verifier_of_the_sdk_accepts_it(signer: Ed25519Signer, verify: Any) -> None:
    mem = ColonyMemory(backend=open_vault("memory:"), signer=signer)
    info = mem.backup({"MEMORY.md": "attested"}, label="work")
    result = verify(to_attestation(info, signer=signer))
    assert (result.ok, result.issuer_bound, result.reasons) == (True, True, ())


def test_a_signer_over_a_key_elsewhere_will_do(signer: Ed25519Signer, verify: Any) -> None:
    class Module:
        did_key = DID_KEY

        def sign(self, message: bytes) -> bytes:
            return signer.sign(message)

    class Published:
        key_id = DID_KEY
        sign = Module.sign

    for other in (Module(), Published(), attestation.Ed25519Signer(SEED)):
        result = verify(to_attestation(INFO, signer=other))  # type: ignore[arg-type]
        assert (result.ok, result.issuer_bound) == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        {"content_hash": "sha256:" + "cd" * 32},
        {"artifact_uri": f"{HOSTED_FILES}/{MANIFEST.replace('work', 'home')}"},
        {"published_at": "2026-11-02T12:00:00Z"},
    ],
)
def test_the_verifier_of_the_sdk_refuses_what_was_changed(signer: Ed25519Signer, verify: Any, change: Any) -> None:
    envelope = to_attestation(INFO, signer=signer)
    assert verify(envelope).ok
    changed = {**envelope, "witnessed_claim": {**envelope["witnessed_claim"], **change}}
    assert not verify(changed).ok


def test_the_verifier_of_the_sdk_refuses_another_issuer_and_a_late_reader(signer: Ed25519Signer, verify: Any) -> None:
    envelope = to_attestation(INFO, signer=signer)
    entry = {**envelope["sigchain"][0], "key_id": OTHER_KEY}
    assert not verify({**envelope, "sigchain": [entry]}).ok
    assert not verify({**envelope, "issuer": {"id_scheme": "did:key", "id": OTHER_KEY}}).ok
    assert not verify(envelope, now=datetime.now(timezone.utc) + timedelta(days=400)).ok
    assert not verify(to_attestation(INFO, signer=Stamp())).ok


# --- refusals


@pytest.mark.parametrize("info", [None, {}, replace(INFO, plaintext_sha256=""), replace(INFO, plaintext_sha256="ab")])
def test_what_has_no_digest_cannot_be_attested(info: Any) -> None:
    with pytest.raises(ValueError, match="info must be a SnapshotInfo with the digest of a snapshot"):
        to_attestation(info, signer=Stamp())


@pytest.mark.parametrize("field", [{"label": "a/b"}, {"label": "a b"}, {"snapshot_id": "../x"}, {"snapshot_id": ""}])
def test_a_name_that_no_vault_file_has_is_refused(field: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"label|snapshot id"):
        to_attestation(replace(INFO, **field), signer=Stamp())  # type: ignore[arg-type]


@pytest.mark.parametrize("raw", [b"", bytes(63), bytes(65), "s" * 64, None, bytearray(64)])
def test_a_signer_that_gives_no_signature_is_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match="did not give the 64 bytes of an Ed25519 signature"):
        to_attestation(INFO, signer=Stamp(raw))


def test_a_signer_without_a_did_key_is_refused() -> None:
    with pytest.raises(ValueError, match="the signer has no did_key"):
        to_attestation(INFO, signer=object())  # type: ignore[arg-type]
    stamp = Stamp()
    stamp.did_key = "did:web:example.org"
    with pytest.raises(ValueError, match="the snapshot cannot be attested: not a base58btc did:key"):
        to_attestation(INFO, signer=stamp)


def test_an_envelope_needs_evidence() -> None:
    with pytest.raises(ValueError, match="the snapshot cannot be attested: evidence must contain at least one"):
        to_attestation(INFO, signer=Stamp(), evidence=[])


def test_without_what_the_signer_of_the_sdk_needs_its_message_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nacl", "nacl.signing", "base58"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ColonyMemoryError, match=r"pip install colony-sdk\[attestation\]"):
        to_attestation(INFO, signer=attestation.Ed25519Signer(SEED))


def test_an_sdk_without_attestations_is_told_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata

    import colony_sdk

    monkeypatch.delattr(colony_sdk, "attestation", raising=False)
    monkeypatch.setitem(sys.modules, "colony_sdk.attestation", None)
    installed = importlib.metadata.version("colony-sdk")
    with pytest.raises(ColonyMemoryError, match=rf"attestations need colony-sdk>=1\.35,<2; {installed} is installed"):
        to_attestation(INFO, signer=Stamp())

    def unknown(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    with pytest.raises(ColonyMemoryError, match="none is installed"):
        to_attestation(INFO, signer=Stamp())
