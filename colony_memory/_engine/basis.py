"""Pure: what a memory is based on, one value and five events: the snapshot whose whole text it held last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from colony_memory._values import Record, Value, replace

# Own saves of each kind that are remembered. More pile up only where nothing succeeds for weeks.
_MOST = 64


class Basis(Value):
    """The basis of one label's memory; false where there is none."""

    snapshot_id: str | None = None  # the snapshot whose whole text the memory held, None where there is none
    stream: str | None = None  # history that it is of, None where its manifest names none
    tree: str = ""  # digest of that text, as the manifest has it; empty where it is not known
    listed: frozenset[str] = frozenset()  # ids of the snapshots that were listed at that time
    reverted: bool = False  # an older text was restored since: the next save becomes the latest all the same
    not_held: bool = False  # snapshot_id is only the latest of the moment at which an older one was restored
    pending: tuple[str, ...] = ()  # saves that are noted before the pointer moves, own ones if they are the latest
    refused: tuple[str, ...] = ()  # own saves that met a conflict and were stored beside the latest
    merged: tuple[str, ...] = ()  # merged into the memory by hand: the next save is based on them too
    last: str | None = None  # the snapshot that was restored last, where it is another one
    filled: tuple[str, ...] = ()  # snapshots from which what that one lacks was taken, when it was restored
    origin: str | None = None  # 16 hex digits that were drawn for this memory, None where none were

    def __bool__(self) -> bool:
        return self.snapshot_id is not None

    @property
    def own(self) -> frozenset[str]:
        """Snapshots that count as this memory's own where they are the latest: its basis, and what is pending."""
        return frozenset((*filter(None, (self.snapshot_id,)), *self.pending))

    @property
    def known(self) -> frozenset[str]:
        """Snapshots that this memory held or was saved in: :attr:`own`, and what met a conflict."""
        held = () if self.not_held or self.snapshot_id is None else (self.snapshot_id,)
        return frozenset((*held, *self.pending, *self.refused))


class BasisHome(Protocol):
    """Where a basis is kept, on disk where that is its home. Whoever calls holds the lock of the label."""

    def read(self) -> Basis: ...

    def write(self, basis: Basis) -> None: ...


class MemoryHome(Record):
    """The home of a memory that is given by value: it ends with the client."""

    basis: Basis = Basis()

    def read(self) -> Basis:
        return self.basis

    def write(self, basis: Basis) -> None:
        self.basis = basis


def restored(
    basis: Basis, snapshot_id: str, *, stream: str | None = None, tree: str = "", listed: Iterable[str] = ()
) -> Basis:
    """All of the latest is in this memory now."""
    shown = frozenset(listed)
    # What is not listed by now may still become the latest: a write may arrive late, or a deletion go back to it.
    left = tuple(own for own in basis.pending if own != snapshot_id and own not in shown)
    return Basis(snapshot_id, stream, tree, shown, pending=left, origin=basis.origin)


#: The latest is exactly this memory; found equal counts.
saved = restored


def reverted(
    basis: Basis, latest: str | None, *, last: str | None = None, stream: str | None = None, listed: Iterable[str] = ()
) -> Basis:
    """An older snapshot, ``last``, was restored: the basis stays, marked; without one it is the latest, not held."""
    if not basis:
        basis = replace(basis, snapshot_id=latest, stream=stream, tree="", listed=frozenset(listed), not_held=True)
    return replace(basis, reverted=True, last=last)


def pending(basis: Basis, snapshot_id: str) -> Basis:
    """The pointer is about to be moved to an own save."""
    return replace(basis, pending=_with(basis.pending, snapshot_id))


def lost(basis: Basis) -> Basis:  # noqa: ARG001 - an event like the others
    """The folder is another one now, holds something else, or a restore of it could be neither finished nor undone."""
    return Basis()


def settled(basis: Basis, latest: str | None, *, stream: str | None = None, listed: Iterable[str] = ()) -> Basis:
    """The basis as a command finds it: the latest, where that is pending; none in another history of the label."""
    if stream is not None and basis.stream not in (None, stream):
        return lost(basis)
    if latest is None or latest not in basis.pending or latest == basis.snapshot_id:
        return basis
    basis = replace(basis, snapshot_id=latest, tree="", listed=frozenset((*listed, latest)))
    return replace(basis, reverted=False, not_held=False, filled=())


def stood_for(basis: Basis, instead: Mapping[str, str]) -> Basis:

    def now(ids: Iterable[str]) -> tuple[str, ...]:
        return tuple(instead.get(own, own) for own in ids)

    own, listed = basis.snapshot_id, frozenset((*basis.listed, *now(basis.listed)))
    basis = replace(basis, snapshot_id=instead.get(own or "", own), listed=listed)
    return replace(basis, pending=now(basis.pending), refused=now(basis.refused), merged=now(basis.merged))


def withdrawn(basis: Basis, snapshot_id: str) -> Basis:
    """A save that was about to become the latest came to nothing: it was taken back, and is made anew."""
    return replace(basis, pending=tuple(own for own in basis.pending if own != snapshot_id))


def with_refused(basis: Basis, snapshot_id: str) -> Basis:
    """An own save met a conflict and is stored without being the latest, which changes nothing of the basis."""
    return replace(withdrawn(basis, snapshot_id), refused=_with(basis.refused, snapshot_id))


def with_merged(basis: Basis, snapshot_id: str) -> Basis:
    """A snapshot was merged into the memory by hand, which changes nothing of the basis."""
    return replace(basis, merged=_with(basis.merged, snapshot_id))


def is_conflict(basis: Basis, latest: str | None, *, listed: bool) -> bool:
    """True if the latest is of another writer whose text this memory never held; none without a basis."""
    if not basis or latest is None or latest in basis.own:
        return False
    # Else somebody has deleted the newest: the basis is listed no more, and the latest was when it was noted.
    return listed or latest not in basis.listed


def _with(ids: tuple[str, ...], snapshot_id: str) -> tuple[str, ...]:
    return (*(other for other in ids if other != snapshot_id), snapshot_id)[-_MOST:]
