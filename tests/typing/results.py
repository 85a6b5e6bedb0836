"""What a type checker makes of errors, transfers, encryption and of the pure core. Checked by mypy, never called."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory import (
    AsyncColonyMemory,
    BackupUncertain,
    ColonyMemory,
    ColonyMemoryError,
    ConflictDetected,
    Passphrase,
    PruneIncomplete,
    PrunePlan,
    QuotaExceeded,
    RateLimited,
    Retention,
    SnapshotCorrupt,
    SnapshotDiff,
    SnapshotInfo,
    UntrustedSnapshot,
    VaultError,
    VaultMap,
    VerifyReport,
)
from colony_memory.reports import Change, DocumentChange, LabelMap, Match, SearchReport, SnapshotCheck
from colony_memory.retention import plan
from colony_memory.snapshot import BuiltSnapshot, Manifest, build, info_from_manifest, parse, read_manifest
from colony_memory.transfer import CopyReport, Export, ExportVault, copy, load_export

if TYPE_CHECKING:
    from typing_extensions import assert_type  # noqa: TC004 - never called


def errors(error: ColonyMemoryError) -> None:
    if isinstance(error, SnapshotCorrupt):
        assert_type(error.file, str | None)
        as_value_error: ValueError = error
        print(as_value_error)
    elif isinstance(error, QuotaExceeded):
        assert_type((error.needed, error.available), tuple[int | None, int | None])
    elif isinstance(error, ConflictDetected):
        assert_type((error.theirs, error.snapshot_id), tuple[str | None, str | None])
    elif isinstance(error, BackupUncertain):
        assert_type(error.snapshot_id, str)
    elif isinstance(error, PruneIncomplete):
        assert_type((error.deleted, error.failed), tuple[int, tuple[str, ...]])
    elif isinstance(error, VaultError):
        assert_type((error.status, error.code, error.retry_after), tuple[int | None, str | None, float | None])
    raise error


def waiting() -> float:
    try:
        return 0
    except UntrustedSnapshot as error:
        raise ValueError from error
    except RateLimited as error:
        return error.retry_after or 60


def reports(
    report: VerifyReport, diff: SnapshotDiff, vault: VaultMap, changes: tuple[Change, ...], found: SearchReport
) -> None:
    if report:
        assert_type(report.snapshots, tuple[SnapshotCheck, ...])
    if diff:
        assert_type(diff.changed, Mapping[str, DocumentChange])
    for change in changes:
        assert_type(change.lines, DocumentChange | None)
        assert_type(change.before, SnapshotInfo | None)
    if found:
        assert_type(found.matches, tuple[Match, ...])
        assert_type(found.matches[0].in_latest, bool | None)
    if vault:
        assert_type(vault.labels, tuple[LabelMap, ...])
        assert_type(vault.labels[0].newest, SnapshotInfo | None)
    SnapshotCheck("id", manifest="fine")  # type: ignore[arg-type]
    report.label = "x"  # type: ignore[misc]


def core(documents: dict[str, str], info: SnapshotInfo) -> None:
    built = build(documents, label="work", snapshot_id="id", created_at="2026-01-01T00:00:00Z")
    assert_type(built, BuiltSnapshot)
    assert_type(built.files, dict[str, str])
    manifest = read_manifest("{}", label="work", snapshot_id="id")
    assert_type(manifest, Manifest)
    assert_type(manifest.part_files, tuple[str, ...])
    assert_type(parse({}, built.files), dict[str, str])
    assert_type(parse({}, {"part": None}, verify_signature=True), dict[str, str])
    assert_type(info_from_manifest({}), SnapshotInfo)
    made = plan([info], retention=Retention(keep_daily=7), now=datetime.now(timezone.utc))
    assert_type(made, PrunePlan)
    assert_type(made.reasons, Mapping[str, tuple[str, ...]])
    # The positional fields of 0.1.1.
    SnapshotInfo("id", "work", "2026-01-01T00:00:00Z", ["a"], 1, 2, "sha256:", True, None)


def options() -> None:
    ColonyMemory("col_…", encrypt_to="age1…", identities=Path("identity.txt"))
    ColonyMemory("col_…", encrypt_to=["age1…", Passphrase("words")], identities=["AGE-SECRET-KEY-1…", Path("key")])
    AsyncColonyMemory("col_…", encrypt_to=Passphrase("words"), identities=(Passphrase("words"),))
    ColonyMemory("col_…", encrypt_to=7)  # type: ignore[arg-type]
    ColonyMemory("col_…", identities=b"AGE-SECRET-KEY-1")  # type: ignore[arg-type]


def plain(source: ColonyMemory, destination: ColonyMemory) -> None:
    exported = source.export_snapshot(label="work", snapshot_id=None)
    assert_type(exported, Export)
    assert_type(exported.info, SnapshotInfo)
    assert_type(destination.import_snapshot(load_export("work.json")), SnapshotInfo)
    assert_type(copy(source, destination, labels=["work"], progress=lambda done, total: None), CopyReport)
    ColonyMemory(backend=ExportVault(exported))
    copy(source, AsyncColonyMemory())  # type: ignore[call-overload]
    destination.import_snapshot("work.json")  # type: ignore[arg-type]


async def awaited(source: AsyncColonyMemory, destination: AsyncColonyMemory) -> None:
    exported = await source.export_snapshot()
    assert_type(exported, Export)
    assert_type(await destination.import_snapshot(exported), SnapshotInfo)
    assert_type(await copy(source, destination), CopyReport)
