"""Vaults as signing clients find them, for the tests of what a fault does to one that pins an issuer."""

import functools
import json

import pytest

from colony_memory import ColonyMemory, Ed25519Signer, trust
from colony_memory.signing import decode_did_key, sign_manifest, verify_manifest

pytest.importorskip("cryptography")

OWN, RETIRED = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(1, 33)))
POINTER = "cmem.default.latest.json"
#: What this package adds to the pointer and to a manifest that 0.1.1 writes.
_ADDED = ("generation", "stream", "catalog", "removed", "went_back_from", "signature", "previous")


def check_each_signature_once(patch):
    """Spare the time of checking the same few signatures in thousands of schedules."""
    known = {}

    def verify_once(manifest):
        text = json.dumps(manifest, sort_keys=True)
        if text not in known:
            known[text] = verify_manifest(manifest)
        return known[text]

    patch.setattr(trust, "verify_manifest", verify_once)
    patch.setattr(trust, "decode_did_key", functools.cache(decode_did_key))


def as_0_1_1_leaves_them(vault, signer=None):
    """Turn every file into what 0.1.1 would have written: bare pointers, and manifests that name none before them."""
    for name in list(vault.files):
        if name.endswith((".latest.json", ".manifest.json")):
            raw = json.loads(vault.vault_get_file(name)["content"])
            raw = {key: value for key, value in raw.items() if key not in _ADDED}
            if signer is not None and name.endswith(".manifest.json"):
                raw["signature"] = sign_manifest(raw, signer)
            vault.vault_upload_file(name, json.dumps(raw))


def saved(vault, versions, **options):
    mem = ColonyMemory(backend=vault, **options)
    return [mem.backup(documents).snapshot_id for documents in versions]


def signed(vault, versions):
    """One signing client was at work."""
    return saved(vault, versions, signer=OWN), {"signer": OWN}


def upgraded(vault, versions):
    """0.1.1 signed until yesterday."""
    ids = saved(vault, versions, signer=OWN)
    as_0_1_1_leaves_them(vault, OWN)
    return ids, {"signer": OWN}


def unsigned(vault, versions):
    """Nobody signed until yesterday."""
    return saved(vault, versions), {"signer": OWN}


def unsigned_by_0_1_1(vault, versions):
    """0.1.1 was at work without a signer."""
    ids = saved(vault, versions)
    as_0_1_1_leaves_them(vault)
    return ids, {"signer": OWN}


def _retired_at(ids):
    return {RETIRED.did_key: ids[-1], OWN.did_key: None}


def rotated(vault, versions):
    """The key was replaced; the one before is trusted for what it signed."""
    ids = saved(vault, versions, signer=RETIRED)
    return ids, {"signer": OWN, "trusted_issuers": _retired_at(ids)}


def rotated_from_0_1_1(vault, versions):
    """The key was replaced on the day of the upgrade."""
    ids = saved(vault, versions, signer=RETIRED)
    as_0_1_1_leaves_them(vault, RETIRED)
    return ids, {"signer": OWN, "trusted_issuers": _retired_at(ids)}


HISTORIES = {
    "signed": signed,
    "upgraded": upgraded,
    "unsigned": unsigned,
    "unsigned by 0.1.1": unsigned_by_0_1_1,
    "rotated": rotated,
    "rotated from 0.1.1": rotated_from_0_1_1,
}
