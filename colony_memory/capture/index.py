"""The index of a folder: what it is based on, and what every file of it was when it was last read.

One file in the user's state directory for each vault, label and set of paths, with a second one for the files' rows and
a lock for as long as a backup or restore takes. It saves work and is never authority over content.
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
    """The index of some folders and files for one vault and label, locked by whoever has it."""

    def __init__(self, *, problem: str | None = None, looking: bool = False) -> None:
        self.rows: Mapping[str, Row] = {}  # the files as last read, by name
        self.described = ""  # digest of the document that describes the folder, without its files; or empty
        self.attributes = ""  # document of permissions and times as last saved or restored; empty where not known
        self.options: dict[str, Any] = {}  # of the last save, for JSON
        self.proven: tuple[str, str] | None = None  # snapshot id and ISO time of the last proof of stored bytes
        self.problem = problem  # why nothing of it is kept on disk
        self._looking = looking  # nothing may be changed: whoever has the lock may be about to
        self._basis = Basis()
        self._directory: Files | None = None
        self._name = ""
        self._header: dict[str, Any] = {"folders": []}
        self._owner: int | None = None

    def read(self) -> Basis:
        """The basis of the folder; an empty one where nothing is known."""
        return self._basis

    def write(self, basis: Basis) -> None:
        """Remember it, on disk before this returns; where that cannot be, nothing else that is not so any more."""
        is_another = basis.snapshot_id != self._basis.snapshot_id
        self._basis = basis
        if not self._keep() and is_another and self._directory is not None:
            # A disk that is full takes no file, and gives one up: without a basis, no save is refused for an own one.
            with contextlib.suppress(OSError):
                self._directory.clear(self._name)

    def is_of(self, paths: Iterable[str | os.PathLike[str]]) -> bool:
        """It is the index of the folders and files at these paths now."""
        try:
            now = sorted(map(FolderIdentity.of, paths), key=lambda each: each.path)
        except OSError:
            return False
        known = _folders(self._header)
        return len(now) == len(known) and all(map(FolderIdentity.is_same_as, known, now))

    def reload(self) -> None:
        """Take over again what is on disk: a restore that was cut off may have been finished since."""
        if self._directory is not None:
            self._basis = Basis()
            self._open(self._directory, self._name, self._header, self._owner)

    def note_of(self, basis: Basis) -> dict[str, Any] | None:
        """The means to write that basis here, for JSON; None where nothing is kept on disk."""
        if self._directory is None:
            return None
        return {"name": self._name, "header": self._header, "owner": self._owner, "basis": _dump_basis(basis)}

    def forget(self) -> None:
        """Lose the basis: the folder is another one, or holds something else."""
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
        """Remember what is given."""
        before = self.rows, self.described, self.attributes
        if rows is not None:
            self.rows, self.described = dict(rows), described
        self.attributes = self.attributes if attributes is None else attributes
        if before != (self.rows, self.described, self.attributes):
            every = {name: [getattr(row, each) for each in names_of(Row)] for name, row in self.rows.items()}
            facts = {"described": self.described, "attributes": self.attributes, "rows": every}
            self._replace(_beside(self._name, "rows"), {"format": _ROWS, **self._header, **facts})
        known = self.options, self.proven
        self.options = self.options if options is None else dict(options)
        self.proven = proven or self.proven
        if known != (self.options, self.proven):
            self._keep()

    def disprove(self) -> None:
        """Forget that the stored bytes were proven."""
        if self.proven is not None:
            self.proven = None
            self._keep()

    # --- on disk

    def _open(self, directory: Files, name: str, header: dict[str, Any], owner: int | None) -> None:
        """Take over what is there, as far as it is this folder's."""
        self._directory, self._name, self._header, self._owner = directory, name, header, owner
        try:
            known = _load(directory, name, _LARGEST, _FORMAT, header)
            if known is None:
                return
            basis, options = _load_basis(known["basis"]), known["options"]
            if not isinstance(options, dict):
                raise TypeError("malformed")
            one, other = map(_text, known["proven"] or ("", ""))
            self.proven = (one, other) if one else None
            self._basis, self.options = basis, options
            if directory.look(_beside(name, "ended")) is not None:
                self._basis = lost(basis)
                if not self._looking:
                    self._keep()
                    directory.clear(_beside(name, "ended"))
            found = _load(directory, _beside(name, "rows"), _LARGEST_ROWS, _ROWS, header)
            if found is not None:
                self.described, self.attributes = map(_text, (found["described"], found["attributes"]))
                if any(list(map(type, row)) != _ROW for row in found["rows"].values()):
                    raise ValueError("a malformed row")
                self.rows = {each: Row(*row) for each, row in found["rows"].items()}
        except _MALFORMED as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)

    def _keep(self) -> bool:
        if self._directory is None:
            return True
        folders = _folders(self._header)
        if any(each.device is None for each in folders):  # what was not there when this was opened may be there now
            with contextlib.suppress(OSError):
                self._header = {**self._header, "folders": [asdict(FolderIdentity.of(each.path)) for each in folders]}
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

    Where it cannot be kept, or the vault (None) does not outlive the process, it ends with the block. ColonyMemoryError
    where another process has it for all of ``patience`` or, ``unattended``, a link took the place of a path.
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
    """The same for who only looks: not locked, and nothing of it is kept."""
    found = place_of(paths, vault, label)
    if isinstance(found, str):
        return FolderIndex(problem=found)
    index = FolderIndex(looking=True)
    with contextlib.suppress(OSError), opened(found.owner, making=False) as directory:  # there may be none
        index._open(directory, found.name, found.header, found.owner)  # noqa: SLF001
        index._directory = None  # noqa: SLF001
    return index


def kept_of(vault: str | None) -> list[tuple[str, tuple[str, ...], Basis]]:
    """Label, paths and basis of each index that this user has of a vault, for who only looks."""
    out = []
    with contextlib.suppress(OSError), opened(None, making=False) as directory:  # there may be none
        for name in sorted(each for each in directory.names() if _NAME.fullmatch(each)):
            try:
                known = _load(directory, name, _LARGEST, _FORMAT)
                if known is not None and known["vault"] == vault and directory.look(_beside(name, "ended")) is None:
                    paths = tuple(each.path for each in _folders(known))
                    out.append((str(known["label"]), paths, _load_basis(known["basis"])))
            except _MALFORMED as error:
                logger.warning("%s is passed over: %s", directory.path / name, error)
    return out


def disprove(vault: str | None, label: str) -> None:
    """Forget in each index of a label that its stored bytes were proven: they are damaged, so the next save reads."""
    for of, paths, _ in kept_of(vault):
        if of != label:
            continue
        try:
            with open_index(paths, vault=vault, label=label, patience=0) as index:
                index.disprove()
        except ColonyMemoryError as error:
            logger.warning("it is not noted that label %r is damaged: %s", label, error)


def finish_note(note: Mapping[str, Any]) -> None:
    """Write what :meth:`FolderIndex.note_of` gave, and end what the folder was based on elsewhere."""
    try:
        name, owner, header = note["name"], note["owner"], note["header"]
        if not _NAME.fullmatch(name) or not isinstance(owner, (int, type(None))):
            raise ValueError("malformed")
        folders, basis = _folders(header), _load_basis(note["basis"])
        with opened(owner, making=True) as directory:
            index = FolderIndex()
            index._open(directory, name, header, owner)  # noqa: SLF001 - made for this
            index.write(basis)
            for each in folders:
                end_others(each.path, index)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no note of an index: {error!r}") from error


def end_others(folder: str | os.PathLike[str], but: FolderIndex) -> None:
    """End the basis of each other index of a folder, or of what is above or below it: its content is another's."""
    directory = but._directory  # noqa: SLF001
    if directory is None:
        return
    mine = Path(FolderIdentity.of(folder).path)
    for name in [each for each in directory.names() if _NAME.fullmatch(each) and each != but._name]:  # noqa: SLF001
        try:
            known = _load(directory, name, _LARGEST, _FORMAT)
            if known is not None and any(
                mine.is_relative_to(each.path) or Path(each.path).is_relative_to(mine) for each in _folders(known)
            ):
                os.close(directory.open_or_make(_beside(name, "ended")))  # with its next opening, should it be open
        except _MALFORMED as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)


def _beside(name: str, kind: str) -> str:
    return f"{name.removesuffix('.json')}.{kind}"


# --- what is in it


def _load(
    directory: Files, name: str, limit: int, form: str, header: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """A file of an index; None where there is none, or it is not of the vault, label and folders of a header."""
    found = directory.read(name, limit=limit, owner=directory.status().st_uid)
    if found is None:
        return None
    known = json.loads(found.data)
    if not isinstance(known, dict) or known.get("format") != form:
        raise ValueError("it is of a form that this version does not know")
    if header is None:
        return known
    there, folders = _folders(known), _folders(header)
    same = (known["vault"], known["label"], len(there)) == (header["vault"], header["label"], len(folders))
    return known if same and all(map(FolderIdentity.is_same_as, there, folders)) else None


def _folders(header: Mapping[str, Any]) -> list[FolderIdentity]:
    return [FolderIdentity.load(each) for each in header["folders"]]


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError("malformed")  # noqa: TRY004 - what was read is wrong
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
            if not isinstance(value, (list, tuple, frozenset)) or not all(isinstance(one, str) for one in value):
                raise ValueError("a malformed basis")
            value = type(usual)(value)
        elif type(value) is not type(usual) and not (usual is None and isinstance(value, str)):
            raise ValueError("a malformed basis")
        values[name] = value
    return Basis(**values)
