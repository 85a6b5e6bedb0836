"""The verb ``show``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    LabelOption,
)

if TYPE_CHECKING:
    from colony_memory.app.content import Contents

EXAMPLES = ("colony-memory show latest", "colony-memory show --label research 20261101")


def run(
    snapshot: Annotated[str, Argument(metavar="ID")],
    *,
    label: LabelOption = "default",
    common: CommonOptions,
) -> int:
    """Show one snapshot: when, how large, signed by whom, and the names in it.

    ID is one from 'list', the beginning of one, latest, or latest~2 for the second before it. The snapshot is
    read in full, since only then is every file in it known; where it is damaged, what its summary tells is shown, and
    the exit code is 4.
    """
    from colony_memory.app.content import contents_of
    from colony_memory.app.facts import told_by
    from colony_memory.app.pick import find, with_pin
    from colony_memory.app.restore import fetch
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.summary import snapshot_lines
    from colony_memory.cli.text import now_utc
    from colony_memory.exceptions import DecryptionError, SnapshotCorrupt, UntrustedSnapshot

    contents, damage = None, None
    with open_memory(common) as opened:
        with opened.working():
            info = with_pin(opened.memory, find(opened.memory, snapshot, label=label))
            try:
                # Its summary does not name the files that are no text.
                read = fetch(opened.memory, label=info.label, snapshot=info.snapshot_id)
                info, contents = told_by(info, read.info), contents_of(read.documents)
            except UntrustedSnapshot:
                raise
            except (SnapshotCorrupt, DecryptionError) as error:
                damage = error
        if common.as_json:
            opened.output.answer_json({"snapshot": asdict(info), **_document(contents)})
        else:
            opened.output.answer("\n".join(snapshot_lines(info, contents, now=now_utc())))
        if damage is not None:
            raise damage
    return 0


def _document(contents: Contents | None) -> dict[str, Any]:
    if contents is None:
        return dict.fromkeys(("file_count", "files", "links", "empty_dirs"))
    return {
        "file_count": len(contents.files),
        "files": sorted((*contents.texts, *contents.others)),
        "links": dict(contents.links),
        "empty_dirs": list(contents.empty_dirs),
    }
