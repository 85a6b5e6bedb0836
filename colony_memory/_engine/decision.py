"""Pure: what is asked of a label, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order
from colony_memory._values import NamedTuple, cached_property, dataclass, field, replace
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    RollbackDetected,
    SnapshotCorrupt,
    UntrustedSnapshot,
)
from colony_memory.snapshot import Manifest
from colony_memory.trust import lacks_signature

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from colony_memory._format.catalog import Entry
    from colony_memory._format.pointer import Pointer
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.trust import Trust


class Asked(NamedTuple):
    label: str
    trust: Trust  # whom the client accepts
    seen: tuple[str | int, ...]  # heads that were seen before the pointer was read, at_least of a restore included
    now: datetime  # time of the host, for vaults that tell no times
    everything: bool = False  # every snapshot has to be looked at, not only the latest
    conditional: bool = True  # the vault writes on condition
    verify: bool = True  # whether signatures are looked at
    newer: bool = True  # where the pointer has to be proven, look for what is newer than the latest too
    unremoved: frozenset[str] = frozenset()  # ids that are not removed, as this client's own pointer says in vain

    @property
    def pins(self) -> bool:
        """True if the pointer has to be proven."""
        return self.trust.pins and self.verify


#: What reading a manifest gave: the manifest, why it is none or is not trusted, or None where it is not there.
Finding = Manifest | SnapshotCorrupt | UntrustedSnapshot | None


class Wants(NamedTuple):
    listing: bool = False
    manifests: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    label: str
    follow: str | None  # id of the latest snapshot, None where there is none
    pointer: Pointer  # what is believed of the pointer; blank, with generation 0, where nothing is
    # Id that the pointer file names, believed or not; empty where it names nothing, None where none can be read
    written: str | None = None
    signed: bool = False  # the pointer file carries a signature, of whatever worth
    issuer: str | None = None  # the trusted issuer that signed the pointer, None where none is proven
    # Identity of the label's history: by what was seen before, else by the pointer where it is believed, else by most
    # snapshots
    stream: str | None = None
    problem: str | None = None  # what is wrong with the pointer, None where nothing is
    entries: tuple[Entry, ...] = ()  # every snapshot that is whole and not distrusted, newest first
    # Those of them that the pointer names or lists; only on these anything is built
    committed: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()  # the others of them that may be the work of a backup under way
    unproven: frozenset[str] = frozenset()  # and those that need what another client may be deleting
    signs: bool = False  # a trusted manifest says that the pointer was signed when it was made
    # What is wrong with each other manifest, by file name, those that are not trusted included
    broken: Mapping[str, str] = field(default_factory=dict)
    untrusted: Mapping[str, UntrustedSnapshot] = field(default_factory=dict)  # the errors of those, by id
    refusal: ColonyMemoryError | None = None  # why the latest cannot be given, None where it can
    rollback: RollbackDetected | None = None  # why the label is taken to have been set back, None where it is not
    compared: bool = False  # there was something to compare the pointer with, and it held
    warnings: tuple[ColonyMemoryWarning, ...] = ()  # what was worked around
    wants: Wants | None = None  # what has to be read first; everything else is provisional where there is anything

    @property
    def proven(self) -> bool:
        return self.issuer is not None

    @property
    def doubt(self) -> UntrustedSnapshot | SnapshotCorrupt | ColonyMemoryError | None:
        """Why nothing may be built upon this state, None where something may."""
        return self.rollback or (None if isinstance(self.refusal, SnapshotCorrupt) else self.refusal)

    @property
    def listed(self) -> tuple[SnapshotInfo, ...]:
        """Summaries of what is whole, newest first, the latest with its head."""
        head = "" if self.doubt else self.head
        infos = [entry.info for entry in self.entries if entry.snapshot_id in self.counted]
        return tuple(replace(info, head=head) if info.snapshot_id == self.follow else info for info in infos)

    @cached_property
    def counted(self) -> frozenset[str]:
        """Ids of the restore points: what is committed, and what may be under way."""
        return self.committed | self.waiting

    @cached_property
    def unsigned(self) -> tuple[str, ...]:
        """Ids of what is older than signing, newest first: nobody signed it, and all that is trusted is newer."""
        oldest = min((id_order(entry.snapshot_id) for entry in self.entries), default=(True, "~"))
        found = [own for own, error in self.untrusted.items() if lacks_signature(error) and id_order(own) < oldest]
        return tuple(sorted(found, key=id_order, reverse=True))

    @property
    def head(self) -> str:
        return self.pointer.head if self.pointer.snapshot_id == self.follow else ""

    @cached_property
    def building(self) -> tuple[Entry, ...]:
        """The rows of a catalogue: all that is committed, and nothing that may be under way or was removed."""
        return tuple(entry for entry in self.entries if entry.snapshot_id in self.committed)

    @property
    def newest(self) -> Entry | None:
        """The restore point that is the latest where no pointer says which is."""
        return next((entry for entry in self.ranked if entry.snapshot_id in self.counted), None)

    @property
    def ranked(self) -> tuple[Entry, ...]:
        """Entries in the order in which they may become the latest: newest first, and last what was only refused."""
        refused = refused_only([entry.info for entry in self.entries])
        return tuple(sorted(self.entries, key=lambda entry: entry.snapshot_id in refused))

    def entry(self, snapshot_id: str | None) -> Entry | None:
        """The entry of a whole snapshot, else what the pointer lists of it, else None."""
        own = next((entry for entry in self.entries if entry.snapshot_id == snapshot_id), None)
        return own or (None if snapshot_id is None else self.pointer.entry(snapshot_id))
