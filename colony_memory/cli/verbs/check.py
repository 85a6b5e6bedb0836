"""The verbs that tell how safe it is: ``status``, ``verify`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._values import asdict, replace
from colony_memory.words.errors import FAILED, NOT_PROVEN
from colony_memory.words.text import count, now_utc

if TYPE_CHECKING:
    from colony_memory.cli.options import CommonOptions, RetentionOptions
    from colony_memory.reports import VerifyReport
#: How each verb is used, as its help has it.
EXAMPLES = {
    "status": (
        "colony-memory status",
        "colony-memory status --quick",
        "colony-memory status ~/agent/memory",
        "colony-memory status --label research --max-age 26h --quiet",
    ),
    "verify": (
        "colony-memory verify",
        "colony-memory verify --label research latest",
        "colony-memory verify --trust did:key:z6Mk... ./research.json",
    ),
    "report": (
        "colony-memory report --html report.html",
        "colony-memory report --html report.html --quick --keep 20",
    ),
}


def run_status(
    paths: list[str] | None = None,
    *,
    label: str | None = None,
    exclude: list[str] | None = None,
    max_age: str | None = None,
    quick: bool = False,
    verbose: bool = False,
    common: CommonOptions,
) -> int:
    """The newest snapshot of each label is read in full. The first line is the answer: for the label, or of all labels
    for the one that is protected least, and of several such for the stalest. Copies that restores have made, under
    LABEL-before-restore, are asked for by name only. Below stand the vault, each label, the last run of watch on this
    host, and whatever is wrong, each with the command that mends it. The exit code is 3 where nothing is saved. With
    --max-age a monitor needs no more than that: 1 if the newest good backup is older or something puts the memory at
    risk, 4 if the newest is damaged or none is good. Where watch has found the memory unchanged since, its run is what
    counts.

    With PATHs, those that are backed up, it answers for them, by the label that this host saves them under: by how much
    they are ahead of its latest snapshot, what in them has come, gone or changed, and whether the vault is on their
    disk. That something is ahead is no failure, however old it is: how long it may stay so is what --max-age says.
    Where nothing that is there is saved, that is one.
    """
    from colony_memory.app.protection import check_protection
    from colony_memory.app.values import parse_duration
    from colony_memory.cli.memory import open_memory, tell_elsewhere
    from colony_memory.cli.protection import failing, status_document, status_lines

    limit = None if max_age is None else parse_duration(max_age)
    if exclude and not paths:
        raise ValueError("--exclude is for the PATHs that are looked at: give them, or leave it out")
    tell_elsewhere(common.agent, paths or (), common.output)
    with open_memory(common) as opened:
        place = opened.place
        given = {**asdict(common), "paths": paths}
        with opened.working():
            checked = check_protection(
                opened.memory,
                url=place.url,
                label=label,
                paths=paths or (),
                exclude=exclude or (),
                agent=common.agent,
                quick=quick,
                max_age=limit,
                now=now_utc(),
            )
        given |= {"paths_label": checked.verdict.label, "folders": checked.folders}
        if common.as_json:
            opened.output.answer_json(status_document(checked, url=place.url, max_age=limit, given=given))
        elif not (common.quiet and limit):
            lines = status_lines(checked, place=place, now=now_utc(), given=given, verbose=verbose)
            opened.output.answer("\n".join(lines))
        failure = failing(checked, place=place, max_age=limit, given=given)
        if failure is not None:
            raise failure
    return 0


def run_verify(
    snapshot: str | None = None,
    *,
    label: str | None = None,
    common: CommonOptions,
) -> int:
    """ID is a snapshot as 'show' takes it, FILE one that 'export' wrote, which needs no vault; - is the standard input.
    Without one, every snapshot of the label is read, or of all labels. What could not be checked is never called ok.
    The exit code is 4 if something does not hold, and 1 where all of it holds that could be checked and not all could:
    some text is encrypted, which no identity opens here, or a snapshot is older than signing.
    """
    from colony_memory.app.pick import may_name_a_snapshot
    from colony_memory.cli.summary import verify_lines

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


_KEEP = 20


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
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.protection import next_backups, status_document
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
            found,
            status=status,
            retention=rules.in_words(),
            now=now,
            next_backups=next_backups(found.checked.found),
        )
        number = sum(len(each.snapshots) for each in found.labels)
        told = f"the report on {count(number, 'snapshot')} is in {html}"
        if html == "-":
            opened.output.answer(page)
            return 0
        save_own(Path(html), page.encode("utf-8"), overwrite=force)
        if common.as_json:
            opened.output.answer_json({"file": html, "snapshot_count": number, "state": found.checked.verdict.state})
        else:
            opened.output.report(told)
    return 0
