"""What a transfer relies on: files that are at its destination already, where a committed snapshot needs them.

What is there and is not committed may be on its way out, or another transfer's that takes it back when it fails. Part
files are of one snapshot. The packs of a chain are of many: one may be relied upon that any committed snapshot needs,
as long as that one's manifest is there once the new manifest is. Whoever deletes a pack lists the label after the last
manifest that needed it is gone, and sees the new one then.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._engine.state import State, read_pointer_file
from colony_memory._format.names import manifest_filename, pack_filename
from colony_memory.exceptions import ColonyMemoryError, ConflictDetected, Hint, VaultError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from colony_memory._engine.label import LabelFiles
    from colony_memory._engine.session import Session
    from colony_memory._engine.transfer.whole import Whole
    from colony_memory._format.catalog import Entry
    from colony_memory._format.v2.pack import Pack


@dataclass(frozen=True)
class Lacking:
    """What of a snapshot is to be written.

    Attributes:
        missing: Texts of the files that are not there, by name, in the order in which they are written.
        found: Whether the snapshot itself was there, committed, in part or as a whole.
        beside: Manifests of other snapshots that keep what it needs of theirs.
        stale: What an interrupted transfer left, which is deleted first.
    """

    missing: Mapping[str, str]
    found: bool = False
    beside: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass
class Destination:
    """The label that a transfer writes to, as it was looked at.

    Attributes:
        session: The client.
        state: The label.
        known: Digests of the packs that this transfer has read there or written, by id.
        keepers: Manifest of a committed snapshot, or of one that this transfer has brought, by each pack that it needs.
    """

    session: Session
    state: State
    known: dict[str, str] = field(default_factory=dict)
    keepers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for entry in reversed(self.state.decision.building):  # of the newest, which stays the longest
            self.keepers |= dict.fromkeys(entry.packs, manifest_filename(self.state.label, entry.snapshot_id))

    def note(self, entry: Entry, packs: tuple[Pack, ...] = ()) -> None:
        """Note what has arrived."""
        file = manifest_filename(self.state.label, entry.snapshot_id)
        for pack_id in entry.packs:
            self.keepers.setdefault(pack_id, file)
        self.known |= {pack.pack_id: pack.sha256 for pack in packs}

    async def compare(self, whole: Whole) -> Lacking | None:
        """What of a snapshot is to be written; None where files of it are in the way.

        Raises:
            ConflictDetected: Another content is there under one of its names.
            VaultError: The vault failed, or cut its list.
        """
        lacking = await (self._compare_chain(whole) if whole.packs else self._compare_parts(whole))
        if lacking is None or not lacking.missing or not is_committed(self.state, whole.snapshot_id):
            return lacking
        if (await read_pointer_file(self.session, self.state.label))[0] != self.state.text:
            return None  # it was withdrawn before the label was listed, perhaps, and what lacks is gone for that
        return lacking

    async def _compare_parts(self, whole: Whole) -> Lacking | None:
        state, files, snapshot_id = self.state, whole.files, whole.snapshot_id
        listed = state.listed
        committed = is_committed(state, snapshot_id)
        stale: tuple[str, ...] = ()
        if not committed and snapshot_id not in state.decision.pointer.gone:
            stale = listed.old_orphans(now=self.session.now()).get(snapshot_id, ())
        there = [name for name in files if (name in listed.files or not listed.complete) and name not in stale]
        found = await self._read(there)
        if any(text != files[name] for name, text in found.items()):
            raise taken(state.label, snapshot_id)
        foreign = {*listed.parts.get(snapshot_id, {}).values()} - {*files, *stale}
        gone = [name for name in there if name in listed.files and name not in found]  # since it was listed
        if gone or (not committed and (found or foreign)):
            return None
        missing = {name: text for name, text in files.items() if name not in found}
        return Lacking(missing, bool(found), stale=stale)

    async def _compare_chain(self, whole: Whole) -> Lacking | None:
        label, listed, snapshot_id = self.state.label, self.state.listed, whole.snapshot_id
        if not listed.complete:
            raise VaultError(f"the vault's list of label {label!r} is cut, so what a chain rests on is not known")
        committed, file = is_committed(self.state, snapshot_id), whole.manifest_file
        there = file in listed.files
        text = (await self._read([file])).get(file) if there else None
        row = self.state.decision.pointer.entry(snapshot_id)
        # Whoever deletes packs takes the catalogue's word for what one that it lists needs.
        same = row is None or row.manifest_sha256 == whole.manifest.sha256
        if not same or (text is not None and text != whole.files[file]):
            raise taken(label, snapshot_id)
        if (there and (text is None or not committed)) or (not committed and snapshot_id in listed.parts):
            return None
        keep = {**self.keepers, **dict.fromkeys(whole.manifest.packs, file)} if there else self.keepers
        present, beside = {file} if there else set[str](), set[str]()
        for pack in whole.packs:
            if pack.pack_id not in self.known and not listed.pack(pack.pack_id):
                continue
            if pack.pack_id not in keep:
                return None
            found = await self._compare_pack(whole, pack)
            if found is None:
                return None
            present |= found
            beside.add(keep[pack.pack_id])
        absent = [name for name in whole.needed if name not in present]
        if any(name not in whole.files for name in absent):
            return None  # what it was made upon is gone
        return Lacking({name: whole.files[name] for name in absent}, there, tuple(sorted(beside - {file})))

    async def _compare_pack(self, whole: Whole, pack: Pack) -> set[str] | None:
        """The files of a pack that are there; None where one went since the label was listed."""
        label, files = self.state.label, self.state.listed.files
        names = [pack_filename(label, pack.pack_id, seq) for seq in range(len(pack.sizes))]
        if pack.pack_id in self.known:
            if self.known[pack.pack_id] != pack.sha256:
                raise taken(label, whole.snapshot_id)
            return {*names}
        there = [name for name in names if name in files]
        found = await self._read(there)
        if len(found) < len(there):
            return None
        if len(found) == len(names):
            digest = hashlib.sha256("".join(found[name] for name in names).encode("utf-8", "surrogatepass"))
            same = f"sha256:{digest.hexdigest()}" == pack.sha256
        else:
            same = all(whole.files.get(name) == text for name, text in found.items())
        if not same:
            raise taken(label, whole.snapshot_id)
        if len(found) == len(names):
            self.known[pack.pack_id] = pack.sha256
        return {*found}

    async def _read(self, names: list[str]) -> dict[str, str]:
        read = await self.session.vault.get_many(names)
        return {name: stored.content for name, stored in read.items() if stored is not None}


def require_conditions(session: Session, what: str) -> None:
    """Raise a ColonyMemoryError where a vault cannot take chains."""
    if not session.vault.conditional:
        raise ColonyMemoryError(
            f"{what} is of format 2, which needs a vault that writes on condition, and this one does not: it can be "
            "converted to format 1 on the way"
        )


def is_committed(state: State, snapshot_id: str) -> bool:
    """Whether the catalogue lists a snapshot, damaged or not, or it counts as if it did.

    What is of another history and not listed is distrusted for that alone; once it is old, nobody else is bringing or
    removing it, and with the very bytes that are to be brought it is the same.
    """
    decision, pointer = state.decision, state.decision.pointer
    if snapshot_id == decision.written or pointer.entry(snapshot_id) is not None or snapshot_id in decision.committed:
        return True
    if snapshot_id not in decision.untrusted or pointer.took_out(snapshot_id):
        return False
    return state.listed.is_old(snapshot_id, now=state.asked.now)


def taken(label: str, snapshot_id: str) -> ConflictDetected:
    """The error of a snapshot whose place is taken."""
    msg = (
        f"something else is stored under the id of snapshot {snapshot_id} of label {label!r}, or of a pack that it "
        "needs, so it is not written; a verification tells whether what is there is damaged; deleting that makes way"
    )
    return ConflictDetected(msg, theirs=snapshot_id, hint=Hint("verify", label=label))


def in_the_way(listed: LabelFiles, whole: Whole, *, now: datetime) -> ConflictDetected:
    """The error of a snapshot that is there, in part or as a whole, and not committed."""
    label, snapshot_id = listed.label, whole.snapshot_id
    hint = Hint("prune", label=label)
    if whole.packs or listed.pack(snapshot_id):
        msg = (
            f"files that snapshot {snapshot_id} of label {label!r} needs are there, and no committed snapshot needs "
            "them: they are being removed, or another transfer is writing them; once they are an hour old, prune, and "
            "try again"
        )
    elif snapshot_id in listed.manifests and listed.is_old(snapshot_id, now=now):
        msg = (
            f"what is left of snapshot {snapshot_id} of label {label!r} is in the way: it is removed or damaged; "
            "deleting it makes way"
        )
        hint = Hint("delete_snapshot", "snapshot_id", snapshot_id, label=label)
    else:
        msg = (
            f"files of snapshot {snapshot_id} of label {label!r} are there, and no catalogue lists it: they are being "
            "removed, or another transfer is writing them; try again once they are an hour old"
        )
    return ConflictDetected(msg, theirs=snapshot_id, hint=hint)
