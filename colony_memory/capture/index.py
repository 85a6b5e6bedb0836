"""The index of a folder: its basis, and a row for each of its files as last read.

It is one file in the user's state directory for each vault, label and set of paths, a second one for the rows, and a
lock that is held during a backup or restore. It saves work, and never decides about content.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._engine.basis import Basis, lost
from colony_memory._os.files import Files, locked_in
from colony_memory._values import asdict, getLogger, names_of
from colony_memory.capture._identity import FolderIdentity, holder, note_where, opened, place_of, sign
from colony_memory.capture._tree import Row
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


__all__ = ["FolderIndex", "Row", "disprove", "end_others", "kept_of", "open_index", "peek_index"]

logger = getLogger(__name__)

_FORMAT, _ROWS = "colony-memory/index/1", "colony-memory/index-rows/1"
_LARGEST, _LARGEST_ROWS = 1 << 24, 1 << 28  # bytes: a hundred or two for each file of a folder
_NAME = re.compile(r"[0-9a-f]{32}\.json")
_ROW = [int, int, int, int, int, str, str, bool, bool, str]  # the kinds of its fields
_MALFORMED = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError)


class FolderIndex:
    """The index of some folders and files for one vault and label, locked while it is open."""

    def __init__(self, *, problem: str | None = None, read_only: bool = False) -> None:
        self.rows: Mapping[str, Row] = {}  # the files as last read, by name
        self.described = ""  # digest of the document about the folder, without its files; or empty
        self.attributes = ""  # document of permissions and times as last saved or restored; empty if unknown
        self.options: dict[str, Any] = {}  # of the last save, for JSON
        self.proven: tuple[str, str] | None = None  # snapshot id and ISO time of the last proof of stored bytes
        self.problem = problem  # why it is not kept on disk
        self._read_only = read_only  # read-only: the holder of the lock may be about to write
        self._basis = Basis()
        self._directory: Files | None = None
        self._name = ""
        self._header: dict[str, Any] = {"folders": []}
        self._owner: int | None = None

    def read(self) -> Basis:
        """The basis of the folder; an empty one if unknown."""
        return self._basis

    def write(self, basis: Basis) -> None:
        """Store the basis, on disk before this returns; if that fails, an outdated one is removed."""
        is_another = basis.snapshot_id != self._basis.snapshot_id
        self._basis = basis
        if not self._save() and is_another and self._directory is not None:
            # A full disk takes no file but removes one: without a basis, no save is refused over this host's own last.
            with contextlib.suppress(OSError):
                self._directory.clear(self._name)

    def is_of(self, paths: Iterable[str | os.PathLike[str]]) -> bool:
        """True if it is the index of the folders and files at these paths now."""
        try:
            now = sorted(map(FolderIdentity.of, paths), key=lambda identity: identity.path)
        except OSError:
            return False
        known = _folders(self._header)
        return len(now) == len(known) and all(map(FolderIdentity.is_same_as, known, now))

    def reload(self) -> None:
        """Read it again from disk: an interrupted restore may have been finished since."""
        if self._directory is not None:
            self._basis = Basis()
            self._open(self._directory, self._name, self._header, self._owner)

    def note_of(self, basis: Basis) -> dict[str, Any] | None:
        """A note, for JSON, from which :func:`finish_note` writes that basis here; None if nothing is kept on disk."""
        if self._directory is None:
            return None
        return {"name": self._name, "header": self._header, "owner": self._owner, "basis": _dump_basis(basis)}

    def forget(self) -> None:
        """Drop the basis: the folder is another one, or has other content."""
        self.write(lost(self._basis))

    def update(
        self,
        *,
        rows: Mapping[str, Row] | None = None,
        described: str = "",
        attributes: str | None = None,
        options: Mapping[str, Any] | None = None,
        proven: tuple[str, str] | None = None,
    ) -> None:
        """Store the given values."""
        before = self.rows, self.described, self.attributes
        if rows is not None:
            self.rows, self.described = dict(rows), described
        self.attributes = self.attributes if attributes is None else attributes
        if before != (self.rows, self.described, self.attributes):
            every = {name: [getattr(row, key) for key in names_of(Row)] for name, row in self.rows.items()}
            facts = {"described": self.described, "attributes": self.attributes, "rows": every}
            self._replace(_companion(self._name, "rows"), {"format": _ROWS, **self._header, **facts})
        known = self.options, self.proven
        self.options = self.options if options is None else dict(options)
        self.proven = proven or self.proven
        if known != (self.options, self.proven):
            self._save()

    def disprove(self) -> None:
        """Forget that the stored bytes were proven."""
        if self.proven is not None:
            self.proven = None
            self._save()

    # --- on disk

    def _open(self, directory: Files, name: str, header: dict[str, Any], owner: int | None) -> None:
        """Read the files on disk, as far as they are of this folder."""
        self._directory, self._name, self._header, self._owner = directory, name, header, owner
        try:
            known = _load(directory, name, _LARGEST, _FORMAT, header)
            if known is None:
                return
            basis, options = _load_basis(known["basis"]), known["options"]
            if not isinstance(options, dict):
                raise TypeError("malformed")
            snapshot_id, time = map(_text, known["proven"] or ("", ""))
            self.proven = (snapshot_id, time) if snapshot_id else None
            self._basis, self.options = basis, options
            if directory.look(_companion(name, "ended")) is not None:
                self._basis = lost(basis)
                if not self._read_only:
                    self._save()
                    directory.clear(_companion(name, "ended"))
            found = _load(directory, _companion(name, "rows"), _LARGEST_ROWS, _ROWS, header)
            if found is not None:
                self.described, self.attributes = map(_text, (found["described"], found["attributes"]))
                if any(list(map(type, row)) != _ROW for row in found["rows"].values()):
                    raise ValueError("a malformed row")
                self.rows = {path: Row(*row) for path, row in found["rows"].items()}
        except _MALFORMED as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)

    def _save(self) -> bool:
        if self._directory is None:
            return True
        folders = _folders(self._header)
        if any(folder.device is None for folder in folders):  # it may exist by now
            with contextlib.suppress(OSError):
                self._header = {**self._header, "folders": [asdict(FolderIdentity.of(f.path)) for f in folders]}
        known = {"options": self.options, "proven": self.proven}
        basis = _dump_basis(self._basis)
        return self._replace(self._name, {"format": _FORMAT, **self._header, "basis": basis, **known})

    def _replace(self, name: str, document: dict[str, Any]) -> bool:
        if self._directory is None:
            return True
        try:
            data = json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n"
            self._directory.replace(name, data, temp=f"{name}.draft")
        except OSError as error:
            self.problem = f"{self._directory.path}: {error.strerror or error}"
            logger.warning("the index of a folder could not be kept: %s", self.problem)
            return False
        return True


@contextlib.contextmanager
def open_index(
    paths: Iterable[str | os.PathLike[str]],
    *,
    vault: str | None,
    label: str,
    patience: float = 30.0,
    unattended: bool = False,
) -> Iterator[FolderIndex]:
    """The index of all folders and files that are saved or restored, locked for the length of a ``with``.

    If it cannot be kept, or the vault (None) does not outlive the process, it ends with the block. ColonyMemoryError if
    another process has it for ``patience`` seconds or, when ``unattended``, if a path was replaced by a link.
    """
    with contextlib.ExitStack() as stack:
        found = place_of(paths, vault, label)
        if isinstance(found, str):
            yield FolderIndex(problem=found)
            return
        index = FolderIndex()
        try:
            directory = stack.enter_context(opened(found.owner, making=True))
            descriptor = stack.enter_context(locked_in(directory, f"{found.name}.lock", patience=patience))
            sign(descriptor)
        except TimeoutError as error:
            title = ", ".join(map(repr, sorted(set(found.leads_to.values()))))
            raise ColonyMemoryError(
                f"{title} is being saved or restored by {holder(directory, found.name)}: waited {patience:.0f} s"
            ) from error
        except OSError as error:
            yield FolderIndex(problem=f"{error.filename or 'the state directory'}: {error.strerror or error}")
            return
        note_where(directory, found, unattended=unattended)
        index._open(directory, found.name, found.header, found.owner)  # noqa: SLF001 - made for this
        try:
            yield index
        finally:
            index._directory = None  # noqa: SLF001


def peek_index(paths: Iterable[str | os.PathLike[str]], *, vault: str | None, label: str) -> FolderIndex:
    """The index for reading only: not locked, and changes to it are not kept."""
    found = place_of(paths, vault, label)
    if isinstance(found, str):
        return FolderIndex(problem=found)
    index = FolderIndex(read_only=True)
    with contextlib.suppress(OSError), opened(found.owner, making=False) as directory:  # there may be none
        index._open(directory, found.name, found.header, found.owner)  # noqa: SLF001
        index._directory = None  # noqa: SLF001
    return index


def kept_of(vault: str | None) -> list[tuple[str, tuple[str, ...], Basis]]:
    """Label, paths and basis of each of this user's indexes for a vault, read without locks."""
    out = []
    with contextlib.suppress(OSError), opened(None, making=False) as directory:  # there may be none
        for name in sorted(entry for entry in directory.names() if _NAME.fullmatch(entry)):
            try:
                known = _load(directory, name, _LARGEST, _FORMAT)
                if known is not None and known["vault"] == vault and directory.look(_companion(name, "ended")) is None:
                    paths = tuple(folder.path for folder in _folders(known))
                    out.append((str(known["label"]), paths, _load_basis(known["basis"])))
            except _MALFORMED as error:
                logger.warning("%s is passed over: %s", directory.path / name, error)
    return out


def disprove(vault: str | None, label: str) -> None:
    """Drop the proof of stored bytes from each index of a label: they are damaged, and the next save checks them."""
    for index_label, paths, _ in kept_of(vault):
        if index_label != label:
            continue
        try:
            with open_index(paths, vault=vault, label=label, patience=0) as index:
                index.disprove()
        except ColonyMemoryError as error:
            logger.warning("it is not noted that label %r is damaged: %s", label, error)


def finish_note(note: Mapping[str, Any]) -> None:
    """Write the basis in a note of :meth:`FolderIndex.note_of`, and end those of the folder's other indexes."""
    try:
        name, owner, header = note["name"], note["owner"], note["header"]
        if not _NAME.fullmatch(name) or not isinstance(owner, (int, type(None))):
            raise ValueError("malformed")
        folders, basis = _folders(header), _load_basis(note["basis"])
        with opened(owner, making=True) as directory:
            index = FolderIndex()
            index._open(directory, name, header, owner)  # noqa: SLF001 - made for this
            index.write(basis)
            for folder in folders:
                end_others(folder.path, index)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no note of an index: {error!r}") from error


def end_others(folder: str | os.PathLike[str], index: FolderIndex) -> None:
    """End the basis of all but one index of a folder, or of those above or below it: the content is another's now."""
    directory = index._directory  # noqa: SLF001
    if directory is None:
        return
    mine = Path(FolderIdentity.of(folder).path)
    for name in [entry for entry in directory.names() if _NAME.fullmatch(entry) and entry != index._name]:  # noqa: SLF001
        try:
            known = _load(directory, name, _LARGEST, _FORMAT)
            if known is not None and any(
                mine.is_relative_to(folder.path) or Path(folder.path).is_relative_to(mine) for folder in _folders(known)
            ):
                os.close(directory.open_or_make(_companion(name, "ended")))  # one that is open ends when next opened
        except _MALFORMED as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)


def _companion(name: str, kind: str) -> str:
    return f"{name.removesuffix('.json')}.{kind}"


# --- its files


def _load(
    directory: Files, name: str, limit: int, form: str, header: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """A file of an index; None if missing, or not of the vault, label and folders of ``header``."""
    found = directory.read(name, limit=limit, owner=directory.status().st_uid)
    if found is None:
        return None
    known = json.loads(found.data)
    if not isinstance(known, dict) or known.get("format") != form:
        raise ValueError("its format is unknown to this version")
    if header is None:
        return known
    known_folders, folders = _folders(known), _folders(header)
    same = (known["vault"], known["label"], len(known_folders)) == (header["vault"], header["label"], len(folders))
    return known if same and all(map(FolderIdentity.is_same_as, known_folders, folders)) else None


def _folders(header: Mapping[str, Any]) -> list[FolderIdentity]:
    return [FolderIdentity.load(fields) for fields in header["folders"]]


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError("malformed")  # noqa: TRY004 - the file is wrong, not the caller
    return found


def _dump_basis(basis: Basis) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in asdict(basis).items()}


def _load_basis(found: dict[str, Any]) -> Basis:
    default = Basis()
    values: dict[str, Any] = {}
    for name in names_of(Basis):
        usual = getattr(default, name)
        value = found.get(name, usual)
        if isinstance(usual, (frozenset, tuple)):
            if not isinstance(value, (list, tuple, frozenset)) or not all(isinstance(item, str) for item in value):
                raise ValueError("a malformed basis")
            value = type(usual)(value)
        elif type(value) is not type(usual) and not (usual is None and isinstance(value, str)):
            raise ValueError("a malformed basis")
        values[name] = value
    return Basis(**values)
