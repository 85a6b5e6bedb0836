"""What a verb works with: the memory in the chosen vault, under the options given."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from colony_memory.cli.errors import USAGE, Failure
from colony_memory.cli.progress import Progress
from colony_memory.cli.vault import at_vault
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from colony_memory.cli.options import CommonOptions
    from colony_memory.cli.output import Output
    from colony_memory.cli.vault import Place
    from colony_memory.signing import Signer


@dataclass(frozen=True)
class Opened:
    """A memory, the place where it is, and where the answers go."""

    memory: ColonyMemory
    place: Place
    output: Output
    progress: Progress = field(default_factory=Progress)

    def working(self, doing: str = "Reading") -> AbstractContextManager[None]:
        """Show on a terminal that something is under way; ``doing`` is followed by the vault's name."""
        return self.output.working(f"{doing} {self.place.title}", self.progress)


@contextmanager
def open_memory(common: CommonOptions, *, making: bool = False) -> Iterator[Opened]:
    """Open the memory that the options name; ``making`` as :func:`~colony_memory.cli.vault.at_vault` takes it.

    Raises:
        ValueError: The vault's URL is of no known kind, or it cannot be opened as things are.
        Failure: There is no vault, or the key file or the witness is not usable.
    """
    output, progress, trust = common.output, Progress(), trust_arguments(common)
    with at_vault(common.vault, output, making=making) as place:
        memory = ColonyMemory(backend=place.backend, on_event=progress, **trust)
        yield Opened(memory, place, output, progress)


def trust_arguments(common: CommonOptions) -> dict[str, Any]:
    """The arguments of :class:`colony_memory.ColonyMemory` that say what is trusted, those that were given.

    Raises:
        ValueError: A did:key or the witness is malformed.
        Failure: The key file is not usable.
    """
    given: dict[str, Any] = {}
    if common.key_file:
        given["signer"] = load_signer(common.key_file)
    issuers = _read_trust(common.trust or ())
    if issuers:
        own = {given["signer"].did_key: None} if "signer" in given else {}
        given["trusted_issuers"] = {**own, **issuers}
    if common.witness:
        from colony_memory.witness import FileWitness

        given["witness"] = FileWitness(common.witness)
    if common.accept_unsigned:
        given["require_signature"] = False
    if common.accept_legacy_pointer:
        given["accept_legacy_pointer"] = True
    return given


def load_signer(path: str) -> Signer:
    """The signer of a key file.

    Raises:
        Failure: The file is missing, open to others, or holds no key.
        ColonyMemoryError: The extra for signatures is missing.
    """
    from colony_memory.signing import Ed25519Signer, require_cryptography

    require_cryptography("a key file is given")
    try:
        return Ed25519Signer.load(path)
    except ColonyMemoryError as error:
        raise Failure(error.message, code=USAGE, hint=error.hint) from error


def _read_trust(given: tuple[str, ...] | list[str]) -> dict[str, str | None]:
    """Each ``DID`` or ``DID@ID``, separated by blanks or commas, with the id that it is trusted up to."""
    issuers: dict[str, str | None] = {}
    for each in re.split(r"[\s,]+", " ".join(given).strip(" ,")):
        did_key, _, last = each.partition("@")
        if did_key:
            issuers[did_key] = last or None
    return issuers
