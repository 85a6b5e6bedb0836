"""Attestations: a signed statement, in the Colony's envelope, that an agent made a snapshot.

The envelope, its canonical form and its signature are the SDK's (:mod:`colony_sdk.attestation`); this module says of a
snapshot what goes into one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import manifest_filename, require_id, require_label
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.signing import did_key_of
from colony_memory.snapshot import SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.signing import Signer

#: Where the hosted vault keeps its files.
HOSTED_FILES = "https://thecolony.ai/api/v1/vault/files"
_PLATFORM = "thecolony.ai"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Scheme, host and path, one of the two at least, in ASCII; no user, query or fragment.
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://(?=/*[^/])[!-~]+")
_NOT_IN_A_URL = re.compile(r"://[^/]*@|[?#\"<>\\^`{|}]")


def to_attestation(
    info: SnapshotInfo,
    *,
    signer: Signer,
    vault_url: str | None = None,
    evidence: Sequence[Mapping[str, Any]] | None = None,
    subject: Mapping[str, Any] | None = None,
    validity: Mapping[str, Any] | None = None,
    display_name: str | None = None,
) -> dict[str, Any]:
    """A signed ``artifact_published`` envelope for a snapshot, as a dictionary that is JSON.

    It claims that the signer's did:key published, at ``info.created_at``, the snapshot whose manifest lies at
    ``artifact_uri``, and that ``content_hash`` is the SHA-256 of its documents (``info.plaintext_sha256``).
    ``colony_sdk.attestation.verify`` checks it. Whoever is given the documents can compute the hash again; nobody is
    shown them by the envelope, but a guess at a short text can be confirmed with it.

    Args:
        info: The snapshot, as ``backup`` and ``list_snapshots`` give it.
        signer: Signs the envelope and is its issuer.
        vault_url: URL under which the files of the vault lie; the hosted vault where it is None.
        evidence: Pointers made with the ``evidence_*`` functions of ``colony_sdk.attestation``, such as a post that
            names the digest. By default one that leads to the manifest.
        subject: Whom the claim is about, as the ``*_identity`` functions make it; the issuer by default.
        validity: As the ``validity_*`` functions make it; a year from now by default.
        display_name: Name of the issuer, for people.

    Raises:
        ValueError: An argument is not what it should be.
        ColonyMemoryError: The SDK that is installed has no attestations, or lacks what it needs to sign with the
            signer that was given.
    """
    try:
        from colony_sdk import attestation
    except ImportError as error:
        raise ColonyMemoryError(_explain_missing()) from error
    if not isinstance(info, SnapshotInfo) or not _DIGEST.fullmatch(info.plaintext_sha256):
        raise ValueError("info must be a SnapshotInfo with the digest of a snapshot, as backup() and latest() give it")
    uri = _locate(info, vault_url)
    try:
        claim = attestation.artifact_published(uri, info.plaintext_sha256, info.created_at)
        if evidence is None:
            if vault_url is None:
                evidence = [attestation.evidence_platform_receipt(uri, _PLATFORM)]
            else:
                # Written once, under a name that no other snapshot gets.
                evidence = [attestation.evidence_immutable_uri(uri)]
        checked: Any = _CheckedSigner(signer)
        return attestation.export_attestation(
            signer=checked,
            witnessed_claim=claim,
            evidence=evidence,
            subject=subject,
            validity=validity,
            display_name=display_name,
        )
    except attestation.AttestationDependencyError as error:
        raise ColonyMemoryError(str(error)) from error
    except attestation.AttestationError as error:
        raise ValueError(f"the snapshot cannot be attested: {error}") from error


class _CheckedSigner:
    """A signer as the SDK calls it, whose signatures have the right length."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self.did_key = did_key_of(signer)

    def sign(self, message: bytes) -> bytes:
        raw = self._signer.sign(message)
        if not isinstance(raw, bytes) or len(raw) != 64:
            raise ValueError("the signer did not give the 64 bytes of an Ed25519 signature")
        return raw


def _locate(info: SnapshotInfo, vault_url: str | None) -> str:
    """The URL of the manifest."""
    name = manifest_filename(require_label(info.label), require_id(info.snapshot_id))
    base = HOSTED_FILES if vault_url is None else vault_url
    if not isinstance(base, str) or not _URL.fullmatch(base) or _NOT_IN_A_URL.search(base):
        # Not repeated: an address may hold a password.
        raise ValueError("vault_url must be a URL such as s3://bucket/prefix, without a user, a '?' or a '#'")
    return f"{base.rstrip('/')}/{name}"


def _explain_missing() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"{version('colony-sdk')} is installed"
    except PackageNotFoundError:
        found = "none is installed"
    return f"attestations need colony-sdk>=1.35,<2; {found}"
