"""Witnesses: records outside of the vault of how far each label has come, by its *head*.

Whoever can write to a vault can put back last month's files, signatures included: only a newer head shows it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from colony_memory._format.json import load_object
from colony_memory._format.names import read_head, require_label
from colony_memory._os.files import locked, make_directory, read_file, replace_file
from colony_memory._os.paths import real_path
from colony_memory.exceptions import ColonyMemoryError

_FORMAT = "colony-memory/witness/1"
_LOCK_PATIENCE = 30.0
"""Seconds to wait for a lock that is held for milliseconds, unless its holder was stopped."""
_MAX_BYTES = 2**22


@runtime_checkable
class Witness(Protocol):
    """A memory of the newest head of each label, out of the reach of the vault's keeper.

    Both methods raise on any fault: a witness that cannot answer must never seem to have seen nothing.
    """

    def read(self, label: str) -> str | None:
        """The newest head of the label, or None if none was seen yet."""

    def record(self, label: str, head: str) -> None:
        """Remember a head, unless one of a higher generation is remembered; it is durable when this returns."""


class FileWitness:
    """A witness in one JSON file for each vault, which threads and processes may share.

    The file is replaced whole and synced, is private to its owner (0600), and is made with the first record; so is its
    directory (0700). A missing file has seen nothing. An existing one that cannot be read or understood raises, since
    to begin again is to accept any older state. Keep it where those who can write to the vault cannot write.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(text, str) or not text or "\0" in text:
            raise ValueError(f"not a path of a witness file: {text!r}")
        # Absolute, so that a later change of the working directory does not move the file.
        self.path = Path(os.path.abspath(text))  # noqa: PTH100 - resolve() would follow links
        if os.path.isdir(self.path):  # noqa: PTH112 - Path.is_dir() raises where a directory above is closed to us
            raise ValueError(f"{self.path} is a directory; a witness is a file")

    def __repr__(self) -> str:
        return f"FileWitness({str(self.path)!r})"

    def read(self, label: str) -> str | None:
        """The newest head that is recorded for the label, or None."""
        return self._load().get(require_label(label))

    def labels(self) -> tuple[str, ...]:
        """The labels with a recorded head, so that one of which nothing is left in the vault is noticed."""
        return tuple(self._load())

    def record(self, label: str, head: str) -> None:
        """Remember a head; on disk when this returns. A lower generation than the one remembered is ignored."""
        label = require_label(label)
        generation = _require_head(head)
        # The record never goes back, so a head that is superseded without the lock remains so.
        if _supersedes(self._load().get(label), head, generation):
            return
        # If the file is a link, its target is replaced.
        target = real_path(self.path)
        try:
            make_directory(target.parent)
            with locked(target.with_name(f".{target.name}.lock"), patience=_LOCK_PATIENCE, brief=True):
                heads = self._load()
                if _supersedes(heads.get(label), head, generation):
                    return
                heads[label] = head
                text = json.dumps({"format": _FORMAT, "heads": heads}, indent=2, sort_keys=True) + "\n"
                # Under the lock, nobody else uses this name.
                replace_file(target, text.encode("ascii"), temp=f".{target.name}.tmp")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ColonyMemoryError(
                f"the witness file {self.path} could not be written: {reason}. Label {label!r} is at {head}: until "
                f"that is recorded, a return to the state before it would not be noticed"
            ) from error

    def _load(self) -> dict[str, str]:
        try:
            contents = read_file(self.path, _MAX_BYTES, follow=True)
        except OSError as error:
            raise self._unusable(error.strerror or type(error).__name__) from error
        if contents is None:
            return {}
        try:
            return _parse(contents.data)
        except ValueError as error:
            raise self._unusable(f"it is not a witness file: {error}") from error

    def _unusable(self, reason: str) -> ColonyMemoryError:
        return ColonyMemoryError(
            f"the witness file {self.path} cannot be read: {reason}. Mend that, or put a good copy of it back; to "
            f"remove it is to accept whatever the vault shows now, older or not"
        )


def _parse(data: bytes) -> dict[str, str]:
    raw = load_object(data.decode("utf-8"))
    if raw.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT!r}")
    heads: Any = raw.get("heads")
    if not isinstance(heads, dict):
        raise ValueError("it has no heads")  # noqa: TRY004 - what was read is wrong, not what was passed
    for label, head in heads.items():
        if require_label(label) != label:
            raise ValueError(f"{label[:60]!r} is not a label as file names spell it")
        _require_head(head)
    return heads


def _supersedes(recorded: str | None, head: str, generation: int) -> bool:
    return recorded is not None and (recorded == head or read_head(recorded)[0] > generation)


def _require_head(head: object) -> int:
    if isinstance(head, str):
        read = read_head(head)
        if read.digest is not None:
            return read.generation
    raise ValueError(f"a witness keeps whole heads such as '42:0123456789abcdef', not {str(head)[:60]!r}")
