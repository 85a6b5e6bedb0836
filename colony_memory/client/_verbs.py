"""The client and its verbs, each with its arguments and their documentation; the engine does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from colony_memory._format import NO_DEFAULT
from colony_memory.client._face import Blocking, Memory, wire_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._engine.transfer import CopyReport
    from colony_memory.encryption import Passphrase
    from colony_memory.export import Export
    from colony_memory.reports import (
        Change,
        Merged,
        RewriteReport,
        Salvaged,
        SearchReport,
        SnapshotDiff,
        VaultMap,
        VerifyReport,
    )
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.schedule.autobackup import Autobackup
    from colony_memory.signing import Signer
    from colony_memory.snapshot import SnapshotInfo

_D = TypeVar("_D")


class ColonyMemory(Blocking):
    """An agent's memory as snapshots in a vault.

    >>> from colony_memory import ColonyMemory, open_vault
    >>> mem = ColonyMemory(backend=open_vault("memory:"))
    >>> info = mem.backup({"MEMORY.md": "two years of notes"})
    >>> mem.restore()
    {'MEMORY.md': 'two years of notes'}

    Works inside a running event loop too; :class:`AsyncColonyMemory` has the same verbs as coroutines. May be used
    from several threads, as far as the backend may.

    Every verb raises a :class:`ColonyMemoryError` for any fault of the vault or its contents, and a
    :class:`ValueError` for a bad argument. Labels name independent series of snapshots: ``a-z``, ``0-9``, ``_`` and
    ``-``; case and outer blanks are folded, anything else is refused.

    Args:
        api_key: Key of the hosted vault, by default from ``COLONY_API_KEY``.
        base_url: Address of the hosted vault, by default from ``COLONY_BASE_URL``, else the SDK's.
        backend: Another vault: anything with the five methods of :class:`VaultBackend`.
        signer: Signs every snapshot that this client writes, and the pointer, such as :class:`Ed25519Signer`. With it
            the client accepts only snapshots that this key signed.
        trusted_issuers: did:key of each signer to accept, in place of the own one; for keys that were replaced a
            mapping of each to the id of the last snapshot that it is trusted for, None for all.
        require_signature: Refuse unsigned snapshots; by default if a signer or an issuer is given.
        accept_legacy_pointer: Accept unsigned pointers permanently, where 0.1.1 writes to the same label.
        witness: A record outside of the vault of how far each label has come, such as :class:`FileWitness`, which shows
            that a vault was set back to an older state.
        format: The format to write, 1 or 2; by default the vault's: 2 in a new directory or object store, else 1. 2
            keeps every state in little room, needs the extra ``zstd`` and a vault with conditional writes, and is not
            read by 0.1.1. Both are read, whatever is written.
        encrypt_to: Recipients to encrypt to: ``age1…``, SSH public keys, a :class:`Passphrase`, or several of these.
            Takes format 2.
        identities: Keys that decrypt snapshots: ``AGE-SECRET-KEY-1…``, SSH private keys, key files with these, a
            :class:`Passphrase`, or several. Without one a client that encrypts stores each snapshot whole.
        max_bytes: Bytes of plain text that a snapshot may have, written or read.
        on_event: Called with an :class:`Event` for every file that is written, read or deleted, and with a
            :class:`LifecycleEvent` when a verb has ended. Its errors are logged and change nothing.
    """

    # Saving

    def backup(
        self,
        documents: dict[str, str],
        *,
        label: str = "default",
        signer: Signer | None = None,
        prune_keep: int | None = None,
        retention: Retention | None = None,
        skip_unchanged: bool = True,
        on_conflict: Literal["raise", "continue", "merge"] = "raise",
        note: str | None = None,
        incomplete: Iterable[str] | None = None,
        tags: str | Iterable[str] = (),
    ) -> SnapshotInfo:
        """Save ``{name: text}`` as a new snapshot, which ``restore`` then returns.

        Wherever it stops, ``restore`` still returns the snapshot before.

        Args:
            documents: The whole memory, not empty. Any text comes back exactly.
            label: Label to save under.
            signer: Signs this one, in place of the client's.
            prune_keep: Keep only so many snapshots of this label, the new one included.
            retention: The same, by rules. Either keeps, for 30 days, a snapshot that was followed by one of less than
                half its bytes or documents, so that an agent that started empty by mistake loses nothing.
            skip_unchanged: If the latest snapshot has the same memory, signer, note and tags, write nothing and return
                that one with ``reused`` set.
            on_conflict: The course if the latest is another writer's, and this memory never held it. ``"raise"`` stores
                the snapshot, leaves the latest as it is, and raises. ``"continue"`` makes this one the latest and names
                the other in ``diverged_from``. ``"merge"`` stores the snapshot likewise, and saves both memories
                joined, by document and then by line; documents that cannot be joined are kept twice. If nothing is new,
                nothing is written.
            note: A remark for people, of at most 1,000 characters.
            incomplete: Everything that could not be saved, with the reason, one line each. Such a snapshot never takes
                the place of the newest complete one in a retention.
            tags: Tags to list it by: at most 20, each of 1 to 64 letters, digits or any of ``._:/@+=-``.

        Raises:
            ValueError: Bad documents or arguments; the message names the document.
            QuotaExceeded: It does not fit. Nothing was written.
            ConflictDetected: Another client has saved. Both snapshots are stored and listed.
            BackupUncertain: A write was not answered; the snapshot may be live.
            VaultError: The vault could not be reached or refused.
        """
        from colony_memory._engine.backup import backup

        return self._run(
            backup,
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

    def merge(self, documents: dict[str, str], *, snapshot_id: str, label: str = "default") -> Merged:
        """Join these documents with a snapshot, such as one of your own that met a conflict or was overtaken.

        By document and then by line, from their common base: an addition, change or removal of one side alone is taken
        over. If both changed the same lines, ours keeps the name and the other's text is kept too, under a name that
        says whose it is. Nothing is saved: the next :meth:`backup` of the label names the snapshot in ``based_on``.
        Errors are those of :meth:`restore`.
        """
        from colony_memory._engine.backup.job import merge_snapshot

        return self._run(merge_snapshot, documents, label=label, snapshot_id=snapshot_id)

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
        SIGHUP, never raises into the agent, and reports in ``last_success`` and ``last_error``. The last backup may
        take ``final_timeout`` seconds; ``backup_options`` are those of :meth:`backup`.
        See :class:`colony_memory.schedule.autobackup.Autobackup`.
        """
        from colony_memory.schedule.autobackup import Autobackup

        return Autobackup(self, collect, every=every, label=label, final_timeout=final_timeout, **backup_options)

    # Reading, which changes nothing

    def restore(
        self,
        *,
        label: str = "default",
        snapshot_id: str | None = None,
        verify: bool = True,
        names: str | Iterable[str] | None = None,
        fallback: bool = False,
        at_least: str | int | None = None,
        default: dict[str, str] | _D = NO_DEFAULT,
    ) -> dict[str, str] | _D:
        """The documents of the latest snapshot, or of the one asked for, checked in every byte.

        If the pointer is missing, garbled, or names a snapshot that is gone, the latest is the newest whole snapshot in
        the vault's list, with a :class:`ColonyMemoryWarning`.

        Args:
            label: Label to restore.
            snapshot_id: A certain snapshot, from :meth:`list_snapshots`.
            verify: Check signatures, of the snapshot and of the pointer. The digest is always checked.
            names: Only documents whose name matches one of these globs (``*``, ``?``, ``[…]``; ``*`` matches ``/``); a
                ValueError if there is none, ``default`` or not.
            fallback: If a snapshot is damaged, fall back to the newest intact one, with a warning that says why.
            at_least: ``head`` of a snapshot that was seen before, or its generation: refuse a vault that was set back.
            default: Value to return if the vault has proven that nothing is saved yet. No fault ever leads here:
                ``memory = mem.restore(default={})`` is a boot that cannot start empty by mistake.

        Raises:
            SnapshotNotFound: The vault answered, and there is no such snapshot.
            SnapshotCorrupt: The snapshot is damaged; ``UnsupportedFormat``: a newer version wrote it.
            UntrustedSnapshot: Its signature does not verify, or this client does not trust the signer.
            RollbackDetected: The vault is in an older state than the one that was seen before.
            DecryptionError: It is encrypted, and no identity decrypts it. ``fallback`` does not skip it.
            VaultError: The vault could not be reached or refused. Nothing is known of what is stored.
        """
        from colony_memory._engine.restore import restore_documents

        return self._run(
            restore_documents,
            label=label,
            snapshot_id=snapshot_id,
            verify=verify,
            names=names,
            fallback=fallback,
            at_least=at_least,
            default=default,
        )

    def salvage(self, *, label: str = "default", snapshot_id: str | None = None) -> Salvaged:
        """The proven part of a damaged snapshot, by default the latest: of each document the newest text up to then,
        from its own intact packs or the snapshots before it, else from those after it.

        The memory then counts as set back, unless the snapshot is whole: the next backup becomes the latest.
        With a pinned signer, only signed texts are proven. Errors are those of :meth:`restore`.
        """
        from colony_memory._engine.salvage import salvage_documents

        return self._run(salvage_documents, label=label, snapshot_id=snapshot_id)

    def list_snapshots(self, *, label: str | None = None) -> list[SnapshotInfo]:
        """Every snapshot that is whole, newest first, of one label or of all.

        A snapshot that is not whole is left out with a :class:`ColonyMemoryWarning` that names it.
        """
        from colony_memory._engine.restore import list_snapshots

        return self._run(list_snapshots, label=label)

    def latest(self, *, label: str = "default") -> SnapshotInfo | None:
        """The snapshot that ``restore`` returns, or None if the vault has proven that there is none."""
        from colony_memory._engine.restore import latest

        return self._run(latest, label=label)

    def verify(self, *, label: str = "default", snapshot_id: str | None = None) -> VerifyReport:
        """Read every byte of a label's snapshots, or of one, and report each fact on its own."""
        from colony_memory._engine.inspect import verify

        return self._run(verify, label=label, snapshot_id=snapshot_id)

    def diff(
        self, a: str | dict[str, str], b: str | dict[str, str] | None = None, *, label: str = "default"
    ) -> SnapshotDiff:
        """The changes from ``a`` to ``b``: each an id, or documents; ``b`` is by default the latest snapshot."""
        from colony_memory._engine.history import diff

        return self._run(diff, a, b, label=label)

    def history(self, name: str, *, label: str = "default", patch: bool = False) -> tuple[Change, ...]:
        """The history of one document, from snapshot to snapshot, newest first; empty if none has it.

        Reads every snapshot of the label once, two files for most. Those that cannot be read or are not trusted are
        skipped with a :class:`ColonyMemoryWarning` that names them: their changes show in the one after.
        With ``patch``, each difference is given too, as git and patch take it. Errors are those of :meth:`restore`.
        """
        from colony_memory._engine.history import changes

        return self._run(changes, name, label=label, patch=patch)

    def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """Every line in any snapshot that matches a pattern, with the first and the last snapshot that has it.

        Reads every snapshot of the label once, as :meth:`history` does. The pattern is a regular expression of
        :mod:`re`, searched for in each line on its own, or with ``fixed`` a text; a ValueError if it is neither.
        """
        from colony_memory._engine.history import search

        return self._run(search, pattern, label=label, fixed=fixed, ignore_case=ignore_case)

    def inspect(self) -> VaultMap:
        """Everything in the vault: labels, snapshots, sizes, leftovers, quota, and what the next backup costs."""
        from colony_memory._engine.inspect import inspect

        return self._run(inspect)

    def status(self, *, label: str | None = None) -> dict[str, Any]:
        """The vault's quota: ``{quota_bytes, used_bytes, available_bytes, file_count}``, 0 before the first write.

        Args:
            label: Add facts of this label: its number of ``restore_points``, the id of the ``newest`` and whether it
                is ``encrypted``; ids of the one that is kept ``before_loss``, since much less followed, and of those
                that are ``unmerged`` or ``unsigned``; ``next_bytes``, the bytes of the next backup judging by recent
                ones, an upper bound if ``next_at_most``; ``fits``, the number of backups that there is room for. Facts
                that are unknown or missing are None.
        """
        from colony_memory._engine.inspect import status

        return self._run(status, label=label)

    # Keeping and deleting

    def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """Delete snapshots, and leftovers of interrupted backups older than an hour; returns the number of snapshots.

        Only whole snapshots count. The newest good one and the one that the pointer names always stay; those that
        cannot be read are neither counted nor removed.

        Args:
            label: Label to prune.
            keep: Number of snapshots to keep.
            retention: Rules in place of ``keep``. See :meth:`plan_prune` for a preview.

        Raises:
            PruneIncomplete: Some files could not be deleted.
            VaultError: The vault could not be reached, or cut its list; nothing was deleted.
        """
        from colony_memory._engine.prune import prune

        return self._run(prune, label=label, policy=_policy(keep, retention))

    def plan_prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> PrunePlan:
        """The plan of :meth:`prune` with these arguments: what stays, what goes, and why. Deletes nothing."""
        from colony_memory._engine.prune import plan_prune

        return self._run(plan_prune, label=label, policy=_policy(keep, retention))

    def delete_snapshot(self, *, label: str, snapshot_id: str) -> None:
        """Delete one snapshot. If the pointer names it, the pointer first moves to the newest good one left.

        Errors are those of :meth:`prune`, and ``SnapshotNotFound``.
        """
        from colony_memory._engine.prune import delete_snapshot

        return self._run(delete_snapshot, label=label, snapshot_id=snapshot_id)

    def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Keep an existing snapshot, whatever a retention says, until it is unpinned."""
        from colony_memory._engine.prune import pin

        return self._run(pin, label=label, snapshot_id=snapshot_id)

    def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Leave a snapshot to the retention again; one that was not pinned is no error."""
        from colony_memory._engine.prune import unpin

        return self._run(unpin, label=label, snapshot_id=snapshot_id)

    def tag(
        self,
        *,
        snapshot_id: str,
        add: str | Iterable[str] = (),
        remove: str | Iterable[str] = (),
        label: str = "default",
    ) -> tuple[str, ...]:
        """Add tags to a snapshot, or remove some; returns all that it has then.

        They are kept in the label's pointer from then on, not in an export. A ValueError if one is no tag, there would
        be too many, or none is given; a ColonyMemoryError if the pointer is signed, and this client signs nothing.
        """
        from colony_memory._engine.prune import tag

        return self._run(tag, label=label, snapshot_id=snapshot_id, add=add, remove=remove)

    def rewrite(
        self,
        *,
        label: str = "default",
        exclude: str | Iterable[str] = (),
        replace: Mapping[str, str] | None = None,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
        sign: bool = False,
        encrypt_to: str | Passphrase | Iterable[str | Passphrase] | None = None,
        dry_run: bool = False,
    ) -> RewriteReport:
        """Save the snapshots of a label anew, without a text or a document, in another format or under other keys, and
        delete the old ones.

        Each keeps its time, note, tags and pin, is signed by this client's signer if it has one, and has an id one
        microsecond later; ``rewrites`` names the old one, which it replaces for whoever saved or restored that.
        Snapshots that need no change stay. It may be stopped anywhere, and goes on when it is called again.

        Args:
            label: Label to rewrite.
            exclude: Globs of names of documents to remove from every snapshot.
            replace: Texts to remove from every document and note, each with its replacement.
            format: 1 or 2: the format to save in.
            sign: Save anew also the snapshots that this client's signer has not signed.
            encrypt_to: Recipients to encrypt to; by default those of this client. Takes format 2.
            dry_run: Only report the cost.

        The report lists the files that the hour of grace holds back, until when: a :meth:`prune` then removes them.

        Raises:
            ValueError: There is nothing to do, or an argument is wrong.
            QuotaExceeded: It does not fit next to the old ones. Nothing was written.
            SnapshotCorrupt: A snapshot is damaged: it has to be deleted first. Nothing was written.
            UntrustedSnapshot: A snapshot is not trusted, or is signed, and this client has no signer.
            ColonyMemoryError: A document to replace a text in is no text, or nothing would be left.
        """
        from colony_memory._engine.rewrite import rewrite

        return self._run(
            rewrite,
            label=label,
            exclude=exclude,
            replaced=replace,
            wire=wire_of(format),
            sign=sign,
            encrypt_to=encrypt_to,
            dry_run=dry_run,
        )

    # Transfer: out of a vault, and into another

    def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """Export one snapshot, by default the latest, with the checks of a :meth:`restore`."""
        from colony_memory._engine.transfer import export_snapshot

        return self._run(export_snapshot, label=label, snapshot_id=snapshot_id)

    def import_snapshot(self, exported: Export, *, label: str | None = None, dry_run: bool = False) -> SnapshotInfo:
        """Put an exported snapshot into the vault, if this client would restore it.

        The pointer moves to it if it is newer than the snapshot that the pointer names. The summary's ``head`` shows
        whether it is the latest now, and ``reused`` that it was there already.

        Args:
            exported: The export, from :func:`colony_memory.transfer.load_export` or :meth:`export_snapshot`.
            label: Refuse an export of another label. A snapshot cannot change its label: restore it and back it up.
            dry_run: Only check all that, and write nothing.

        Raises:
            ValueError: The export is of another label.
            SnapshotCorrupt: It is damaged; ``UntrustedSnapshot``: this client does not trust it. Nothing was written.
            QuotaExceeded: It does not fit. Nothing was written.
            ColonyMemoryError: It is of format 2, and the vault has no conditional writes. Nothing was written.
            ConflictDetected: Something else is under its id, or part of it, which may be about to be deleted; or the
                label is signed, and this client has no signer.
        """
        from colony_memory._engine.transfer import import_snapshot

        return self._run(import_snapshot, exported, label=label, dry_run=dry_run)

    def copy_to(
        self,
        destination: Memory,
        *,
        labels: str | Iterable[str] | None = None,
        progress: Callable[[int, int], object] | None = None,
        dry_run: bool = False,
    ) -> CopyReport:
        """Copy every whole snapshot into another vault, oldest first, byte for byte, and read each back.

        Files that are there with the same bytes are not written again, so a copy that was stopped goes on when it is
        made again. Nothing is removed, and the pointer of a label never moves to an older snapshot than it names. A
        destination with a signer signs it. Without one, a new label gets this vault's pointer as it is, if that lists
        just the snapshots there, else an unsigned one, with a warning; to add to a signed label takes a signer.

        Args:
            destination: The memory to copy to. Snapshots that it, or this one, would not restore are left out.
            labels: Labels to copy, by default all.
            progress: Called after each snapshot with the number that is done and the number there is.
            dry_run: Read and check everything, and write nothing.

        Raises:
            ConflictDetected: A label there is signed, and the destination has no signer.
            SnapshotNotFound: There is nothing to copy, under one of the labels or at all.
            QuotaExceeded: It does not fit.
            RollbackDetected: A label, here or there, was rolled back.
            VaultError: A vault could not be reached or refused; ``RateLimited`` after 60 writes an hour to the hosted
                one. The message tells how far it came.
        """
        from colony_memory._engine.transfer import copy

        return self._run(
            copy, self._session_of("destination", destination), labels=labels, progress=progress, dry_run=dry_run
        )


def _policy(keep: int, retention: Retention | None) -> Retention:
    """The retention by either argument: ``keep`` has a default, so a retention takes its place."""
    from colony_memory._engine.keep import policy_of

    policy = policy_of(None if retention is not None else keep, retention)
    if policy is None:
        raise ValueError("keep must be a count")
    return policy
