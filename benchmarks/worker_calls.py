"""Vault calls of each verb, counted inside one of the two environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vaults

from colony_memory import ColonyMemory, Ed25519Signer

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED = bytes(range(32))


def small_memory(day: int) -> dict[str, str]:
    """A memory that fits one part, of the same size every day."""
    facts = "".join(f"- fact {n}: {n * 7919 % 9973}\n" for n in range(200))
    return {"MEMORY.md": f"# Day {day:04}\n{facts}", "notes/today.md": f"what happened on day {day:04}\n"}


def fill(vault: Any, labels: list[str], each: int, **options: Any) -> None:
    """Make ``each`` snapshots in each label."""
    client = ColonyMemory(backend=vault, **options)
    for day in range(each):
        for label in labels:
            client.backup(small_memory(day), label=label)


def calls(*, vault: str) -> dict[str, dict[str, int]]:
    """Reads and writes of each verb, by a client that has just started.

    Args:
        vault: ``"plain"``, the five methods, or ``"full"``, one with conditional upload and prefix listing.
    """
    new = _new_plain if vault == "plain" else _new_full
    signed = {f"{name}, signed": verb for name, verb in _scenarios(signer=Ed25519Signer(_SEED)).items()}
    return {name: _count(new, scenario) for name, scenario in {**_scenarios(), **signed}.items()}


def _count(new: Callable[[], tuple[Any, list[str]]], scenario: Callable[[Any], Callable[[], Any]]) -> dict[str, int]:
    vault, calls = new()
    verb = scenario(vault)
    calls.clear()
    verb()
    return vaults.count(calls)


def _new_plain() -> tuple[Any, list[str]]:
    vault = vaults.MeteredVault()
    return vault, vault.calls


def _new_full() -> tuple[Any, list[str]]:
    vault = vaults.full_vault()
    return vault, vault.calls


def _first(**given: Any) -> Callable[[Any], Callable[[], Any]]:
    return lambda vault: lambda: ColonyMemory(backend=vault, **given).backup(small_memory(0))


def _after(snapshots: int, verb: Callable[[ColonyMemory], Any], **given: Any) -> Callable[[Any], Callable[[], Any]]:
    """A scenario: so many snapshots are there, and a new client does something. ``given`` is how clients are opened."""

    def scenario(vault: Any) -> Callable[[], Any]:
        fill(vault, ["default"], snapshots, **given)
        client = ColonyMemory(backend=vault, **given)
        return lambda: verb(client)

    return scenario


def _again(snapshots: int, verb: Callable[[ColonyMemory], Any], **given: Any) -> Callable[[Any], Callable[[], Any]]:
    """The same for a client that has done it once already: what it has proven since it started still holds."""

    def scenario(vault: Any) -> Callable[[], Any]:
        fill(vault, ["default"], snapshots, **given)
        client = ColonyMemory(backend=vault, **given)
        verb(client)
        return lambda: verb(client)

    return scenario


def _list_100_of_300(**given: Any) -> Callable[[Any], Callable[[], Any]]:
    def scenario(vault: Any) -> Callable[[], Any]:
        fill(vault, ["default", "work", "home"], 100, **given)
        client = ColonyMemory(backend=vault, **given)

        def verb() -> None:
            found = client.list_snapshots(label="default")
            if len(found) != 100:
                msg = f"{len(found)} of 100 snapshots were listed"
                raise RuntimeError(msg)

        return verb

    return scenario


def _delete(place: int, **given: Any) -> Callable[[Any], Callable[[], Any]]:
    """Delete the snapshot at a place in the list, newest first."""

    def scenario(vault: Any) -> Callable[[], Any]:
        fill(vault, ["default"], 10, **given)
        snapshot_id = ColonyMemory(backend=vault, **given).list_snapshots(label="default")[place].snapshot_id
        client = ColonyMemory(backend=vault, **given)
        return lambda: client.delete_snapshot(label="default", snapshot_id=snapshot_id)

    return scenario


def _scenarios(**given: Any) -> dict[str, Callable[[Any], Callable[[], Any]]]:
    return {
        "backup, first": _first(**given),
        "backup, changed": _after(5, lambda client: client.backup(small_memory(99)), **given),
        "backup, unchanged, first of a day": _after(5, lambda client: client.backup(small_memory(4)), **given),
        "backup, unchanged": _again(5, lambda client: client.backup(small_memory(4)), **given),
        "backup, prune_keep=5 of 6": _after(5, lambda client: client.backup(small_memory(99), prune_keep=5), **given),
        "restore": _after(5, lambda client: client.restore(), **given),
        "latest": _after(5, lambda client: client.latest(), **given),
        "list 100 of 300": _list_100_of_300(**given),
        "prune, keep 5 of 10": _after(10, lambda client: client.prune(label="default", keep=5), **given),
        "prune, keep 50 of 100": _after(100, lambda client: client.prune(label="default", keep=50), **given),
        "delete an old one of 10": _delete(-1, **given),
        "delete the newest of 10": _delete(0, **given),
    }
