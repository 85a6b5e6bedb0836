"""The outcome of the last runs of a watch, in a small file for later questions.

There is one file for each vault and label, in the user's directory for the state of programs. It is replaced whole, and
holds nothing secret: neither the key nor the vault's address, which may have one in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._format.names import require_label
from colony_memory._os import files
from colony_memory._os.files import make_directory, read_file, replace_file
from colony_memory._os.machine import state_directory
from colony_memory._values import Value, asdict, replace
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, message_of
from colony_memory.snapshot import SnapshotInfo

if TYPE_CHECKING:
    from colony_memory.shell.app.save import Saved

_SHOWN = 3
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_VERSION = 3
_MOST_BYTES = 2**20
_MOST_CHARS = 2000  # of a message: an error may quote a page of HTML


class LastRun(Value):
    """One run of a watch."""

    when: datetime  # when it ended, in UTC
    ok: bool  # everything was saved, or had been before
    message: str  # the outcome or the error, on one line
    snapshot_id: str | None  # the snapshot that was made or found unchanged; None where the run failed
    next_run: datetime | None  # when the next run is due, in UTC; None where none is, since the watch has ended
    pid: int  # the process


class RunLog(Value):
    """The last runs of a watch; at least one of the two is there."""

    last_success: LastRun | None  # the newest that saved everything, or found it saved
    last_failure: LastRun | None
    failed_since: int  # number of failed runs since that success, or of all

    @property
    def last(self) -> LastRun:
        """The latest run."""
        last = self.last_failure if self.failed_since else self.last_success
        assert last is not None  # noqa: S101 - whoever makes one sees to it
        return last


def run_of(
    when: datetime,
    saved: SnapshotInfo | Saved | None,
    error: BaseException | None = None,
    *,
    next_run: datetime | None = None,
) -> LastRun:
    """The record of a run, by the result or error of its backup; None for both if there was nothing to save yet."""
    left_out, snapshot_id, message = [], None, "nothing to save yet"
    if error is not None:
        text = " ".join(message_of(error).split())
        if not text or not (isinstance(error, ValueError) or type(error).__module__.startswith("colony_memory.")):
            # Unforeseen, so its class is needed to make sense of it.
            text = ": ".join(filter(None, (type(error).__name__, text)))
        message = f"failed: {text}"
    elif saved is not None:
        info = saved if isinstance(saved, SnapshotInfo) else saved.info
        left_out = list(saved.incomplete if isinstance(saved, SnapshotInfo) else map(str, saved.left_out))
        snapshot_id, message = info.snapshot_id, f"{'unchanged since' if info.reused else 'saved'} {info.snapshot_id}"
    if left_out:
        more = f"; and {len(left_out) - _SHOWN} more" if len(left_out) > _SHOWN else ""
        message += f"; {len(left_out)} left out: {'; '.join(left_out[:_SHOWN])}{more}"
    return LastRun(when, error is None and not left_out, message, snapshot_id, next_run, os.getpid())


def last_run_path(vault_url: str, label: str) -> Path:
    """The file that a watch of this vault and label writes, existing or not.

    Hosted vaults differ by ``COLONY_BASE_URL`` and by the account, which ``COLONY_API_KEY`` names; only a hash of these
    is in the file's name. A directory is the same one whichever way its path is written.
    """
    folded = require_label(label)
    identity = json.dumps([*_identify(vault_url), folded])
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    # The label is for people who look into the directory; it may be as long as a whole file name.
    try:
        directory = state_directory()
    except OSError as error:
        raise ColonyMemoryError(str(error)) from error
    return directory / "watch" / f"{folded[:60]}-{digest}.json"


def _identify(vault_url: str) -> list[str]:
    if vault_url.lower().rstrip("/") == "colony:":
        key = hashlib.sha256(os.environ.get("COLONY_API_KEY", "").encode("utf-8", "surrogateescape")).hexdigest()
        return ["colony:", os.environ.get("COLONY_BASE_URL", "").rstrip("/"), key]
    scheme = None if vault_url.startswith((".", "/", "~")) else _SCHEME.match(vault_url)
    if scheme is not None and scheme[1].lower() != "file":
        return [vault_url]
    from colony_memory.vaults import open_vault

    return ["file:", str(Path(getattr(open_vault(vault_url), "path", vault_url)).resolve())]


def read_runs(vault_url: str, label: str) -> RunLog | None:
    """The last runs of a watch of this vault and label; None if there has been none on this host, as for a user without
    a home. Arguments and errors are those of :func:`last_run_path`.
    """
    try:
        path = last_run_path(vault_url, label)
    except ColonyMemoryError:  # no watch can have recorded a run
        return None
    return _read(path)


def write_last_run(path: Path, run: LastRun) -> None:
    """Record a run; the file is replaced whole, and private to its owner."""
    run = replace(run, message=run.message[:_MOST_CHARS])
    log = _read(path) or RunLog(None, None, 0)
    log = RunLog(run, log.last_failure, 0) if run.ok else RunLog(log.last_success, run, log.failed_since + 1)
    document = {"version": _VERSION, **asdict(log)}
    make_directory(path.parent)
    # By thread too, as whoever waits for a late run records it as well. A killed process of the same number may have
    # left the file: in a container they all have the same.
    temp = f".{path.stem}.{os.getpid()}.{threading.current_thread().name}.tmp"
    replace_file(path, json.dumps(document, indent=1, default=datetime.isoformat).encode("ascii") + b"\n", temp=temp)


def _read(path: Path) -> RunLog | None:
    """The recorded runs; a file that cannot be read, or is malformed, counts for none, with a warning."""
    why = "malformed, or of another version"
    try:
        contents = read_file(path, _MOST_BYTES)
        if contents is None:
            return None
        document = json.loads(contents.data)
        success, failure, failed = document["last_success"], document["last_failure"], document["failed_since"]
        if document["version"] == _VERSION and type(failed) is int and failed >= 0 and (failure if failed else success):
            return RunLog(_run(success), _run(failure), failed)
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        why = f"{why} ({error})"
    warnings.warn(f"the last result of watch cannot be read: {path}: {why}", ColonyMemoryWarning, stacklevel=2)
    return None


def _run(raw: Any) -> LastRun | None:
    if raw is None:
        return None
    when, due = datetime.fromisoformat(raw["when"]), raw["next_run"] and datetime.fromisoformat(raw["next_run"])
    if when.tzinfo is None or (due and due.tzinfo is None):
        raise ValueError("a time without its zone")
    return LastRun(**{**raw, "when": when, "next_run": due, "message": str(raw["message"])})


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Be the one watch of this file's vault and label on this host, as long as the block runs."""
    with contextlib.ExitStack() as stack:
        try:
            make_directory(path.parent)
            stack.enter_context(files.locked(path.with_suffix(".lock"), patience=0))
        except TimeoutError:
            raise ColonyMemoryError(
                "another watch or run of this vault and label is running on this host: stop it first, "
                "or use another label"
            ) from None
        except OSError as error:  # as on a file system without locks: two watches of one label are only a waste
            message = f"nothing keeps a second watch from running: {path.parent}: {error.strerror}"
            warnings.warn(message, ColonyMemoryWarning, stacklevel=3)
        yield
