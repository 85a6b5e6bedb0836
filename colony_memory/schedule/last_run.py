"""How the latest runs of a watch ended, in a small file for whoever asks later.

One file a vault and label, in the user's directory for the state of programs. It is replaced whole, bounded, and holds
nothing that must be kept secret: neither the key nor the vault's address, which may have one in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import warnings
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import require_label
from colony_memory._os import locks
from colony_memory._os.files import make_directory, read_file, replace_file
from colony_memory._os.machine import state_directory
from colony_memory._values import dataclass
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, message_of
from colony_memory.snapshot import SnapshotInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

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


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_VERSION = 2
_MOST_BYTES = 2**20
_MOST_CHARS = 2000  # of a message: an error may quote a page of HTML
_MOST_RUNS = 200
_EARLIER_CHARS = 200  # of the message of any but the latest


@dataclass(frozen=True)
class LastRun:
    """One run of a watch.

    Attributes:
        when: When it ended, in UTC.
        ok: Whether everything was saved, or was saved already.
        message: What was done, or what went wrong, on one line.
        snapshot_id: The snapshot that was made or found unchanged; None where the run failed.
        next_run: When the next run is due, in UTC; None where none is, since the watch has ended.
        pid: The process.
    """

    when: datetime
    ok: bool
    message: str
    snapshot_id: str | None
    next_run: datetime | None
    pid: int


@dataclass(frozen=True)
class RunLog:
    """The latest runs of a watch.

    Attributes:
        runs: The latest 200, the newest last; at least one. The newest that succeeded is always among them.
    """

    runs: tuple[LastRun, ...]
    failed_since: int  # how many runs have failed since that one, or at all where none did succeed

    @property
    def last(self) -> LastRun:
        """The latest run."""
        return self.runs[-1]

    @property
    def last_success(self) -> LastRun | None:
        """The newest run that saved everything, or found it saved; None where none did."""
        return next((run for run in reversed(self.runs) if run.ok), None)


def add_run(log: RunLog | None, run: LastRun) -> RunLog:
    """The log with a run more, and the oldest gone where they are too many: pure."""
    run = replace(run, message=run.message[:_MOST_CHARS])
    if log is None:
        return RunLog((run,), 0 if run.ok else 1)
    earlier = [*log.runs[:-1], replace(log.last, message=log.last.message[:_EARLIER_CHARS])]
    if len(earlier) >= _MOST_RUNS:
        kept = None if run.ok else log.last_success
        del earlier[: len(earlier) - _MOST_RUNS + 1]
        if kept is not None and not any(each.ok for each in earlier):
            earlier[0] = replace(kept, message=kept.message[:_EARLIER_CHARS])
    return RunLog((*earlier, run), 0 if run.ok else log.failed_since + 1)


def last_run_path(vault_url: str, label: str) -> Path:
    """The file that a watch of this vault and label writes, whether it is there or not.

    The hosted vault is told apart by ``COLONY_BASE_URL`` and by the account, which ``COLONY_API_KEY`` names; of these
    only a hash is in the file's name. A directory is the same one whichever way its path is written.
    """
    usable = require_label(label)
    named = json.dumps([*_identify(vault_url), usable])
    digest = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # The label is for people who look into the directory; it may be as long as a file name itself.
    try:
        directory = state_directory()
    except OSError as error:
        raise ColonyMemoryError(str(error)) from error
    return directory / "watch" / f"{usable[:60]}-{digest}.json"


def read_last_run(vault_url: str, label: str) -> LastRun | None:
    """How the latest run of a watch of this vault and label ended; None where there has been none on this host.

    Arguments, errors and warnings are those of :func:`read_runs`.
    """
    log = read_runs(vault_url, label)
    return None if log is None else log.last


def read_runs(vault_url: str, label: str) -> RunLog | None:
    """How the latest runs of a watch of this vault and label ended; None where there has been none on this host, as for
    a user without a home.

    Arguments and errors are those of :func:`last_run_path`.
    """
    try:
        path = last_run_path(vault_url, label)
    except ColonyMemoryError:  # no watch can have noted how it ended
        return None
    try:
        return _read(path)
    except (OSError, ValueError, RecursionError) as error:
        _warn_unreadable(path, error)
        return None


def write_last_run(path: Path, run: LastRun) -> None:
    """Add a result to those before, whole or not at all, for the file's owner alone."""
    try:
        earlier = _read(path)
    except (ValueError, RecursionError) as error:
        _warn_unreadable(path, error)
        earlier = None
    log = add_run(earlier, run)
    document = {"version": _VERSION, "failed_since": log.failed_since, "runs": [_dump(each) for each in log.runs]}
    make_directory(path.parent)
    # A process of that number may have been killed before it was done: in a container they all have the same.
    temp = f".{path.stem}.{os.getpid()}.tmp"
    replace_file(path, json.dumps(document, indent=1).encode("ascii") + b"\n", temp=temp)


def _dump(run: LastRun) -> dict[str, Any]:
    return {
        "when": run.when.isoformat(),
        "ok": run.ok,
        "message": run.message,
        "snapshot_id": run.snapshot_id,
        "next_run": None if run.next_run is None else run.next_run.isoformat(),
        "pid": run.pid,
    }


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[bool]:
    """Be the one watch that writes this file, as long as the block runs; gives False where another one is.

    The lock is the operating system's, so a process that was killed holds none. Where the place takes no locks, every
    watch is the only one: that several save one label is no danger, only a waste.
    """
    with contextlib.ExitStack() as held:
        try:
            make_directory(path.parent)
            held.enter_context(locks.locked(path.with_suffix(".lock"), patience=0))
        except TimeoutError:
            free = False
        except OSError as error:
            free = True
            warnings.warn(
                f"nothing keeps a second watch from running: {path.parent}: {error.strerror}",
                ColonyMemoryWarning,
                stacklevel=3,
            )
        else:
            free = True
        yield free


def _identify(vault_url: str) -> list[str]:
    if vault_url.lower().rstrip("/") == "colony:":
        key = hashlib.sha256(os.environ.get("COLONY_API_KEY", "").encode("utf-8", "surrogateescape")).hexdigest()
        return ["colony:", os.environ.get("COLONY_BASE_URL", "").rstrip("/"), key]
    scheme = None if vault_url.startswith((".", "/", "~")) else _SCHEME.match(vault_url)
    if scheme is not None and scheme[1].lower() != "file":
        return [vault_url]
    from colony_memory.vaults import open_vault

    return ["file:", str(Path(getattr(open_vault(vault_url), "path", vault_url)).resolve())]


def _read(path: Path) -> RunLog | None:
    found = read_file(path, _MOST_BYTES)
    return None if found is None else _parse(found.data)


def _warn_unreadable(path: Path, error: Exception) -> None:
    why = (error.strerror if isinstance(error, OSError) else None) or str(error)
    warnings.warn(f"the last result of watch cannot be read: {path}: {why}", ColonyMemoryWarning, stacklevel=4)


def _parse(data: bytes) -> RunLog:
    """The results in a file's bytes."""
    found: Any = json.loads(data)
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise ValueError("not of a form that this version knows")
    runs, failed = found.get("runs"), found.get("failed_since")
    if not isinstance(runs, list) or not 0 < len(runs) <= _MOST_RUNS or type(failed) is not int or failed < 0:
        raise ValueError("malformed")
    return RunLog(tuple(map(_parse_run, runs)), failed)


def _parse_run(found: Any) -> LastRun:
    kinds: dict[str, Any] = {"ok": bool, "message": str, "snapshot_id": (str, type(None)), "pid": int}
    if not isinstance(found, dict) or any(not isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise ValueError("malformed")
    due = found.get("next_run")
    return LastRun(
        when=_read_time(found.get("when")),
        ok=found["ok"],
        message=found["message"],
        snapshot_id=found["snapshot_id"],
        next_run=None if due is None else _read_time(due),
        pid=found["pid"],
    )


def _read_time(text: object) -> datetime:
    moment = datetime.fromisoformat(str(text))
    if moment.tzinfo is None:
        raise ValueError("malformed: a time without its zone")
    return moment.astimezone(timezone.utc)
