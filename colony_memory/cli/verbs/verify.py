"""The verbs ``verify`` and ``report``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._values import asdict, replace
from colony_memory.app.pick import find_id, may_name_a_snapshot, naming_the_label, nothing_saved
from colony_memory.cli.memory import open_memory
from colony_memory.cli.tables import Column, draw
from colony_memory.cli.verbs.status import next_backups, status_document
from colony_memory.trust import older_than_signing
from colony_memory.words import count, now_utc, shown
from colony_memory.words.errors import FAILED, NOT_PROVEN

if TYPE_CHECKING:
    from colony_memory.cli.options import CommonOptions, RetentionOptions
    from colony_memory.reports import VerifyReport

#: Each fact is a column of the name of its field.
_CHECKS = (
    Column("id"),
    Column("manifest"),
    Column("parts", spare=1),
    Column("digest"),
    Column("signature"),
    Column("trust", spare=2),
    Column("catalog", spare=4),
    Column("chain", spare=3),
)
_KEEP = 20  # what a report takes a prune to keep

#: How each verb is used, as its help has it.
EXAMPLES = {
    "verify": (
        "colony-memory verify",
        "colony-memory verify --label research latest",
        "colony-memory verify --trust did:key:z6Mk... ./research.json",
    ),
    "report": ("colony-memory report --html report.html", "colony-memory report --html report.html --quick --keep 20"),
}


def run_verify(snapshot: str | None = None, *, label: str | None = None, common: CommonOptions) -> int:
    """ID is a snapshot as 'show' takes it, FILE one that 'export' wrote, which needs no vault; - is the standard input.
    Without one, every snapshot of the label is read, or of all labels. What could not be checked is never called ok.
    The exit code is 4 if something does not hold, and 1 where all of it holds that could be checked and not all could:
    some text is encrypted, which no identity opens here, or a snapshot is older than signing.
    """
    if snapshot is not None and (snapshot == "-" or not may_name_a_snapshot(snapshot)):
        from colony_memory.cli.verbs.vaults import verify_file

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
    from colony_memory.app.open import identify_vault
    from colony_memory.capture.index import disprove

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


def verify_lines(report: VerifyReport) -> list[str]:
    """The checks of each snapshot, and every problem; of what only a signature proves, nothing where nobody signs."""
    facts = {(each.signature, each.trust, each.catalog) for each in report.snapshots}
    quiet = {("missing", "unchecked", "ok"), ("missing", "unchecked", "unchecked")}
    plain = bool(report) and (report.pointer, report.rollback) == ("unchecked", "unchecked") and facts <= quiet
    columns = _CHECKS[:4] if plain else _CHECKS
    rows = [
        (shown(each.snapshot_id), *(getattr(each, column.head) for column in columns[1:])) for each in report.snapshots
    ]
    found = [each.problem for each in report.snapshots if each.problem and not each.unsigned]
    found += [report.problem] if report.problem else []
    found += [f"snapshot {each} was listed and is gone" for each in report.removed]
    known = {each.snapshot_id for each in report.snapshots if each.problem}
    found += [f"snapshot {each} is not by a trusted issuer" for each in report.forged if each not in known]
    found += [older_than_signing(report.label, report.unsigned)] if report.unsigned else []
    good, closed = sum(map(bool, report.snapshots)), sum(bool(each.sealed) for each in report.snapshots)
    total = f"label {report.label}: {good} of {count(len(report.snapshots), 'snapshot')} good, " + (
        "none signed" if plain else f"pointer {report.pointer}, rollback {report.rollback}"
    )
    if closed:
        which = "it" if len(report.snapshots) == 1 else count(closed, "snapshot")
        total += f"; the content of {which} is encrypted and was not checked: no identity opens it here"
    told = [*(f"problem  {each}" for each in dict.fromkeys(found)), total]
    return [draw(columns, rows), *map(shown, told)]


def run_report(
    *,
    html: str,
    label: str | None = None,
    rules: RetentionOptions,
    no_texts: bool = False,
    quick: bool = False,
    force: bool = False,
    common: CommonOptions,
) -> int:
    """Whether the memory is protected, how many more backups fit, every restore point, what became of each document,
    what holds, and what a prune with these rules would take: by default one that keeps 20. Every snapshot is read. The
    page needs nothing else and asks nothing of a network. It holds text of the memory, so FILE is made for its owner
    alone.
    """
    from colony_memory._ownfiles import save_own
    from colony_memory.report import look_over, render

    if html == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    if not rules.rules:
        rules = replace(rules, keep=_KEEP)
    now = now_utc()
    with open_memory(common) as opened:
        url = opened.place.url
        with opened.working():
            found = look_over(
                opened.memory,
                url=url,
                retention=rules.retention(),
                label=label,
                texts=not no_texts,
                quick=quick,
                now=now,
            )
        given = {**asdict(common), "folders": found.checked.folders}
        status = status_document(found.checked, url=url, max_age=None, given=given)
        page = render(
            found, status=status, retention=rules.in_words(), now=now, next_backups=next_backups(found.checked.found)
        )
        number = sum(len(each.snapshots) for each in found.labels)
        told = f"the report on {count(number, 'snapshot')} is in {html}"
        if html == "-":
            opened.output.answer(page)
            return 0
        save_own(html, page.encode("utf-8"), "the page", overwrite=force)
        if common.as_json:
            opened.output.answer_json({"file": html, "snapshot_count": number, "state": found.checked.verdict.state})
        else:
            opened.output.report(told)
    return 0
