"""Pure: what the verbs report, as frozen values that are true where there is something good to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._lines import Steps
    from colony_memory.snapshot import SnapshotInfo

#: ``ok`` was checked and holds; ``bad`` was checked and does not; ``missing`` is not there; ``unchecked`` could not be
#: or was not looked at, which is never the same as ``ok``.
Fact = Literal["ok", "bad", "missing", "unchecked"]


@dataclass(frozen=True)
class Event:
    """One file that a verb has read, written or deleted.

    Attributes:
        action: ``upload``, ``download`` or ``delete``.
        name: The vault file.
        done: Files of this step that are done, this one included.
        total: Files of this step.
    """

    action: Literal["upload", "download", "delete"]
    name: str
    done: int
    total: int


@dataclass(frozen=True)
class LifecycleEvent:
    """How a verb ended, and what it cost. Holds no text of the memory, no key and no message of an error.

    Attributes:
        action: ``created``, ``reused`` (unchanged memory) or ``merged`` for a backup or an import; ``restored``;
            ``verified``; ``pruned``, also for what a backup removed, whose cost is then in the backup's own event;
            ``fault`` for a verb that raised.
        verb: The verb, as the facades spell it.
        label: Its label, None where it has none.
        snapshot_id: The snapshot, None where it is about none or several.
        ok: False for a fault, and for ``verified`` where something is wrong.
        seconds: How long it took, by a clock that never goes back.
        reads: Calls to the vault that read: of files, lists and the quota.
        writes: Calls that wrote a file.
        deletes: Calls that deleted one.
        bytes_read: Bytes of the vault files that were read.
        bytes_written: Bytes of the vault files that were sent.
        count: Snapshots that were saved, restored, looked at or removed.
        documents: Documents of the snapshot, or those of it that were asked for.
        plain_bytes: Bytes of the whole snapshot's documents.
        stored_bytes: Bytes of its files in the vault, 0 where that is not known.
        error: Name of the error's class, for a fault.
        status: The vault's HTTP status, for a fault that has one.
        code: The vault's code, such as ``RATE_LIMIT``, for a fault that has one.
    """

    action: Literal["created", "reused", "merged", "restored", "verified", "pruned", "fault"]
    verb: str
    label: str | None = None
    snapshot_id: str | None = None
    ok: bool = True
    seconds: float = 0.0
    reads: int = 0
    writes: int = 0
    deletes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    count: int = 0
    documents: int = 0
    plain_bytes: int = 0
    stored_bytes: int = 0
    error: str | None = None
    status: int | None = None
    code: str | None = None

    @property
    def calls(self) -> int:
        """Calls to the vault, of every kind."""
        return self.reads + self.writes + self.deletes

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class SnapshotCheck:
    """What is known of one snapshot, as separate facts; true where its documents restore and this client trusts them.

    Attributes:
        snapshot_id: Its id.
        manifest: The manifest is readable and is the one of this snapshot.
        parts: All parts are there and belong to it.
        digest: The text is the one that the manifest gives the digest of.
        signature: The signature verifies; ``missing`` where nobody signed.
        issuer: did:key that the signature names.
        problem: What is wrong, None where nothing is.
        trust: The client accepts it; ``unchecked`` where it pins nobody.
        catalog: The manifest is the one that the pointer lists; ``missing`` where it lists none of this id, as for a
            backup that did not finish; ``unchecked`` where there is no catalogue, or none that the client trusts.
        chain: The snapshot before it, as its writer saw it, is there and is the same; ``missing`` where it is not
            there, which a retention does; ``unchecked`` where none is named.
        previous: Id of the snapshot before it.
        closed: Why the text of an encrypted snapshot was not looked at, None where it was: no identity opens it here.
    """

    snapshot_id: str
    manifest: Fact
    parts: Fact = "unchecked"
    digest: Fact = "unchecked"
    signature: Fact = "unchecked"
    issuer: str | None = None
    problem: str | None = None
    trust: Fact = "unchecked"
    catalog: Fact = "unchecked"
    chain: Fact = "unchecked"
    previous: str | None = None
    closed: str | None = None

    def __bool__(self) -> bool:
        return self.digest == "ok" and self._holds()

    def _holds(self) -> bool:
        read = (self.manifest, self.parts) == ("ok", "ok") and self.signature in ("ok", "missing")
        return read and "bad" not in (self.trust, self.catalog, self.chain)

    @property
    def sealed(self) -> bool:
        """All that can be checked without an identity was, and holds; the text is encrypted and was not looked at."""
        return self.closed is not None and self.digest == "unchecked" and self._holds()


def _is_fine(check: SnapshotCheck) -> bool:
    return bool(check) or check.sealed


@dataclass(frozen=True)
class VerifyReport:
    """What reading every byte of a label's snapshots showed.

    True where there is a snapshot, all of them restore, and everything that the client's policy demands was checked and
    held: with a pinned issuer that each is signed by one, that the pointer is, and that nothing which it lists is gone;
    with a witness that the label was not rolled back.

    Attributes:
        label: The label.
        snapshots: One check for each, newest first.
        latest: Id that the pointer names, None where it names none, or there is no readable pointer.
        problem: What is wrong with the pointer or the history, None where nothing is.
        pointer: The pointer is signed by a trusted issuer; ``missing`` where it is not signed; ``unchecked`` where the
            client pins nobody, or was asked for one snapshot only.
        rollback: The label is where the witness saw it last, or further; ``unchecked`` where there is no witness.
        generation: The pointer's, 0 where it has none.
        removed: Ids that the pointer lists and that are not there.
        forged: Ids of snapshots that are not the work of a trusted issuer, or not the ones that were listed.
        gaps: Ids of snapshots whose predecessor is not there though older ones are, as a retention leaves them.
    """

    label: str
    snapshots: tuple[SnapshotCheck, ...]
    latest: str | None = None
    problem: str | None = None
    pointer: Fact = "unchecked"
    rollback: Fact = "unchecked"
    generation: int = 0
    removed: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self._held() and bool(self.snapshots) and all(self.snapshots)

    def _held(self) -> bool:
        bad = "bad" in (self.pointer, self.rollback)
        return self.problem is None and not bad and not self.removed and not self.forged

    @property
    def sealed(self) -> bool:
        """All that was checked holds, and some text is encrypted, which no identity opens here."""
        return self._held() and any(each.sealed for each in self.snapshots) and all(map(_is_fine, self.snapshots))


@dataclass(frozen=True)
class DocumentChange:
    """Lines added to and removed from one document.

    Attributes:
        added: Lines that only the later text has.
        removed: Lines that only the earlier one has.
        exact: False where it would have taken too long to find every line that stayed: both are then too high.
    """

    added: int
    removed: int
    exact: bool = True


@dataclass(frozen=True)
class SnapshotDiff:
    """What differs between two memories; true where anything does.

    Attributes:
        added: Names that only the second has.
        removed: Names that only the first has.
        changed: Lines added and removed, for names in both with other text.
        unchanged: Number of documents that are the same.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, DocumentChange]
    unchanged: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True)
class Change:
    """What became of one document from one snapshot to the next that could be read.

    Attributes:
        kind: ``added`` where it is there first, ``changed``, ``removed``, or ``returned`` where it had been removed.
        snapshot: The snapshot that shows it.
        before: The snapshot before that one; None for the oldest, which may not be where the document began.
        lines: Lines added and removed, None where it is no text.
        size: Bytes of the document from then on, 0 where it was removed.
        patch: The difference as git and patch take it, where it was asked for. None too where the patches of newer
            changes have used up what memory there is for them.
    """

    kind: Literal["added", "changed", "removed", "returned"]
    snapshot: SnapshotInfo
    before: SnapshotInfo | None
    lines: DocumentChange | None
    size: int
    patch: str | None = None


@dataclass(frozen=True)
class Match:
    """A line of a document that has what was looked for, and the snapshots that have that line.

    Attributes:
        name: The document.
        line: The line without its end, cut to about 300 characters around what was found. None where the document is no
            text, which is taken as a whole.
        span: Where in ``line`` it was found; empty where the document is no text.
        number: Which line of the document it is in ``last``, from 1; 0 where the document is no text.
        first: The oldest snapshot that has it.
        last: The newest.
        gone: The one after that, which does not have it any more; None where no newer one could be read.
        snapshots: How many have it.
        in_latest: It is in the latest snapshot, which ``restore`` gives; None where that one could not be read.
    """

    name: str
    line: str | None
    span: tuple[int, int]
    number: int
    first: SnapshotInfo
    last: SnapshotInfo
    gone: SnapshotInfo | None
    snapshots: int
    in_latest: bool | None


@dataclass(frozen=True)
class SearchReport:
    """What a search of all snapshots of a label found; true where it found anything.

    Attributes:
        label: The label.
        matches: The lines: by document, within it those that were there last first, and of those the oldest first.
        searched: How many snapshots were looked at.
        passed_over: Why each snapshot that could not be read, or is not trusted, was not, by id.
        complete: False where there are more lines than a report holds; the newest are there.
    """

    label: str
    matches: tuple[Match, ...]
    searched: int
    passed_over: Mapping[str, str] = field(default_factory=dict)
    complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.matches)


@dataclass(frozen=True)
class LabelMap:
    """One label's share of a vault.

    Attributes:
        label: The label.
        snapshots: Number of whole snapshots.
        oldest: Summary of the oldest, None where there is none.
        newest: Summary of the newest.
        plain_bytes: Bytes of their documents together.
        stored_bytes: Bytes of their files together, 0 where the vault does not tell.
        latest: Id that the pointer names, believed or not; None where it names none.
        dangling: The pointer is missing, unreadable, or names a snapshot that is not there.
        broken: What is wrong with each snapshot that does not restore, by manifest file.
        orphans: Part files that no manifest stands beside.
        next_operations: Writes that the next backup of a like memory takes.
        next_bytes: Bytes that it takes, by what the recent ones took.
        untrusted: Those of ``broken`` that may be whole, and that this client does not trust.
        removed: Ids of snapshots that the pointer lists and that are not there.
        next_at_most: It takes no more than that, and nothing shows yet how much less.
        fits: How many more backups like the recent ones fit into the vault, None where that cannot be told.
        daily_bytes: Bytes that a day of backups takes at their pace, None where there were too few to tell.
    """

    label: str
    snapshots: int
    oldest: SnapshotInfo | None
    newest: SnapshotInfo | None
    plain_bytes: int
    stored_bytes: int
    latest: str | None
    dangling: bool
    broken: Mapping[str, str] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    next_operations: int = 3
    next_bytes: int = 0
    untrusted: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    next_at_most: bool = False
    fits: int | None = None
    daily_bytes: int | None = None

    def __bool__(self) -> bool:
        return not self.broken and not self.dangling


@dataclass(frozen=True)
class VaultMap:
    """What is in a vault; true where nothing in it is broken or dangling.

    Attributes:
        labels: One entry for each label.
        files: Number of files, those of others included.
        foreign_files: Number of files that are not of this format.
        complete: The vault listed everything.
        quota_bytes: Bytes that the vault holds, 0 before its first write.
        used_bytes: Bytes in use.
        available_bytes: Bytes that are free, None before the first write, when the vault does not tell.
        operations_left: Uploads and deletes left this hour, None where the vault does not tell.
        room_lasts_seconds: How long the room lasts at the pace of all labels that have one, if nothing is removed; None
            where that cannot be told.
    """

    labels: tuple[LabelMap, ...]
    files: int
    foreign_files: int
    complete: bool
    quota_bytes: int
    used_bytes: int
    available_bytes: int | None
    operations_left: int | None = None
    room_lasts_seconds: int | None = None

    def __bool__(self) -> bool:
        return self.complete and all(self.labels)


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> SnapshotDiff:
    """What changed from one memory to another.

    Lines end at a line feed. Where very much of a large document changed, not every line that stayed is found: it then
    counts as removed and added, and ``exact`` is false.
    """
    from colony_memory._lines import Steps

    both = [name for name in sorted(before) if name in after]
    # The smallest first, so that no document takes the steps of those that need few.
    differ = [name for name in both if before[name] != after[name]]
    steps = Steps()
    counts = {
        name: count_lines(before[name], after[name], steps)
        for name in sorted(differ, key=lambda name: len(before[name]) + len(after[name]))
    }
    return SnapshotDiff(
        added=tuple(name for name in sorted(after) if name not in before),
        removed=tuple(name for name in sorted(before) if name not in after),
        changed={name: counts[name] for name in differ},
        unchanged=len(both) - len(differ),
    )


def count_lines(before: str, after: str, steps: Steps) -> DocumentChange:
    """Lines added and removed from one text to the other."""
    from colony_memory._lines import changed_part, common_lines, number_of_lines, split_lines

    part = changed_part(before, after)
    same, exact = 0, False
    if part.fits:
        blocks, exact = common_lines(split_lines(part.old), split_lines(part.new), steps)
        same = sum(block.size for block in blocks)
    return DocumentChange(number_of_lines(part.new) - same, number_of_lines(part.old) - same, exact)
