"""What a type checker makes of encryption. Checked by mypy, never called.

Each ``type: ignore`` is a control: mypy reports it as unused where the call gives ``Any`` or something wider.
"""

from __future__ import annotations

from pathlib import Path

from colony_memory import AsyncColonyMemory, ColonyMemory, Passphrase


def options() -> None:
    ColonyMemory("col_…", encrypt_to="age1…", identities=Path("identity.txt"))
    ColonyMemory("col_…", encrypt_to=["age1…", Passphrase("words")], identities=["AGE-SECRET-KEY-1…", Path("key")])
    AsyncColonyMemory("col_…", encrypt_to=Passphrase("words"), identities=(Passphrase("words"),))
    ColonyMemory("col_…", encrypt_to=7)  # type: ignore[arg-type]
    ColonyMemory("col_…", identities=b"AGE-SECRET-KEY-1")  # type: ignore[arg-type]
