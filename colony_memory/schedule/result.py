"""Pure but for the process's number: what is told of one backup, as a line of the log of runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from colony_memory._values import dataclass
from colony_memory.exceptions import message_of
from colony_memory.schedule.last_run import LastRun
from colony_memory.snapshot import SnapshotInfo

if TYPE_CHECKING:
    from datetime import datetime

    from colony_memory.app.save import Saved

_NAMED = 3


@dataclass(frozen=True)
class Done:
    """What is told of a run: the snapshot, whether nothing had changed, and what was left out, with the reasons.

    Without a snapshot there was nothing to save yet.
    """

    snapshot_id: str | None
    reused: bool
    left_out: tuple[str, ...]


def done_of(saved: SnapshotInfo | Saved | None) -> Done:
    """What is told of what a backup returned; None is that there was nothing to save yet."""
    if saved is None:
        return Done(None, reused=False, left_out=())
    if isinstance(saved, SnapshotInfo):
        return Done(saved.snapshot_id, saved.reused, saved.incomplete)
    left_out = tuple(f"{each.name}: {each.reason}" for each in saved.left_out)
    return Done(saved.info.snapshot_id, saved.info.reused, left_out)


def run_of(when: datetime, ended: Done | BaseException | None, *, next_run: datetime | None = None) -> LastRun:
    """A run that ended then, and how."""
    if not isinstance(ended, Done):
        return LastRun(when, False, f"failed: {_describe(ended)}", None, next_run, os.getpid())
    if ended.snapshot_id is None:
        return LastRun(when, True, "nothing to save yet", None, next_run, os.getpid())
    message = f"{'unchanged since' if ended.reused else 'saved'} {ended.snapshot_id}"
    if ended.left_out:
        more = f"; and {len(ended.left_out) - _NAMED} more" if len(ended.left_out) > _NAMED else ""
        message += f"; {len(ended.left_out)} left out: {'; '.join(ended.left_out[:_NAMED])}{more}"
    return LastRun(when, not ended.left_out, message, ended.snapshot_id, next_run, os.getpid())


def _describe(error: BaseException | None) -> str:
    text = "" if error is None else " ".join(message_of(error).split())
    ours = isinstance(error, ValueError) or type(error).__module__.startswith("colony_memory.")
    if ours and text:
        return text
    # Not foreseen, so its kind is needed to make sense of it.
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
