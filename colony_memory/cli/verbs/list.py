"""The verb ``list``."""
# ruff: noqa: TC001, TC003 - the parser reads the annotations

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import islice
from typing import Annotated

from colony_memory.cli.options import (
    CommonOptions,
    LabelFilter,
    Option,
)
from colony_memory.snapshot import SnapshotInfo

EXAMPLES = (
    "colony-memory list",
    "colony-memory list --label research --json",
    "colony-memory list --tag release",
)

# Characters of names that are written although a row above has the same.
_AGAIN_CHARS = 2**22


def run(
    *,
    label: LabelFilter = None,
    tag: Annotated[
        list[str] | None,
        Option("--tag", metavar="NAME", help="Only what is filed under this. Repeatable: under all of them."),
    ] = None,
    common: CommonOptions,
) -> int:
    """Show the snapshots in the vault, newest first.

    Where other verbs take an ID, the beginning of one is enough, as long as no other begins so. The latest is also
    called latest, the one before it latest~1.
    """
    from colony_memory._format.tags import check_tags
    from colony_memory.app.pick import latest_ids, nothing_saved
    from colony_memory.cli.commands import command
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.tables import snapshot_table
    from colony_memory.cli.text import FEW, now_utc, shown

    wanted = set(check_tags(tag or ()))
    with open_memory(common) as opened:
        with opened.working():
            infos = opened.memory.list_snapshots(label=label)
            latest = latest_ids(opened.memory, infos)
        followed = {info.label for info in infos if info.snapshot_id in latest}
        infos = [info for info in infos if wanted.issubset(info.tags)]
        if common.as_json:
            opened.output.answer_json({"snapshots": list(_documents(infos))})
        elif label is not None and not infos and not tag:
            opened.output.answer(f"{nothing_saved(opened.memory, label).message}, in {opened.place.title}")
        else:
            opened.output.answer(snapshot_table(infos, latest=latest, now=now_utc()))
            refused = {info.label: info.snapshot_id for info in reversed(infos) if info.label not in followed}
            for name, newest in islice(refused.items(), FEW):
                restore = command("restore", newest, "DIR", label=name, given=vars(common))
                opened.output.answer(
                    f"label {shown(name)}: restore refuses the latest; it takes a snapshot by its id: {restore}"
                )
    return 0


def _documents(infos: Sequence[SnapshotInfo]) -> Iterator[dict[str, object]]:
    """Each snapshot for programs.

    A catalogue holds names that many rows share once, and as often as there are rows they could take any room. So
    where too much was written again, a row says in ``doc_names_of`` which one has its names.
    """
    room, above, written = _AGAIN_CHARS, None, dict[int, tuple[str, int]]()
    for info in infos:
        names = info.doc_names
        if id(names) not in written and above is not None and names == above.doc_names:
            written[id(names)] = written[id(above.doc_names)]
        of, chars = written.setdefault(id(names), (info.snapshot_id, sum(map(len, names)) + 8 * len(names)))
        room -= chars if of != info.snapshot_id else 0
        row = {**asdict(replace(info, doc_names=[])), "doc_names": names}
        yield row if room >= 0 or of == info.snapshot_id else {**row, "doc_names": None, "doc_names_of": of}
        above = info
