"""The verb ``verify``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelFilter,
)

if TYPE_CHECKING:
    from colony_memory.reports import VerifyReport

EXAMPLES = (
    "colony-memory verify",
    "colony-memory verify --label research latest",
    "colony-memory verify --trust did:key:z6Mk... ./research.json",
)


def run(
    snapshot: Annotated[str | None, Argument(metavar="[ID|FILE]")] = None,
    *,
    label: LabelFilter = None,
    common: CommonOptions,
) -> int:
    """Read every byte that is saved, and report what is intact.

    ID is a snapshot as 'show' takes it, FILE one that 'export' wrote, which needs no vault; - is the standard input.
    Without one, every snapshot of the label is read, or of all labels. What could not be checked is never called ok.
    The exit code is 4 if something does not hold, and 1 where all of it holds that could be checked and not all could:
    some text is encrypted, which no identity opens here, or a snapshot is older than signing.
    """
    from colony_memory.app.pick import may_name_a_snapshot
    from colony_memory.cli.errors import FAILED, NOT_PROVEN
    from colony_memory.cli.summary import verify_lines

    if snapshot is not None and (snapshot == "-" or not may_name_a_snapshot(snapshot)):
        from colony_memory.cli.moved import verify_file

        reports = [verify_file(snapshot, common)]
    else:
        reports = _verify_vault(snapshot, label, common)
    good, output = all(reports), common.output
    if common.as_json:
        output.answer_json({"ok": good, "labels": [{"ok": bool(report), **asdict(report)} for report in reports]})
    elif not (common.quiet and good):
        output.answer("\n\n".join("\n".join(verify_lines(report)) for report in reports))
    return 0 if good else FAILED if all(report or report.limited for report in reports) else NOT_PROVEN


def _verify_vault(snapshot: str | None, label: str | None, common: CommonOptions) -> list[VerifyReport]:
    from colony_memory.app.pick import find_id, naming_the_label, nothing_saved
    from colony_memory.app.place import identify_vault
    from colony_memory.capture.index import disprove
    from colony_memory.cli.memory import open_memory

    with open_memory(common) as opened:
        with opened.working("Verifying"):
            memory = opened.memory
            if snapshot is not None:
                of = label or "default"
                with naming_the_label(memory, snapshot):
                    reports = [memory.verify(label=of, snapshot_id=find_id(memory, snapshot, label=of))]
            else:
                labels = [label] if label else [each.label for each in memory.inspect().labels]
                reports = [memory.verify(label=each) for each in labels]
            for report in reports:
                if not report and not report.limited:
                    disprove(identify_vault(memory), report.label)
        if not any(report.snapshots or report.problem for report in reports):
            raise nothing_saved(memory, label or "default")
    return reports
