"""The index of a folder: what it is based on, and what every file of it was when it was last read.

It is to a folder what git's is to a working tree. One file for each vault, label and set of folders and files, in the
user's directory for the state of programs, with a second one for the files' rows and a lock, which is held as long as a
backup or restore takes. It saves work and is never authority over content: whatever is not as the index has it is read.
Where it is lost, damaged or cannot be kept, that costs time or a question.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._engine.basis import Basis, lost
from colony_memory._os.directory import Directory
from colony_memory._os.files import Files, make_directory, open_files
from colony_memory._os.homes import state_directory
from colony_memory._os.kinds import UnfitFile
from colony_memory._os.locks import locked_in
from colony_memory.capture._companions import INDEX, JOURNAL, LOG, whole_of
from colony_memory.capture._identity import FolderIdentity, unmoved
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["PART", "FolderIndex", "Known", "Row", "disprove", "end_others", "kept_of", "open_index", "peek_index"]

logger = logging.getLogger(__name__)

#: The digest of what is saved as a part of a database.
PART = "part"
_FORMAT, _ROWS = "colony-memory/index/1", "colony-memory/index-rows/1"
_PLACE = "folders"
_LARGEST, _LARGEST_ROWS = 1 << 24, 1 << 28  # bytes: a hundred or two for each file of a folder
_NAME = re.compile(r"[0-9a-f]{32}\.json")
_COARSE, _FINE = 2_500_000_000, 20_000_000  # nanoseconds: of FAT, with some to spare; of a kernel's tick
_WHOLE = 1_000_000  # a time that is no multiple of this tells that its file system counts finely


@dataclass(frozen=True)
class Row:
    """A file as it was read.

    Attributes:
        size: Its bytes.
        mtime_ns: When its content changed, in nanoseconds since 1970.
        ctime_ns: When anything of it changed.
        inode: Its number in its file system.
        mode: Its kind and permissions.
        digest: Of what is saved of it: ``sha256:`` and that of its bytes, of a database that of its copy. ``part``
            where it is saved as a part of a database. Empty where it has to be read: it was so young that a change may
            hide behind the same time, or it is not saved as it is.
        clean: The version of the rules by which no likely secret is in it; empty where that was not found.
        is_text: Whether it is a document of its own.
        is_database: Whether it was read as an SQLite database, with what is beside it.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    mode: int
    digest: str
    clean: str = ""
    is_text: bool = True
    is_database: bool = False

    @classmethod
    def of(
        cls,
        status: os.stat_result,
        digest: str,
        *,
        began: int,
        clean: str = "",
        is_text: bool = True,
        is_database: bool = False,
    ) -> Row:
        """The row of a file that was read with this status, by somebody who began at that time (``time.time_ns()``)."""
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        return cls(*facts, digest if is_settled(status, began) else "", clean, is_text, is_database)

    def is_of(self, status: os.stat_result) -> bool:
        """Whether a file is as it was: but for its mode, which is in the status."""
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return now == (self.size, self.mtime_ns, self.ctime_ns, self.inode)


def is_settled(status: os.stat_result, began: int) -> bool:
    """Whether a file is older, by more than its file system's time step, than the time at which reading began."""
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    step = _FINE if status.st_ctime_ns % _WHOLE else _COARSE
    return newest + step < began


@dataclass(frozen=True)
class Known:
    """Which files need not be read, by what an index has of them.

    Attributes:
        rows: As the index has them.
        rules: The version of the rules by which they have to be clean, None where nobody asks for that.
        unless: What is to be read all the same, by the end of its name.
    """

    rows: Mapping[str, Row]
    rules: str | None = None
    unless: tuple[str, ...] = ()

    def find(self, name: str, there: Mapping[str, os.stat_result]) -> Row | None:
        """The row of a file that need not be read, or that is a part of one that need not be; else None.

        Args:
            name: The file.
            there: All files that there are now.
        """
        row = self.rows.get(name)
        if row is None or row.digest == PART:
            whole = whole_of(name)
            found = self.find(whole, there) if whole != name and whole in there else None
            if found is None or not found.is_database:
                return None
            return row or Row.of(there[name], PART, began=sys.maxsize, is_text=False)
        if not row.digest or not row.is_of(there[name]) or name.endswith(self.unless):
            return None
        if self.rules not in (None, row.clean):
            return None
        # A database changes by its log alone. The index beside it is the readers', who may come and go.
        same = all(self._is_same(name + suffix, there, of=row) for suffix in (LOG, JOURNAL))
        return row if same and (name + INDEX not in there or name + INDEX in self.rows) else None

    def _is_same(self, part: str, there: Mapping[str, os.stat_result], *, of: Row) -> bool:
        row, status = self.rows.get(part), there.get(part)
        if status is None or status.st_size == 0:
            return (row is None and (status is None or of.is_database)) or (row is not None and row.size == 0)
        return row is not None and row.is_of(status)


class FolderIndex:
    """The index of some folders and files for one vault and label, locked by whoever has it.

    Attributes:
        rows: The files as they were last read, by the name under which they are saved.
        described: Digest of the document that describes the folder, and of what that is made of; empty where not known.
        options: Of the last save, for JSON.
        proven: ``(snapshot id, ISO time)`` of the last proof of stored bytes, None where there is none.
        asked: ``(digest, ISO time)`` of who was told last that all is saved, and when; None where nobody was.
        problem: Why nothing of it is kept on disk, None where it is.
    """

    def __init__(self, *, problem: str | None = None) -> None:
        self.rows: Mapping[str, Row] = {}
        self.described: tuple[str, str] = ("", "")
        self.options: dict[str, Any] = {}
        self.proven: tuple[str, str] | None = None
        self.asked: tuple[str, str] | None = None
        self.problem = problem
        self._basis = Basis()
        self._directory: Files | None = None
        self._name = ""
        self._header: dict[str, Any] = {}
        self._identities: Sequence[FolderIdentity] = ()
        self._owner: int | None = None

    def read(self) -> Basis:
        """What the folder is based on; an empty one where nothing is known."""
        return self._basis

    def write(self, basis: Basis) -> None:
        """Remember it, on disk before this returns."""
        self._basis = basis
        self._keep()

    def is_of(self, paths: Iterable[str | os.PathLike[str]]) -> bool:
        """Whether it is of what is at these paths now."""
        try:
            now = sorted(map(FolderIdentity.of, paths), key=lambda each: each.path)
        except OSError:
            return False
        return len(now) == len(self._identities) and all(map(FolderIdentity.is_same_as, self._identities, now))

    def reload(self) -> None:
        """Take over again what is on disk: a restore that was cut off may have been finished since."""
        if self._directory is not None:
            self._basis = Basis()
            self._open(self._directory, self._name, self._header, self._identities)

    def note_of(self, basis: Basis) -> dict[str, Any] | None:
        """What it takes to write that basis here, for JSON; None where nothing is kept on disk."""
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
        described: tuple[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
        proven: tuple[str, str] | None = None,
        asked: tuple[str, str] | None = None,
    ) -> None:
        """Remember what is given; what is not given stays."""
        if rows is not None and (rows != self.rows or described not in (None, self.described)):
            self.rows, self.described = dict(rows), described or ("", "")
            self._keep_rows()
        before = self.options, self.proven, self.asked
        self.options = self.options if options is None else dict(options)
        self.proven = proven or self.proven
        self.asked = asked or self.asked
        if before != (self.options, self.proven, self.asked):
            self._keep()

    def disprove(self) -> None:
        """Forget that the stored bytes were proven."""
        if self.proven is not None:
            self.proven = None
            self._keep()

    # --- on disk

    def _open(self, directory: Files, name: str, header: dict[str, Any], identities: Sequence[FolderIdentity]) -> None:
        """Take over what is there, as far as it is this folder's."""
        self._directory, self._name, self._header, self._identities = directory, name, header, identities
        try:
            known = _load(directory, name, _LARGEST, _FORMAT)
            if known is None or not _is_of(known, header, identities):
                return
            basis, options = _load_basis(known["basis"]), known["options"]
            if not isinstance(options, dict):
                raise TypeError("malformed")
            self.proven, self.asked = _load_pair(known["proven"]), _load_pair(known["asked"])
            self._basis, self.options = basis, options
            if directory.look(_ended(name)) is not None:
                self.forget()
                directory.clear(_ended(name))
            found = _load(directory, _rows(name), _LARGEST_ROWS, _ROWS)
            if found is not None and _is_of(found, header, identities):
                self.described = _load_pair(found["described"]) or ("", "")
                self.rows = {str(each): _load_row(row) for each, row in found["rows"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)

    def _close(self) -> None:
        self._directory = None

    def _keep(self) -> None:
        folders = [FolderIdentity.load(each) for each in self._header.get("folders", ())]
        if any(each.device is None for each in folders):  # what was not there when this was opened may be there now
            with contextlib.suppress(OSError):
                self._header = {**self._header, "folders": [FolderIdentity.of(each.path).dump() for each in folders]}
        known = {"options": self.options, "proven": self.proven, "asked": self.asked}
        self._replace(self._name, {"format": _FORMAT, **self._header, "basis": _dump_basis(self._basis), **known})

    def _keep_rows(self) -> None:
        rows = {name: [getattr(row, each.name) for each in fields(Row)] for name, row in self.rows.items()}
        self._replace(_rows(self._name), {"format": _ROWS, **self._header, "described": self.described, "rows": rows})

    def _replace(self, name: str, document: dict[str, Any]) -> None:
        if self._directory is None:
            return
        try:
            data = json.dumps(document, separators=(",", ":")).encode("ascii") + b"\n"
            self._directory.replace(name, data, temp=f"{name}.draft")
        except OSError as error:
            self.problem = f"{self._directory.path}: {error.strerror or error}"
            logger.warning("the index of a folder could not be kept: %s", self.problem)


@contextlib.contextmanager
def open_index(
    paths: Iterable[str | os.PathLike[str]],
    *,
    vault: str | None,
    label: str,
    patience: float = 30.0,
    unattended: bool = False,
) -> Iterator[FolderIndex]:
    """The index of folders and files, locked for the length of a ``with``.

    Where it cannot be kept, as this user has no state directory, it is an empty one that ends with the block.

    Args:
        paths: What is saved or restored, all of it.
        vault: What the vault is, wherever it is named; None where it does not outlive the process.
        label: The label.
        patience: Seconds to wait for another backup or restore of the same.
        unattended: Refuse a link that took the place of one of the paths since the last time.

    Raises:
        ColonyMemoryError: Another process has it for all that time, or there is such a link.
    """
    with contextlib.ExitStack() as stack:
        found = _place(paths, vault, label)
        if isinstance(found, str):
            yield FolderIndex(problem=found)
            return
        index = FolderIndex()
        try:
            directory = stack.enter_context(_opened(found.owner, making=True))
            descriptor = stack.enter_context(locked_in(directory, f"{found.name}.lock", patience=patience))
            _sign(descriptor)
        except TimeoutError as error:
            raise ColonyMemoryError(
                f"{found.title} is being saved or restored by {_holder(directory, found.name)}: waited {patience:.0f} s"
            ) from error
        except OSError as error:
            yield FolderIndex(problem=f"{error.filename or 'the state directory'}: {error.strerror or error}")
            return
        _note_where(directory, found, unattended=unattended)
        index._owner = found.owner  # noqa: SLF001 - made for this
        index._open(directory, found.name, found.header, found.identities)  # noqa: SLF001
        stack.callback(index._close)  # noqa: SLF001
        yield index


def peek_index(paths: Iterable[str | os.PathLike[str]], *, vault: str | None, label: str) -> FolderIndex:
    """The same for who only looks: not locked, and nothing of it is kept."""
    found = _place(paths, vault, label)
    if isinstance(found, str):
        return FolderIndex(problem=found)
    index = FolderIndex()
    try:
        with _opened(found.owner, making=False) as directory:
            index._open(directory, found.name, found.header, found.identities)  # noqa: SLF001
            index._close()  # noqa: SLF001
    except OSError as error:
        logger.debug("no index is there: %s", error)
    return index


def kept_of(vault: str | None) -> list[tuple[str, tuple[str, ...], Basis]]:
    """Label, paths and basis of each index that this user has of a vault, for who only looks."""
    out = []
    try:
        with _opened(None, making=False) as directory:
            for name in sorted(each for each in directory.names() if _NAME.fullmatch(each)):
                try:
                    known = _load(directory, name, _LARGEST, _FORMAT)
                    if known is not None and known["vault"] == vault and directory.look(_ended(name)) is None:
                        paths = tuple(FolderIdentity.load(each).path for each in known["folders"])
                        out.append((str(known["label"]), paths, _load_basis(known["basis"])))
                except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
                    logger.warning("%s is passed over: %s", directory.path / name, error)
    except OSError as error:
        logger.debug("no index is there: %s", error)
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
    """Write what :meth:`FolderIndex.note_of` gave, and end what the folder was based on elsewhere.

    Raises:
        OSError: It cannot be written.
        ValueError: It is no such note.
    """
    try:
        name, owner, header = note["name"], note["owner"], note["header"]
        if not _NAME.fullmatch(name) or not isinstance(owner, (int, type(None))):
            raise ValueError("malformed")
        identities, basis = [FolderIdentity.load(each) for each in header["folders"]], _load_basis(note["basis"])
        with _opened(owner, making=True) as directory:
            index = FolderIndex()
            index._open(directory, name, header, identities)  # noqa: SLF001 - made for this
            index.write(basis)
            for each in identities:
                end_others(each.path, index)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no note of an index: {error!r}") from error


def end_others(folder: str | os.PathLike[str], but: FolderIndex) -> None:
    """End the basis of every other index in which a folder, or what is above or below it, is: its content is another's.

    An index that somebody has open ends with its next opening.

    Args:
        folder: What was restored into.
        but: The index of what it is based on now.
    """
    directory = but._directory  # noqa: SLF001
    if directory is None:
        return
    mine = FolderIdentity.of(folder).path
    for name in [each for each in directory.names() if _NAME.fullmatch(each) and each != but._name]:  # noqa: SLF001
        try:
            known = _load(directory, name, _LARGEST, _FORMAT)
            paths = [] if known is None else [FolderIdentity.load(each).path for each in known["folders"]]
            if any(_meet(Path(mine), Path(path)) for path in paths):
                os.close(directory.open_or_make(_ended(name)))
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.warning("%s is passed over: %s", directory.path / name, error)


def _meet(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


# --- where it is


@dataclass(frozen=True)
class _Place:
    """Where an index is to be, and what it has to be of."""

    name: str
    title: str
    leads_to: dict[str, str]
    identities: tuple[FolderIdentity, ...]
    header: dict[str, Any]
    owner: int | None


def _place(paths: Iterable[str | os.PathLike[str]], vault: str | None, label: str) -> _Place | str:
    """The place, or why there is none."""
    if vault is None:
        return "the vault does not tell what it is"
    spelled = sorted({os.path.abspath(path) for path in paths})  # noqa: PTH100 - with its links
    try:
        found = {path: FolderIdentity.of(path) for path in spelled}
    except OSError as error:
        return f"{error.filename}: {error.strerror or error}"
    identities = tuple(sorted(found.values(), key=lambda each: each.path))
    name = f"{_hashed(vault, label, [each.path for each in identities])}.json"
    header = {"vault": vault, "label": label, "folders": [each.dump() for each in identities]}
    title = ", ".join(repr(each.path) for each in identities)
    leads_to = {path: each.path for path, each in found.items()}
    return _Place(name, title, leads_to, identities, header, _owner(identities))


def _hashed(*named: object) -> str:
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]


def _note_where(directory: Files, place: _Place, *, unattended: bool) -> None:
    """Note what each path leads to, as it was given.

    Raises:
        ColonyMemoryError: With ``unattended``, one led elsewhere before.
    """
    name = f"{_hashed(place.header['vault'], place.header['label'], list(place.leads_to))}.given"
    data = json.dumps(place.leads_to).encode()
    before = None
    try:
        found = directory.read(name, limit=_LARGEST)
        before = None if found is None else json.loads(found.data)
        if before != place.leads_to and not unattended:
            before = None
        if before is None:
            directory.replace(name, data)
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is passed over: %s", directory.path / name, error)
    if isinstance(before, dict) and all(isinstance(each, str) for each in before.values()):
        with unmoved({path: Path(real) for path, real in before.items() if path in place.leads_to}):
            pass


def _owner(identities: Iterable[FolderIdentity]) -> int | None:
    """Whose index it is where that is not whose process this is: root works for the owner of a folder."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    for each in identities:
        with contextlib.suppress(OSError):
            return Path(each.path).stat().st_uid or None
    return None


@contextlib.contextmanager
def _opened(owner: int | None, *, making: bool) -> Iterator[Files]:
    """The directory of all indexes.

    Raises:
        OSError: There is none, or it is not its owner's alone.
    """
    if owner is not None:
        with _in_home(owner, making=making) as directory:
            yield directory
        return
    place = state_directory() / _PLACE
    if making:
        make_directory(place, keep_owner=True)
    with open_files(place, keep_owner=True) as directory:
        status = directory.status()
        if sys.platform != "win32" and (stat.S_IMODE(status.st_mode) & 0o022 or os.geteuid() not in (0, status.st_uid)):
            raise PermissionError(1, "is not this user's alone", str(place))
        yield directory


@contextlib.contextmanager
def _in_home(owner: int, *, making: bool) -> Iterator[Files]:
    """The same in the home of another account, in which no link is followed: that account may make what it likes there.

    Raises:
        OSError: The account has no home, or no such directory.
    """
    import pwd

    try:
        home = Path(pwd.getpwuid(owner).pw_dir)
    except KeyError:
        raise FileNotFoundError(2, f"user {owner}, who owns the folder, has no home") from None
    directory = Directory.open(home, follow=True)
    try:
        for name in (*_below_home(), "colony-memory", _PLACE):
            if directory.status().st_uid != owner:
                raise PermissionError(1, "is not the account's whose folder it is", str(directory.path))
            above = directory
            if making and above.look(name) is None:
                _make_for(above, name)
            directory = above.enter(name)
            above.close()
        with Files(directory.path, os.dup(directory.descriptor or 0), keep_owner=True) as files:
            if files.status().st_uid != owner or stat.S_IMODE(files.status().st_mode) & 0o022:
                raise PermissionError(1, "is not the account's alone", str(files.path))
            yield files
    finally:
        directory.close()


def _below_home() -> tuple[str, ...]:
    return ("Library", "Application Support") if sys.platform == "darwin" else (".local", "state")


def _make_for(above: Directory, name: str) -> None:
    """Make a directory that belongs to whom the one above belongs to."""
    owner = above.status()
    with contextlib.suppress(FileExistsError):
        above.make(name)
    with above.enter(name) as made:
        if made.descriptor is not None and made.status().st_uid != owner.st_uid:
            os.fchown(made.descriptor, owner.st_uid, owner.st_gid)


def _sign(descriptor: int) -> None:
    """Leave in the lock who has it."""
    if sys.platform != "win32":
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _holder(directory: Files, name: str) -> str:
    try:
        found = directory.read(f"{name}.lock", limit=100)
        return f"process {int(found.data)}" if found is not None else "another process"
    except (OSError, ValueError):
        return "another process"


def _rows(name: str) -> str:
    return name.removesuffix(".json") + ".rows"


def _ended(name: str) -> str:
    return name.removesuffix(".json") + ".ended"


# --- what is in it


def _load(directory: Files, name: str, limit: int, form: str) -> dict[str, Any] | None:
    found = directory.read(name, limit=limit)
    if found is None:
        return None
    if sys.platform != "win32" and (
        found.facts.st_uid != directory.status().st_uid or found.facts.st_nlink != 1 or found.facts.st_mode & 0o077
    ):
        raise UnfitFile(None, "it is not its owner's alone", str(directory.path / name))
    document = json.loads(found.data)
    if not isinstance(document, dict) or document.get("format") != form:
        raise ValueError("it is of a form that this version does not know")
    return document


def _is_of(known: dict[str, Any], header: dict[str, Any], identities: Sequence[FolderIdentity]) -> bool:
    """Whether it is of this vault, label and folders."""
    folders = [FolderIdentity.load(each) for each in known["folders"]]
    return (
        (known["vault"], known["label"], len(folders)) == (header["vault"], header["label"], len(identities))
    ) and all(one.is_same_as(other) for one, other in zip(folders, identities, strict=True))


def _load_pair(found: Any) -> tuple[str, str] | None:
    if found is None:
        return None
    one, other = found
    if not isinstance(one, str) or not isinstance(other, str):
        raise ValueError("malformed")  # noqa: TRY004 - what was read is wrong
    return one, other


def _load_row(found: list[Any]) -> Row:
    row = Row(*found)
    if list(map(type, found)) != [int, int, int, int, int, str, str, bool, bool]:
        raise ValueError("a malformed row")
    return row


def _dump_basis(basis: Basis) -> dict[str, Any]:
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in asdict(basis).items()}


def _load_basis(found: dict[str, Any]) -> Basis:
    default = Basis()
    values: dict[str, Any] = {}
    for each in fields(Basis):
        usual, value = getattr(default, each.name), found.get(each.name, getattr(default, each.name))
        if isinstance(usual, (frozenset, tuple)):
            if not isinstance(value, (list, tuple, frozenset)) or not all(isinstance(one, str) for one in value):
                raise ValueError("a malformed basis")
            value = type(usual)(value)
        elif type(value) is not type(usual) and not (usual is None and isinstance(value, str)):
            raise ValueError("a malformed basis")
        values[each.name] = value
    return Basis(**values)
