"""How files go: a manifest before its parts, and these once a listing shows that it is gone.

Wherever that stops, what is listed restores. Only what no manifest that stays needs is ever deleted, and only what is
named after the label.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from colony_memory._engine.label import LabelFiles, read_label
from colony_memory._engine.observe import tally
from colony_memory._engine.session import log
from colony_memory._engine.state import read_manifests
from colony_memory._format.names import id_order, manifest_filename
from colony_memory._values import dataclass
from colony_memory.exceptions import (
    ColonyMemoryError,
    Hint,
    PruneIncomplete,
    RateLimited,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from colony_memory._engine.session import Session
    from colony_memory.snapshot import BuiltSnapshot


async def discard(session: Session, built: BuiltSnapshot, error: ColonyMemoryError | None = None) -> None:
    """Delete what was written of a snapshot that came to nothing, its manifest first, as far as that is possible."""
    label, manifest_file, names = built.info.label, built.manifest_file, list(built.files)
    if isinstance(error, RateLimited):
        return  # deletes come out of the same bucket; a later prune sweeps
    job = _Deletion(session, label, total=len(names))
    await job.delete([name for name in names if name == manifest_file])
    try:
        if not job.failed and await session.vault.get(manifest_file) is None:
            await job.delete([name for name in names if name != manifest_file])
    except VaultError as unread:
        job.cause = unread
    if job.cause:
        log(f"the leftovers of a failed backup stay in the vault until the next prune: {job.cause}")


async def remove(
    session: Session,
    files: LabelFiles,
    victims: Iterable[str],
    *,
    told: Mapping[str, Sequence[str]],
    spare: int | None = None,
    sweeps: bool = True,
) -> int:
    """Delete snapshots that no catalogue lists any more, and sweep what interrupted backups left; how many are gone.

    Args:
        session: The client.
        files: The label's files as they were listed before.
        victims: Ids of the snapshots.
        told: Packs that snapshots need, where a believed pointer says so, see :attr:`State.needs`.
        sweeps: Delete what others left, too.
        spare: Deletions that may be spent, None for any number. The oldest snapshots go first, each only as a whole.
    """
    label, there = files.label, set(files.manifests)
    chosen = _affordable(files, sorted(victims, key=id_order), spare)
    job = _Deletion(session, label, total=sum(len(files.owned(each)) for each in chosen))
    await job.delete([manifest_filename(label, each) for each in chosen if each in there])
    if chosen:
        try:
            files = await _list_after(session, files)
        except ColonyMemoryError as error:
            raise job.incomplete(error, [name for each in chosen for name in files.owned(each)]) from error
    gone = [each for each in chosen if each not in files.manifests]
    for each in chosen:
        if each in files.manifests and manifest_filename(label, each) not in job.failed:
            job.fail(
                manifest_filename(label, each),
                VaultError(f"the vault said that it deleted the manifest of {each}, but it is still there"),
            )
    job.deleted = sum(1 for each in gone if each in there)
    own = tally()
    if own is not None:
        own.pruned += job.deleted
    if not files.complete:
        raise job.incomplete(
            VaultError("the vault's list is cut short"), [name for each in gone for name in files.owned(each)]
        )
    free = await deletable(session, files, gone, told=told, of=None if sweeps else gone)
    await job.delete(free[: None if spare is None else max(0, spare - job.done)])
    for each in chosen:
        if each in files.manifests:
            job.failed += [name for name in files.owned(each) if name not in job.failed]
    if job.failed:
        raise job.incomplete()
    return job.deleted


async def _list_after(session: Session, files: LabelFiles) -> LabelFiles:
    """The label's files once manifests were deleted: whoever builds on those from now on finds out by a listing of its
    own, and what was built before is seen here.
    """
    return read_label(await session.vault.list(f"cmem.{files.label}."), files.label)


def _affordable(files: LabelFiles, victims: Sequence[str], spare: int | None) -> list[str]:
    if spare is None:
        return list(victims)
    chosen, spent = list[str](), 0
    for each in victims:
        spent += len(files.owned(each))
        if spent > spare:
            break
        chosen.append(each)
    return chosen


async def deletable(
    session: Session,
    files: LabelFiles,
    victims: Collection[str],
    *,
    told: Mapping[str, Sequence[str]],
    of: Collection[str] | None = None,
    anew: bool = True,
) -> list[str]:
    """Names of the files that go with snapshots: those that are named after them, and old leftovers, where no manifest
    that stays needs them.

    What is planned and what is done ask here alike: one as if the snapshots were gone, the other once they are.
    """
    old, packs = files.old_orphans(now=session.now()), files.old_packs(now=session.now())
    if of is not None:
        old, packs = ({each: names for each, names in found.items() if each in of} for found in (old, packs))
    names = [name for each in victims for name in files.owned(each)]
    names += [name for each in sorted(old, key=id_order) if each not in victims for name in old[each]]
    return names + await _free_packs(session, files, packs, told=told, without=victims, anew=anew)


async def gain(
    session: Session, files: LabelFiles, victims: Collection[str], *, told: Mapping[str, Sequence[str]]
) -> int:
    """Bytes that are free once snapshots are deleted, and old leftovers with them."""
    return files.size(await deletable(session, files, victims, told=told, anew=False)) or 0


async def _free_packs(
    session: Session,
    files: LabelFiles,
    packs: Mapping[str, Sequence[str]],
    *,
    told: Mapping[str, Sequence[str]],
    without: Collection[str] = (),
    anew: bool = False,
) -> list[str]:
    """The files of those packs that no listed manifest needs; none where a manifest cannot tell what it needs.

    What a believed catalogue says of a committed snapshot stands: a client that wrote or read the manifest has put it
    there. All other manifests are read, those that it lists nothing of and those that it does not list.
    """
    if not packs or not files.complete:
        return []
    left = [each for each in files.manifests if each not in without]
    needed = {pack for each in left for pack in told.get(each, ())}
    unread = [each for each in left if each not in told]
    await read_manifests(session, files.label, unread, {}, anew=anew)
    for each in unread:
        # That it is not trusted, or not signed well, does not free what it needs.
        manifest = session.manifests.get(manifest_filename(files.label, each))
        if manifest is None:
            log(f"no pack of label {files.label!r} is deleted, since the manifest of snapshot {each} cannot be read")
            return []
        needed.update(manifest.packs)
    return [name for each in sorted(packs, key=id_order) if each not in needed for name in packs[each]]


async def sweep(
    session: Session, files: LabelFiles, *, told: Mapping[str, Sequence[str]], of: str | None = None
) -> int:
    """Delete what interrupted backups left, by a listing that shows that it is old; how many bytes that frees."""
    names = await deletable(session, files, (), told=told, of=None if of is None else (of,))
    freed = files.size(names) or 0
    job = _Deletion(session, files.label, total=len(names))
    await job.delete(names)
    if job.failed:
        raise job.incomplete()
    return freed


@dataclass
class _Deletion:
    """Files that are being deleted one after the other."""

    session: Session
    label: str
    total: int
    done: int = 0
    deleted: int = 0
    failed: list[str] = field(default_factory=list)
    cause: ColonyMemoryError | None = None

    def fail(self, name: str, error: ColonyMemoryError) -> None:
        """Note a file that is still there."""
        self.failed.append(name)
        self.cause = error

    async def delete(self, names: Iterable[str]) -> None:
        """Delete files, and stop at the first sign that all others would fail too."""
        for name in names:
            if self.cause is not None and _hopeless(self.cause):
                self.failed.append(name)
                continue
            try:
                await self.session.vault.delete(name)
            except ColonyMemoryError as error:
                self.fail(name, error)
            else:
                self.done += 1
                self.session.tell("delete", name, self.done, self.total)

    def incomplete(self, cause: ColonyMemoryError | None = None, left: Sequence[str] = ()) -> PruneIncomplete:
        """The error that tells what is still there."""
        cause = cause or self.cause
        failed = list(dict.fromkeys((*self.failed, *left)))
        wait = getattr(cause, "retry_after", None)
        when = f"; try again in {wait:.0f} s" if wait else ""
        msg = (
            f"label {self.label!r}: {self.deleted} snapshots were deleted, {len(failed)} files are still there: "
            f"{getattr(cause, 'message', cause)}{when}"
        )
        error = PruneIncomplete(msg, deleted=self.deleted, failed=failed, hint=Hint("prune", label=self.label))
        error.__cause__ = cause
        return error


def _hopeless(error: ColonyMemoryError) -> bool:
    """Whether the next call would fail too, perhaps after a long wait: refused, or no reply at all."""
    return isinstance(error, (RateLimited, VaultDenied)) or (
        isinstance(error, VaultUnavailable) and error.status is None
    )
