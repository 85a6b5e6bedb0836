"""Which document names may become files.

A name comes out of a vault, or off a disk of another system, so it is judged before anything is written.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STAGING_PREFIX = ".colony-memory-restoring-"

_WINDOWS = os.name == "nt"
_COUNTS_CHARACTERS = sys.platform in ("darwin", "win32")  # other systems count the bytes of a component
_LONGEST_COMPONENT = 255
_DRIVE = re.compile(r"[A-Za-z]:")
_WINDOWS_FORBIDDEN = re.compile(r'[<>:"|?*\x00-\x1f]|[ .]$')
_WINDOWS_DEVICE = re.compile(r"(?i)(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3]) *(\.|$)")


def name_problem(name: str) -> str | None:
    """Say why ``name`` can be a path inside a folder on no system, or return None."""
    if not name:
        return "is an empty name"
    if "\0" in name:
        return "has a NUL in its name"
    if "\\" in name:
        return "has a backslash in its name, which is a separator on Windows"
    if name.startswith("/"):
        return "has an absolute path for a name"
    if _DRIVE.match(name):
        return "has a name that starts with a drive"
    if name.endswith("/"):
        return "has a name that ends with a slash"
    for component in name.split("/"):
        if component in ("", ".", ".."):
            return f"has the path component {component!r} in its name"
    return None


def _local_problem(name: str) -> str | None:
    """Say why this system cannot hold ``name``, or return None."""
    for component in name.split("/"):
        try:
            encoded = os.fsencode(component)
        except UnicodeEncodeError:
            return "has a name that this system cannot encode"
        if len(component if _COUNTS_CHARACTERS else encoded) > _LONGEST_COMPONENT:
            return f"has a path component longer than {_LONGEST_COMPONENT}, which file systems do not hold"
        if _WINDOWS and _WINDOWS_FORBIDDEN.search(component):
            return f"has the path component {component!r}, which Windows does not allow"
        if _WINDOWS and _WINDOWS_DEVICE.match(component):
            return f"has the path component {component!r}, which is a device on Windows"
    return None


def parents_of(name: str) -> Iterator[str]:
    """Yield the directories above ``name``, outermost first."""
    position = name.find("/")
    while position != -1:
        yield name[:position]
        position = name.find("/", position + 1)


def find_clash(
    files: Iterable[str], directories: Iterable[str], *, key: Callable[[str], str]
) -> tuple[str, str] | None:
    """Return two names that cannot stand side by side where names of equal ``key`` are one, or None.

    Two files of one name clash, and a file clashes with a directory of its name.
    """
    taken: dict[str, str] = {}
    for name in files:
        other = taken.setdefault(key(name), name)
        if other != name:
            return other, name
    for name in [*taken.values(), *directories]:
        for parent in parents_of(name):
            if key(parent) in taken:
                return taken[key(parent)], name
    for name in directories:
        if key(name) in taken:
            return taken[key(name)], name
    return None


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return _composed(_composed(name).casefold())


def _joins_names(directory: Path) -> tuple[bool, bool]:
    """Try out whether ``directory`` takes names of other case, and of other composition, as one."""
    with tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, suffix="-\u00e9", dir=directory) as probe:
        path = Path(probe)
        other_case = path.with_name(path.name.upper())
        other_form = path.with_name(unicodedata.normalize("NFD", path.name))
        return os.path.lexists(other_case), os.path.lexists(other_form)


def check_names(files: Iterable[str], directories: Iterable[str], *, near: Path) -> None:
    """Refuse names that must not, or cannot, be written.

    Args:
        files: Names that become files.
        directories: Names that become directories.
        near: An existing directory on the file system that is written to. It is tried out, and only if two
            names differ by no more than case or composition.

    Raises:
        ColonyMemoryError: It names the document; nothing was written.
    """
    files, directories = list(files), list(directories)
    for name in [*files, *directories]:
        problem = name_problem(name) or _local_problem(name)
        if problem:
            raise ColonyMemoryError(f"document {name!r} {problem}; nothing was written")
    clash = find_clash(files, directories, key=str)
    if clash:
        raise ColonyMemoryError(
            f"document {clash[0]!r} is a file, and {clash[1]!r} needs a directory there; nothing was written"
        )
    if not find_clash(files, directories, key=_folded):
        return
    try:
        case, form = _joins_names(near)
    except OSError as error:
        raise ColonyMemoryError(f"{str(near)!r} cannot be written to ({error.strerror})") from error
    clash = find_clash(files, directories, key=_folded if case else _composed) if case or form else None
    if clash:
        raise ColonyMemoryError(
            f"documents {clash[0]!r} and {clash[1]!r} are one file on this file system; nothing was written"
        )
