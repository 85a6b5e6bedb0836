"""A memory in a vault that is chosen, under the trust that is asked for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from colony_memory._arguments import texts
from colony_memory._values import dataclass
from colony_memory.app.keys import key_arguments, settled
from colony_memory.app.place import Place, choose_place
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.signing import Signer

__all__ = ["OpenMemory", "load_signer", "open_memory", "trust_arguments"]


@dataclass(frozen=True)
class OpenMemory:
    """A memory, and the place where it is."""

    memory: ColonyMemory
    place: Place


def open_memory(
    vault: str | None = None,
    *,
    making: bool = False,
    on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    key_file: str | os.PathLike[str] | None = None,
    trust: str | Iterable[str] = (),
    witness: str | os.PathLike[str] | None = None,
    require_signature: bool | None = None,
    accept_legacy_pointer: bool = False,
    encrypt_to: Iterable[str] = (),
    identities: Iterable[str | os.PathLike[str]] = (),
    passphrase_file: str | os.PathLike[str] | None = None,
) -> OpenMemory:
    """Open the memory in a vault."""
    given = trust_arguments(
        key_file=key_file,
        trust=trust,
        witness=witness,
        require_signature=require_signature,
        accept_legacy_pointer=accept_legacy_pointer,
    )
    given |= key_arguments(encrypt_to=encrypt_to, identities=identities, passphrase_file=passphrase_file)
    place = choose_place(vault)
    if place.chosen or not making:
        place.require()
    return OpenMemory(ColonyMemory(backend=place.backend, on_event=on_event, **given), place)


def trust_arguments(
    *,
    key_file: str | os.PathLike[str] | None = None,
    trust: str | Iterable[str] = (),
    witness: str | os.PathLike[str] | None = None,
    require_signature: bool | None = None,
    accept_legacy_pointer: bool = False,
) -> dict[str, Any]:
    """The arguments of :class:`colony_memory.ColonyMemory` that say what is trusted, those that were given."""
    given: dict[str, Any] = {}
    if key_file:
        given["signer"] = load_signer(settled(key_file) if isinstance(key_file, str) else key_file)
    issuers = _read_trust(texts("trust", trust))
    if issuers:
        own = {given["signer"].did_key: None} if "signer" in given else {}
        given["trusted_issuers"] = {**own, **issuers}
    if witness:
        from colony_memory.witness import FileWitness

        given["witness"] = FileWitness(settled(witness) if isinstance(witness, str) else witness)
    if require_signature is not None:
        given["require_signature"] = require_signature
    if accept_legacy_pointer:
        given["accept_legacy_pointer"] = True
    return given


def load_signer(path: str | os.PathLike[str]) -> Signer:
    """The signer of a key file."""
    from colony_memory.signing import Ed25519Signer, require_cryptography

    require_cryptography("a key file is given")
    try:
        return Ed25519Signer.load(path)
    except ColonyMemoryError as error:
        raise ValueError(error.message) from error


def _read_trust(given: Iterable[str]) -> dict[str, str | None]:
    """Each ``DID`` or ``DID@ID``, separated by blanks or commas, with the id that it is trusted up to."""
    issuers: dict[str, str | None] = {}
    for each in re.split(r"[\s,]+", " ".join(given).strip(" ,")):
        did_key, _, last = each.partition("@")
        if did_key:
            issuers[did_key] = last or None
    return issuers
