"""Files as every vault has them: names, bytes, etags and times; and the marker that makes a place a vault."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Literal

from colony_memory._format import FORMAT, FORMAT_2
from colony_memory._format.json import load_object
from colony_memory._values import Value
from colony_memory.exceptions import ColonyMemoryWarning, Hint, VaultError, VaultMissing, VaultUnavailable

#: Most bytes of a file that are written or read: twice a snapshot's default limit.
MOST_BYTES = 512 * 2**20
#: Codes of :class:`~colony_memory.VaultUnavailable` for one file, not the whole vault: the entry of its name is not a
#: plain file or is too large; a sync service has only a placeholder of it.
UNFIT_FILE, ELSEWHERE = "UNFIT_FILE", "ELSEWHERE"


def etag_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def written_time(moment: datetime) -> str:
    """A time in UTC in the form of a vault's replies."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@lru_cache(maxsize=4096)
def time_at(seconds: float) -> str | None:
    """The same for seconds since the epoch; None for a time that no calendar has, which must not hide the file."""
    try:
        return written_time(datetime.fromtimestamp(seconds, timezone.utc))
    except (OverflowError, ValueError, OSError):
        return None


def check_none_match(if_none_match: str | None) -> None:
    """Check a condition on absence. ValueError: vaults know no such condition."""
    if if_none_match not in {None, "*"}:
        raise ValueError(f"if_none_match must be None or '*', not {if_none_match!r}")


def describe_room(quota: int, used: int, count: int) -> dict[str, int]:
    """The room in a vault, in the form of its status."""
    return {"quota_bytes": quota, "used_bytes": used, "available_bytes": max(0, quota - used), "file_count": count}


def no_such_file(place: object, filename: str) -> VaultError:
    return VaultError(f"no such file in {place}: {filename}", status=404, code="NOT_FOUND")


def refuse_odd_name(place: object, filename: str) -> None:
    if not is_plain_name(filename):
        raise VaultError(f"not a name of a file in {place}: {filename!r}", status=400, code="INVALID_INPUT")


def encode_text(place: object, filename: str, content: str, most: int = MOST_BYTES) -> bytes:
    """A file's text as it is stored. VaultError: it is not valid Unicode, or too large."""
    try:
        data = content.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(
            f"{filename}: character {exc.start} of the text is half of a surrogate pair, which UTF-8 cannot hold",
            status=400,
            code="INVALID_INPUT",
        ) from exc
    if len(data) > most:
        raise VaultError(
            f"{filename} takes {len(data)} bytes; a file in {place} may take {most}", status=400, code="QUOTA_EXCEEDED"
        )
    return data


_NAME_BYTES = 255
# Placeholders and unfinished downloads of sync services: iCloud Drive, Nextcloud, ownCloud, Syncthing.
_PLACEHOLDERS = (
    (".", ".icloud"),
    ("", ".nextcloud"),
    ("", ".owncloud"),
    (".syncthing.", ".tmp"),
    ("~syncthing~", ".tmp"),
)


def is_plain_name(name: str) -> bool:
    """True if a file of this name can be stored and is visible on every platform: it is one plain component."""
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        return False
    try:
        return len(name.encode("utf-8")) <= _NAME_BYTES
    except UnicodeEncodeError:
        return False


def placeholders_of(name: str) -> tuple[str, ...]:
    """The names under which a sync service may have a placeholder of a snapshot's file."""
    return tuple(f"{before}{name}{after}" for before, after in _PLACEHOLDERS if is_ours(name))


def absent_file(name: str) -> str | None:
    """The file of a snapshot, or the marker, of which this name is a placeholder; None if it is none."""
    if is_ours(name) and name.endswith(".json"):
        return None  # like nearly all names
    for before, after in _PLACEHOLDERS:
        if name.startswith(before) and name.endswith(after):
            file = name[len(before) : len(name) - len(after)]
            if is_ours(file) or file == MARKER:
                return file
    return None


def is_ours(name: str) -> bool:
    return name.startswith("cmem.")


#: The marker's name. Hidden names are no files of a vault.
MARKER = ".cmem-vault.json"
#: Most bytes of a marker that are read.
MARKER_BYTES = 4096

_FAMILY = "colony-memory/vault/"
#: The layouts that a marker names: files side by side in a directory, or keys as :mod:`.objects` makes them. A
#: vault of one kind that was copied file by file to a place of the other is no vault there, nor an empty one.
IN_DIRECTORY, IN_OBJECTS = f"{_FAMILY}1", f"{_FAMILY}objects/1"
_NAMES = {1: FORMAT, 2: FORMAT_2}


class MarkedVault:
    """A vault that is made once, on purpose, as its marker shows."""

    #: The format in which clients write snapshots there by default.
    snapshot_format: Literal[1, 2] = 1

    def require(self) -> None:
        """Require a vault. VaultMissing: there is none; VaultError: nobody can tell."""
        raise NotImplementedError

    def vault_list_files(self) -> dict[str, Any]:
        return self.vault_list_prefix("")

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        raise NotImplementedError

    def exists(self) -> bool:
        """True if there is a vault, as far as can be seen: its disk may be away. VaultError: nobody can tell."""
        try:
            self.require()
        except VaultMissing:
            return False
        return True


class Mark(Value):
    """A vault's marker, or its absence."""

    fault: str | None  # None for a good marker, empty if there is no marker
    snapshots: Literal[1, 2] = 1  # the format to write snapshots in by default
    data: bytes = b""  # its bytes
    id: str | None = None  # the vault's random id

    def is_fine(self, wanted: Literal[1, 2] | None) -> bool:
        """True if this marker serves for the format that is wanted."""
        return self.fault is None and wanted in (None, self.snapshots)

    def require(self, place: object, *, used: Callable[[], bool], why_missing: str) -> Literal[1, 2]:
        """Require a vault, one with a marker or with files of snapshots; the format to write."""
        if self.fault is not None and not used():
            if not self.fault:
                raise no_vault(place, why_missing)
            raise VaultUnavailable(
                f"it is not known whether {place} is a vault: no snapshot is there, and {MARKER} is no marker: "
                f"{self.fault}"
            )
        if self.fault:
            text = f"{place}/{MARKER}: {self.fault}; the snapshots beside it are read without it"
            warnings.warn(text, ColonyMemoryWarning, stacklevel=2)
        return self.snapshots

    def renewed(
        self,
        wanted: Literal[1, 2] | None,
        layout: str = IN_DIRECTORY,
        *,
        conditional: bool = True,
        used: Callable[[], bool],
    ) -> Mark:
        """The marker to write."""
        if self.fault is None:
            raw, chosen = load_object(self.data.decode("utf-8")), wanted or self.snapshots
        else:
            from colony_memory._format.v2.zstd import is_installed

            # Format 2 takes little room, but needs conditional writes and zstd. Snapshots that are already there have
            # been written in format 1, and may have readers that know no other.
            raw = {"format": layout, "id": os.urandom(16).hex()}
            chosen = wanted or (2 if conditional and not used() and is_installed() else 1)
        data = (json.dumps({**raw, "snapshots": _NAMES[chosen]}) + "\n").encode("ascii")
        if len(data) > MARKER_BYTES:
            raise ValueError("the vault's marker is too long to tell a format of snapshots")
        return Mark(None, chosen, data)


@lru_cache(maxsize=16)
def read_marker(data: bytes | None, place: object, layout: str = IN_DIRECTORY) -> Mark:
    """The marker of these bytes, None for no file. Cached, since every call of a vault reads it, mostly unchanged."""
    if data is None:
        return Mark("")
    try:
        raw = load_object(data.decode("utf-8"))
    except ValueError as error:
        return Mark(str(error))
    named = raw.get("format")
    if not isinstance(named, str) or not named.startswith(_FAMILY):
        return Mark("it names no format of a vault")
    if named != layout:
        raise VaultUnavailable(
            f"the vault in {place} is of the format {named[:60]}, which this version does not know there: upgrade, or "
            "use 'copy' where a vault of another kind was put there file by file"
        )
    if not isinstance(raw.get("id"), str):
        return Mark("it has no id")
    return Mark(None, 2 if raw.get("snapshots") == FORMAT_2 else 1, data, raw["id"])


def no_vault(place: object, why: str) -> VaultMissing:
    """The error for a place in which no vault was ever made, as far as anybody can see."""
    return VaultMissing(
        f"there is no vault in {place}: none was ever made there, {why}", hint=Hint("init", "create", value=True)
    )


def check_format(wanted: int | None, *, conditional: bool = True) -> None:
    """Check that a vault can be made for snapshots of this format, if one is wanted."""
    if wanted is not None and (wanted not in _NAMES or isinstance(wanted, bool)):
        raise ValueError(f"format must be 1 or 2, not {wanted!r}")
    if wanted == 2:
        from colony_memory._format.v2.zstd import require_zstd

        if not conditional:
            raise ValueError("format 2 needs a vault with conditional writes, and this one has none")
        require_zstd()
