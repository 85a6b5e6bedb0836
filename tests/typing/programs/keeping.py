"""What to keep, told before it is done; what is in the vault; what changed; and looking back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from colony_memory import Change, ColonyMemory, PrunePlan, Retention, SnapshotInfo, VaultMap, VerifyReport, open_vault


def policy(days: int = 7) -> Retention:
    return Retention(keep_last=2, keep_daily=days, keep_within=timedelta(hours=1))


def explain(plan: PrunePlan) -> Iterator[str]:
    for info in plan.keep:
        yield f"{info.snapshot_id} stays: {', '.join(plan.reasons[info.snapshot_id])}"
    for info in plan.remove:
        yield f"{info.snapshot_id} goes"
    yield from (f"{name} is left over" for name in plan.orphans)


def pinned(snapshots: Iterable[SnapshotInfo]) -> set[str]:
    return {info.snapshot_id for info in snapshots if info.pinned}


def total(infos: Iterable[SnapshotInfo]) -> int:
    return sum(info.stored_bytes for info in infos)


def problems(report: VerifyReport) -> dict[str, str]:
    if report:
        return {}
    found = {check.snapshot_id: check.problem for check in report.snapshots if check.problem is not None}
    if report.rollback == "bad":
        found[report.label] = "it was set back"
    return found


def room(vault: VaultMap) -> str:
    fits = [each.fits for each in vault.labels if each.fits is not None]
    labels = {each.label: each.newest.created_at for each in vault.labels if each.newest is not None}
    return f"{labels}: {vault.available_bytes} bytes, for {fits} more"


def tell(change: Change) -> str:
    lines = "" if change.lines is None else f" +{change.lines.added} -{change.lines.removed}"
    since = change.before.created_at if change.before else "the beginning"
    return f"{change.kind} since {since}{lines}: {change.patch or change.size}"


def main() -> None:
    memory = ColonyMemory(backend=open_vault("memory:"))
    for n in range(5):
        memory.backup({"a.md": "line\n" * n, "b.md": "b"}, note=f"number {n}", tags=("test", f"n{n}"))
    newest, *older = memory.list_snapshots()
    assert newest.note == "number 4"
    assert newest.tags[0].startswith("n")
    memory.pin(snapshot_id=older[-1].snapshot_id)
    assert pinned(memory.list_snapshots()) == {older[-1].snapshot_id}
    plan = memory.plan_prune(retention=Retention(keep_last=2))
    assert any("pinned" in line for line in explain(plan))
    assert memory.prune(retention=Retention(keep_last=2)) == len(plan.remove)
    assert total(memory.list_snapshots()) > 0
    assert problems(memory.verify()) == {}
    assert "default" in room(memory.inspect())
    assert [tell(change) for change in memory.history("a.md", patch=True)]
    found = memory.search(r"^line", ignore_case=True)
    assert [match.name for match in found.matches if match.in_latest] == ["a.md"]
    difference = memory.diff(older[-1].snapshot_id)
    assert {name: change.added for name, change in difference.changed.items()} == {"a.md": 4}
    memory.backup({"a.md": "x", "b.md": "y"}, retention=policy(days=3))
    free: int = memory.status()["available_bytes"]
    assert free > 0


if __name__ == "__main__":
    main()
