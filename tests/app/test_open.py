"""A memory in a vault that is chosen, under the trust that is asked for."""

from __future__ import annotations

import os

import pytest

from colony_memory import ColonyMemoryError, Ed25519Signer, VaultMissing, signing
from colony_memory.app.open import load_signer, open_memory, trust_arguments

pytest.importorskip("cryptography")

OURS, STRANGER = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(1, 33)))


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.pem"
    OURS.save(path)
    return path


def test_the_arguments_are_those_that_were_given(key, tmp_path):
    assert trust_arguments() == {}
    found = trust_arguments(key_file=key, witness=tmp_path / "seen.json")
    assert set(found) == {"signer", "witness"}
    assert found["signer"].did_key == OURS.did_key
    assert found["witness"].path == tmp_path / "seen.json"
    found = trust_arguments(require_signature=False, accept_legacy_pointer=True)
    assert found == {"require_signature": False, "accept_legacy_pointer": True}


def test_trust_is_a_list_in_any_spelling(key):
    given = [f"{STRANGER.did_key}@20261101T120000300000Z-abcdef, did:key:b", " ", "did:key:c"]
    listed = {STRANGER.did_key: "20261101T120000300000Z-abcdef", "did:key:b": None, "did:key:c": None}
    assert trust_arguments(trust=given) == trust_arguments(trust=" ".join(given)) == {"trusted_issuers": listed}
    found = trust_arguments(trust=given[:1], key_file=key)
    assert next(iter(found["trusted_issuers"])) == OURS.did_key
    assert trust_arguments(trust=[", "]) == {}


def test_a_key_file_that_cannot_be_used_is_a_bad_argument(key, tmp_path, monkeypatch):
    (tmp_path / "empty").touch(0o600)
    for name in ("none", "empty"):
        with pytest.raises(ValueError, match=name):
            load_signer(tmp_path / name)
    if os.name != "nt":
        key.chmod(0o644)
        with pytest.raises(ValueError, match="open to others"):
            trust_arguments(key_file=key)

    def missing(why):
        raise ColonyMemoryError(f"not installed, and {why}")

    monkeypatch.setattr(signing, "require_cryptography", missing)
    with pytest.raises(ColonyMemoryError, match="not installed, and a key file is given"):
        load_signer(key)


def test_a_vault_that_is_not_there_is_not_opened(tmp_path, monkeypatch):
    for making in (False, True):  # nobody makes what was chosen
        with pytest.raises(VaultMissing):
            open_memory(str(tmp_path / "none"), making=making)
    for name in [each for each in os.environ if each.startswith("COLONY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with pytest.raises(VaultMissing):
        open_memory()
    opened = open_memory(making=True)
    assert not opened.place.exists()
    assert opened.place.make_unchosen()
    assert opened.memory.backup({"a.md": "x"})
    assert open_memory().memory.restore() == {"a.md": "x"}
