"""Pure: what is in a vault's directory besides its files. The marker that makes it a vault, and placeholders."""

from __future__ import annotations

import json
from functools import lru_cache

from colony_memory._format.json import load_object

#: The marker's name. Hidden names are no files of a vault.
MARKER = ".cmem-vault.json"
#: Most bytes that are read of one.
MARKER_BYTES = 4096

_FAMILY = "colony-memory/vault/"
#: What a marker names: a directory that holds the files side by side, or keys as :mod:`.objects.keys` makes them. A
#: vault of one kind that was copied file by file into the other is none there, and not an empty one either.
IN_DIRECTORY, IN_OBJECTS = f"{_FAMILY}1", f"{_FAMILY}objects/1"
# What a sync service leaves, or has begun, in the place of a file: iCloud Drive, Nextcloud, ownCloud, Syncthing.
_PLACEHOLDERS = (
    (".", ".icloud"),
    ("", ".nextcloud"),
    ("", ".owncloud"),
    (".syncthing.", ".tmp"),
    ("~syncthing~", ".tmp"),
)


class NewerVault(Exception):
    """The marker is of a format that this version does not know; its text names it."""


def write_marker(vault_id: str, layout: str = IN_DIRECTORY) -> bytes:
    """The bytes of the marker of a vault with this random id."""
    return (json.dumps({"format": layout, "id": vault_id}) + "\n").encode("ascii")


@lru_cache(maxsize=16)
def check_marker(data: bytes, layout: str = IN_DIRECTORY) -> None:
    """Look whether a marker is of this layout and known. Every call of a vault asks that, mostly of the same bytes.

    Raises:
        NewerVault: A later version made the vault, or it is of another layout.
        ValueError: It is damaged.
    """
    raw = load_object(data.decode("utf-8"))
    known = raw.get("format")
    if not isinstance(known, str) or not known.startswith(_FAMILY):
        raise ValueError("it names no format of a vault")
    if known != layout:
        raise NewerVault(known[:60])
    if not isinstance(raw.get("id"), str):
        raise ValueError("it has no id")  # noqa: TRY004 - what was read is wrong, not what was passed


def placeholders_of(name: str) -> tuple[str, ...]:
    """The names under which a sync service may keep the place of a file."""
    return tuple(f"{before}{name}{after}" for before, after in _PLACEHOLDERS)


def held_place(name: str) -> str | None:
    """The file of a snapshot, or the marker, whose place this name keeps; None for a name that keeps none."""
    if is_ours(name) and name.endswith(".json"):
        return None  # as nearly all do
    for before, after in _PLACEHOLDERS:
        if name.startswith(before) and name.endswith(after):
            held = name[len(before) : len(name) - len(after)]
            if is_ours(held) or held == MARKER:
                return held
    return None


def is_ours(name: str) -> bool:
    """Whether a name is one that only files of snapshots have."""
    return name.startswith("cmem.")
