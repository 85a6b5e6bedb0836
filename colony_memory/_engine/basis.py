"""Pure: the basis of a memory, the snapshot whose whole text it held last: one value, changed by five events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from colony_memory._values import Record, Value, replace

# Own saves of each kind to remember. More pile up only if nothing succeeds for weeks.
_MOST = 64


class Basis(Value):
    """The basis of one label's memory; false where there is none."""

    snapshot_id: str | None = None  # the snapshot whose whole text the memory held, None where there is none
    stream: str | None = None  # that snapshot's history, None where its manifest names none
    tree: str = ""  # digest of that text, as in the manifest; empty where it is not known
    listed: frozenset[str] = frozenset()  # ids of the snapshots listed at that time
    reverted: bool = False  # an older text was restored since: the next save becomes the latest all the same
    not_held: bool = False  # the memory never held snapshot_id, the latest when an older one was restored
    pending: tuple[str, ...] = ()  # saves noted before the pointer moves: own ones if one turns out to be the latest
    refused: tuple[str, ...] = ()  # own saves that met a conflict and were stored without becoming the latest
    merged: tuple[str, ...] = ()  # snapshots merged into the memory by hand: the next save is based on them too
    last: str | None = None  # the snapshot restored last, where it is not the basis
    filled: tuple[str, ...] = ()  # snapshots that supplied documents missing from that one, at its restore
    origin: str | None = None  # 16 hex digits drawn for this memory, None where none were

    def __bool__(self) -> bool:
        return self.snapshot_id is not None

    @property
    def own(self) -> frozenset[str]:
        """Snapshots that count as this memory's own if they are the latest: its basis, and pending saves."""
        return frozenset((*filter(None, (self.snapshot_id,)), *self.pending))

    @property
    def known(self) -> frozenset[str]:
        """Snapshots that this memory held or was saved in: :attr:`own`, and refused saves."""
        base = () if self.not_held or self.snapshot_id is None else (self.snapshot_id,)
        return frozenset((*base, *self.pending, *self.refused))


class BasisHome(Protocol):
    """Storage of a basis, which may be on disk. Callers hold the label's lock."""

    def read(self) -> Basis: ...

    def write(self, basis: Basis) -> None: ...


class MemoryHome(Record):
    """The home for a memory given by value: it lasts as long as the client."""

    basis: Basis = Basis()

    def read(self) -> Basis:
        return self.basis

    def write(self, basis: Basis) -> None:
        self.basis = basis


def restored(
    basis: Basis, snapshot_id: str, *, stream: str | None = None, tree: str = "", listed: Iterable[str] = ()
) -> Basis:
    """The memory now holds all of the latest."""
    ids = frozenset(listed)
    # A save that is not listed yet may still become the latest: by a late write, or a deletion that goes back to it.
    still_pending = tuple(key for key in basis.pending if key != snapshot_id and key not in ids)
    return Basis(snapshot_id, stream, tree, ids, pending=still_pending, origin=basis.origin)


#: The latest is exactly this memory; found equal counts.
saved = restored


def reverted(
    basis: Basis, latest: str | None, *, last: str | None = None, stream: str | None = None, listed: Iterable[str] = ()
) -> Basis:
    """An older snapshot, ``last``, was restored: the basis stays, marked; without one, the latest is it, not held."""
    if not basis:
        basis = replace(basis, snapshot_id=latest, stream=stream, tree="", listed=frozenset(listed), not_held=True)
    return replace(basis, reverted=True, last=last)


def pending(basis: Basis, snapshot_id: str) -> Basis:
    """The pointer is about to be moved to an own save."""
    return replace(basis, pending=_appended(basis.pending, snapshot_id))


def lost(basis: Basis) -> Basis:  # noqa: ARG001 - an event like the others
    """The folder was made anew, holds foreign memory, or a restore of it could be neither finished nor undone."""
    return Basis()


def settled(basis: Basis, latest: str | None, *, stream: str | None = None, listed: Iterable[str] = ()) -> Basis:
    """The basis as a command finds it: the latest if that was pending; none if the label's history is another one."""
    if stream is not None and basis.stream not in (None, stream):
        return lost(basis)
    if latest is None or latest not in basis.pending or latest == basis.snapshot_id:
        return basis
    basis = replace(basis, snapshot_id=latest, tree="", listed=frozenset((*listed, latest)))
    return replace(basis, reverted=False, not_held=False, filled=())


def substituted(basis: Basis, stand_ins: Mapping[str, str]) -> Basis:
    # Rewritten snapshots by id: each is replaced by its last rewrite.
    def mapped(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(stand_ins.get(key, key) for key in ids)

    own, listed = basis.snapshot_id, frozenset((*basis.listed, *mapped(basis.listed)))
    basis = replace(basis, snapshot_id=stand_ins.get(own or "", own), listed=listed)
    return replace(basis, pending=mapped(basis.pending), refused=mapped(basis.refused), merged=mapped(basis.merged))


def withdrawn(basis: Basis, snapshot_id: str) -> Basis:
    """A pending save came to nothing: it was taken back, and is made anew."""
    return replace(basis, pending=tuple(key for key in basis.pending if key != snapshot_id))


def with_refused(basis: Basis, snapshot_id: str) -> Basis:
    """An own save met a conflict and is stored without being the latest; the basis itself stays."""
    return replace(withdrawn(basis, snapshot_id), refused=_appended(basis.refused, snapshot_id))


def with_merged(basis: Basis, snapshot_id: str) -> Basis:
    """A snapshot was merged into the memory by hand; the basis itself stays."""
    return replace(basis, merged=_appended(basis.merged, snapshot_id))


def is_conflict(basis: Basis, latest: str | None, *, listed: bool) -> bool:
    """True if the latest is another writer's, whose text this memory never held; never without a basis."""
    if not basis or latest is None or latest in basis.own:
        return False
    # Unless somebody deleted the newest: the basis is no longer listed, and the latest was listed when it was noted.
    return listed or latest not in basis.listed


def _appended(ids: tuple[str, ...], snapshot_id: str) -> tuple[str, ...]:
    return (*(other for other in ids if other != snapshot_id), snapshot_id)[-_MOST:]
