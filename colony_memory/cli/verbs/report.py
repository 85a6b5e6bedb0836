"""The verb ``report``."""
# ruff: noqa: TC001 - the parser reads the annotations

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Annotated

from colony_memory.cli.options import (
    CommonOptions,
    LabelFilter,
    Option,
)
from colony_memory.cli.saving import RetentionOptions

EXAMPLES = (
    "colony-memory report --html report.html",
    "colony-memory report --html report.html --quick --keep 20",
)
_KEEP = 20


def run(
    *,
    html: Annotated[str, Option("--html", metavar="FILE", help="Where the page is written; - is the standard output.")],
    label: LabelFilter = None,
    rules: RetentionOptions,
    texts: Annotated[
        bool, Option("--texts/--no-texts", help="Have the changes of documents in it, or their sizes only.")
    ] = True,
    quick: Annotated[bool, Option("--quick", help="Read no snapshot but the newest.")] = False,
    force: Annotated[bool, Option("--force", help="Replace FILE if it is there.")] = False,
    common: CommonOptions,
) -> int:
    """Write everything about a vault into one HTML page.

    Whether the memory is protected, how long the room lasts, every restore point, what became of each document, what
    holds, and what a prune with these rules would take: by default one that keeps 20. Every snapshot is read. The page
    needs nothing else and asks nothing of a network. It holds text of the memory, so FILE is made for its owner alone.
    """
    from colony_memory._export_file import save_own
    from colony_memory.app.past import look_over
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.protection import next_backups, room_lasts, status_document
    from colony_memory.cli.text import count, now_utc
    from colony_memory.report import render

    if html == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    if all(getattr(rules, field.name) is None for field in fields(rules)):
        rules = replace(rules, keep=_KEEP)
    now = now_utc()
    with open_memory(common) as opened:
        url = opened.place.url
        with opened.working():
            found = look_over(
                opened.memory, url=url, retention=rules.retention(), label=label, texts=texts, quick=quick, now=now
            )
        given = {**asdict(common), "folders": found.checked.folders}
        status = status_document(found.checked, url=url, max_age=None, given=given)
        page = render(
            found,
            status=status,
            retention=rules.in_words(),
            now=now,
            next_backups=next_backups(found.checked.found),
            room_lasts=room_lasts(found.checked.found),
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
