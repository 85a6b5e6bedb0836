"""Reading every snapshot of a label once, the newest first, with no more than two of them in memory."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from colony_memory._engine.load import load, most_stored, nothing_saved
from colony_memory._engine.observe import spent_by
from colony_memory._engine.sealed import known_of
from colony_memory._engine.session import warn
from colony_memory._engine.state import UNREADABLE, State, look, require_believed, require_listed, tell
from colony_memory._engine.store import Shelf, StoredFile
from colony_memory._format.names import manifest_filename, read_filename, require_label
from colony_memory.exceptions import (
    ColonyMemoryError,
    DecryptionError,
    Hint,
    SnapshotCorrupt,
    SnapshotNotFound,
    UntrustedSnapshot,
    VaultError,
    message_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory.snapshot import SnapshotInfo

_T = TypeVar("_T")
# What is asked for at once: vault files, and bytes of them together.
_BATCH_FILES, _BATCH_BYTES = 24, 4 * 2**20


class Walked(NamedTuple):
    """What came of it.

    Attributes:
        passed_over: Why each snapshot that was not read was not, by id.
        read: How many were.
    """

    passed_over: Mapping[str, str]
    read: int


async def look_at_all(session: Session, label: str, doing: str) -> State:
    """A label with all of its snapshots, where it may be believed."""
    state = await look(session, require_label(label), everything=True)
    require_listed(state, doing)
    tell(require_believed(state))
    return state


async def walk(
    session: Session,
    state: State,
    take: Callable[[Mapping[str, str]], _T],
    see: Callable[[SnapshotInfo, _T], None],
    weigh: Callable[[_T], int],
) -> Walked:
    """Read every snapshot that a list shows and that a restore of it by its id would give, the newest first.

    What cannot be read or is not trusted is passed over with a warning. Snapshots of the same digest are read once.

    Args:
        session: The client.
        state: The label, from :func:`look_at_all`.
        take: Takes of a snapshot's documents what there is to know of them.
        see: Is given that for each snapshot.
        weigh: How much memory it takes, about, where it is kept for an older snapshot of the same digest.
    """
    label, decision = state.label, state.decision
    passed = {_id_of(file): why for file, why in decision.broken.items()}
    for each, why in passed.items():
        _pass_over(label, each, why)
    infos, error = decision.listed, next(iter(decision.untrusted.values()), None) or decision.refusal
    reading = _Reading(session, state, infos)
    left, kept, room, read = Counter(map(_same, infos)), dict[str, _T](), session.max_bytes, 0
    for info in infos:
        digest = _same(info)
        left[digest] -= 1
        if digest in kept:
            value = kept[digest]
        elif (spent := spent_by(session)) is not None:
            passed[info.snapshot_id] = spent
            continue
        else:
            try:
                value = await session.vault.compute(take, await reading.documents(info))
            except (SnapshotCorrupt, UntrustedSnapshot, SnapshotNotFound, DecryptionError, VaultError) as wrong:
                if isinstance(wrong, VaultError) and wrong.code not in UNREADABLE:
                    raise
                error, passed[info.snapshot_id] = error or wrong, message_of(wrong)
                closed = wrong.hint if isinstance(wrong, DecryptionError) else None
                _pass_over(label, info.snapshot_id, message_of(wrong), closed)
                continue
            if left[digest] and weigh(value) <= room:
                kept[digest] = value
                room -= weigh(value)
        if not left[digest] and digest in kept:
            room += weigh(kept.pop(digest))
        entry = decision.entry(info.snapshot_id)
        await session.vault.compute(see, info if entry is None else known_of(session, entry, info), value)
        read += 1
    if (spent := spent_by(session)) is not None and spent in passed.values():
        number = [*passed.values()].count(spent)
        warn(f"{number} snapshots of label {label!r} are passed over: {spent}", hint=Hint("open", "max_bytes"))
    if not read:
        raise _unreadable(label, passed, error) or await nothing_saved(session, label=label)
    return Walked(passed, read)


def _same(info: SnapshotInfo) -> str:
    """What snapshots of equal memory share; where that is encrypted, it is the snapshot's own."""
    return info.plaintext_sha256 or info.snapshot_id


def _id_of(manifest: str) -> str:
    file = read_filename(manifest)
    return manifest if file is None or file.snapshot_id is None else file.snapshot_id


def _pass_over(label: str, snapshot_id: str, why: str, hint: Hint | None = None) -> None:
    hint = hint or Hint("verify", "snapshot_id", snapshot_id, label=label)
    warn(f"snapshot {snapshot_id} of label {label!r} is passed over: {why}", hint=hint)


def _unreadable(label: str, passed: Mapping[str, str], error: ColonyMemoryError | None) -> ColonyMemoryError | None:
    """Why nothing of what is there could be read, None where nothing is there."""
    if error is None and passed:
        return SnapshotCorrupt(f"no snapshot of label {label!r} can be read: {next(iter(passed.values()))}")
    return error


class _Reading:
    """Snapshots that are read one after the other, their files several at once."""

    def __init__(self, session: Session, state: State, infos: Sequence[SnapshotInfo]) -> None:
        self._session, self._state = session, state
        first = {_same(info): info for info in reversed(infos)}
        wanted = [info for info in infos if first[_same(info)] is info]
        self._batches = {batch[0][0]: [name for _, names in batch for name in names] for batch in self._batch(wanted)}
        self._given: dict[str, StoredFile | None] = {}
        self._shelf = Shelf(session.max_bytes // 2)
        self._done, self._total = 0, sum(map(len, self._batches.values()))

    def _batch(self, infos: Sequence[SnapshotInfo]) -> Iterator[list[tuple[str, list[str]]]]:
        batch, number, total = list[tuple[str, list[str]]](), 0, 0
        files = self._state.listed
        for info in infos:
            names = [manifest_filename(files.label, info.snapshot_id), *files.parts.get(info.snapshot_id, {}).values()]
            size = files.size(names)
            size = info.byte_size if size is None else size
            if batch and (number + len(names) > _BATCH_FILES or total + size > _BATCH_BYTES):
                yield batch
                batch, number, total = [], 0, 0
            batch.append((info.snapshot_id, names))
            number, total = number + len(names), total + size
        if batch:
            yield batch

    async def documents(self, info: SnapshotInfo) -> dict[str, str]:
        """The documents of one."""
        decision, session = self._state.decision, self._session
        names = self._batches.get(info.snapshot_id)
        if names is not None:
            try:
                self._given = await session.vault.get_many(
                    names, self._tell, at_most=most_stored(session.max_bytes), shelf=self._shelf
                )
            except (VaultError, SnapshotCorrupt) as error:
                if isinstance(error, VaultError) and error.code not in UNREADABLE:
                    raise
                self._given = {}  # one of several: each is read on its own
            self._done += len(names)
        entry = decision.entry(info.snapshot_id)
        loaded = await load(
            session,
            self._state.label,
            info.snapshot_id,
            entry=entry,
            proven=decision.proven,
            given=self._given,
            shelf=self._shelf,
        )
        return loaded.documents

    def _tell(self, action: Any, name: str, done: int, _: int) -> None:
        self._session.tell(action, name, self._done + done, self._total)
