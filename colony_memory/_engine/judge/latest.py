"""Pure: which snapshot is the latest, with a pointer to follow and without, and why it cannot be given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.judge.committed import mark_committed
from colony_memory._engine.judge.pointer import rows_of
from colony_memory._engine.label import has_pointer
from colony_memory._format.names import id_order
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    Hint,
    RollbackDetected,
    SnapshotCorrupt,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultError,
)
from colony_memory.snapshot import Manifest
from colony_memory.trust import ACCEPT_UNSIGNED, check_newer, follows_signed_pointer, older_than_signing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._engine.judge.decision import Asked, Decision, Read
    from colony_memory._engine.label import LabelFiles


def latest_by_pointer(asked: Asked, found: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """The latest where the pointer is followed."""
    label, named = asked.label, found.pointer.snapshot_id
    found = mark_committed(asked, found, files, manifests)
    left = [each for each in files.manifests if each not in found.pointer.gone]
    if found.proven:
        found = _check_unlisted(asked, found, files, manifests)
    if named is None and found.pointer.arriving is not None:
        problem = "the import or copy that it announces is still under way, or did not finish"
        return _follow_newest(asked, replace(found, problem=problem), files, manifests)
    if named is None and not asked.conditional and found.counted:
        problem = "the pointer names nothing, and may have been written over that of a save at the same moment"
        return _follow_newest(asked, replace(found, problem=problem), files, manifests)
    if not found.proven and named is None and left:
        # What was deleted on purpose is either gone or named by the pointer.
        found = _warned(found, f"the pointer of label {label!r} names nothing, and snapshot {left[0]} is there")
    if named is None or named in files.manifests or not files.complete:
        return replace(found, refusal=found.untrusted.get(named or ""))
    problem = f"the pointer names snapshot {named}, which is not there"
    if found.compared and found.rollback is None:
        msg = (
            f"label {label!r}: {problem}, so the newest memory was removed. To accept what is left, restore a snapshot "
            "by its id and back it up again"
        )
        found = replace(found, rollback=RollbackDetected(msg, hint=Hint("list_snapshots", label=label)))
    return _follow_newest(asked, replace(found, problem=problem), files, manifests)


def _check_unlisted(asked: Asked, found: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """What trusted snapshots that a proven pointer does not list say of it."""
    label, pointer, rows = asked.label, found.pointer, rows_of(asked, found)
    named = pointer.snapshot_id or ""
    strange = [
        read for each in files.manifests
        if each not in rows and each not in found.untrusted and each != named and each not in asked.bringing
        and isinstance(read := manifests.get(each), Manifest)
    ]  # fmt: skip
    newer = [manifest for manifest in strange if id_order(manifest.info.snapshot_id) > id_order(named)]
    for manifest in newer:
        if pointer.brings(manifest.info.snapshot_id):
            continue
        try:
            check_newer(label, pointer.snapshot_id, manifest.raw, went_back_from=pointer.went_back_from)
        except RollbackDetected as error:
            return replace(found, rollback=found.rollback or error)
    told = [manifest.info.snapshot_id for manifest in newer if manifest.info.snapshot_id not in pointer.gone]
    if told:
        found = _warned(
            found,
            f"label {label!r} has {told[0]}, newer than {named or 'nothing'}, which its pointer names: "
            f"{'an import or a copy' if pointer.brings(told[0]) else 'a backup'} that did not finish, or a pointer "
            "that was put back",
        )
    put_back = [m.info.snapshot_id for m in strange if m not in newer and m.info.snapshot_id in found.committed]
    if put_back and pointer.entries is not None:
        found = _warned(
            found,
            f"label {label!r} has {', '.join(put_back)[:100]}, which its signed catalogue does not list: a backup that "
            "did not finish, one by 0.1.1, or one that was removed and put back",
        )
    return found


def latest_without_pointer(asked: Asked, found: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """The latest where there is no pointer to follow: the newest whole snapshot, if it may be.

    Where a trusted manifest names the one before it, its writer also signed the pointer. That signature is gone, and
    with it the proof that nothing newer was removed.
    """
    label, trust = asked.label, asked.trust
    distrusted = trust.require_signature or isinstance(found.refusal, UntrustedSnapshot)
    why, found = found.problem, replace(found, refusal=None)
    found = mark_committed(asked, found, files, manifests)
    signs = [
        each for each in files.manifests
        if each not in found.untrusted
        and isinstance(read := manifests.get(each), Manifest)
        and follows_signed_pointer(read.raw)
    ]  # fmt: skip
    found = _follow_newest(asked, replace(found, signs=bool(signs)), files, manifests)
    if asked.pins and distrusted and signs and not trust.accept_legacy_pointer:
        newest = found.follow or signs[0]
        msg = (
            f"{why}, and it was signed when snapshot {signs[0]} was made: newer memory may have been removed or "
            f"replaced. The newest trusted snapshot of label {label!r} is {newest}: restore it by its id, and back it "
            "up again. Where 0.1.1 writes to this label too, its pointers have to be accepted"
        )
        hint = Hint("restore", "snapshot_id", newest, label=label)
        found = replace(found, refusal=UntrustedSnapshot(msg, hint=hint), warnings=())
    if isinstance(found.refusal, UntrustedSnapshot):
        # What is not proven is compared with nothing.
        found = replace(found, rollback=None, compared=False)
    return found


def _follow_newest(asked: Asked, found: Decision, files: LabelFiles, manifests: Mapping[str, Read]) -> Decision:
    """Follow the newest whole snapshot in the list, and say why, unless the pointer of an old client names just that.

    What is newer, and of a newer format or signed by a stranger, is not damage: to pass it over would lose newer
    memory.
    """
    label, problem = found.label, found.problem or ""
    if not files.complete:
        msg = f"{problem}, and the vault's list of label {label!r} is cut, so the newest snapshot is not known"
        return replace(found, follow=None, refusal=VaultError(msg))
    newest = next((entry.snapshot_id for entry in found.ranked if entry.snapshot_id in found.counted), None)
    found = replace(found, follow=newest)
    if newest is not None and not (asked.trust.accept_legacy_pointer and found.written == newest):
        found = _warned(found, f"taking the newest whole snapshot {newest} of label {label!r}: {problem}")
    for each in files.manifests[: files.manifests.index(newest) if newest else None]:
        read = manifests.get(each)
        if isinstance(read, UnsupportedFormat) or (isinstance(read, UntrustedSnapshot) and not asked.trust.pins):
            return replace(found, refusal=read)
    if newest is not None:
        return found
    if found.untrusted:
        last = max(found.untrusted, key=id_order)
        if last not in found.unsigned:
            return replace(found, refusal=found.untrusted[last])
        msg = f"{older_than_signing(label, found.unsigned)}; if they are yours, accept them once, and back up again"
        return replace(found, refusal=UntrustedSnapshot(msg, hint=ACCEPT_UNSIGNED))
    if found.broken or found.written or (found.written is None and has_pointer(files)):
        what = "; ".join((problem, *found.broken.values()))
        msg = f"label {label!r} has no snapshot that can be restored, though it had one: {what}"
        return replace(found, refusal=SnapshotCorrupt(msg, hint=Hint("verify", label=label)))
    return found


def _warned(found: Decision, message: str) -> Decision:
    return replace(found, warnings=(*found.warnings, ColonyMemoryWarning(message)))
