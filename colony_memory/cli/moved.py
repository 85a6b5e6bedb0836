"""What export, import and copy share: where they read and write, and what they say."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.app.pick import made_at, stamp
from colony_memory.cli.memory import Opened, at_vault, naming_the_vault, trust_of
from colony_memory.client import ColonyMemory
from colony_memory.transfer import MAX_EXPORT_BYTES, ExportVault, load_export, parse_export
from colony_memory.words.errors import FAILED, Failure
from colony_memory.words.text import age, count, now_utc, size, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from colony_memory.cli.options import CommonOptions
    from colony_memory.cli.output import Output
    from colony_memory.cli.progress import Progress
    from colony_memory.reports import VerifyReport
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.transfer import CopyReport, Export


def read_file(path: str) -> Export:
    """The export in a file, or in the standard input for ``-``."""
    if path != "-":
        if "\0" not in path and not Path(path).exists():
            raise ValueError(f"{path!r}: no such file")
        return load_export(path)
    if sys.stdin is None:
        raise Failure("there is no standard input to read", code=FAILED)
    try:
        data = sys.stdin.buffer.read(MAX_EXPORT_BYTES + 1)
    except OSError as error:
        raise Failure(f"the standard input cannot be read: {error.strerror}", code=FAILED) from error
    return parse_export(data, name="the standard input")


def verify_file(path: str, common: CommonOptions) -> VerifyReport:
    """What an exported snapshot holds, by the trust that the options name. No vault is opened."""
    vault = ExportVault(read_file(path))
    memory = ColonyMemory(backend=vault, **trust_of(common))
    return memory.verify(label=vault.label, snapshot_id=vault.snapshot_id)


@contextmanager
def open_pair(
    common: CommonOptions, source: str | None, target: str | None, output: Output
) -> Iterator[tuple[Opened, Opened]]:
    """The memories to copy from and to; the one that no URL names is that of the common options."""
    trust = trust_of(common)
    with (
        at_vault(common.vault if source is None else source, output) as here,
        at_vault(common.vault if target is None else target, output) as there,
    ):
        if here.is_same_as(there):
            raise ValueError("--from and --to are the same vault")
        # A witness is of one vault: the pointers of two would pass for one that went back.
        guarded = {name: value for name, value in trust.items() if name != "witness"}
        with naming_the_vault(here):
            yield (
                Opened(ColonyMemory(backend=here.backend, **trust), here, output),
                Opened(ColonyMemory(backend=there.backend, **guarded), there, output),
            )


@dataclass(frozen=True)
class _Snapshots:
    """Snapshots that are done, as a progress bar takes it."""

    done: int
    total: int
    action: str = "snapshot"


def show_snapshots(progress: Progress) -> Callable[[int, int], None]:
    """What a copy calls, to show on a terminal how far it has come."""
    return lambda done, total: progress(_Snapshots(done, total))


def export_line(info: SnapshotInfo, where: str) -> str:
    """What was exported, and where to."""
    made = made_at(info)
    return (
        f"exported snapshot {info.snapshot_id} of label {info.label}, made {stamp(made)} ({age(made, now_utc())}), "
        f"{stored(info)}, to {where}"
    )


def import_lines(info: SnapshotInfo, *, dry_run: bool) -> list[str]:
    """What was imported, and whether it is the latest now; or what would be."""
    named = f"snapshot {info.snapshot_id} of label {info.label}"
    if dry_run and not info.reused:
        return [f"would import {named}, {stored(info)}; nothing written"]
    return [
        f"{named} was there already; nothing written" if info.reused else f"imported {named}, {stored(info)}",
        f"it is {'' if info.head else 'not '}the latest of its label",
    ]


def copy_lines(report: CopyReport, *, to: str) -> list[str]:
    """What was copied, and what is the latest of each label then."""
    done = f"{'would copy' if report.dry_run else 'copied'} {count(len(report.copied), 'snapshot')} to {to}"
    sizes = sum(info.stored_bytes for info in report.copied)
    lines = [
        f"{done}{f', {size(sizes)}' if sizes else ''}; {len(report.already)} there already"
        + (f", {len(report.left_out)} left out" if report.left_out else "")
    ]
    if report.dry_run:
        return [*lines, "nothing written"]
    return lines + [f"latest of label {label}: {snapshot_id}" for label, snapshot_id in sorted(report.latest.items())]
