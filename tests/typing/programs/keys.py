"""Signing, encryption, a signer and a witness of one's own; the extras are needed to run it, not to check it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    DecryptionError,
    Ed25519Signer,
    FileWitness,
    Passphrase,
    RollbackDetected,
    Signer,
    VaultBackend,
    Witness,
    open_vault,
)
from colony_memory.encryption import make_identity


class Remote:
    """A signer that asks another process."""

    def __init__(self, key: Signer) -> None:
        self._key = key

    @property
    def did_key(self) -> str:
        return self._key.did_key

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


class Notebook:
    """A witness in a dictionary."""

    def __init__(self) -> None:
        self.heads: dict[str, str] = {}

    def read(self, label: str) -> str | None:
        return self.heads.get(label)

    def record(self, label: str, head: str) -> None:
        self.heads[label] = head


def key_of(path: Path) -> Ed25519Signer:
    if not path.exists():
        Ed25519Signer.generate().save(path)
    return Ed25519Signer.load(path)


def open_signed(vault: VaultBackend, signer: Signer, witness: Witness | None = None) -> ColonyMemory:
    return ColonyMemory(backend=vault, signer=signer, witness=witness)


def read_only(vault: VaultBackend, *trusted: str, retired: dict[str, str | None] | None = None) -> ColonyMemory:
    if retired is not None:
        return ColonyMemory(backend=vault, trusted_issuers={**dict.fromkeys(trusted), **retired})
    return ColonyMemory(backend=vault, trusted_issuers=list(trusted), require_signature=True)


def open_encrypted(vault: VaultBackend, recipient: str, identity: str | os.PathLike[str]) -> ColonyMemory:
    return ColonyMemory(backend=vault, encrypt_to=[recipient, Passphrase("words")], identities=identity)


def open_by_words(vault: VaultBackend, words: str) -> ColonyMemory:
    return ColonyMemory(backend=vault, identities=Passphrase(words))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        signer = Remote(key_of(here / "agent.pem"))
        vault, notebook = open_vault("memory:"), Notebook()
        info = open_signed(vault, signer, notebook).backup({"MEMORY.md": "mine"})
        assert info.issuer == signer.did_key
        assert notebook.heads["default"].startswith(info.head)
        assert read_only(vault, signer.did_key).restore(at_least=info.head) == {"MEMORY.md": "mine"}
        try:
            open_signed(open_vault("memory:"), signer, notebook).restore(default={})
        except RollbackDetected as error:
            assert error.hint is None or str(error.hint)
        else:
            raise AssertionError("a vault that was emptied passed for a new one")
        open_signed(vault, key_of(here / "agent.pem"), FileWitness(here / "witness.json")).verify()
        recipient: str = make_identity(here / "identity.txt")
        sealed = open_vault("memory:")
        assert open_encrypted(sealed, recipient, here / "identity.txt").backup({"MEMORY.md": "secret"}).encrypted
        try:
            open_by_words(sealed, "other words").restore()
        except DecryptionError as error:
            problem: ColonyMemoryError = error
            assert "opens it" in problem.message


if __name__ == "__main__":
    main()
