"""Pure: the reports of the verbs, as frozen values; most are true if all is well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from colony_memory._diff import DocumentChange, SnapshotDiff, compare, count_lines
from colony_memory._events import Event, LifecycleEvent
from colony_memory._values import Value, field

if TYPE_CHECKING:
    from colony_memory.snapshot import SnapshotInfo

__all__ = [
    "Change",
    "DocumentChange",
    "Event",
    "Fact",
    "LabelMap",
    "LifecycleEvent",
    "Match",
    "Merged",
    "RewriteReport",
    "Salvaged",
    "SearchReport",
    "SnapshotCheck",
    "SnapshotDiff",
    "VaultMap",
    "VerifyReport",
    "compare",
    "count_lines",
]

#: ``ok``: checked, and it holds. ``bad``: checked, and it does not. ``missing``: there is nothing to check.
#: ``unchecked``: nobody looked, or nobody could; never the same as ``ok``.
Fact = Literal["ok", "bad", "missing", "unchecked"]


class SnapshotCheck(Value):
    """The facts known of one snapshot; true if its documents restore and this client trusts them."""

    snapshot_id: str  #: Its id.
    manifest: Fact  #: The manifest is readable, and is this snapshot's.
    parts: Fact = "unchecked"  #: All its parts or packs are there, and belong to it.
    digest: Fact = "unchecked"  #: Its documents have the digest that the manifest gives.
    signature: Fact = "unchecked"  #: The signature verifies; ``missing`` if nobody signed.
    issuer: str | None = None  #: The did:key that the signature names.
    problem: str | None = None  #: Its problem, or None.
    #: The client accepts it; ``missing`` if nobody signed it and all that the client trusts is newer: it is older than
    #: signing, not believed and not read; ``unchecked`` if it pins nobody.
    trust: Fact = "unchecked"
    #: The pointer lists this very manifest; ``missing`` if it does not list this id, as after a backup that did not
    #: finish; ``unchecked`` if there is no catalogue, or none that the client trusts.
    catalog: Fact = "unchecked"
    #: The snapshot before it is there as its writer saw it; ``missing`` after a prune, ``unchecked`` if none is named.
    chain: Fact = "unchecked"
    previous: str | None = None  #: Id of the snapshot before it.
    #: The reason that the text of an encrypted snapshot was not read: no identity here decrypts it. Else None.
    closed: str | None = None
    #: Names of documents whose text may be lost with a damaged snapshot: what it had, or what its neighbours differ in.
    costs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.digest == "ok" and self._holds()

    def _holds(self) -> bool:
        read = (self.manifest, self.parts) == ("ok", "ok") and self.signature in ("ok", "missing")
        return read and self.trust != "missing" and "bad" not in (self.trust, self.catalog, self.chain)

    @property
    def sealed(self) -> bool:
        """All that can be checked without an identity was checked and holds; the text is encrypted and was not read."""
        return self.closed is not None and self.digest == "unchecked" and self._holds()

    @property
    def unsigned(self) -> bool:
        """It is older than signing, and all that was checked of it is right."""
        return self.trust == "missing" and (self.manifest, self.parts) == ("ok", "unchecked")


class VerifyReport(Value):
    """The result of reading every byte of a label's snapshots.

    True if there is a snapshot, all of them restore, and everything that the client's policy demands was checked and
    holds. With a pinned issuer: trusted issuers signed each snapshot and the pointer, and nothing that the pointer
    lists is gone. With a witness: the label was not rolled back.
    """

    label: str  #: The label.
    snapshots: tuple[SnapshotCheck, ...]  #: One check for each snapshot, newest first.
    latest: str | None = None  #: Id that the pointer names; None if it names none, or cannot be read.
    problem: str | None = None  #: The problem of the pointer or the history, or None.
    #: A trusted issuer signed the pointer; ``missing`` if nobody; ``unchecked`` for one snapshot, or with none pinned.
    pointer: Fact = "unchecked"
    #: The label is as far as the witness saw it, or further; ``unchecked`` without a witness.
    rollback: Fact = "unchecked"
    generation: int = 0  #: The pointer's generation, 0 if it has none.
    removed: tuple[str, ...] = ()  #: Ids of snapshots that the pointer lists and that are gone.
    forged: tuple[str, ...] = ()  #: Ids of snapshots that no trusted issuer made, or that are not the ones listed.
    #: Ids of snapshots whose predecessor is gone though older ones are left, as after a prune.
    gaps: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self._holds() and bool(self.snapshots) and all(self.snapshots)

    def _holds(self) -> bool:
        bad = "bad" in (self.pointer, self.rollback)
        return self.problem is None and not bad and not self.removed and not self.forged

    @property
    def limited(self) -> bool:
        """All that was checked holds, and not all was: some of the text is encrypted, which no identity here decrypts,
        or some snapshots, and not all, are older than signing.
        """
        trusted = [check for check in self.snapshots if not check.unsigned]
        return not self and self._holds() and bool(trusted) and all(bool(check) or check.sealed for check in trusted)

    @property
    def sealed(self) -> bool:
        """All that was checked holds, and some of the text is encrypted, which no identity here decrypts."""
        return self.limited and any(check.sealed for check in self.snapshots)

    @property
    def unsigned(self) -> tuple[str, ...]:
        """Ids of snapshots that are older than signing, newest first."""
        return tuple(check.snapshot_id for check in self.snapshots if check.unsigned)


class Change(Value):
    """A change of one document between two snapshots in a row, of those that could be read."""

    #: ``added``, ``changed``, ``removed``, or ``returned`` if it had been removed before.
    kind: Literal["added", "changed", "removed", "returned"]
    snapshot: SnapshotInfo  #: The snapshot that shows the change.
    before: SnapshotInfo | None  #: The snapshot before that one; None for the oldest, though the document may be older.
    lines: DocumentChange | None  #: Lines added and removed, or None if the document is not text.
    size: int  #: Bytes of the document from then on, 0 if it was removed.
    #: The difference as git and patch take it, if asked for; None if newer patches have used up the memory for them.
    patch: str | None = None


class Match(Value):
    """A line of a document in which the pattern was found, and the snapshots that have it."""

    name: str  #: The document.
    #: The line without its end, cut to about 300 characters around the find. None if the document is not text.
    line: str | None
    span: tuple[int, int]  #: Start and end of the find in ``line``; both equal if the document is not text.
    number: int  #: The line's number in the document as of ``last``, from 1; 0 if the document is not text.
    first: SnapshotInfo  #: The oldest snapshot that has it.
    last: SnapshotInfo  #: The newest snapshot that has it.
    gone: SnapshotInfo | None  #: The snapshot after that, which no longer has it; None if no newer one could be read.
    snapshots: int  #: Number of snapshots that have it.
    #: The latest snapshot, which ``restore`` returns, has it; None if that could not be read.
    in_latest: bool | None


class SearchReport(Value):
    """The result of a search through all snapshots of a label; true if it found anything."""

    label: str  #: The label.
    #: The lines by document; within one, those that were there last come first, and of those the oldest.
    matches: tuple[Match, ...]
    searched: int  #: Number of snapshots that were searched.
    #: Reasons why snapshots were not searched, by id: they could not be read, or are not trusted.
    passed_over: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True  #: False if more lines were found than a report holds; the newest are in it.

    def __bool__(self) -> bool:
        return bool(self.matches)


class LabelMap(Value):
    """One label's share of a vault."""

    label: str  #: The label.
    snapshots: int  #: Number of whole snapshots.
    oldest: SnapshotInfo | None  #: Summary of the oldest, or None.
    newest: SnapshotInfo | None  #: Summary of the newest that did not only meet a conflict, or None.
    plain_bytes: int  #: Bytes of all their documents.
    stored_bytes: int  #: Bytes of all their files, 0 if the vault does not say.
    latest: str | None  #: Id that the pointer names, trusted or not; None if it names none.
    dangling: bool  #: The pointer is missing, unreadable, or names a snapshot that is gone.
    #: The problem of each snapshot that does not restore, by manifest file.
    broken: Mapping[str, str] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()  #: Part files without a manifest.
    next_operations: int = 3  #: Writes that the next backup takes, if the memory stays about the same.
    next_bytes: int = 0  #: Bytes that it takes, judging by recent ones.
    untrusted: tuple[str, ...] = ()  #: Those of ``broken`` that may be whole: not trusted, or of a newer format.
    removed: tuple[str, ...] = ()  #: Ids of snapshots that the pointer lists and that are gone.
    next_at_most: bool = False  #: ``next_bytes`` is an upper bound; nothing shows yet how much less it will be.
    fits: int | None = None  #: Number of backups like the recent ones that still fit into the vault; None if unknown.
    #: Ids of snapshots that nobody signed and that are older than all which this client trusts, newest first: older
    #: than signing. They are not believed, and they are not broken.
    unsigned: tuple[str, ...] = ()
    #: The newest snapshot that is kept because one of less than half of it followed, or None.
    shrunk: SnapshotInfo | None = None
    #: Snapshots that no latest is based on, oldest first: they met a conflict, or were overtaken.
    unmerged: tuple[SnapshotInfo, ...] = ()
    not_signed: tuple[str, ...] = ()  #: Those of ``untrusted`` that nobody signed.
    rolled_back: bool = False  #: It is in an older state than one that this client or its witness has seen.

    def __bool__(self) -> bool:
        return not self.broken and not self.dangling


class VaultMap(Value):
    """The contents of a vault; true if the listing is complete and nothing in it is broken or dangling."""

    labels: tuple[LabelMap, ...]  #: One entry for each label.
    files: int  #: Number of files, foreign ones included.
    foreign_files: int  #: Number of files that are not this package's.
    complete: bool  #: The vault listed everything.
    quota_bytes: int  #: Bytes that the vault can hold, 0 before its first write.
    used_bytes: int  #: Bytes in use.
    available_bytes: int | None  #: Bytes that are free; None without a quota, or where the vault does not say.
    operations_left: int | None = None  #: Uploads and deletions left this hour; None if the vault does not say.
    operations_reset_seconds: int | None = None  #: Seconds until all of them are back; None if the vault does not say.
    #: Uploads of the last hour, at least, by the times of files; None if none count, or ``operations_left`` is known.
    operations_spent: int | None = None

    def __bool__(self) -> bool:
        return self.complete and all(self.labels)


class RewriteReport(Value):
    """The result of a rewrite or of its dry run; true if nothing that it takes out is left in the vault."""

    label: str  #: The label.
    rewritten: Mapping[str, str]  #: The id that each snapshot has now, by the one that it had; empty in a dry run.
    unchanged: int  #: Number of snapshots that needed no rewriting.
    writes: int  #: Number of files written for it, the pointer's included.
    stored_bytes: int  #: Bytes of these files; the files that they replace are deleted once all of them are there.
    deleted: int = 0  #: Number of snapshots that were deleted.
    #: Files that no snapshot needs and that the hour of grace holds back: they may hold what was taken out.
    left: tuple[str, ...] = ()
    until: str | None = None  #: Time from which a prune removes them, ``YYYY-MM-DDThh:mm:ssZ``; None if none is left.
    dry_run: bool = False  #: Nothing was changed.

    def __bool__(self) -> bool:
        return not self.left


class Salvaged(Value):
    """The proven texts of a snapshot and its neighbours; true if that is the snapshot itself, every document of it."""

    snapshot_id: str  #: The snapshot.
    documents: dict[str, str]  #: ``{name: text}``, of each the newest text that is proven.
    sources: dict[str, str]  #: For each document the id of the snapshot whose text it is.
    #: Names of its documents without a proven text, if its manifest is intact and holds names: not in format 2.
    missing: tuple[str, ...] = ()
    damage: str | None = None  #: The damage of the snapshot, or None.
    doc_count: int | None = None  #: Number of its documents; None if unknown.

    def __bool__(self) -> bool:
        return not self.missing and all(source == self.snapshot_id for source in self.sources.values())


class Merged(Value):
    """Two memories as one; true if nothing had to be kept twice."""

    documents: dict[str, str]  #: ``{name: text}``, sorted by name.
    #: Documents kept twice, as both sides changed the same lines: ours under its name, the other's under the one here.
    copies: dict[str, str] = field(default_factory=dict)
    taken: tuple[str, ...] = ()  #: Documents whose text is the other side's: it added or changed them.
    joined: tuple[str, ...] = ()  #: Documents of ours that gained or lost lines as the other's did.
    removed: tuple[str, ...] = ()  #: Documents that the other side removed, and that we had not changed.

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Names of the documents that are kept twice, sorted."""
        return tuple(self.copies)

    def __bool__(self) -> bool:
        return not self.copies
