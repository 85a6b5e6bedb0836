"""Pure: what is in a vault's directory besides its files. The marker that makes it a vault, and placeholders."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory._format.json import load_object

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

#: The marker's name. Hidden names are no files of a vault.
MARKER = ".cmem-vault.json"
#: Most bytes that are read of one.
MARKER_BYTES = 4096

_FAMILY = "colony-memory/vault/"
#: What a marker names: a directory that holds the files side by side, or keys as :mod:`.objects.keys` makes them. A
#: vault of one kind that was copied file by file into the other is none there, and not an empty one either.
IN_DIRECTORY, IN_OBJECTS = f"{_FAMILY}1", f"{_FAMILY}objects/1"
_NAMES = {1: FORMAT, 2: FORMAT_2}
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


def write_marker(vault_id: str, layout: str = IN_DIRECTORY, *, snapshots: int = 1) -> bytes:
    """The bytes of the marker of a vault with this random id, whose snapshots are to be written in that format."""
    return _encode({"format": layout, "id": vault_id, "snapshots": _NAMES[snapshots]})


class Marked(NamedTuple):
    """What a vault's marker says.

    Attributes:
        doubt: What is wrong with it: empty where there is none, None where all is well.
        snapshots: The format to write snapshots in where nobody says one.
        data: Its bytes.
    """

    doubt: str | None
    snapshots: Literal[1, 2] = 1
    data: bytes = b""

    def is_fine(self, asked: Literal[1, 2] | None) -> bool:
        """Whether nothing has to be written for a vault of the format that is asked for."""
        return self.doubt is None and asked in (None, self.snapshots)

    def renewed(
        self,
        asked: Literal[1, 2] | None,
        vault_id: str,
        layout: str = IN_DIRECTORY,
        *,
        conditional: bool = True,
        used: Callable[[], bool],
    ) -> Marked:
        """The marker to write.

        Format 2 takes little room, and needs conditional writes and zstd. Where ``used`` tells that snapshots are
        there already, they were written in format 1 until now, and may have readers that know no other.

        Raises:
            ValueError: What the marker says besides leaves no room for it.
        """
        if self.doubt is None:
            chosen, raw = asked or self.snapshots, load_object(self.data.decode("utf-8"))
            data = _encode({**raw, "snapshots": _NAMES[chosen]})
            if len(data) > MARKER_BYTES:
                raise ValueError("the vault's marker is too long to tell a format of snapshots")
            return Marked(None, chosen, data)
        from colony_memory._format.v2.zstd import is_installed

        chosen = asked or (2 if conditional and not used() and is_installed() else 1)
        return Marked(None, chosen, write_marker(vault_id, layout, snapshots=chosen))


def _encode(marker: dict[str, object]) -> bytes:
    return (json.dumps(marker) + "\n").encode("ascii")


def check_format(asked: int | None, *, conditional: bool = True) -> None:
    """See that a vault can be made for snapshots of this format, if one is asked for.

    Raises:
        ValueError: It is neither 1 nor 2, or this vault cannot have it.
        ColonyMemoryError: It is 2, and zstd is not installed.
    """
    if asked is not None and (asked not in _NAMES or isinstance(asked, bool)):
        raise ValueError(f"format must be 1 or 2, not {asked!r}")
    if asked == 2:
        from colony_memory._format.v2.zstd import require_zstd

        if not conditional:
            raise ValueError("format 2 needs a vault that writes on condition, which this one does not")
        require_zstd()


@lru_cache(maxsize=16)
def read_marker(data: bytes, layout: str = IN_DIRECTORY) -> Literal[1, 2]:
    """What format snapshots are to be written in, of a marker of this layout; 1 where it names none that is known.

    Every call of a vault asks that, mostly of the same bytes.

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
    return 2 if raw.get("snapshots") == FORMAT_2 else 1


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
