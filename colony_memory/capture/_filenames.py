"""Which document names may become files, and which links may be made.

A name comes out of a vault, or off a disk of another system, so it is judged before anything is written. A link is made
where it stays in the folder, whatever other links lead through, or go on.
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
_STAGED_LONGER = 80  # by which a path is longer while its file waits, and as a copy
_DEEPEST = 100  # directories that are open at once while the innermost is written to
_WINDOWS = os.name == "nt"
_COUNTS_CHARACTERS = sys.platform in ("darwin", "win32")  # other systems count the bytes of a component
_NOTES = (".md", ".markdown", ".txt", ".rst", ".org", ".jsonl")
_DRIVE = pattern(r"[A-Za-z]:")
_WINDOWS_UNFIT = pattern(
    r'[<>:"|?*\x00-\x1f]|[ .]$|^(?i:con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3]) *(\.|$)'
)
# Default_Ignorable_Code_Point of Unicode, by which Linux and macOS tell no two names apart.
_IGNORABLE = pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# The short names that NTFS and FAT give: the first takers get a number, later ones a hash before it.
_SHORT = pattern(r"gi(t|[0-9a-f]{4})~[0-9]+")
_DOTLESS = str.maketrans("\u0130\u0131", "ii")


def listed(texts: Sequence[str], *, most: int, joint: str = ", ") -> str:
    """As ``a, b and 3 more``, or with ``"; "`` between them as ``a; b; and 3 more``."""
    more = len(texts) - most
    return joint.join(texts[:most]) + (f"{joint.rstrip(', ')} and {more} more" if more > 0 else "")


def quoted(names: Sequence[str], *, most: int = 5) -> str:
    """The same of names, in quotes."""
    return listed([repr(name) for name in names], most=most)


def link_problem(name: str, target: str, *, said_by: Callable[[str], str | None], is_there: bool = False) -> str | None:
    """Say why a link must not be made, or return None.

    ``said_by`` gives what a link of a name says, of the snapshot or there now, empty where only the system knows; None
    where there is no link. What one that is there already ends at is not for a restore to judge.
    """
    seen, problem, at = {name}, *_follow(name, target, said_by)
    while not is_there and problem is None and at not in seen and (says := said_by(at) if at else None):
        # It ends at another link, which may lead out.
        seen.add(at)
        problem, at = _follow(at, says, said_by)
        problem = problem and f"is a link to {target!r}, which is a link that leads on out of the folder"
    return problem


def _follow(name: str, target: str, said_by: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Why a link must not be made by itself, or None; and where it leads."""
    try:
        fits = 0 < len(local_bytes(target)) <= _LONGEST_LINK and "\0" not in target
    except UnicodeEncodeError:  # a text may have surrogates that stand for no byte of a name
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
        # What a link in the middle of a path leads to, and what '..' means from there, only the system knows.
        if number < len(parts) - 1 and at and said_by("/".join(at)) is not None:
            return f"is a link to {target!r}, which leads through another link", ""
    return None, "/".join(at)


def is_note(name: str) -> bool:
    """By its name a file belongs to nobody's store, wherever it lies."""
    return name.lower().endswith(_NOTES)


def name_problem(name: str) -> str | None:
    """Say why ``name`` can be a path inside a folder on no system, or return None."""
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
    """Say why no restore would write ``name``, wherever it is, or return None."""
    return f"has more than {_DEEPEST} directories above it" if name.count("/") > _DEEPEST else None


def is_staging(component: str) -> bool:
    """It is for a restore's own use, in any spelling of case."""
    return component.casefold().startswith(STAGING_PREFIX)


def _local_problem(name: str, *, room: int) -> str | None:
    """Say why this system cannot hold ``name``, or return None. ``room`` is how many bytes it may have."""
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
    if longer > 0:
        return f"has a path that is {longer} bytes too long for this system"
    return None


def parents_of(name: str) -> Iterator[str]:
    """Yield the directories above ``name``, outermost first."""
    position = name.find("/")
    while position != -1:
        yield name[:position]
        position = name.find("/", position + 1)


def _clashes(files: Sequence[str], directories: Sequence[str], *, key: Callable[[str], str]) -> list[tuple[str, str]]:
    """Two files, or a file and a directory, that cannot stand side by side where names of equal ``key`` are one."""
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
    """A directory takes names of other case, and of other composition, as one."""
    import tempfile

    # By what is in it, else by a directory that is made in it and taken away, or in a dry run by its own name.
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
    """Refuse names that must not, or cannot, be written. The directory ``near`` the target is there already."""
    room = _room(near, target)
    problems = [
        f"{name!r} {problem}"
        for name in [*files, *directories]
        if (problem := name_problem(name) or depth_problem(name) or _local_problem(name, room=room))
    ]
    problems += [
        f"{file!r} is a file, and {other!r} needs a directory there"
        for file, other in _clashes(files, directories, key=str)
    ]
    # Where names are refused as they are, a look at the file system has nothing to add.
    if not problems and _clashes(files, directories, key=_folded):
        try:
            case, form = _joins_names(near, dry_run=dry_run)
        except OSError as error:
            raise ColonyMemoryError(f"{str(near)!r} cannot be looked at, or written to ({error.strerror})") from error
        key = _folded if case else _composed if form else str
        problems += [
            f"{one!r} and {other!r} are one file on this file system"
            for one, other in _clashes(files, directories, key=key)
        ]
    if problems:
        problem = f"{'document' if len(problems) == 1 else 'documents'} {listed(problems, most=10, joint='; ')}"
        why = "nothing was written; choose the others to restore them without"
        raise ColonyMemoryError(f"{problem}; {why}", hint=Hint("restore", "names"))


def _room(near: Path, target: Path) -> int:
    """How many bytes a name may have in ``target``, so that the system takes its path, staged and in place."""
    try:
        return os.pathconf(near, "PC_PATH_MAX") - 1 - len(os.fsencode(target)) - _STAGED_LONGER
    except (AttributeError, OSError, ValueError):  # the system does not tell
        return sys.maxsize


def fold(name: str) -> str:
    """The same for all spellings that some file system takes for one name."""
    plain = _IGNORABLE.sub("", name).translate(_DOTLESS)
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", plain).casefold())
    return _IGNORABLE.sub("", plain)


def is_dotgit(component: str) -> bool:
    """It is ``.git`` to some file system: the rules of git's own ``is_ntfs_dotgit`` and ``is_hfs_dotgit``, made wider
    as ext4 with folded case passes over more characters, and ZFS may take compatible ones for one another.
    """
    if component.isascii() and not component.lower().startswith((".git", "gi")):
        return False
    # Windows cuts off the name of a stream, then blanks and dots at the end.
    plain = fold(component).partition(":")[0].rstrip(" .")
    return plain == ".git" or _SHORT.fullmatch(plain) is not None


# --- where this user's programs keep what they believe


def problem_with_state(files: Iterable[str], directories: Iterable[str], target: Path) -> str | None:
    """Say which document would come to lie where state or configuration is kept, or return None; ``target`` is real."""
    # What lies there is believed from then on: no snapshot may put it there.
    for kept, what in _kept():
        if target != kept and target not in kept.parents:
            if kept in target.parents:
                return f"names must not be written in {str(kept)!r}, where {what} is kept"
            continue
        reserved = _folded_parts(kept.relative_to(target).parts)
        for name in [*files, *(f"{name}/" for name in directories)]:
            parts = _folded_parts(name.split("/"))
            # A link on the way there would lead to state of the snapshot's own.
            if parts[: len(reserved)] == reserved or reserved[: len(parts)] == parts:
                return f"{name!r} is where {what} is kept"
    return None


def place_of_state(target: Path) -> set[str]:
    """The names in a folder under which state or configuration is kept, as far as it is kept in there."""
    return {kept.relative_to(target).as_posix() for kept, _ in _kept() if target in kept.parents}


def _kept() -> list[tuple[Path, str]]:
    """Paths of what is believed, and what each is; a user without a home has none."""
    config, named = "the configuration of this program", os.environ.get("COLONY_MEMORY_CONFIG", "").strip()
    places: list[tuple[Callable[[], Path], str]] = [
        (state_directory, "the state of restores"),
        (lambda: config_directory() / "config.toml", config),
    ]
    if named:
        places.append((lambda: Path(os.path.abspath(expanded(named))), config))  # noqa: PTH100 - links stay
    found: list[tuple[Path, str]] = []
    for locate, what in places:
        with contextlib.suppress(OSError):
            path = locate()
            # What is on its way resolved to each depth: whoever makes anew what is a link there has it moved.
            found += [(Path(real_path(above), path.relative_to(above)), what) for above in (path, *path.parents)]
    return found


def _folded_parts(parts: Iterable[str]) -> tuple[str, ...]:
    """The same for all spellings that a file system may take for one."""
    return tuple(fold(component).rstrip(" .") for component in parts)


LOG, JOURNAL, INDEX = "-wal", "-journal", "-shm"
COMPANIONS = (JOURNAL, INDEX, LOG)


def whole_of(name: str) -> str:
    """The database that a file would be a part of by its name; else the file itself."""
    return next((name.removesuffix(suffix) for suffix in COMPANIONS if name.endswith(suffix)), name)
