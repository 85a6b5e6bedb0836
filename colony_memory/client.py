"""The facade: :class:`ColonyMemory` and :class:`AsyncColonyMemory`, the same verbs for both worlds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from colony_memory import _engine
from colony_memory._arguments import is_coroutine, require_type
from colony_memory._format.constants import FORMAT, FORMAT_2, MAX_BYTES, NO_DEFAULT
from colony_memory.exceptions import ColonyMemoryError, Hint
from colony_memory.vaults import AsyncVaultBackend, VaultBackend

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from colony_memory._engine.history import Histories, View
    from colony_memory._engine.restore import Restored
    from colony_memory._engine.session import Session
    from colony_memory._engine.transfer import CopyReport
    from colony_memory.encryption import Passphrase
    from colony_memory.export import Export
    from colony_memory.reports import Change, Event, LifecycleEvent, SearchReport, SnapshotDiff, VaultMap, VerifyReport
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.schedule.async_autobackup import AsyncAutobackup
    from colony_memory.schedule.autobackup import Autobackup
    from colony_memory.signing import Signer
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.witness import Witness

__all__ = ["AsyncColonyMemory", "AsyncVaultBackend", "ColonyMemory", "VaultBackend"]

_T = TypeVar("_T")
_Identity: TypeAlias = "str | os.PathLike[str] | Passphrase"
_D = TypeVar("_D")
_NO_VAULT = "no vault: no API key is given, nor set as COLONY_API_KEY, and no other vault either"


class _Facade:
    """What both facades share: one session."""

    _session: Session

    @property
    def signer(self) -> Signer | None:
        """What this client signs with."""
        return self._session.signer

    @signer.setter
    def signer(self, signer: Signer | None) -> None:
        self._session.signer = signer

    def to_progenly_export(self, documents: dict[str, str]) -> dict[str, Any]:
        """Shape documents as the ``memory`` of a Progenly merge: ``{"memory", "memory_format"}``.

        Raises:
            ValueError: Not a non-empty mapping of strings.
        """
        from colony_memory.snapshot import check_documents

        check_documents(documents)
        return {"memory": dict(documents), "memory_format": FORMAT}


class ColonyMemory(_Facade):
    """An agent's memory as snapshots in a vault.

    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> mem.restore()
    {'MEMORY.md': 'two years of notes'}

    Works inside a running event loop too; :class:`AsyncColonyMemory` has the same verbs as coroutines. May be used
    from several threads, as far as the backend may.

    Every verb raises :class:`ColonyMemoryError` or a leaf of it for whatever goes wrong with the vault or what is in
    it, and :class:`ValueError` for a bad argument. Labels name independent streams of snapshots: ``a-z``, ``0-9``,
    ``_`` and ``-``; case and outer blanks are folded, anything else is refused.

    Args:
        api_key: Key of the hosted vault, by default from ``COLONY_API_KEY``.
        base_url: Address of the hosted vault, by default from ``COLONY_BASE_URL``, else the SDK's.
        backend: Another vault: anything with the five methods of :class:`VaultBackend`.
        signer: Signs every snapshot that this client writes, and the pointer, such as :class:`Ed25519Signer`. With it
            the client accepts what this key signed, and nothing else.
        trusted_issuers: did:key of each signer to accept, in place of the own one; for keys that were replaced a
            mapping of each to the id of the last snapshot that it is trusted for, None for all.
        require_signature: Whether to refuse what nobody signed; by default where a signer or an issuer is given.
        accept_legacy_pointer: Accept pointers without a signature for good, where 0.1.1 writes to the same label.
        witness: Keeps outside of the vault how far each label has come, such as :class:`FileWitness`, so that a vault
            that was set back to an older state is noticed.
        format: 1 or 2, what to write, by default what the vault is for: 2 in a new directory or object store, 1 in the
            hosted vault and every other. 2 keeps every state in little room, needs the extra ``zstd`` and a vault that
            writes on condition, and is not read by 0.1.1. Both are read, whatever is written.
        encrypt_to: Whom to encrypt to: ``age1…`` recipients, SSH public keys, a :class:`Passphrase`, or several of
            these. Whoever holds one of their private keys, or the passphrase, reads it. Takes format 2.
        identities: What opens encrypted snapshots: ``AGE-SECRET-KEY-1…``, SSH private keys, key files that hold these,
            a :class:`Passphrase`, or several of these. Without one a client that encrypts stores each snapshot whole,
            since it cannot read the one before.
        max_bytes: Bytes of plain text that a snapshot may hold, written or read.
        on_event: Called with an :class:`Event` for every file that is written, read or deleted, and with a
            :class:`LifecycleEvent` when a verb has ended. What it raises is logged and changes nothing.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        backend: VaultBackend | None = None,
        signer: Signer | None = None,
        trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None = None,
        require_signature: bool | None = None,
        accept_legacy_pointer: bool = False,
        witness: Witness | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        identities: _Identity | Iterable[_Identity] | None = None,
        max_bytes: int = MAX_BYTES,
        on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    ) -> None:
        if backend is None:
            from colony_memory.vaults.colony import ColonyVault

            backend = ColonyVault(_require_key(api_key), base_url=base_url)
        _require_methods(backend)
        if is_coroutine(getattr(backend, "vault_get_file", None)):
            raise ValueError("this backend is asynchronous: use AsyncColonyMemory")
        from colony_memory._engine.session import Session
        from colony_memory._engine.store import SyncVault

        self._session = Session(
            SyncVault(backend),
            signer=signer,
            trusted_issuers=trusted_issuers,
            require_signature=require_signature,
            accept_legacy_pointer=accept_legacy_pointer,
            witness=witness,
            max_bytes=max_bytes,
            # First: the extra that encrypts brings what format 2 takes, and its name is the one to tell.
            **_keys(encrypt_to, identities),
            wire=_wire(format, encrypt_to),
            on_event=on_event,
        )

    def backup(
        self,
        documents: dict[str, str],
        *,
        label: str = "default",
        signer: Signer | None = None,
        prune_keep: int | None = None,
        retention: Retention | None = None,
        skip_unchanged: bool = True,
        on_conflict: str = "raise",
        note: str | None = None,
        incomplete: Iterable[str] | None = None,
        tags: str | Iterable[str] = (),
    ) -> SnapshotInfo:
        """Save ``{name: text}`` as a new snapshot, which ``restore`` then gives.

        Parts are written first, then the manifest, then the pointer: wherever it stops, the snapshot before stays
        what ``restore`` gives.

        Args:
            documents: The whole memory, not empty. Any text comes back exactly.
            label: Stream to save to.
            signer: Signs this one, in place of the client's.
            prune_keep: Keep only so many snapshots of this label, the new one included.
            retention: The same, by rules. Either is lenient in one way: for 30 days it keeps a snapshot that one of
                less than half its bytes or documents followed, so that an agent that started empty by mistake loses
                nothing. Older snapshots go first only if the new one does not fit otherwise.
            skip_unchanged: Where the memory is the same as in the latest snapshot, under the same signer, write
                nothing and return that one with ``reused`` set.
            on_conflict: What to do where another client has saved since this one last restored or saved, or saves in
                between. ``"raise"`` stores the snapshot, leaves the latest as it is, and raises. ``"continue"`` makes
                this one the latest and tells of the other in ``diverged_from``. ``"merge"`` joins both over what they
                have in common, by document and then by line, and keeps twice what cannot be joined (extra ``merge``).
                Equal memory is no conflict.
            note: What to say of it, for people, in at most 1,000 characters.
            incomplete: What could not be saved and why, one line each. Such a snapshot never takes the place of the
                newest complete one in a retention.
            tags: What to file it under, for lists: at most 20, each of 1 to 64 letters, digits or any of ``._:/@+=-``.
                Unchanged memory is saved anew where the latest snapshot lacks one of them, or has another note than
                the one given here.

        Raises:
            ValueError: Bad documents or arguments; the message names the document.
            QuotaExceeded: It does not fit. Nothing was written.
            ConflictDetected: Another client has saved. Both snapshots are stored and listed.
            BackupUncertain: A write was not answered; the snapshot may be live.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(
            _engine.backup.backup(
                self._session,
                documents,
                label=label,
                signer=signer,
                prune_keep=prune_keep,
                retention=retention,
                skip_unchanged=skip_unchanged,
                on_conflict=on_conflict,
                note=note,
                incomplete=incomplete,
                tags=tags,
            )
        )

    @overload
    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: dict[str, str],
    ) -> dict[str, str]: ...

    @overload
    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D: ...

    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D:
        """The documents of the latest snapshot, or of the one asked for, checked in every byte.

        Where the pointer is missing, garbled, or names a snapshot that is not there, it is the newest whole snapshot
        in the vault's list, with a :class:`ColonyMemoryWarning`.

        Args:
            label: Stream to restore.
            snapshot_id: A certain snapshot, from :meth:`list_snapshots`.
            verify: Check signatures, of the snapshot and of the pointer. The digest is always checked.
            names: Only documents whose name matches one of these globs (``*``, ``?``, ``[…]``; ``*`` matches ``/``).
            fallback: Where a snapshot is damaged, walk back to the newest intact one, with a warning that says why.
            at_least: ``head`` of a snapshot that was seen before, or its generation: refuse a vault that was set back.
            default: What to return where the vault has proven that nothing is saved yet. No fault ever leads here:
                ``memory = mem.restore(default={})`` is a boot that cannot start empty by mistake.

        Raises:
            SnapshotNotFound: The vault answered, and there is no such snapshot.
            SnapshotCorrupt: The snapshot is damaged; ``UnsupportedFormat``: a newer version wrote it.
            UntrustedSnapshot: Its signature does not verify, or this client does not trust who made it.
            RollbackDetected: The vault is in an older state than the one that was seen before.
            DecryptionError: It is encrypted, and no identity opens it. ``fallback`` does not pass it over.
            VaultError: The vault could not be reached or refused. Nothing is known of what is stored.
        """
        return self._run(  # type: ignore[no-any-return]
            _engine.restore.restore_documents(
                self._session,
                label=label,
                snapshot_id=snapshot_id,
                verify=verify,
                names=names,
                fallback=fallback,
                at_least=at_least,
                default=default,
            )
        )

    def _restored(self, *, label: str, snapshot_id: str | None, fallback: bool) -> Restored:
        """What :meth:`restore` gives, and of which snapshot."""
        return self._run(
            _engine.restore.restore(self._session, label=label, snapshot_id=snapshot_id, fallback=fallback)
        )

    def list_snapshots(self, *, label: str | None = None) -> list[SnapshotInfo]:
        """Every snapshot that is whole, newest first, of one label or of all.

        A snapshot that is not whole is left out with a :class:`ColonyMemoryWarning` that names it.
        """
        return self._run(_engine.restore.list_snapshots(self._session, label=label))

    def latest(self, *, label: str = "default") -> SnapshotInfo | None:
        """The snapshot that ``restore`` gives, or None where the vault has proven that there is none."""
        return self._run(_engine.restore.latest(self._session, label=label))

    def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """Delete snapshots, and the leftovers of interrupted backups that are older than an hour.

        Only snapshots that are whole count. The newest good one and the one that the pointer names always stay;
        those that cannot be read are neither counted nor removed.

        Args:
            label: Stream to prune.
            keep: How many to keep.
            retention: Rules in place of ``keep``. See :meth:`plan_prune` for a preview.

        Returns:
            The number of snapshots that are gone.

        Raises:
            PruneIncomplete: Some files could not be deleted.
            VaultError: The vault could not be reached, or cut its list; nothing was deleted.
        """
        return self._run(_engine.prune.prune(self._session, label=label, policy=_policy(keep, retention)))

    def plan_prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> PrunePlan:
        """What :meth:`prune` with these arguments would keep and delete, and why. Deletes nothing."""
        return self._run(_engine.prune.plan_prune(self._session, label=label, policy=_policy(keep, retention)))

    def delete_snapshot(self, *, label: str, snapshot_id: str) -> None:
        """Delete one snapshot. Where the pointer names it, the pointer first moves to the newest good one left.

        Raises:
            SnapshotNotFound: There is no such snapshot.
            PruneIncomplete: Some of its files could not be deleted.
        """
        self._run(_engine.prune.delete_snapshot(self._session, label=label, snapshot_id=snapshot_id))

    def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Keep a snapshot whatever a retention says, until it is unpinned.

        Raises:
            SnapshotNotFound: There is no such snapshot.
        """
        self._run(_engine.prune.pin(self._session, label=label, snapshot_id=snapshot_id))

    def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Leave a snapshot to the retention again; it is no error that it was not pinned."""
        self._run(_engine.prune.unpin(self._session, label=label, snapshot_id=snapshot_id))

    def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """Take one snapshot out of a vault, checked in every byte as a restore of it would be.

        Args:
            label: Stream of the snapshot.
            snapshot_id: A certain snapshot; by default the latest.

        Raises:
            SnapshotNotFound: The vault answered, and there is no such snapshot.
            SnapshotCorrupt: The snapshot is damaged.
            UntrustedSnapshot: The client does not trust it.
            VaultError: The vault could not be reached or refused.
        """
        return self._run(_engine.transfer.export_snapshot(self._session, label=label, snapshot_id=snapshot_id))

    def import_snapshot(
        self,
        exported: Export,
        *,
        label: str | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> SnapshotInfo:
        """Put an exported snapshot into the vault, if this client would restore it.

        Parts are written first, then the manifest, then the pointer, which moves to the snapshot if that is newer than
        the one that it names.

        Args:
            exported: The export, from :func:`colony_memory.transfer.load_export` or :meth:`export_snapshot`.
            label: Refuse an export of another label. A snapshot cannot change its label: restore it and back it up.
            format: 1 or 2: convert it, as :meth:`copy_to` does.

        Returns:
            The summary: ``head`` tells whether it is the latest now, ``reused`` that it was there already.

        Raises:
            ValueError: The export is of another label.
            SnapshotCorrupt: It is damaged. Nothing was written.
            UntrustedSnapshot: This client does not trust it. Nothing was written.
            QuotaExceeded: It does not fit. Nothing was written.
            ColonyMemoryError: It is of format 2, and the vault does not write on condition. Nothing was written.
            ConflictDetected: Something else is under its id, or what is there is not in the catalogue: it may be about
                to be deleted.
            VaultError: The vault could not be reached or refused.
        """
        flow = _engine.transfer.import_snapshot(self._session, exported, label=label, wire=_wire(format))
        return self._run(flow)

    def copy_to(
        self,
        destination: ColonyMemory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> CopyReport:
        """Copy every whole snapshot into another vault, oldest first, byte for byte, and read each back.

        What is there with the same bytes is not written again, so a copy that was stopped goes on when it is made
        again, and one that is made every night brings what is new. Nothing is removed. The pointer of each label is
        written last and never moves to an older snapshot than it names. A client with a signer signs it; without one, a
        signed pointer is copied as it is where it says just what is there, else an unsigned one is written, with a
        warning.

        Args:
            destination: The memory to copy to. What it, or this one, would not restore is left out.
            labels: Streams to copy, by default all.
            progress: Called after each snapshot with the number that is done and the number there is.
            format: 1 or 2: what is of the other format is converted. It keeps its id, its time and what is said of
                it, and has another manifest, which the destination's signer signs where the original was signed.
                Without this every snapshot goes as it is.

        Raises:
            ColonyMemoryError: The destination does not take this format.
            SnapshotNotFound: There is nothing to copy, under one of the labels or at all.
            QuotaExceeded: It does not fit.
            RollbackDetected: A label, here or there, was rolled back.
            VaultError: A vault could not be reached or refused; ``RateLimited`` after 60 writes an hour to the hosted
                one. The message tells how far it came.
        """
        require_type("destination", destination, ColonyMemory)
        flow = _engine.transfer.copy(
            self._session, destination._session, labels=labels, progress=progress, wire=_wire(format)
        )
        return self._run(flow)

    def verify(self, *, label: str = "default", snapshot_id: str | None = None) -> VerifyReport:
        """Read every byte of a label's snapshots, or of one, and report each fact on its own."""
        return self._run(_engine.verify.verify(self._session, label=label, snapshot_id=snapshot_id))

    def diff(
        self,
        a: str | dict[str, str],
        b: str | dict[str, str] | None = None,
        *,
        label: str = "default",
    ) -> SnapshotDiff:
        """What changed from ``a`` to ``b``: each an id, or documents; ``b`` is by default the latest snapshot."""
        return self._run(_engine.verify.diff(self._session, a, b, label=label))

    def history(self, name: str, *, label: str = "default", patch: bool = False) -> tuple[Change, ...]:
        """What became of one document, from snapshot to snapshot, newest first; empty where none has it.

        Reads every snapshot of the label once, two files for most. Those that cannot be read or are not trusted are
        passed over with a :class:`ColonyMemoryWarning` that names them: what changed there shows in the one after it.

        Args:
            name: The document.
            label: Stream to look at.
            patch: Give each difference too, as git and patch take it.

        Raises:
            SnapshotNotFound: Nothing is saved under this label.
            SnapshotCorrupt: No snapshot of it can be read.
            UntrustedSnapshot: This client does not trust it; ``RollbackDetected``: it was set back.
            VaultError: The vault could not be reached, refused, or cut its list.
        """
        return self._history(name, label=label, patch=patch).changes.get(name, ())

    def _history(self, name: str, *, label: str, patch: bool, view: View | None = None) -> Histories:
        """What :meth:`history` gives and what was passed over, of what the documents stand for."""
        return self._run(_engine.history.history(self._session, name, label=label, patch=patch, view=view))

    def _histories(self, *, label: str, patch: bool, view: View | None = None) -> Histories:
        """The same of every document."""
        return self._run(_engine.history.histories(self._session, label=label, patch=patch, view=view))

    def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """Every line of every snapshot that has something in it, with the first and the last snapshot that it is in.

        Reads every snapshot of the label once, as :meth:`history` does.

        Args:
            pattern: A regular expression of :mod:`re`, looked for in each line on its own.
            label: Stream to search.
            fixed: Take the pattern as a text.
            ignore_case: Take upper and lower case for the same.

        Raises:
            ValueError: The pattern is empty, has a line feed in it, or is not a regular expression.
            SnapshotNotFound: Nothing is saved under this label.
            SnapshotCorrupt: No snapshot of it can be read.
            UntrustedSnapshot: This client does not trust it; ``RollbackDetected``: it was set back.
            VaultError: The vault could not be reached, refused, or cut its list.
        """
        return self._search(pattern, label=label, fixed=fixed, ignore_case=ignore_case)

    def _search(
        self, pattern: str, *, label: str, fixed: bool, ignore_case: bool, view: View | None = None
    ) -> SearchReport:
        """What :meth:`search` gives, of what the documents stand for."""
        return self._run(
            _engine.history.search(self._session, pattern, label=label, fixed=fixed, ignore_case=ignore_case, view=view)
        )

    def inspect(self) -> VaultMap:
        """Everything in the vault: labels, snapshots, sizes, leftovers, quota, and what the next backup costs."""
        return self._run(_engine.verify.inspect(self._session))

    def autobackup(
        self,
        collect: Callable[[], dict[str, str]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> Autobackup:
        """Save what ``collect()`` returns every ``every`` seconds, and once more when the block is left.

        ``with mem.autobackup(collect, every=900):`` also saves at the interpreter's exit and on SIGTERM, SIGINT and
        SIGHUP, never raises into the agent, and tells of itself in ``last_success`` and ``last_error``. See
        :class:`colony_memory.schedule.autobackup.Autobackup`.

        Args:
            collect: Returns the documents; called in a thread of its own.
            every: Seconds between backups.
            label: Stream to save to.
            final_timeout: Seconds that the last backup may take.
            backup_options: Further arguments of :meth:`backup`.
        """
        from colony_memory.schedule.autobackup import Autobackup

        return Autobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)

    def status(self, *, label: str | None = None) -> dict[str, Any]:
        """The vault's quota: ``{quota_bytes, used_bytes, available_bytes, file_count}``, 0 before the first write.

        Args:
            label: Tell of this label too, at the cost of reading what it lists: ``restore_points``, how many it has;
                ``next_bytes``, what the next backup stores by what recent ones did; ``next_at_most``, whether that is
                the most, and nothing shows yet how much less; ``fits``, how many more there is room for;
                ``daily_bytes``, what a day of backups takes at their pace; ``room_lasts_seconds``, how long there is
                room then, if nothing is removed and nobody else writes. Where one of the last three cannot be told, it
                is None.
        """
        return self._run(_engine.verify.status(self._session, label=label))

    @staticmethod
    def _run(verb: Coroutine[Any, Any, _T]) -> _T:
        from colony_memory._engine.drive import drive
        from colony_memory._engine.store import Changed, Unanswered, to_public

        try:
            return drive(verb)
        except (Changed, Unanswered) as error:
            raise to_public(error) from error


class AsyncColonyMemory(_Facade):
    """:class:`ColonyMemory` as coroutines, over ``colony_sdk.AsyncColonyClient`` or any asynchronous vault.

    A plain vault works too: its calls then run in threads. A cancelled verb leaves what a crash at that place leaves.
    Belongs to one event loop; ``async with`` closes the connection that it opened itself. Arguments and errors are
    those of :class:`ColonyMemory`. The hosted vault needs the extra ``async``.
    """

    def __init__(
        self,
        api_key: str | None = None,
        *,
        base_url: str | None = None,
        backend: AsyncVaultBackend | VaultBackend | None = None,
        signer: Signer | None = None,
        trusted_issuers: str | Iterable[str] | Mapping[str, str | None] | None = None,
        require_signature: bool | None = None,
        accept_legacy_pointer: bool = False,
        witness: Witness | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        identities: _Identity | Iterable[_Identity] | None = None,
        max_bytes: int = MAX_BYTES,
        on_event: Callable[[Event | LifecycleEvent], None] | None = None,
    ) -> None:
        self._own: Any = None
        if backend is None:
            from colony_memory.vaults.colony import AsyncColonyVault

            backend = self._own = AsyncColonyVault(_require_key(api_key), base_url=base_url)
        _require_methods(backend)
        from colony_memory._engine.session import Session
        from colony_memory._engine.store import AsyncVault

        self._session = Session(
            AsyncVault(backend),
            signer=signer,
            trusted_issuers=trusted_issuers,
            require_signature=require_signature,
            accept_legacy_pointer=accept_legacy_pointer,
            witness=witness,
            max_bytes=max_bytes,
            # First: the extra that encrypts brings what format 2 takes, and its name is the one to tell.
            **_keys(encrypt_to, identities),
            wire=_wire(format, encrypt_to),
            on_event=on_event,
        )

    async def aclose(self) -> None:
        """Close the connection, where this client opened it."""
        if self._own is not None:
            await self._own.aclose()

    async def __aenter__(self) -> AsyncColonyMemory:  # noqa: PYI034 - typing.Self is of 3.11
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def backup(
        self,
        documents: dict[str, str],
        *,
        label: str = "default",
        signer: Signer | None = None,
        prune_keep: int | None = None,
        retention: Retention | None = None,
        skip_unchanged: bool = True,
        on_conflict: str = "raise",
        note: str | None = None,
        incomplete: Iterable[str] | None = None,
        tags: str | Iterable[str] = (),
    ) -> SnapshotInfo:
        """See :meth:`ColonyMemory.backup`."""
        return await self._run(
            _engine.backup.backup(
                self._session,
                documents,
                label=label,
                signer=signer,
                prune_keep=prune_keep,
                retention=retention,
                skip_unchanged=skip_unchanged,
                on_conflict=on_conflict,
                note=note,
                incomplete=incomplete,
                tags=tags,
            )
        )

    @overload
    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: dict[str, str],
    ) -> dict[str, str]: ...

    @overload
    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D: ...

    async def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: _D = NO_DEFAULT,
    ) -> dict[str, str] | _D:
        """See :meth:`ColonyMemory.restore`."""
        return await self._run(
            _engine.restore.restore_documents(
                self._session,
                label=label,
                snapshot_id=snapshot_id,
                verify=verify,
                names=names,
                fallback=fallback,
                at_least=at_least,
                default=default,
            )
        )

    async def list_snapshots(self, *, label: str | None = None) -> list[SnapshotInfo]:
        """See :meth:`ColonyMemory.list_snapshots`."""
        return await self._run(_engine.restore.list_snapshots(self._session, label=label))

    async def latest(self, *, label: str = "default") -> SnapshotInfo | None:
        """See :meth:`ColonyMemory.latest`."""
        return await self._run(_engine.restore.latest(self._session, label=label))

    async def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """See :meth:`ColonyMemory.prune`."""
        return await self._run(_engine.prune.prune(self._session, label=label, policy=_policy(keep, retention)))

    async def plan_prune(
        self, *, label: str = "default", keep: int = 5, retention: Retention | None = None
    ) -> PrunePlan:
        """See :meth:`ColonyMemory.plan_prune`."""
        return await self._run(_engine.prune.plan_prune(self._session, label=label, policy=_policy(keep, retention)))

    async def delete_snapshot(self, *, label: str, snapshot_id: str) -> None:
        """See :meth:`ColonyMemory.delete_snapshot`."""
        await self._run(_engine.prune.delete_snapshot(self._session, label=label, snapshot_id=snapshot_id))

    async def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """See :meth:`ColonyMemory.pin`."""
        await self._run(_engine.prune.pin(self._session, label=label, snapshot_id=snapshot_id))

    async def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """See :meth:`ColonyMemory.unpin`."""
        await self._run(_engine.prune.unpin(self._session, label=label, snapshot_id=snapshot_id))

    async def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """See :meth:`ColonyMemory.export_snapshot`."""
        return await self._run(_engine.transfer.export_snapshot(self._session, label=label, snapshot_id=snapshot_id))

    async def import_snapshot(
        self,
        exported: Export,
        *,
        label: str | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> SnapshotInfo:
        """See :meth:`ColonyMemory.import_snapshot`."""
        flow = _engine.transfer.import_snapshot(self._session, exported, label=label, wire=_wire(format))
        return await self._run(flow)

    async def copy_to(
        self,
        destination: AsyncColonyMemory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> CopyReport:
        """See :meth:`ColonyMemory.copy_to`."""
        require_type("destination", destination, AsyncColonyMemory)
        flow = _engine.transfer.copy(
            self._session, destination._session, labels=labels, progress=progress, wire=_wire(format)
        )
        return await self._run(flow)

    async def verify(self, *, label: str = "default", snapshot_id: str | None = None) -> VerifyReport:
        """See :meth:`ColonyMemory.verify`."""
        return await self._run(_engine.verify.verify(self._session, label=label, snapshot_id=snapshot_id))

    async def diff(
        self,
        a: str | dict[str, str],
        b: str | dict[str, str] | None = None,
        *,
        label: str = "default",
    ) -> SnapshotDiff:
        """See :meth:`ColonyMemory.diff`."""
        return await self._run(_engine.verify.diff(self._session, a, b, label=label))

    async def history(self, name: str, *, label: str = "default", patch: bool = False) -> tuple[Change, ...]:
        """See :meth:`ColonyMemory.history`."""
        found = await self._run(_engine.history.history(self._session, name, label=label, patch=patch))
        return found.changes.get(name, ())

    async def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """See :meth:`ColonyMemory.search`."""
        return await self._run(
            _engine.history.search(self._session, pattern, label=label, fixed=fixed, ignore_case=ignore_case)
        )

    async def inspect(self) -> VaultMap:
        """See :meth:`ColonyMemory.inspect`."""
        return await self._run(_engine.verify.inspect(self._session))

    def autobackup(
        self,
        collect: Callable[[], dict[str, str] | Awaitable[dict[str, str]]],
        *,
        every: float = 900.0,
        label: str = "default",
        final_timeout: float = 10.0,
        **backup_options: Any,
    ) -> AsyncAutobackup:
        """See :meth:`ColonyMemory.autobackup`: ``async with mem.autobackup(collect, every=900):``.

        ``collect`` may be a coroutine function or a plain one; either is called in the event loop. See
        :class:`colony_memory.schedule.async_autobackup.AsyncAutobackup`.
        """
        from colony_memory.schedule.async_autobackup import AsyncAutobackup

        return AsyncAutobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)

    async def status(self, *, label: str | None = None) -> dict[str, Any]:
        """See :meth:`ColonyMemory.status`."""
        return await self._run(_engine.verify.status(self._session, label=label))

    @staticmethod
    async def _run(verb: Coroutine[Any, Any, _T]) -> _T:
        from colony_memory._engine.store import Changed, Unanswered, to_public

        try:
            return await verb
        except (Changed, Unanswered) as error:
            raise to_public(error) from error


def _policy(keep: int, retention: Retention | None) -> Retention:
    """``keep`` has a default, so a retention takes its place."""
    policy = _engine.keep.policy_of(None if retention is not None else keep, retention)
    if policy is None:
        raise ValueError("keep must be a count")
    return policy


def _wire(number: int | None, encrypt_to: object = None) -> str | None:
    """The wire format of that number, None for what the vault is for. What is encrypted is of format 2."""
    if number is None and encrypt_to is None:
        return None
    from colony_memory.vaults._marker import check_format

    if number == 1 and encrypt_to is not None:
        raise ValueError("format 1 cannot be encrypted: leave the format out, or give 2")
    number = 2 if number is None else number
    check_format(number)
    return FORMAT_2 if number == 2 else FORMAT


def _keys(encrypt_to: object, identities: object) -> dict[str, Any]:
    """Whom to encrypt to, and what opens, as a session takes it."""
    if encrypt_to is None and identities is None:
        return {}
    from colony_memory.encryption import read_identities, read_recipients

    recipients = read_recipients(encrypt_to)
    return {"recipients": recipients, "identities": read_identities(identities, recipients)}


def _require_key(api_key: str | None) -> str:
    key = api_key or os.environ.get("COLONY_API_KEY")
    if not key:
        raise ColonyMemoryError(_NO_VAULT, hint=Hint("open", "api_key"))
    return key


def _require_methods(backend: object) -> None:
    missing = [name for name in vars(VaultBackend) if name.startswith("vault_") and not hasattr(backend, name)]
    if missing:
        msg = f"{type(backend).__name__} is not a vault: it has no {missing[0]}()"
        raise ValueError(msg)
