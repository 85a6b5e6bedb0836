"""The identity of a folder, beyond its path, and the place of its index in the state directory of its owner."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os.directory import Directory
from colony_memory._os.files import Files, make_directory, open_files
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import real_path
from colony_memory._values import Value, asdict, getLogger
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


logger = getLogger(__name__)

_PLACE = "folders"
_LARGEST = 1 << 20  # bytes of a note of the real paths
_MOUNTS = "/proc/self/mountinfo"
_GENERATION = (0x80087601, 8)  # FS_IOC_GETVERSION of Linux: a number that an inode gets with each reuse
# File systems whose inode numbers change with the next mount, or when a file is copied up.
_PASSING = frozenset({"9p", "aufs", "cifs", "exfat", "fuse", "msdos", "overlay", "smb3", "smbfs", "vfat", "virtiofs"})


class FolderIdentity(Value):
    """The folder or file to which an index is bound; fields that the system does not tell are None."""

    path: str  # real
    inode: int | None = None  # for a file that of its directory, since editors replace files
    born: int | None = None  # time of creation, or another mark that tells it from a later one with that inode
    device: int | None = None  # valid while the system runs
    boot: str | None = None  # id of that run of the system

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> FolderIdentity:
        """The folder that is there now; the path alone if there is none."""
        real = real_path(path)
        where = real if real.is_dir() else real.parent
        if not os.path.lexists(real):
            return cls(os.fspath(real))
        status = where.stat()
        lasting = status.st_ino != 0 and _lasts(status.st_dev)
        inode, born = (status.st_ino, _born(where, status)) if lasting else (None, None)
        return cls(os.fspath(real), inode, born, status.st_dev, boot_id() or None)

    def is_same_as(self, other: FolderIdentity) -> bool:
        """True if both are the same, as far as is known."""
        pairs = [(self.inode, other.inode)]
        if None not in pairs[0]:
            pairs.append((self.born, other.born))
        if self.boot is not None and self.boot == other.boot:
            pairs.append((self.device or -1, other.device or -1))
        return self.path == other.path and all(None in pair or pair[0] == pair[1] for pair in pairs)

    @classmethod
    def load(cls, found: Any) -> FolderIdentity:
        """Read the fields of ``asdict``; ValueError for anything else."""
        kinds = {"path": str, "inode": int, "born": int, "device": int, "boot": str}
        values = [found.get(name) for name in kinds] if isinstance(found, dict) else [None]
        right = (value is None or type(value) is kind for value, kind in zip(values, kinds.values(), strict=False))
        if values[0] is None or not all(right):
            raise ValueError("no identity of a folder")
        return cls(*values)


@contextlib.contextmanager
def unmoved(places: Mapping[str, Path]) -> Iterator[None]:
    """Run a block unattended; ColonyMemoryError if a path leads elsewhere, before or after: others may put links."""
    _require_unmoved(places)
    yield
    _require_unmoved(places)


def _require_unmoved(places: Mapping[str, Path]) -> None:
    for path, before in places.items():
        if real_path(path) != before:
            raise ColonyMemoryError(
                f"{path!r} no longer leads to {str(before)!r}: a link has taken its place; if that is intended, save "
                "it once by hand"
            )


def _born(path: Path, status: os.stat_result) -> int | None:
    made = getattr(status, "st_birthtime", None)
    if made is not None or sys.platform != "linux":
        return None if made is None else int(made * 10**6)
    import fcntl

    with contextlib.suppress(OSError), Directory.open(path, follow=True) as directory:
        found = fcntl.ioctl(directory.descriptor or 0, _GENERATION[0], bytes(_GENERATION[1]))
        return int(struct.unpack("=Ixxxx", found)[0])
    return None


def _lasts(device: int) -> bool:
    """True if inodes of this device outlast the next mount, or if the system does not tell."""
    if sys.platform != "linux":
        return True
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in _read(_MOUNTS).splitlines():
        fields = line.split(" ")
        if len(fields) > 2 and fields[2] == number and "-" in fields:
            return fields[fields.index("-") + 1].partition(".")[0] not in _PASSING
    # Subvolumes of btrfs have devices that are in no list of mounts.
    return True


def boot_id() -> str:
    """The id of this run of the machine, empty if the system does not tell."""
    return _read("/proc/sys/kernel/random/boot_id").strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


class Place(Value):
    """The place and the required header of an index."""

    name: str
    leads_to: dict[str, str]
    header: dict[str, Any]
    owner: int | None


def place_of(paths: Iterable[str | os.PathLike[str]], vault: str | None, label: str) -> Place | str:
    """The place of an index, or the reason why there is none."""
    if vault is None:
        return "the vault does not tell what it is"
    spelled = sorted({os.path.abspath(path) for path in paths})  # noqa: PTH100 - with its links
    try:
        found = {path: FolderIdentity.of(path) for path in spelled}
    except OSError as error:
        return f"{error.filename}: {error.strerror or error}"
    identities = sorted(found.values(), key=lambda identity: identity.path)
    return Place(
        name=f"{_hashed(vault, label, [identity.path for identity in identities])}.json",
        leads_to={path: identity.path for path, identity in found.items()},
        header={"vault": vault, "label": label, "folders": [asdict(identity) for identity in identities]},
        owner=_owner(identities),
    )


def _hashed(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def note_where(directory: Files, place: Place, *, unattended: bool) -> None:
    """Note the real path of each path as given; ``unattended``, refuse one that led elsewhere before."""
    name = f"{_hashed(place.header['vault'], place.header['label'], list(place.leads_to))}.given"
    try:
        found = directory.read(name, limit=_LARGEST)
        before = None if found is None else json.loads(found.data)
        if before is None or (before != place.leads_to and not unattended):
            directory.replace(name, json.dumps(place.leads_to).encode())
            return
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is passed over: %s", directory.path / name, error)
        return
    if isinstance(before, dict) and all(isinstance(target, str) for target in before.values()):
        _require_unmoved({path: Path(real) for path, real in before.items() if path in place.leads_to})


def _owner(identities: Iterable[FolderIdentity]) -> int | None:
    """The account that owns the index, if not this process's: root works for the owner of a folder."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    for identity in identities:
        with contextlib.suppress(OSError):
            return Path(identity.path).stat().st_uid or None
    return None


@contextlib.contextmanager
def opened(owner: int | None, *, making: bool) -> Iterator[Files]:
    """The directory of all indexes, here or in the home of ``owner``; OSError if there is none to trust."""
    place = state_directory() / _PLACE if owner is None else None
    if place is not None and making:
        make_directory(place, keep_owner=True)
    with _in_home(owner or 0, making=making) if place is None else open_files(place, keep_owner=True) as directory:
        directory.require_private(owner)
        yield directory


def _in_home(owner: int, *, making: bool) -> Files:
    """The directory of indexes of an account, following no link in its home, where it may put any."""
    import pwd

    try:
        home = Path(pwd.getpwuid(owner).pw_dir)
    except KeyError:
        raise FileNotFoundError(2, f"user {owner}, who owns the folder, has no home") from None
    below = ("Library", "Application Support") if sys.platform == "darwin" else (".local", "state")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(Directory.open(home, follow=True))
        for name in (*below, "colony-memory", _PLACE):
            above = directory.status()
            if above.st_uid != owner:
                raise PermissionError(1, "is not the account's whose folder it is", str(directory.path))
            made = making and directory.look(name) is None
            if made:
                directory.make(name)
            directory = stack.enter_context(directory.enter(name))
            if made:
                os.fchown(directory.descriptor or 0, above.st_uid, above.st_gid)
        return Files(directory.path, os.dup(directory.descriptor or 0), keep_owner=True)


def sign(descriptor: int) -> None:
    """Write the id of this process, which holds the lock, to it."""
    if sys.platform != "win32":
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def holder(directory: Files, name: str) -> str:
    try:
        found = directory.read(f"{name}.lock", limit=100)
        return f"process {int(found.data)}" if found is not None else "another process"
    except (OSError, ValueError):
        return "another process"
