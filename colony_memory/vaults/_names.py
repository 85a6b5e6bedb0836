"""Pure: which names are files of a vault, and which keep the place of one that a sync service has taken away."""

from __future__ import annotations

from colony_memory.vaults._marker import MARKER

_NAME_BYTES = 255
# What sync services leave in the place of a file, or begin there: iCloud Drive, Nextcloud, ownCloud, Syncthing.
_PLACEHOLDERS = (
    (".", ".icloud"),
    ("", ".nextcloud"),
    ("", ".owncloud"),
    (".syncthing.", ".tmp"),
    ("~syncthing~", ".tmp"),
)


def is_plain_name(name: str) -> bool:
    """Whether a file of that name can be stored, and is visible, on every platform: it is one plain component."""
    if not name or name.startswith(".") or "/" in name or "\\" in name or "\0" in name:
        return False
    try:
        return len(name.encode("utf-8")) <= _NAME_BYTES
    except UnicodeEncodeError:
        return False


def placeholders_of(name: str) -> tuple[str, ...]:
    """The names under which a sync service may keep the place of a file."""
    return tuple(f"{before}{name}{after}" for before, after in _PLACEHOLDERS)


def held_place(name: str) -> str | None:
    """The file of a snapshot, or the marker, whose place this name keeps; None if it keeps none."""
    if is_ours(name) and name.endswith(".json"):
        return None  # as for nearly all
    for before, after in _PLACEHOLDERS:
        if name.startswith(before) and name.endswith(after):
            held = name[len(before) : len(name) - len(after)]
            if is_ours(held) or held == MARKER:
                return held
    return None


def is_ours(name: str) -> bool:
    """Whether a name is one that only files of snapshots have."""
    return name.startswith("cmem.")
