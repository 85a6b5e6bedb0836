"""What a client does not trust may be of anybody's making, and a verification does not unpack it."""

from __future__ import annotations

import pytest

from colony_memory import ColonyMemory, Ed25519Signer
from colony_memory._format.v2.zstd import is_installed
from colony_memory.testing import FakeVault

pytest.importorskip("cryptography")

OWN, STRANGER = (Ed25519Signer(bytes([seed]) * 32) for seed in (1, 2))


@pytest.mark.parametrize("signer", [None, STRANGER], ids=["nobody", "a stranger"])
@pytest.mark.parametrize(
    "wire", [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="needs zstd"))]
)
def test_what_is_not_trusted_is_not_unpacked(wire, signer):
    vault = FakeVault(operations_per_hour=None)
    theirs = ColonyMemory(backend=vault, signer=signer, format=wire).backup({"m": "x" * 5000}).snapshot_id
    pinned = ColonyMemory(backend=vault, signer=OWN, max_bytes=100)  # unpacking it would be told of
    (check,) = pinned.verify().snapshots
    assert (check.snapshot_id, check.trust, check.parts, check.digest) == (theirs, "bad", "unchecked", "unchecked")
    assert "max_bytes" not in check.problem
    assert not check
    assert not check.sealed
    assert ColonyMemory(
        backend=vault, signer=OWN, require_signature=False, trusted_issuers=[STRANGER.did_key, OWN.did_key]
    ).verify()
    part = next(name for name in vault.files if ".p0." in name or ".k0." in name)
    del vault.files[part]
    assert pinned.verify(snapshot_id=theirs).snapshots[0].parts == "missing"
