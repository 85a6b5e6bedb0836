"""Until when what is pinned is kept: for good, or up to the time that the pin's file tells.

A listing shows that a snapshot is pinned. That it is no longer is in the file alone, which is read where it is not of
the size of a pin without an end.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from colony_memory._engine.replies import moment
from colony_memory._engine.session import log
from colony_memory._format.json import load_object
from colony_memory._format.names import id_order, pin_filename, stamp
from colony_memory.exceptions import VaultError, message_of

if TYPE_CHECKING:
    from datetime import datetime

    from colony_memory._engine.label import LabelFiles
    from colony_memory._engine.session import Session

_FORMAT = "colony-memory/pin/1"
# Whoever can write to the vault can put as many there as they like.
_MOST_READ = 100


def pin_text(label: str, snapshot_id: str, until: datetime | None = None) -> str:
    """The text of a pin."""
    end = {} if until is None else {"until": stamp(until)}
    return json.dumps({"format": _FORMAT, "label": label, "snapshot_id": snapshot_id, **end})


def read_end(text: str) -> datetime | None:
    """When a pin ends, None where it does not, or tells no time."""
    try:
        return moment(load_object(text).get("until"))
    except ValueError:
        return None


async def with_ends(session: Session, files: LabelFiles) -> LabelFiles:
    """The label's files without the pins that have ended, and with the ends of those that have one.

    The vault's clock tells, and the host's, whichever is behind.
    """
    odd = [each for each in files.pins if _may_end(files, each)]
    names = {each: pin_filename(files.label, each) for each in sorted(odd, key=id_order)[-_MOST_READ:]}
    if not names:
        return files
    try:
        read = await session.vault.get_many(names.values())
    except VaultError as error:
        log(f"whether pins of label {files.label!r} have ended is not known, so they count: {message_of(error)}")
        return files
    found = {each: read_end(stored.content) for each, name in names.items() if (stored := read[name]) is not None}
    ends = {each: end for each, end in found.items() if end is not None}
    reached = None if files.listing is None else files.listing.reached
    now = session.now() if reached is None else min(reached, session.now())
    lasting = {each: end for each, end in ends.items() if end > now}
    return replace(files, pins=files.pins - (ends.keys() - lasting.keys()), pin_ends=lasting)


def _may_end(files: LabelFiles, snapshot_id: str) -> bool:
    size = files.files[pin_filename(files.label, snapshot_id)].size
    return snapshot_id in files.manifests and size != len(pin_text(files.label, snapshot_id))
