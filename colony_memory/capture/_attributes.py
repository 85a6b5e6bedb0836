"""Owner, permissions and times of what a restore makes. What a file system refuses of them is said once, in the end."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._os.kinds import PERMISSIONS
from colony_memory.capture._filenames import quoted
from colony_memory.exceptions import ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from colony_memory._os.directory import Directory

# What NFS with root_squash, SMB, FAT and FUSE answer, and a container without the capability.
_REFUSED = {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_HAS_OWNERS = hasattr(os, "fchown")
_SETS_TIMES = os.utime in os.supports_fd


@dataclass(frozen=True)
class Attributes:
    """What a file or directory is to have; None for what stays as the system makes it.

    Attributes:
        owner: User and group.
        mode: Permission bits.
        changed: Time of change in nanoseconds since 1970.
    """

    owner: tuple[int, int] | None = None
    mode: int | None = None
    changed: int | None = None


_NONE = Attributes()


def is_root() -> bool:
    """Whether this process restores for others: what is theirs stays theirs."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


@dataclass
class Attribution:
    """Gives attributes, and remembers what was refused."""

    refused: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def give(self, descriptor: int, attributes: Attributes, name: str) -> os.stat_result:
        """Give an open file or directory its attributes, and return what it is then."""
        status = os.fstat(descriptor)
        if attributes == _NONE:
            return status
        if attributes.owner is not None and _HAS_OWNERS and attributes.owner != (status.st_uid, status.st_gid):
            with self.attempt("owner", name):
                os.fchown(descriptor, *attributes.owner)
        if attributes.mode is not None and hasattr(os, "fchmod") and stat.S_IMODE(status.st_mode) != attributes.mode:
            with self.attempt("permissions", name):
                os.fchmod(descriptor, attributes.mode & PERMISSIONS)
        if attributes.changed is not None and _SETS_TIMES:
            with self.attempt("time of change", name):
                os.utime(descriptor, ns=(status.st_atime_ns, attributes.changed))
        return os.fstat(descriptor)

    def give_link(self, directory: Directory, at: str, attributes: Attributes, name: str) -> None:
        """Give a symbolic link, of which only owner and time can be set, its attributes."""
        if directory.descriptor is None:
            return
        path, where = directory.address(at)
        if attributes.owner is not None:
            with self.attempt("owner", name):
                os.chown(path, *attributes.owner, follow_symlinks=False, **where)
        if attributes.changed is not None:
            with self.attempt("time of change", name):
                os.utime(path, ns=(attributes.changed, attributes.changed), follow_symlinks=False, **where)

    def tell(self) -> None:
        """Warn of what was refused."""
        for (what, why), names in self.refused.items():
            warnings.warn(
                f"the {what} could not be kept of {quoted(names, most=3)} ({why}); the content is restored",
                ColonyMemoryWarning,
                stacklevel=2,
            )

    @contextlib.contextmanager
    def attempt(self, what: str, name: str) -> Iterator[None]:
        """Set one attribute in a block; a refusal is remembered, and any other error raised."""
        try:
            yield
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            self.refused.setdefault((what, error.strerror or str(error)), []).append(name)


def tell_lost(files: Iterable[tuple[str, os.stat_result]]) -> None:
    """Warn of what replacing these files takes from them: other names, and an owner that this user cannot give."""
    linked, owned = [], []
    for name, there in files:
        if there.st_nlink > 1 and not stat.S_ISDIR(there.st_mode):
            linked.append(name)
        if hasattr(os, "geteuid") and os.geteuid() not in (0, there.st_uid):
            owned.append(name)
    if linked:
        _warn(f"{quoted(linked, most=3)} had other names (hard links), under which the old text stays")
    if owned:
        _warn(f"{quoted(owned, most=3)} belonged to another user, and now belongs to the one who restored")


def _warn(text: str) -> None:
    warnings.warn(text, ColonyMemoryWarning, stacklevel=3)
