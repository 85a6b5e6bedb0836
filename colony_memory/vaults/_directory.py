"""The directory of a local vault: whether it is a vault, what it holds, and what errors of its files mean."""

from __future__ import annotations

import contextlib
import errno
import stat
import time
import warnings
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._os.files import TEMP_PREFIX
from colony_memory._os.paths import UnfitFile, name_kind
from colony_memory.exceptions import (
    ColonyMemoryWarning,
    Hint,
    QuotaExceeded,
    VaultDenied,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.vaults._files import (
    ELSEWHERE,
    MARKER,
    MARKER_BYTES,
    MOST_BYTES,
    UNFIT_FILE,
    Marked,
    NewerVault,
    etag_of,
    held_place,
    is_ours,
    is_plain_name,
    placeholders_of,
    read_marker,
    require_marked,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Literal

    from colony_memory._os.files import Files


class Holdings(NamedTuple):
    """The files of a vault's directory."""

    # Size in bytes and time of change of every file of the vault, by name. Neither is known of a file that is
    # elsewhere, with a sync service keeping its place.
    files: dict[str, tuple[int | None, float | None]]
    strays: dict[str, str]  # entries that bear the name of a snapshot's file and are not one, with the reason

    @property
    def used(self) -> int:
        """Bytes of all files."""
        return sum(size or 0 for size, _ in self.files.values())

    def warn(self, directory: Files) -> None:
        """Warn of whatever is not there as a file."""
        away = [name for name, (size, _) in self.files.items() if size is None]
        if away:
            _warn(
                f"{directory.path}: a sync service has placeholders in place of {len(away)} files, such as that of "
                f"{min(away)}: have it download them"
            )
        for name, what in self.strays.items():
            _warn(f"{str(directory.path / name)!r}: {what}; it is passed over")


def scan(directory: Files, prefix: str = "") -> Holdings:
    """Look at every entry that is a file whose name starts with ``prefix``, or that keeps the place of one."""

    def wanted(name: str) -> bool:
        return name.startswith(prefix) or (not is_ours(name) and (held_place(name) or "").startswith(prefix))

    return _read(directory.entries(wanted))


def look_up(directory: Files, names: Iterable[str]) -> Holdings:
    """Look at certain entries of a vault's directory, or at what is in their places: where it has many, a fraction of
    the work of :func:`scan`.
    """
    return _read(found for name in names if (found := _entry(directory, name)) is not None)


def _entry(directory: Files, name: str) -> tuple[str, os.stat_result] | None:
    for each in (name, *(placeholders_of(name) if is_ours(name) else ())):
        facts = directory.look(each)
        if facts is not None:
            return each, facts
    return None


def _read(entries: Iterable[tuple[str, os.stat_result]]) -> Holdings:
    files: dict[str, tuple[int | None, float | None]] = {}
    elsewhere: dict[str, tuple[None, None]] = {}
    strays: dict[str, str] = {}
    for name, facts in entries:
        held, kind = held_place(name), name_kind(facts.st_mode)
        if held is not None:
            if held != MARKER:
                elsewhere[held] = None, None
        elif kind is None and is_plain_name(name):
            files[name] = facts.st_size, facts.st_mtime
        elif is_ours(name):
            strays[name] = f"{kind}, not a plain file" if kind else "not a name that a file of a vault may have"
    return Holdings({**elsewhere, **files}, strays)


def require_vault(directory: Files) -> Literal[1, 2]:
    """Go on only in a vault, see :func:`~colony_memory.vaults._files.require_marked`."""
    try:
        marked = look_at_marker(directory)
    except UnfitFile as error:
        marked = Marked(error.strerror)
    return require_marked(
        marked,
        directory.path,
        used=lambda: holds_snapshots(directory),
        missing=lambda: no_vault(directory.path),
    )


def is_something_else(path: Path) -> bool:
    """True if the path is, or lies below, something that is known to be no directory."""
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except NotADirectoryError:
        return True
    except OSError:
        # Not there yet is well; that it cannot be looked at is told by the call that needs it.
        return False


def holds_snapshots(directory: Files) -> bool:
    """True if there is a file of a snapshot, here or elsewhere."""
    return any(
        held_place(name) or (is_ours(name) and not stat.S_ISDIR(facts.st_mode)) for name, facts in directory.entries()
    )


def look_at_marker(directory: Files) -> Marked:
    """Read the marker."""
    found = directory.read(MARKER, limit=MARKER_BYTES)
    if found is None:
        return Marked("")
    try:
        return Marked(None, read_marker(found.data), found.data)
    except NewerVault as newer:
        raise VaultUnavailable(
            f"the vault in {directory.path} is of the format {newer}, which this version does not know: upgrade"
        ) from None
    except ValueError as error:
        return Marked(str(error))


def no_vault(path: Path) -> VaultMissing:
    """The error that says that no vault was ever made there, as far as anybody can see."""
    return VaultMissing(
        f"there is no vault in {path}: none was ever made there, or the disk that it is on is not mounted",
        hint=Hint("init", "create", value=True),
    )


def refuse_placeholder(directory: Files, filename: str) -> None:
    """Raise if a file that is not there is elsewhere rather than absent."""
    for name in placeholders_of(filename) if is_ours(filename) else ():
        if directory.look(name) is not None:
            raise VaultUnavailable(
                f"{directory.path / filename} is elsewhere: a sync service has only the placeholder {name!r} here; "
                "have it download the file, and try again",
                code=ELSEWHERE,
            )


def require_condition(directory: Files, filename: str, *, if_match: str | None, absent: bool) -> None:
    """Go on only if the file has the etag ``if_match``, or is not there."""
    found = directory.read(filename, limit=MOST_BYTES)
    state = None
    if found is None:
        state = "is not there" if if_match is not None else None
    elif absent:
        state = "is there"
    elif etag_of(found.data) != if_match:
        state = "has changed"
    if state is not None:
        raise VaultError(f"{directory.path / filename} {state}: not written", status=412, code="PRECONDITION_FAILED")


def clear_leftovers(directory: Files, *, older_than: float) -> None:
    """Remove temporary files that writers left when they died: those older than so many seconds."""
    eldest = time.time() - older_than
    for name, facts in directory.entries(lambda name: name.startswith(TEMP_PREFIX)):
        if stat.S_ISREG(facts.st_mode) and facts.st_mtime < eldest:
            with contextlib.suppress(OSError):  # what it takes up is no reason for an upload to fail
                directory.clear(name)


@contextlib.contextmanager
def errors_named(place: Path, *, needed: int | None = None) -> Iterator[None]:
    """Turn errors of the operating system into this package's, naming the place."""
    try:
        yield
    except UnfitFile as exc:
        # Not "from exc": whoever catches this must not take it for a file that is missing.
        raise VaultUnavailable(f"{exc.filename}: {exc.strerror}", code=UNFIT_FILE) from None
    except OSError as exc:
        msg = f"{place}: {exc.strerror or type(exc).__name__}"
        if exc.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise QuotaExceeded(msg, needed=needed) from exc
        if exc.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise VaultDenied(msg, status=403) from exc
        raise VaultUnavailable(msg) from exc


def _warn(text: str) -> None:
    warnings.warn(text, ColonyMemoryWarning, stacklevel=2)
