"""Taking a text out of what was saved: what to replace, and which folders of this host still hold it."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory import _engine
from colony_memory._arguments import require_type
from colony_memory.app.place import identify_vault
from colony_memory.capture.index import kept_of
from colony_memory.client import ColonyMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


#: What stands in the place of a text that is taken out.
REMOVED = "***REMOVED***"
_ARROW = "==>"
_CHUNK = 1 << 20


def read_replacements(path: str) -> dict[str, str]:
    """The texts of a file of replacements, and what stands in their place: ``TEXT`` or ``TEXT==>OTHER`` in each line,
    as git-filter-repo has them.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be read: {error}") from error
    found = dict[str, str]()
    for number, line in enumerate(text.splitlines(), 1):
        old, arrow, new = line.partition(_ARROW)
        old = old.removeprefix("literal:")
        if old.startswith(("regex:", "glob:")):
            raise ValueError(f"{path!r}, line {number}: only texts can be replaced, no patterns")
        if old:
            found[old] = new if arrow else REMOVED
        elif line:
            raise ValueError(f"{path!r}, line {number}: there is no text to replace")
    if not found:
        raise ValueError(f"{path!r} has no text to replace")
    return found


def folders_with(
    memory: ColonyMemory, labels: Iterable[str], *, exclude: Iterable[str] = (), replace: Mapping[str, str]
) -> list[Path]:
    """Files in the folders of this host, as their indexes name them, that still hold what was taken out of a label."""
    require_type("memory", memory, ColonyMemory)
    globs, texts, wanted = tuple(exclude), [old.encode("utf-8") for old in replace], {*labels}
    found = {
        file
        for label, paths, _ in kept_of(identify_vault(memory))
        if label in wanted
        for path in map(Path, paths)
        for file in _files(path)
        if _is_excluded(file, path, globs) or _holds(file, texts)
    }
    return sorted(found)


def stays(memory: ColonyMemory, label: str, snapshot_ids: Iterable[str]) -> tuple[str, ...]:
    """Of snapshots that were deleted, those whose text stays in packs that other snapshots need."""
    return memory._run(_engine.rewrite.stays, label=label, snapshot_ids=tuple(snapshot_ids))  # noqa: SLF001


def _files(path: Path) -> Iterator[Path]:
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if each.is_file() and not each.is_symlink():
            yield each


def _is_excluded(file: Path, folder: Path, globs: Iterable[str]) -> bool:
    name = file.name if file == folder else file.relative_to(folder).as_posix()
    return any(fnmatchcase(name, glob) for glob in globs)


def _holds(file: Path, texts: list[bytes]) -> bool:
    """Whether a file holds one of the texts; one that cannot be read is not told of."""
    if not texts:
        return False
    kept, longest = b"", max(map(len, texts))
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                kept = kept[-longest:] + chunk
                if any(text in kept for text in texts):
                    return True
    except OSError:
        return False
    return False
