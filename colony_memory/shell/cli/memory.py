"""The memory of a verb: in the chosen vault, under the options given, and perhaps that of a host."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._engine.session import warn
from colony_memory._values import Value, field
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import SnapshotNotFound, VaultMissing
from colony_memory.shell.app.agents import AGENTS, Host
from colony_memory.shell.app.keys import client_arguments
from colony_memory.shell.app.open import Place, choose_place
from colony_memory.shell.cli.app import CURRENT, CommonOptions
from colony_memory.shell.cli.output import Output, Progress
from colony_memory.shell.words import FEW, count
from colony_memory.shell.words.errors import NO_VAULT, NOTHING_SAVED, PROGRAM, Failure, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager


_ANOTHER = "set COLONY_API_KEY or --vault for another"


class OpenVault(Value):
    memory: ColonyMemory
    place: Place
    output: Output
    progress: Progress = field(default_factory=Progress)

    def working(self, doing: str = "Reading") -> AbstractContextManager[None]:
        """Show on a terminal that something is under way; ``doing`` is followed by the vault's name."""
        return self.output.working(f"{doing} {self.place.title}", self.progress)


@contextmanager
def open_memory(common: CommonOptions, *, making: bool = False, wire: str | None = None) -> Iterator[OpenVault]:
    """Open the memory that the options name; ``making`` as :func:`at_vault` takes it."""
    output, progress, trust = common.output, Progress(), trust_of(common)
    with at_vault(common.vault, output, making=making) as place, naming_the_vault(place):
        memory = ColonyMemory(backend=place.backend, format=format_of(wire), on_event=progress, **trust)
        yield OpenVault(memory, place, output, progress)


def format_of(wire: str | None) -> Literal[1, 2] | None:
    """The value of --format, whose words are checked for all verbs in one place."""
    return None if wire is None else 2 if wire == "2" else 1


def trust_of(common: CommonOptions, *, asks: bool = True) -> dict[str, Any]:
    """The arguments of :class:`colony_memory.ColonyMemory` that say what is trusted, whom to encrypt to and what opens,
    as the options have it. Without ``asks`` a passphrase has to be in a file: what runs later has nobody to ask.
    """
    return client_arguments(
        key_file=common.key_file,
        trust=common.trust or (),
        witness=common.witness,
        require_signature=False if common.accept_unsigned else None,
        accept_legacy_pointer=common.accept_legacy_pointer,
        encrypt_to=common.encrypt_to or (),
        identities=common.identity or (),
        passphrase_file=common.passphrase_file,
        ask=_ask if asks else None,
    )


@cache
def _ask(twice: bool) -> str:
    """Ask for the passphrase, once in the life of the process."""
    from getpass import getpass

    if sys.stdin is None or not sys.stdin.isatty():
        raise ValueError("there is no terminal to ask for the passphrase: give --passphrase-file")
    said = getpass("Passphrase: ", sys.stderr)
    if twice and getpass("The same again: ", sys.stderr) != said:
        raise ValueError("the passphrases differ")
    return said


@contextmanager
def at_vault(url: str | None, output: Output, *, making: bool = False) -> Iterator[Place]:
    """The chosen vault, which has to be there; where nobody chose, say so at the end.

    With ``making`` the verb calls :func:`make_unchosen` before it writes, so that one that nobody chose may be missing.
    """
    place = choose_place(url)
    passed_over = _passed_over(place)
    making = making and not place.chosen and not place.exists()
    try:
        if not making:
            place.require()
    except VaultMissing as error:
        make = f"make one with: {PROGRAM} init {quoted(place.url)}"
        advice = make if place.chosen else f"the first backup makes one; {_ANOTHER}"
        raise Failure(error.message, code=NO_VAULT, advice=advice) from error
    yield place
    if passed_over:
        output.note(passed_over)
    if not making and not place.is_known:  # else it was said when it was made
        output.note(f"using {place.title}; {_ANOTHER}")


@contextmanager
def naming_the_vault(place: Place) -> Iterator[None]:
    """Where something is not found, say in which vault."""
    try:
        yield
    except SnapshotNotFound as error:
        told = [f"{error.message}, in {place.title}", "" if place.chosen else _ANOTHER, _passed_over(place)]
        raise Failure("; ".join(filter(None, told)), code=NOTHING_SAVED, hint=error.hint) from error


def _passed_over(place: Place) -> str:
    """A note where a key that was set since leads away from the vault that has this label."""
    labels = place.labels_passed_over()
    asked = CURRENT.get()
    label = None if asked is None else asked.params.get("label")
    if not labels or (isinstance(label, str) and label not in labels):
        return ""
    of = f"label {label}" if isinstance(label, str) else count(len(labels), "label")
    local = quoted(str(place.passed_over))
    return f"COLONY_API_KEY leads to the hosted vault, while the local one has {of}: --vault {local} is that"


def make_unchosen(place: Place) -> None:
    """Make the vault that nobody chose where there is none yet, and say so to whoever is listening at all."""
    if place.make_unchosen():
        warn(f"no vault was chosen, so one was made: {place.title}; {_ANOTHER}")


def host_of(name: str | None, directory: str, *, kinds: Iterable[str] | None) -> Host | None:
    return None if name is None else Host(AGENTS[name], directory, tuple(kinds or ()))


def tell_host(host: Host, output: Output) -> None:
    """Say of a host's memory that was restored what was left, and what may have to be named anew."""
    if host.strange:
        more = f" and {len(host.strange) - FEW} more" if len(host.strange) > FEW else ""
        output.note(
            f"new here: the memory of {', '.join(host.strange[:FEW])}{more}; each name stands for the path of a "
            "project: where that lies elsewhere on this machine, rename the folder"
        )
    for name in host.left[:FEW]:
        output.warn(f"not written: {name}: no memory of {host.agent.title}")
    if len(host.left) > FEW:
        output.warn(f"not written: {len(host.left) - FEW} more")
