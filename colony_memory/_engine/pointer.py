"""The pointer of a label: how it is read, believed, and written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory._engine.session import warn
from colony_memory._engine.store import ABSENT, ANY, Changed
from colony_memory._format.head import write_head
from colony_memory._format.names import latest_filename
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory.exceptions import SnapshotCorrupt, UntrustedSnapshot
from colony_memory.trust import check_head

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from colony_memory._engine.session import Session
    from colony_memory._format.pointer import Entry
    from colony_memory.signing import Signer


@dataclass(frozen=True)
class PointerRead:
    """A pointer as it was read.

    Attributes:
        text: The file's text, None where it is not there.
        match: The condition under which it is still the same, for :meth:`Vault.put`.
        pointer: What it says, None where it is not there or not readable. Where the client does not believe it, it is
            stripped of its generation and catalogue.
        problem: What is wrong with it.
        distrust: Why a client that pins issuers does not believe it; None where it does, or pins nobody.
        issuer: did:key that provably signed it, None where that was not asked for.
        written: Id that the file names, whatever this client makes of it.
    """

    text: str | None
    match: str
    pointer: Pointer | None
    problem: str | None = None
    distrust: UntrustedSnapshot | None = None
    issuer: str | None = None
    written: str | None = None

    @property
    def named(self) -> str | None:
        """Id of the snapshot that restore gives by it."""
        return self.pointer.snapshot_id if self.pointer else None

    @property
    def digest(self) -> str | None:
        """Digest of the manifest that it names, by its catalogue."""
        entry = self.pointer.entry(self.pointer.snapshot_id) if self.pointer else None
        return entry.manifest_sha256 if entry else None


async def find_pointer(session: Session, label: str, *, verify: bool = True) -> PointerRead:
    """Read the pointer of a label; a client that pins issuers checks its signature, unless ``verify`` is false."""
    trust = session.trust
    pins = trust.pins and verify
    file = await session.vault.get(latest_filename(label))
    text, match = (None, ABSENT) if file is None else (file.content, file.etag or ANY)
    try:
        if text is None:
            raise SnapshotCorrupt(f"there is no pointer {latest_filename(label)}")
        pointer = read_pointer(text, label=label)
    except SnapshotCorrupt as error:
        distrust = UntrustedSnapshot(str(error)) if pins and trust.require_signature else None
        return PointerRead(text, match, None, str(error), distrust)
    read = PointerRead(text, match, pointer, written=pointer.snapshot_id)
    if not pins:
        return read
    try:
        return replace(read, issuer=trust.judge_pointer(pointer.raw))
    except UntrustedSnapshot as error:
        stripped = replace(pointer, generation=0, entries=None)
        return replace(read, pointer=stripped, problem=str(error), distrust=error)


def head_of(pointer: Pointer, manifest_sha256: str) -> str:
    """The head of a pointer, with 0 for the generation where it has none."""
    if pointer.generation:
        return write_head(pointer.generation, manifest_sha256)
    return f"0:{manifest_sha256.removeprefix('sha256:')[:16]}"


def check_rollback(
    session: Session, label: str, at: PointerRead, *, seen: Sequence[str], at_least: str | int | None = None
) -> bool:
    """Compare a pointer with the heads that were seen before; whether there was anything to compare it with.

    Raises:
        RollbackDetected: It is an older one.
    """
    heads: list[str | int] = [*seen, *([] if at_least is None else [at_least])]
    generation = at.pointer.generation if at.pointer else 0
    if heads and at.pointer is not None and not generation and session.trust.accept_legacy_pointer:
        warn(
            f"the pointer of label {label!r} has no generation, since 0.1.1 wrote it: it cannot be told whether the "
            "label was rolled back"
        )
        return False
    for head in heads:
        check_head(label, generation=generation, manifest_sha256=at.digest, at_least=head)
    return bool(heads)


def next_pointer(
    session: Session,
    at: PointerRead,
    label: str,
    snapshot_id: str,
    entries: Iterable[Entry],
    *,
    seen: Iterable[str] = (),
    first: bool = False,
) -> Pointer:
    """The pointer that follows the one that was read, above every head that was seen before.

    ``first`` says that the label has no files yet.
    """
    pointer = at.pointer or Pointer(label, snapshot_id, "")
    above = max((int(head.partition(":")[0]) for head in seen), default=0)
    if not first and not pointer.generation:
        # A pointer without a generation, or none that is believed, ends the count. The time takes it up above every
        # count before, so that the order of heads still holds.
        above = max(above, int(session.now().timestamp()))
    return pointer.moved(snapshot_id, updated_at=session.stamp(), entries=entries, above=above)


def may_write_pointer(session: Session, at: PointerRead) -> bool:
    """Whether a pointer that this client writes is worth as much as the one that is there: signed, if that one is."""
    if session.signer is not None:
        return True
    return not session.trust.require_signature and not (at.pointer is not None and at.pointer.signed)


async def put_pointer(session: Session, at: PointerRead, moved: Pointer, *, signer: Signer | None = None) -> str:
    """Write a pointer in place of the one that was read, signed where there is a signer; gives its head.

    Raises:
        Changed: It is another one by now.
    """
    signer = signer or session.signer
    await session.vault.put(latest_filename(moved.label), write_pointer(moved, signer=signer), match=at.match)
    entry = moved.entry(moved.snapshot_id)
    head = head_of(moved, entry.manifest_sha256) if entry else ""
    await session.note(moved.label, head, proven=session.trust.pins)
    return head


async def require_same(session: Session, at: PointerRead, label: str) -> None:
    """Raise Changed if the pointer is another one by now: where the vault does not look at conditions itself."""
    if not session.vault.conditional or at.match == ANY:
        now = await find_pointer(session, label, verify=False)
        if now.text != at.text:
            raise Changed("the pointer is another one now")
