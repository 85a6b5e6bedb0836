"""The client and its verbs, each with its arguments and what is to be said of them; it passes them on to the engine."""

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

    Every verb raises a :class:`ColonyMemoryError` for whatever goes wrong with the vault or what is in it, and a
    :class:`ValueError` for a bad argument. Labels name independent series of snapshots: ``a-z``, ``0-9``, ``_`` and
    ``-``; case and outer blanks are folded, anything else is refused.

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
        format: 1 or 2, what to write, by default what the vault is for: 2 in a new directory or object store, else 1.
            2 keeps every state in little room, needs the extra ``zstd`` and a vault that writes on condition, and is
            not read by 0.1.1. Both are read, whatever is written.
        encrypt_to: Whom to encrypt to: ``age1…`` recipients, SSH public keys, a :class:`Passphrase`, or several of
            these. Takes format 2.
        identities: What opens encrypted snapshots: ``AGE-SECRET-KEY-1…``, SSH private keys, key files that hold these,
            a :class:`Passphrase`, or several. Without one a client that encrypts stores each snapshot whole.
        max_bytes: Bytes of plain text that a snapshot may hold, written or read.
        on_event: Called with an :class:`Event` for every file that is written, read or deleted, and with a
            :class:`LifecycleEvent` when a verb has ended. What it raises is logged and changes nothing.
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
        """Save ``{name: text}`` as a new snapshot, which ``restore`` then gives.

        Wherever it stops, the snapshot before stays what ``restore`` gives.

        Args:
            documents: The whole memory, not empty. Any text comes back exactly.
            label: Label to save under.
            signer: Signs this one, in place of the client's.
            prune_keep: Keep only so many snapshots of this label, the new one included.
            retention: The same, by rules. Either keeps, for 30 days, a snapshot that one of less than half its bytes or
                documents followed, so that an agent that started empty by mistake loses nothing.
            skip_unchanged: Where the latest snapshot has the same memory, signer, note and tags, write nothing and
                return that one with ``reused`` set.
            on_conflict: What to do where the latest is another writer's, and this memory never held it. ``"raise"``
                stores the snapshot, leaves the latest as it is, and raises. ``"continue"`` makes this one the latest
                and tells of the other in ``diverged_from``. ``"merge"`` stores the snapshot likewise, and saves what
                both have, by document and then by line; it keeps twice what cannot be joined. Where nothing is new,
                nothing is written.
            note: What to say of it, for people, in at most 1,000 characters.
            incomplete: What could not be saved and why, one line each. Such a snapshot never takes the place of the
                newest complete one in a retention.
            tags: What to file it under, for lists: at most 20, each of 1 to 64 letters, digits or any of ``._:/@+=-``.

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

        By document and then by line, over what both come from: what only one side added, changed or removed is done.
        Where both changed the same lines, ours keeps the name and the other's text is kept too, under a name that says
        whose it is. Nothing is saved: the next :meth:`backup` of the label names the snapshot in ``based_on``. Errors
        are those of :meth:`restore`.
        """
        from colony_memory._engine.backup import merge_snapshot

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
        SIGHUP, never raises into the agent, and tells of itself in ``last_success`` and ``last_error``. The last backup
        may take ``final_timeout`` seconds; ``backup_options`` are those of :meth:`backup`.
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

        Where the pointer is missing, garbled, or names a snapshot that is not there, it is the newest whole snapshot
        in the vault's list, with a :class:`ColonyMemoryWarning`.

        Args:
            label: Label to restore.
            snapshot_id: A certain snapshot, from :meth:`list_snapshots`.
            verify: Check signatures, of the snapshot and of the pointer. The digest is always checked.
            names: Only documents whose name matches one of these globs (``*``, ``?``, ``[…]``; ``*`` matches ``/``); a
                ValueError where there is none, ``default`` or not.
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
        """The proven part of the latest snapshot, or of the one asked for, where it is damaged: of each document the
        newest text up to then, of its own whole packs or of the snapshots before it, else of those after it.

        With it the memory counts as set back, unless the snapshot is whole: the next backup becomes the latest.
        With a pinned signer, only what is signed is proven. Errors are those of :meth:`restore`.
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
        """The snapshot that ``restore`` gives, or None where the vault has proven that there is none."""
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
        """The history of one document, from snapshot to snapshot, newest first; empty where none has it.

        Reads every snapshot of the label once, two files for most. Those that cannot be read or are not trusted are
        passed over with a :class:`ColonyMemoryWarning` that names them: what changed there shows in the one after it.
        With ``patch``, each difference is given too, as git and patch take it. Errors are those of :meth:`restore`.
        """
        from colony_memory._engine.history import changes

        return self._run(changes, name, label=label, patch=patch)

    def search(
        self, pattern: str, *, label: str = "default", fixed: bool = False, ignore_case: bool = False
    ) -> SearchReport:
        """Every line of every snapshot that has something in it, with the first and the last snapshot that it is in.

        Reads every snapshot of the label once, as :meth:`history` does. The pattern is a regular expression of
        :mod:`re`, looked for in each line on its own, or with ``fixed`` a text; a ValueError where it is neither.
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
            label: Tell of this label too: how many ``restore_points`` it has, the id of the ``newest`` and whether it
                is ``encrypted``; ids of the one that is kept ``before_loss``, since much less followed, and of those
                that are ``unmerged`` or ``unsigned``; ``next_bytes``, what the next backup stores by what recent ones
                did, at most where ``next_at_most``; ``fits``, how many more there is room for. What cannot be told, or
                is not there, is None.
        """
        from colony_memory._engine.inspect import status

        return self._run(status, label=label)

    # Keeping: what stays, and what goes

    def prune(self, *, label: str = "default", keep: int = 5, retention: Retention | None = None) -> int:
        """Delete snapshots, and the leftovers of interrupted backups that are older than an hour; how many are gone.

        Only snapshots that are whole count. The newest good one and the one that the pointer names always stay;
        those that cannot be read are neither counted nor removed.

        Args:
            label: Label to prune.
            keep: How many to keep.
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
        """Delete one snapshot. Where the pointer names it, the pointer first moves to the newest good one left.

        Errors are those of :meth:`prune`, and ``SnapshotNotFound``.
        """
        from colony_memory._engine.prune import delete_snapshot

        return self._run(delete_snapshot, label=label, snapshot_id=snapshot_id)

    def pin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Keep a snapshot, which has to be there, whatever a retention says, until it is unpinned."""
        from colony_memory._engine.prune import pin

        return self._run(pin, label=label, snapshot_id=snapshot_id)

    def unpin(self, *, snapshot_id: str, label: str = "default") -> None:
        """Leave a snapshot to the retention again; it is no error that it was not pinned."""
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
        """Give a snapshot tags, or take some from it; all that it has then.

        The label's pointer tells them from then on; an export does not. A ValueError where one is no tag, there would
        be too many, or none is given; a ColonyMemoryError where the pointer is signed, and this client signs nothing.
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
        delete those that they stand for.

        Each keeps its time, note, tags and pin, is signed by this client's signer if it has one, and has an id one
        microsecond later; ``rewrites`` names the one that it stands for, in its place for whoever saved or restored
        that. Snapshots that are as they are to be stay. It may be stopped anywhere, and goes on when it is done again.

        Args:
            label: Label to rewrite.
            exclude: Globs of names of documents that no snapshot is to hold.
            replace: Texts that no document or note is to hold, and what stands in their place.
            format: 1 or 2: the format to save in.
            sign: Save anew also what this client's signer has not signed.
            encrypt_to: Whom to encrypt to; by default those of this client. Takes format 2.
            dry_run: Only tell what it takes.

        The report says which files the hour of grace holds back, until when: a :meth:`prune` then removes them.

        Raises:
            ValueError: There is nothing to do, or an argument is wrong.
            QuotaExceeded: It does not fit beside what is there. Nothing was written.
            SnapshotCorrupt: A snapshot is damaged: it has to be deleted first. Nothing was written.
            UntrustedSnapshot: A snapshot is not trusted, or is signed, and this client has no signer.
            ColonyMemoryError: A document that is to have a text replaced is no text, or nothing would be left.
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

    # Carrying: out of a vault, and into another

    def export_snapshot(self, *, label: str = "default", snapshot_id: str | None = None) -> Export:
        """Take one snapshot, by default the latest, out of a vault, checked as a :meth:`restore` of it would be."""
        from colony_memory._engine.transfer import export_snapshot

        return self._run(export_snapshot, label=label, snapshot_id=snapshot_id)

    def import_snapshot(self, exported: Export, *, label: str | None = None, dry_run: bool = False) -> SnapshotInfo:
        """Put an exported snapshot into the vault, if this client would restore it.

        The pointer moves to it if it is newer than the one that it names. The summary's ``head`` tells whether it is
        the latest now, and ``reused`` that it was there already.

        Args:
        exported: The export, from :func:`colony_memory.transfer.load_export` or :meth:`export_snapshot`.
        label: Refuse an export of another label. A snapshot cannot change its label: restore it and back it up.
        dry_run: Only check all that, and write nothing.

        Raises:
        ValueError: The export is of another label.
        SnapshotCorrupt: It is damaged; ``UntrustedSnapshot``: this client does not trust it. Nothing was written.
        QuotaExceeded: It does not fit. Nothing was written.
        ColonyMemoryError: It is of format 2, and the vault does not write on condition. Nothing was written.
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

        What is there with the same bytes is not written again, so a copy that was stopped goes on when it is made
        again. Nothing is removed, and the pointer of a label never moves to an older snapshot than it names. A client
        with a signer signs it. Without one, a label that is not there yet gets the pointer of this one as it is, where
        that says just what is there, else an unsigned one, with a warning; to add to a signed label takes a signer.

        Args:
            destination: The memory to copy to. What it, or this one, would not restore is left out.
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
    """``keep`` has a default, so a retention takes its place."""
    from colony_memory._engine.keep import policy_of

    policy = policy_of(None if retention is not None else keep, retention)
    if policy is None:
        raise ValueError("keep must be a count")
    return policy
