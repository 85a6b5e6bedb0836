"""Encryption as a user's type checker sees it."""

from __future__ import annotations

from pathlib import Path

from colony_memory import AsyncColonyMemory, ColonyMemory, Passphrase

ColonyMemory("col_…", encrypt_to="age1…", identities=Path("identity.txt"))
ColonyMemory(
    "col_…", encrypt_to=["age1…", Passphrase("words")], identities=["AGE-SECRET-KEY-1…", Path("key"), Passphrase("x")]
)
AsyncColonyMemory("col_…", encrypt_to=Passphrase("words"))
ColonyMemory("col_…", encrypt_to=7)  # type: ignore[arg-type]
