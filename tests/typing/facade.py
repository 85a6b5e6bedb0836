"""What a type checker makes of the facade. Checked by mypy, never called.

Each ``type: ignore`` is a control: mypy reports it as unused where the call gives ``Any`` or something wider.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from colony_memory import (
    AsyncColonyMemory,
    Change,
    ColonyMemory,
    Ed25519Signer,
    PrunePlan,
    Retention,
    SearchReport,
    SnapshotDiff,
    SnapshotInfo,
    VaultMap,
    VerifyReport,
    open_vault,
)
from colony_memory.schedule.autobackup import AsyncAutobackup, Autobackup

if TYPE_CHECKING:
    from typing_extensions import assert_type  # noqa: TC004 - never called

mem = ColonyMemory(backend=open_vault("memory:"))
DOCUMENTS = {"MEMORY.md": "two years of notes"}


def restoring() -> None:
    assert_type(mem.restore(), dict[str, str])
    assert_type(mem.restore(label="x", snapshot_id="y", verify=False, fallback=True), dict[str, str])
    assert_type(mem.restore(names="*.md"), dict[str, str])
    assert_type(mem.restore(names=["*.md", "notes/*"]), dict[str, str])
    assert_type(mem.restore(default=None), dict[str, str] | None)
    assert_type(mem.restore(default=DOCUMENTS), dict[str, str])
    assert_type(mem.restore(default={}), dict[str, str])
    assert_type(mem.restore(default=0), dict[str, str] | int)
    memory: dict[str, str] = mem.restore(default={})
    plain: dict[str, str] = mem.restore()
    text: str = mem.restore()["MEMORY.md"]
    number: int = mem.restore()  # type: ignore[assignment]
    unsure: dict[str, str] = mem.restore(default=None)  # type: ignore[arg-type]
    mem.restore(names=7)  # type: ignore[arg-type]
    mem.restore(lable="work")  # type: ignore[call-arg]
    print(memory, plain, text, number, unsure)


def saving() -> None:
    info = mem.backup(DOCUMENTS)
    assert_type(info, SnapshotInfo)
    assert_type(info.doc_names, list[str])
    assert_type(info.issuer, str | None)
    assert_type(info.parent_id, str | None)
    assert_type(info.reused, bool)
    mem.backup(DOCUMENTS, label="x", prune_keep=3, skip_unchanged=False, on_conflict="continue")
    mem.backup(DOCUMENTS, retention=Retention(keep_last=3, keep_within=timedelta(days=7)))
    mem.backup(DOCUMENTS, signer=Ed25519Signer.generate())
    mem.backup(DOCUMENTS, tags="release")
    mem.backup(DOCUMENTS, tags=("release", "2.0")).tags[0].upper()
    mem.backup(DOCUMENTS, tags=[3])  # type: ignore[list-item]
    mem.backup({"a": 1})  # type: ignore[dict-item]
    mem.backup(DOCUMENTS, prune_keep="3")  # type: ignore[arg-type]
    info.label = "other"  # type: ignore[misc]
    Retention(3)
    Retention(keep_last="3")  # type: ignore[arg-type]


def looking() -> None:
    assert_type(mem.list_snapshots(), list[SnapshotInfo])
    assert_type(mem.latest(), SnapshotInfo | None)
    assert_type(mem.prune(label="x"), int)
    assert_type(mem.plan_prune(label="x", keep=2), PrunePlan)
    assert_type(mem.plan_prune(label="x").keep, tuple[SnapshotInfo, ...])
    assert_type(mem.verify(), VerifyReport)
    assert_type(mem.diff("a"), SnapshotDiff)
    assert_type(mem.diff(DOCUMENTS, "b", label="x"), SnapshotDiff)
    assert_type(mem.history("a.md", label="x", patch=True), tuple[Change, ...])
    assert_type(mem.search("tea", fixed=True, ignore_case=True), SearchReport)
    mem.search(b"tea")  # type: ignore[arg-type]
    assert_type(mem.inspect(), VaultMap)
    assert_type(mem.status(), dict[str, Any])
    assert_type(mem.to_progenly_export(DOCUMENTS), dict[str, Any])
    assert_type(mem.prune(), int)
    mem.delete_snapshot(label="x", snapshot_id="y")
    print(mem.latest().label)  # type: ignore[union-attr]


def saving_now_and_then() -> None:
    with mem.autobackup(lambda: DOCUMENTS, every=900, prune_keep=5) as auto:
        assert_type(auto, Autobackup)
        assert_type(auto.last_success, datetime | None)
        assert_type(auto.last_error, BaseException | None)
        assert_type(auto.next_run, datetime | None)
        assert_type(auto.backup_now(), SnapshotInfo | None)
    mem.autobackup(lambda: {"a": 1})  # type: ignore[dict-item]
    mem.autobackup(DOCUMENTS)  # type: ignore[arg-type]


async def collect_later() -> dict[str, str]:
    return DOCUMENTS


async def awaiting() -> None:
    async with AsyncColonyMemory(backend=open_vault("memory:")) as async_mem:
        assert_type(async_mem, AsyncColonyMemory)
        assert_type(await async_mem.restore(), dict[str, str])
        assert_type(await async_mem.restore(default=None), dict[str, str] | None)
        assert_type(await async_mem.restore(default={}), dict[str, str])
        assert_type(await async_mem.backup(DOCUMENTS), SnapshotInfo)
        assert_type(await async_mem.list_snapshots(), list[SnapshotInfo])
        assert_type(await async_mem.latest(), SnapshotInfo | None)
        assert_type(await async_mem.prune(label="x"), int)
        assert_type(await async_mem.plan_prune(label="x"), PrunePlan)
        assert_type(await async_mem.verify(), VerifyReport)
        assert_type(await async_mem.diff("a", DOCUMENTS), SnapshotDiff)
        assert_type(await async_mem.history("a.md"), tuple[Change, ...])
        assert_type(await async_mem.search("tea"), SearchReport)
        assert_type(await async_mem.inspect(), VaultMap)
        assert_type(await async_mem.status(), dict[str, Any])
        async with async_mem.autobackup(collect_later, every=900, prune_keep=5) as auto:
            assert_type(auto, AsyncAutobackup)
            assert_type(await auto.backup_now(), SnapshotInfo | None)
        async_mem.autobackup(lambda: DOCUMENTS)
        async_mem.autobackup(lambda: {"a": 1})  # type: ignore[dict-item]
        forgotten: dict[str, str] = async_mem.restore()  # type: ignore[assignment]
        print(forgotten)
