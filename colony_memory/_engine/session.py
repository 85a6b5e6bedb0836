"""The state of one client, and its warnings."""

from __future__ import annotations

import copy
import os
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Literal

from colony_memory._boundary import is_coroutine, require_call, require_text, several
from colony_memory._engine.basis import BasisHome, MemoryHome
from colony_memory._engine.observe import charge_manifest, manifest_budget, outside_verbs, tally
from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.json import printable, weight
from colony_memory._format.names import manifest_filename, read_head, stamp
from colony_memory._os.machine import origin_of
from colony_memory._values import Record, replace
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, Hint, message_of
from colony_memory.signing import Signer, did_key_of, require_cryptography
from colony_memory.snapshot import Manifest, SnapshotInfo, read_manifest
from colony_memory.trust import OPEN, Trust, read_trust

if TYPE_CHECKING:
    from colony_memory._engine.backup.save import Parent
    from colony_memory._engine.load import Unsealed
    from colony_memory._engine.store import Vault
    from colony_memory._format.age import Identities, Recipients
    from colony_memory._format.pointer import Pointer
    from colony_memory._format.rows import Entry
    from colony_memory.reports import Event, LifecycleEvent
    from colony_memory.witness import Witness


# A client vouches for stored bytes for so long without reading them again.
_PROOF_LASTS = timedelta(days=1)
# Snapshots whose document names a client remembers.
_NAMES_OF = 16


class Session(Record, eq=False):
    vault: Vault  # home of the snapshots
    signer: Signer | None  # signs this client's snapshots and pointers, None to sign nothing
    max_bytes: int  # of plain text, per snapshot read or written
    trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None = None
    require_signature: bool | None = None
    accept_legacy_pointer: bool = False
    witness: Witness | None = None  # keeps the newest head of each label outside of the vault
    on_event: Callable[[Event | LifecycleEvent], None] | None = None  # hears of files, and of the end of each verb
    wire: str | None = None
    recipients: Recipients | None = None  # of encrypted snapshots, None to write in the clear
    identities: Identities | None = None  # keys that decrypt snapshots, None where there are none
    now: Callable[[], datetime] = partial(datetime.now, timezone.utc)
    __repr__ = object.__repr__  # shows no key

    def __post_init__(self) -> None:
        require_call("on_event", self.on_event)
        if is_coroutine(self.on_event):
            raise ValueError("on_event must be a plain function: let it put events into a queue that a task empties")
        if isinstance(self.trusted_issuers, Mapping):
            self.trusted_issuers = dict(self.trusted_issuers)
        elif self.trusted_issuers is not None:
            self.trusted_issuers = several("trusted_issuers", self.trusted_issuers)  # it is read more than once
        self.manifests: dict[str, Manifest] = {}  # manifests that were read, by file name; they never change
        self._weight = 0  # bytes of memory that these take
        self.good: dict[str, datetime] = {}  # times at which a snapshot was last read or written in full, likewise
        self.newest: dict[str, str] = {}  # newest id drawn by this client, by label
        self.heads: dict[str, str] = {}  # newest head proven to this client, by label
        self.homes: dict[str, BasisHome] = {}  # homes of the bases, by label: a folder's index while that is locked
        self.writers: dict[str, int] = {}  # threads that are saving or restoring, by label
        self._locks: dict[tuple[int, str], threading.Lock] = {}
        self.parents: dict[str, Parent] = {}  # parents of the next snapshots of format 2, by label
        self.notes = True  # heads are recorded with the witness, not only read from it
        self.opened: dict[str, Unsealed] = {}  # facts of encrypted snapshots, by digest of the manifest
        self.names: dict[str, tuple[str, ...]] = {}  # document names of the snapshots saved or read last, likewise
        self.attributes: dict[str, str] = {}  # of the folder saved last, by label, where no index keeps them
        self.texts: dict[str, Mapping[str, tuple[int, int]]] = {}  # bytes and number of texts, by label and id
        self.told_of_lock = False  # this client was checked for identities that open its own snapshots
        self._streams: dict[str, str] = {}
        self.origins: dict[str, str | None] = {}
        if self.trust.pins:
            require_cryptography("to tell which snapshots to trust")

    @property
    def format(self) -> str:
        """Wire format of this client's snapshots; 1 without zstd: a backup of another kind is better than none."""
        return FORMAT if self.lacks_zstd else self.wire or self.vault.snapshot_format

    @property
    def lacks_zstd(self) -> bool:
        """True if the vault is for format 2 and this client cannot write that."""
        if self.wire is not None or self.vault.snapshot_format != FORMAT_2:
            return False
        from colony_memory._format.v2.zstd import is_installed

        return not is_installed()

    @property
    def trust(self) -> Trust:
        """The issuers that this client accepts; computed anew, as the signer may be exchanged at any time."""
        if self.signer is None and self.trusted_issuers is None and self.require_signature is None:
            return OPEN
        issuer, legacy = None if self.signer is None else did_key_of(self.signer), self.accept_legacy_pointer
        return read_trust(self.trusted_issuers, self.require_signature, accept_legacy_pointer=legacy, signer=issuer)

    def open(self) -> Session:
        """The same client without pinned issuers, for work on snapshots that it does not trust."""
        session = copy.copy(self)
        session.signer = session.witness = session.trusted_issuers = session.require_signature = None
        session.good = {}
        return session

    def unnoticed(self) -> Session:
        """The same client for a look that asks the witness, but leaves no trace there nor in this client."""
        session = copy.copy(self)
        session.heads, session.newest, session.good = dict(self.heads), dict(self.newest), dict(self.good)
        session.homes = {label: MemoryHome(home.read()) for label, home in self.homes.items()}
        session.notes = False
        return session

    def proved(self, label: str, snapshot_id: str) -> None:
        self.good[manifest_filename(label, snapshot_id)] = self.now()

    def read_manifest(self, text: str, *, label: str, snapshot_id: str) -> Manifest:
        """Read a manifest that the caller then caches; where the cache grows too large, all others are dropped."""
        charge_manifest(self, manifest_filename(label, snapshot_id), text)
        manifest, size = read_manifest(text, label=label, snapshot_id=snapshot_id), weight(text)
        self._weight += size
        if self._weight > manifest_budget(self):
            self.manifests.clear()
            self._weight = size
        return manifest

    def learn(self, manifest_sha256: str, documents: Iterable[str]) -> None:
        """Remember a snapshot's document names, which its manifest may lack; kept for the last few snapshots."""
        self.names[manifest_sha256] = tuple(printable(name) for name in sorted(documents))
        for old in [*self.names][:-_NAMES_OF]:
            self.names.pop(old, None)

    def knows_good(self, label: str, snapshot_id: str) -> bool:
        since = self.good.get(manifest_filename(label, snapshot_id))
        return since is not None and abs(self.now() - since) < _PROOF_LASTS

    def known_info(self, entry: Entry, info: SnapshotInfo | None = None) -> SnapshotInfo:
        """The summary of a snapshot, ``info`` or else the entry's, with all that this client learned of it."""
        opened, names = self.opened.get(entry.manifest_sha256), self.names.get(entry.manifest_sha256)
        info = info or entry.info
        if opened is not None:
            info = opened.facts.told_of(info)
        return info if info.doc_names or not names else replace(info, doc_names=[*names])

    def home(self, label: str) -> BasisHome:
        return self.homes.setdefault(label, MemoryHome())

    @asynccontextmanager
    async def writing(self, label: str) -> AsyncIterator[BasisHome]:
        """Hold the label's lock while it is saved or restored: a client's threads, tasks and timers are one writer. A
        verb that the same thread begins meanwhile, as a signal handler may, does not wait.
        """
        # By process: a lock that another thread holds at a fork is never released in the child.
        lock = self._locks.setdefault((os.getpid(), label), self.vault.new_lock())
        await self.vault.acquire(lock)
        outer = self.writers.get(label)
        self.writers[label] = threading.get_ident()
        try:
            yield self.home(label)
        finally:
            if outer is None:
                self.writers.pop(label, None)
            lock.release()

    def origin(self, label: str) -> str | None:
        """The origin of this memory's snapshots: drawn for a folder, and kept in its index; by value, the host's."""
        home = self.home(label)
        basis = home.read()
        if basis.origin is None and isinstance(home, MemoryHome):
            if label not in self.origins:
                self.origins[label] = origin_of(label)
            return self.origins[label]
        if basis.origin is None:
            basis = replace(basis, origin=self.draw_stream())
            home.write(basis)
        return basis.origin

    def stamp(self) -> str:
        return stamp(self.now())

    @staticmethod
    def token() -> str:
        return os.urandom(3).hex()

    def stream(self, label: str) -> str:
        """Identity of the history that this client begins for a label without one, the same each time."""
        return self._streams.setdefault(label, self.draw_stream())

    @staticmethod
    def draw_stream() -> str:
        return os.urandom(8).hex()

    def tell(self, action: Literal["upload", "download", "delete"], name: str, done: int, total: int) -> None:
        """Report a file to ``on_event``; once that fails, the verb reports no more files."""
        counts = tally()
        if self.on_event is None or (counts is not None and counts.muted):
            return
        from colony_memory._events import Event

        if not self.hand(Event(action, name, done, total)) and counts is not None:
            counts.muted = True

    def hand(self, event: Event | LifecycleEvent) -> bool:
        """Hand an event to ``on_event``; a failure is logged, and does not concern the verb. True if it succeeded."""
        if self.on_event is None:
            return True
        try:
            with outside_verbs():
                self.on_event(event)
        except Exception as error:  # noqa: BLE001 - it is the caller's code
            with suppress(Exception):  # so are the handlers of the log
                import logging

                logging.getLogger("colony_memory").warning("on_event failed, which changes nothing here: %r", error)
            return False
        return True

    async def seen(self, label: str) -> list[str]:
        """Heads seen of the label before; to be read before the pointer, as other clients may move both."""
        head = None
        try:
            if self.witness is not None and (head := await self.vault.compute(self.witness.read, label)) is not None:
                read_head(require_text("head", head))
        except ColonyMemoryError:
            raise
        except Exception as error:
            what = f"the witness cannot say what was seen of label {label!r}, so a rollback could go unnoticed"
            raise ColonyMemoryError(f"{what}: {message_of(error)}") from error
        return [known for known in (self.heads.get(label), head) if known]

    async def labels_seen(self) -> set[str]:
        """Labels with a head seen before, by this client or by a witness file, which lists its own."""
        from colony_memory.witness import FileWitness

        listed = await self.vault.compute(self.witness.labels) if isinstance(self.witness, FileWitness) else ()
        return {*self.heads, *listed}

    async def note(self, label: str, pointer: Pointer, *, proven: bool) -> None:
        """Remember the head of a pointer just read or written; one without a generation proves nothing."""
        head = f"{pointer.head}:{pointer.stream}" if pointer.head and pointer.stream else pointer.head
        known = self.heads.get(label)
        if not head or head == known:
            return
        if proven:
            if known is None or read_head(known).generation <= read_head(head).generation:
                self.heads[label] = head
        elif self.trust.pins:
            return  # anyone may have written it, and a witness never goes back
        if self.witness is None or not self.notes:
            return
        try:
            await self.vault.change(self.witness.record, label, head)
        except Exception as error:  # noqa: BLE001 - the verb's work is done, and any witness may fail in its own way
            warn(f"label {label!r} is at {head}, and the witness could not record it: {message_of(error)}")


def log(message: str) -> None:
    import logging  # slow to import, and rarely needed

    logging.getLogger("colony_memory").info(message)


def warn(message: str | ColonyMemoryWarning, *, hint: Hint | None = None) -> None:
    warning = message if isinstance(message, ColonyMemoryWarning) else ColonyMemoryWarning(message, hint=hint)
    warnings.warn(warning, stacklevel=2)
