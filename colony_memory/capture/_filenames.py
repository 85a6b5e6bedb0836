"""The rules for document names that may become files, and for links that may be made.

A name comes from a vault, or from the disk of another system, so it is checked before anything is written. A link is
made only if it stays in the folder, counting the other links that it would lead through or end at.
"""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from colony_memory._os.machine import config_directory, expanded, state_directory
from colony_memory._os.paths import local_bytes, real_path
from colony_memory._values import pattern
from colony_memory.exceptions import ColonyMemoryError, Hint

STAGING_PREFIX = ".colony-memory-restoring-"
LONGEST_COMPONENT = 255
LONGEST_NAME = 3000
"""Bytes of a path inside a folder that are saved: what systems take, less the folder's path and what a restore adds."""
_LONGEST_LINK = 4095
_STAGED_LONGER = 80  # bytes by which the path of a staged file, or of a copy, is longer
_DEEPEST = 100  # levels of directories: all of them are open while the innermost is written to
_WINDOWS = os.name == "nt"
_COUNTS_CHARACTERS = sys.platform in ("darwin", "win32")  # other systems count the bytes of a component
_NOTES = (".md", ".markdown", ".txt", ".rst", ".org", ".jsonl")
_DRIVE = pattern(r"[A-Za-z]:")
_WINDOWS_UNFIT = pattern(
    r'[<>:"|?*\x00-\x1f]|[ .]$|^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3]) *(\.|$)'
)
# Unicode's Default_Ignorable_Code_Point: file systems of Linux and macOS ignore these in names.
_IGNORABLE = pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Short names that NTFS and FAT give to `.git`: numbered for the first few, later with a hash before the number.
_SHORT = pattern(r"gi(t|[0-9a-f]{4})~[0-9]+")
_DOTLESS = str.maketrans("\u0130\u0131", "ii")


def listed(texts: Sequence[str], *, most: int, joint: str = ", ") -> str:
    """Join texts as in ``a, b and 3 more``, or with ``"; "`` as in ``a; b; and 3 more``."""
    more = len(texts) - most
    return joint.join(texts[:most]) + (f"{joint.rstrip(', ')} and {more} more" if more > 0 else "")


def quoted(names: Sequence[str], *, most: int = 5) -> str:
    """Join names in quotes, as :func:`listed`."""
    return listed([repr(name) for name in names], most=most)


def link_problem(name: str, target: str, *, target_of: Callable[[str], str | None], exists: bool = False) -> str | None:
    """Say why a link must not be made, or return None.

    ``target_of`` gives the target of a link, of the snapshot or on disk; empty if only the system knows it, None if
    there is no link of that name. A link that ``exists`` already may end at any other link.
    """
    seen, problem, at = {name}, *_follow(name, target, target_of)
    while not exists and problem is None and at not in seen and (onward := target_of(at) if at else None):
        # It ends at another link, which may lead out of the folder.
        seen.add(at)
        problem, at = _follow(at, onward, target_of)
        problem = problem and f"is a link to {target!r}, which is a link that leads on out of the folder"
    return problem


def _follow(name: str, target: str, target_of: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Why a link alone, one that it ends at aside, must not be made, or None; and the path that it leads to."""
    try:
        fits = 0 < len(local_bytes(target)) <= _LONGEST_LINK and "\0" not in target
    except UnicodeEncodeError:  # a text may have surrogates that stand for no byte
        fits = False
    if not fits:
        return "is a link that says nothing usable", ""
    if target.startswith("/") or "\\" in target or ":" in target.partition("/")[0]:
        return f"is a link to {target!r}, which is not a path from its own place on", ""
    at = name.split("/")[:-1]
    parts = [part for part in target.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts):
        if part != "..":
            at.append(part)
        elif not at:
            return f"is a link to {target!r}, out of the folder", ""
        else:
            at.pop()
        # Only the system can resolve a link in the middle of a path, and '..' after it.
        if number < len(parts) - 1 and at and target_of("/".join(at)) is not None:
            return f"is a link to {target!r}, which leads through another link", ""
    return None, "/".join(at)


def is_note(name: str) -> bool:
    """True if a file, by its name, is text of a person and no part of a program's store, wherever it lies."""
    return name.lower().endswith(_NOTES)


def name_problem(name: str) -> str | None:
    """Say why no system takes ``name`` as a path inside a folder, or return None."""
    if "\0" in name:
        return "has a NUL in its name"
    if "\\" in name:
        return "has a backslash in its name, which is a separator on Windows"
    if _DRIVE.match(name):
        return "has a name that starts with a drive"
    for component in name.split("/"):
        if component in ("", ".", ".."):
            return f"has the path component {component!r} in its name"
        if is_dotgit(component):
            return f"has the path component {component!r} in its name, in which git looks for programs to run"
    return None


def depth_problem(name: str) -> str | None:
    """Say why ``name`` is too deep for a restore to any place, or return None."""
    return f"has more than {_DEEPEST} directories above it" if name.count("/") > _DEEPEST else None


def is_staging(component: str) -> bool:
    """True if a name is reserved for a restore's staging directory, whatever its case."""
    return component.casefold().startswith(STAGING_PREFIX)


def _local_problem(name: str, *, room: int) -> str | None:
    """Say why this system cannot hold ``name``, which may have ``room`` bytes, or return None."""
    for component in name.split("/"):
        if is_staging(component):
            return f"has the path component {component!r}, which is for a restore's own use"
        try:
            encoded = local_bytes(component)
        except UnicodeEncodeError:
            return "has a name that this system cannot encode"
        if len(component if _COUNTS_CHARACTERS else encoded) > LONGEST_COMPONENT:
            return f"has a path component longer than {LONGEST_COMPONENT}, which file systems do not hold"
        if _WINDOWS and _WINDOWS_UNFIT.search(component):
            return f"has the path component {component!r}, which Windows does not allow"
    longer = len(local_bytes(name)) - room
    return f"has a path that is {longer} bytes too long for this system" if longer > 0 else None


def parents_of(name: str) -> Iterator[str]:
    """Yield the directories above ``name``, outermost first."""
    position = name.find("/")
    while position != -1:
        yield name[:position]
        position = name.find("/", position + 1)


def _clashes(files: Sequence[str], directories: Sequence[str], *, key: Callable[[str], str]) -> list[tuple[str, str]]:
    """Pairs of files, or of a file and a directory, that clash if names of equal ``key`` are the same."""
    taken: dict[str, str] = {}
    for name in files:
        taken.setdefault(key(name), name)
    clashes = [(taken[key(name)], name) for name in files if taken[key(name)] != name]
    needed = [(parent, name) for name in [*taken.values(), *directories] for parent in parents_of(name)]
    needed += [(name, name) for name in directories]
    return clashes + [(taken[key(directory)], name) for directory, name in needed if key(directory) in taken]


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return _composed(_composed(name).casefold())


def _joins_names(directory: Path, *, dry_run: bool) -> tuple[bool, bool]:
    """True for a file system that ignores the case of names, and true for one that ignores their composition."""
    import tempfile

    # Tested by an entry of the directory, else by a temporary one, or in a dry run by the directory's own name.
    with contextlib.ExitStack() as stack:
        path = next((path for path in directory.iterdir() if path.name.swapcase() != path.name), directory)
        if path == directory and not dry_run:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=STAGING_PREFIX, dir=directory)))
        other = path.with_name(path.name.swapcase())
        if other.name == path.name:
            return _COUNTS_CHARACTERS, sys.platform == "darwin"
        case = os.path.lexists(other) and os.path.samestat(other.lstat(), path.lstat())
        return case, case or sys.platform == "darwin"


def check_names(files: Sequence[str], directories: Sequence[str], *, near: Path, target: Path, dry_run: bool) -> None:
    """Refuse names that must not or cannot be written; ``near`` is the closest existing directory to the target."""
    room = _room(near, target)
    problems = [
        f"{name!r} {problem}"
        for name in [*files, *directories]
        if (problem := name_problem(name) or depth_problem(name) or _local_problem(name, room=room))
    ]
    problems += [
        f"{file!r} is a file, and {second!r} needs a directory there"
        for file, second in _clashes(files, directories, key=str)
    ]
    # If names are refused as they are, the file system need not be asked.
    if not problems and _clashes(files, directories, key=_folded):
        try:
            case, form = _joins_names(near, dry_run=dry_run)
        except OSError as error:
            raise ColonyMemoryError(f"{str(near)!r} cannot be looked at, or written to ({error.strerror})") from error
        key = _folded if case else _composed if form else str
        problems += [
            f"{first!r} and {second!r} are one file on this file system"
            for first, second in _clashes(files, directories, key=key)
        ]
    if problems:
        problem = f"{'document' if len(problems) == 1 else 'documents'} {listed(problems, most=10, joint='; ')}"
        why = "nothing was written; choose the others to restore them without"
        raise ColonyMemoryError(f"{problem}; {why}", hint=Hint("restore", "names"))


def _room(near: Path, target: Path) -> int:
    """The bytes that a name may have in ``target`` for the system to accept its path, staged and in place."""
    try:
        return os.pathconf(near, "PC_PATH_MAX") - 1 - len(os.fsencode(target)) - _STAGED_LONGER
    except (AttributeError, OSError, ValueError):  # the system has no such figure
        return sys.maxsize


def fold(name: str) -> str:
    """The common form of all spellings that some file system takes for the same name."""
    plain = _IGNORABLE.sub("", name).translate(_DOTLESS)
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).casefold())
    return _IGNORABLE.sub("", plain)


def is_dotgit(component: str) -> bool:
    """True if some file system takes the name for ``.git``: by git's own ``is_ntfs_dotgit`` and ``is_hfs_dotgit``, and
    more, as ext4 with folded case ignores more characters, and ZFS may take compatible ones for one another.
    """
    if component.isascii() and not component.lower().startswith((".git", "gi")):
        return False
    # Windows removes the name of a stream, then trailing blanks and dots.
    plain = fold(component).partition(":")[0].rstrip(" .")
    return plain == ".git" or _SHORT.fullmatch(plain) is not None


# --- state and configuration of this user


def problem_with_state(files: Iterable[str], directories: Iterable[str], target: Path) -> str | None:
    """Say which document would be written where state or configuration is kept, or None; ``target`` is a real path."""
    # Programs trust what lies there: no snapshot may write it.
    for path, content in _reserved_paths():
        if target != path and target not in path.parents:
            if path in target.parents:
                return f"names must not be written in {str(path)!r}, where {content} is kept"
            continue
        reserved = _folded_parts(path.relative_to(target).parts)
        for name in [*files, *(f"{name}/" for name in directories)]:
            parts = _folded_parts(name.split("/"))
            # A link of the snapshot on the way there could lead to state of its own.
            if parts[: len(reserved)] == reserved or reserved[: len(parts)] == parts:
                return f"{name!r} is where {content} is kept"
    return None


def place_of_state(target: Path) -> set[str]:
    """The paths in a folder of the state and configuration that is kept inside it."""
    return {path.relative_to(target).as_posix() for path, _ in _reserved_paths() if target in path.parents}


def _reserved_paths() -> list[tuple[Path, str]]:
    """Paths of state and configuration, each with its description; a user without a home has none."""
    config, custom = "the configuration of this program", os.environ.get("COLONY_MEMORY_CONFIG", "").strip()
    places: list[tuple[Callable[[], Path], str]] = [
        (state_directory, "the state of restores"),
        (lambda: config_directory() / "config.toml", config),
    ]
    if custom:
        places.append((lambda: Path(os.path.abspath(expanded(custom))), config))  # noqa: PTH100 - links stay
    found: list[tuple[Path, str]] = []
    for locate, content in places:
        with contextlib.suppress(OSError):
            path = locate()
            # With links resolved up to each depth: whoever replaces one of them by a directory moves the place.
            found += [(Path(real_path(above), path.relative_to(above)), content) for above in (path, *path.parents)]
    return found


def _folded_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """The components in a form that is common to all spellings that a file system may take for the same."""
    return tuple(fold(part).rstrip(" .") for part in parts)


LOG, JOURNAL, INDEX = "-wal", "-journal", "-shm"
COMPANIONS = (JOURNAL, INDEX, LOG)


def stem_of(name: str) -> str:
    """The database to which a file belongs by its suffix; else the file itself."""
    return next((name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)), name)
