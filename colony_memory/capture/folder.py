"""The reading of a folder into documents, from which it can be restored byte for byte.

UTF-8 files become documents of their own. Everything else (other bytes, empty directories, links, executable bits) is
in one more document, ``.colony-memory/folder.json``. Reading changes nothing on disk, except that it first rolls back
an interrupted restore, by its journal in the user's state directory.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from colony_memory._boundary import Passing, require_call, require_named, require_type, several
from colony_memory._format import MAX_BYTES
from colony_memory._os.open_files import settling
from colony_memory._os.paths import decode_name, real_path
from colony_memory._values import Value, field
from colony_memory.capture._filenames import name_problem, quoted
from colony_memory.capture._ignore import Following, IgnoreRules, read_excluded
from colony_memory.capture._journal import list_records
from colony_memory.capture._metadata import Contents, contents_of, split_documents
from colony_memory.capture._reading import Found
from colony_memory.capture._secret_rules import RULES
from colony_memory.capture._steady import Sparse, reason_of
from colony_memory.capture._survey import Survey
from colony_memory.capture._tree import Known, LeftOut, Note, Room, Tree
from colony_memory.capture._walk import NOT_FOLLOWED, NamedFile, Walk
from colony_memory.capture.secrets import SecretFinding, masked_names, read_allowed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from colony_memory.capture.index import FolderIndex

    SecretsChoice = Literal["stop", "warn", "mask", "allow"]

__all__ = ["Capture", "LeftOut", "Note", "read_by_index", "read_folder", "read_paths"]

_CHOICES = ("stop", "warn", "mask", "allow")


class Capture(Value):
    """The documents of a folder, with notes and findings about them."""

    documents: dict[str, str]  #: Name to text; write_folder() turns it into the same files again.
    #: Names on disk that ``documents`` should have and lack, with the reasons. Empty if all was saved.
    left_out: tuple[LeftOut, ...]
    #: Names that ``exclude`` or ``.cmemignore`` files exclude, sorted; one that ends with a slash is a whole directory.
    ignored: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()  #: Remarks, by name, for example on a git repository, which is not saved.
    #: Likely secrets, by name and line; with ``secrets="mask"`` they are masked in ``documents``.
    secrets: tuple[SecretFinding, ...] = ()
    allowed: tuple[SecretFinding, ...] = ()  #: Those that were allowed by name, and are saved as they are.
    #: For a folder with an index, the survey by it: ``documents`` is empty, and :meth:`read` gives them.
    survey: Survey | None = field(default=None, repr=False, compare=False)

    @property
    def contents(self) -> Contents:
        """The names of everything in it, read or not."""
        return contents_of(self.documents) if self.survey is None else self.survey.contents

    @property
    def size(self) -> int:
        """Bytes of all files in it, read or not."""
        if self.survey is not None:
            return self.survey.size
        files = split_documents(self.documents)[0].values()
        texts = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in files]
        return sum(text.size if isinstance(text, Sparse) else len(text) for text in texts)

    @property
    def masked(self) -> tuple[str, ...]:
        """The files in which secrets were masked, sorted."""
        return masked_names(self.documents) if self.survey is None else self.survey.masked

    def read(self) -> Capture:
        """The same capture with all documents, and with any changes made meanwhile.

        Raises:
            SecretsFound: There are likely secrets in changed files.
        """
        return self if self.survey is None or self.documents else _captured(self.survey)


def read_folder(
    path: str | os.PathLike[str],
    *,
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    max_bytes: int = MAX_BYTES,
    attributes: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Capture:
    """Read every file under a directory as all of it was at one moment: files that change meanwhile are read again.

    Names are relative to the directory and use ``/``. The directory itself may be a symbolic link; links in it are
    saved as links if they lead to something in it. A file that only grows is saved up to its last whole line; one that
    is never quiet is left out together with the rest of its store. SQLite databases are saved with all committed
    transactions, even while programs have them open. ``.cmemignore`` files exclude by the rules of gitignore.

    Args:
        path: The directory.
        exclude: Further rules of gitignore, as in a file at the top of all that is saved. They take precedence over
            those of the files, which can neither bring back what these exclude nor exclude what ``!`` brings back here.
        secrets: The treatment of likely secrets: ``"stop"`` raises, ``"warn"`` gives a ColonyMemoryWarning, ``"mask"``
            replaces them, ``"allow"`` does not look for any.
        allow_secrets: Findings to save as they are, by their ``id``; an id without the part after its last colon allows
            all of that kind in that file, now and later.
        max_bytes: Bytes that a snapshot may hold. If there are more, the largest files are left out.
        attributes: Record permission bits and times of change too. Then documents differ even if only a time does;
            differ_in_times_only() tells.
        dry_run: Change nothing on disk: for an interrupted restore, give a ColonyMemoryWarning, and read its remains as
            they are.
        on_progress: Called with the number of files and of bytes read so far and the name of the last file, some ten
            times a second and at the end. An exception that it raises ends the reading.

    Raises:
        ValueError: ``path`` is missing, not a directory or not readable, nothing in it can be saved, or an argument
            cannot be read.
        SecretsFound: There are likely secrets that must stop the reading or that cannot be masked.
        ColonyMemoryError: The rules of a ``.cmemignore`` cannot be applied, nothing in the directory is ever quiet, or
            the system does not answer.
    """
    choices = dict(locals())
    require_named(choices.pop("path"))
    return read_by_index(path, **choices)


def read_paths(
    paths: Iterable[str | os.PathLike[str]],
    *,
    exclude: str | Iterable[str] = (),
    secrets: SecretsChoice = "warn",
    allow_secrets: str | Iterable[str] = (),
    max_bytes: int = MAX_BYTES,
    attributes: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
) -> Capture:
    """Read files and directories into one set of documents.

    A single directory gives its files under names relative to it, as read_folder() does; a single file gives its base
    name. Of several paths, each is saved under its base name, a directory's files under ``name/…``. If two names would
    be the same, as many parent directories as needed are added: ``a/notes`` and ``b/notes``. A path given twice counts
    once. All else is as for read_folder(); ``exclude`` is applied to the names under which files are saved.

    Raises:
        ValueError: A path is missing or not readable, or two cannot be told apart. All else is as for read_folder().
    """
    choices = dict(locals())
    del choices["paths"]
    given = [paths] if isinstance(paths, (str, os.PathLike)) else several("paths", paths)
    return read_by_index(given, **choices)


def read_by_index(
    paths: str | os.PathLike[str] | list[str | os.PathLike[str]],
    index: FolderIndex | None = None,
    *,
    exclude: str | Iterable[str] = (),
    secrets: str = "warn",
    allow_secrets: str | Iterable[str] = (),
    max_bytes: int = MAX_BYTES,
    attributes: bool = False,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], None] | None = None,
    follow: Following | None = None,
    anew: bool = False,
) -> Capture:
    """:func:`read_folder`, or :func:`read_paths` for a list, without documents if an index has the digest of each.

    With ``anew`` everything is read; ``follow`` selects the links that are followed.
    """
    sources = find_sources(paths) if isinstance(paths, list) else [require_directory(paths)]
    allowed, excluded = read_choices(secrets=secrets, allow_secrets=allow_secrets, exclude=exclude)
    require_call("on_progress", on_progress)
    require_type("max_bytes", max_bytes, int)
    end_unfinished(sources, dry_run=dry_run)
    began, fixed = time.time_ns(), Tree()
    found = Found(_walks(sources, excluded, follow, fixed), fixed, Room(max_bytes))

    def work() -> None:
        found.find()
        if index is not None and index.rows and not any(entry.name in index.rows for entry in found.tree.files):
            # A new beginning: the folder has no file of its basis any more.
            index.forget()
        rules = None if secrets == "allow" else RULES
        found.read(None if index is None or anew else Known(index.rows, rules))

    with settling():
        found.within_reach(work, on_progress)
    for name in found.tree.repositories:
        found.note(name, "git repository, not saved")
    found.report(on_progress)
    if not found:
        _refuse_nothing(sources, found)
    survey = Survey(found, secrets=secrets, allowed=allowed, attributes=attributes, index=index, began=began)
    return _captured(survey, reading=anew or not survey.digests)


def _captured(survey: Survey, *, reading: bool = True) -> Capture:
    if reading and survey.found.unread:
        survey.read_rest()
    tree = survey.found.tree
    return Capture(
        documents=survey.documents() if reading else {},
        left_out=tuple(sorted(tree.left_out, key=lambda entry: entry.name)),
        ignored=tuple(sorted(tree.ignored)),
        notes=tuple(sorted(survey.found.notes, key=lambda note: note.name)),
        secrets=survey.acted_on,
        allowed=tuple(finding for finding in survey.findings if finding not in survey.acted_on),
        survey=None if survey.index is None else survey,
    )


def end_unfinished(sources: Iterable[Source], *, dry_run: bool = False) -> None:
    """End an interrupted restore: without that, half of one memory and half of another would be saved.

    Call it before the index of the folder is opened: the end of a restore may be noted there.
    """
    if not list_records():
        return
    from colony_memory.capture._recover import recover, warn_unfinished

    for source in sources:
        if dry_run:
            warn_unfinished(real_path(source.path), stacklevel=4)
        else:
            recover(source.path, lenient=True)


def read_choices(
    *, secrets: str, allow_secrets: str | Iterable[str], exclude: str | Iterable[str]
) -> tuple[frozenset[str], IgnoreRules]:
    """The allowed secrets and the rules that exclude, from arguments as for :func:`read_folder`."""
    if secrets not in _CHOICES:
        raise ValueError(f"secrets must be one of {', '.join(map(repr, _CHOICES))}, not {secrets!r}")
    return read_allowed(allow_secrets), read_excluded(exclude)


class NothingToSave(ValueError):
    """Raised for a folder with nothing that a backup would save."""


def _refuse_nothing(sources: list[Source], found: Found) -> None:
    left_out, ignored, detail = sorted(found.tree.left_out, key=lambda entry: entry.name), found.tree.ignored, ""
    where = ", ".join(repr(str(source.path)) for source in sources) or "no path was given"
    if left_out and all(NOT_FOLLOWED in entry.reason for entry in left_out):
        links = quoted([entry.name for entry in left_out])
        detail = f": links are followed where they are given as paths themselves, as these could be: {links}"
    elif left_out:
        detail = f": {left_out[0].name!r} was left out ({left_out[0].reason})"
    elif ignored:
        detail = f": {ignored[0]!r} is excluded" + (", and more" if len(ignored) > 1 else "")
    if found.sets:
        raise Passing(f"{where}: nothing could be saved{detail}")
    raise NothingToSave(f"{where}: nothing to back up{detail}")


# --- the paths of a caller, and the names under which their files are saved


class Source(Value):
    """A path given by the caller."""

    path: Path  # as it was given
    is_directory: bool  # links followed
    prefix: str = ""  # the name of a file; the start of the names in a directory, without the slash


def find_sources(paths: Iterable[str | os.PathLike[str]]) -> list[Source]:
    """Look up the paths and give each a unique name; ValueError if that is impossible."""
    sources: dict[tuple[str, ...], Source] = {}
    for path in paths:
        source = _look_at(path)
        # Absolute, without resolving links: a link's own name is the one that the caller chose.
        parts = Path(os.path.abspath(source.path)).parts[1:]  # noqa: PTH100 - Path.absolute() keeps '..'
        sources.setdefault(parts, source)
    if len(sources) == 1:
        ((parts, source),) = sources.items()
        return [source if source.is_directory else Source(source.path, False, decode_name(parts[-1]))]
    names = _tell_apart(sources)
    return [Source(source.path, source.is_directory, names[parts]) for parts, source in sources.items()]


def require_directory(path: str | os.PathLike[str]) -> Source:
    """Look up a path that has to be a directory; ValueError if it is not one."""
    source = _look_at(path)
    if not source.is_directory:
        raise ValueError(f"{os.fspath(path)!r} is not a directory")
    return source


def _look_at(path: str | os.PathLike[str]) -> Source:
    require_named(path)
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError as error:
        raise ValueError(f"{os.fspath(path)!r}: no such file or directory") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(f"{os.fspath(path)!r} cannot be read: {reason_of(error)}") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise ValueError(f"{os.fspath(path)!r} is neither a file nor a directory")
    return Source(Path(path), stat.S_ISDIR(mode))


def _tell_apart(sources: dict[tuple[str, ...], Source]) -> dict[tuple[str, ...], str]:
    """Name each path by its shortest end that is neither that of another nor a directory above that of another."""
    length = dict.fromkeys(sources, 1)

    def end(parts: tuple[str, ...]) -> tuple[str, ...]:
        # Names that some file systems take for the same have to differ, too.
        return tuple(unicodedata.normalize("NFC", part).casefold() for part in parts[-length[parts] :])

    while True:
        ends = {parts: end(parts) for parts in sources}
        longer = {
            one for one in sources for other in sources if one != other and ends[other][: len(ends[one])] == ends[one]
        }
        if not longer:
            return {parts: "/".join(map(decode_name, parts[-length[parts] :])) for parts in sources}
        for parts in longer:
            if length[parts] >= len(parts):
                raise ValueError(
                    f"{str(sources[parts].path)!r} would share its name with another path: back it up separately"
                )
            length[parts] += 1


def _walks(sources: list[Source], rules: IgnoreRules, follow: Following | None, fixed: Tree) -> list[Walk | NamedFile]:
    """The walks that find the files of each source; excluded and unusable names go to ``fixed``."""
    walks: list[Walk | NamedFile] = []
    # A database comes before its companions.
    for source in sorted(sources, key=lambda source: str(source.path)):
        full_name = f"{source.prefix}{'/' if source.is_directory else ''}"
        if source.prefix and rules.covers(source.prefix, is_directory=source.is_directory):
            fixed.ignored.append(full_name)
        elif problem := source.prefix and name_problem(source.prefix):
            fixed.left_out.append(LeftOut(full_name, f"{problem}; rename it", unread=False))
        elif source.is_directory:
            walks.append(Walk(source.path, source.prefix and f"{source.prefix}/", rules, follow))
        else:
            walks.append(NamedFile(source.path, source.prefix))
    return walks
