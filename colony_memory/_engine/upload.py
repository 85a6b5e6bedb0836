"""How a snapshot's files come: parts before the manifest, and the proof that all of them are still there after it.

Wherever that stops, what is listed restores.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from colony_memory._engine.deletion import discard
from colony_memory._engine.label import GRACE, LabelFiles
from colony_memory._engine.store import Unanswered
from colony_memory.exceptions import BackupUncertain, ColonyMemoryError, Hint, VaultError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from colony_memory._engine.session import Session
    from colony_memory.snapshot import BuiltSnapshot


async def upload(session: Session, built: BuiltSnapshot) -> list[datetime | None]:
    """Write a new snapshot: parts, then the manifest; when that was, by the vault's clock, as far as it tells. What
    fails half way is removed again where that is possible.

    Raises:
        BackupUncertain: The manifest's write was not answered; the snapshot may be there.
        QuotaExceeded: The vault is full.
        VaultError: It failed.
    """
    label, snapshot_id = built.info.label, built.info.snapshot_id
    written: list[datetime | None] = []
    for done, (name, text) in enumerate(built.files.items(), 1):
        try:
            written.append(await session.vault.put(name, text))
        except Unanswered as error:
            if name == built.manifest_file:
                msg = (
                    f"snapshot {snapshot_id} of label {label!r} may or may not be stored: {error}; saving again is safe"
                )
                hint = Hint("list_snapshots", label=label)
                raise BackupUncertain(msg, snapshot_id=snapshot_id, hint=hint) from error
            await discard(session, built, error)
            raise
        except ColonyMemoryError as error:
            await discard(session, built, error)
            raise
        session.tell("upload", name, done, len(built.files))
    return written


def took_long(session: Session, began: datetime, written: Sequence[datetime | None]) -> bool:
    """Whether an upload took so long that others may have taken it for a leftover.

    A host that was frozen meanwhile, or whose clock was set back, does not know: the vault does, where it tells times.
    """
    known = [moment for moment in written if moment is not None]
    told = max(known) - min(known) if known else timedelta()
    return 0 < len(known) < len(written) or max(abs(session.now() - began), told) > GRACE / 2


async def read_back(session: Session, built: BuiltSnapshot) -> None:
    """Read what was written.

    Raises:
        VaultError: It is not what was sent, or cannot be read.
    """
    for name, stored in (await session.vault.get_many(built.files)).items():
        if stored is None or stored.content != built.files[name]:
            state = "is not there" if stored is None else "holds another text"
            raise VaultError(f"{name} was written, and read back it {state}: do it again")


async def prove(session: Session, label: str, files: Iterable[str], *, own: Iterable[str]) -> bool:
    """Whether all files of a new snapshot are there, after its manifest was written: another client may have taken the
    parts of an upload that took long for leftovers, which no look before the manifest's upload can rule out.

    Args:
        session: The client.
        label: The label.
        files: Names of the files that the snapshot needs.
        own: Those that were written for it, the manifest among them.
    """
    needed, own = list(files), list(own)
    listing = await session.vault.look_up(needed)
    there = LabelFiles(label, listing.files, listing.complete)
    if not there.complete:
        raise VaultError(
            f"the vault's list of label {label!r} is cut, so that an upload that took long cannot be checked"
        )
    if any(name not in there.files for name in needed):
        return False
    written = there.written(own)
    # The manifest is the newest; what is a grace period older may be about to be deleted.
    return written is None or max(written) - min(written) < GRACE
