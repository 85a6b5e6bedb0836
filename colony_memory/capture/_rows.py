"""Pure: the rows of an index, and which files need not be read by what they say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from colony_memory._values import dataclass
from colony_memory.capture._steady import INDEX, JOURNAL, LOG, whole_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

#: The digest of what is saved as a part of a database.
PART = "part"
_COARSE, _FINE = 2_500_000_000, 20_000_000  # nanoseconds: of FAT, with some to spare; of a kernel's tick
_WHOLE = 1_000_000  # a time that is no multiple of this tells that its file system counts finely


@dataclass(frozen=True)
class Row:
    """A file as it was read."""

    size: int
    mtime_ns: int  # when its content changed, in nanoseconds since 1970
    ctime_ns: int  # when anything of it changed
    inode: int  # number in its file system
    mode: int  # kind and permissions
    # Of what is saved of it: `sha256:` and that of its bytes, of a database that of its copy. PART where it is saved
    # as a part of a database. Empty where it has to be read: it was so young that a change may hide behind the same
    # time, or it is not saved as it is
    digest: str
    clean: str = ""  # the version of the rules by which no likely secret is in it; empty where that was not found
    is_text: bool = True  # it is a document of its own
    is_database: bool = False  # it was read as an SQLite database, with what is beside it
    # Of a large one, those in which no likely secret is, see secrets.Pieces
    pieces: str = ""

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
        pieces: str = "",
    ) -> Row:
        """The row of a file that was read with this status, by somebody who began at that time (``time.time_ns()``)."""
        facts = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)
        return cls(*facts, digest if is_settled(status, began) else "", clean, is_text, is_database, pieces)

    def is_of(self, status: os.stat_result) -> bool:
        """A file is as it was, but for its mode, which is in the status."""
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return now == (self.size, self.mtime_ns, self.ctime_ns, self.inode)


def is_settled(status: os.stat_result, began: int) -> bool:
    """A file is older, by more than its file system's time step, than the time at which reading began."""
    newest = max(status.st_mtime_ns, status.st_ctime_ns)
    step = _FINE if status.st_ctime_ns % _WHOLE else _COARSE
    return newest + step < began


@dataclass(frozen=True)
class Known:
    """Files that need not be read, by what an index has of them."""

    rows: Mapping[str, Row]  # as the index has them
    rules: str | None = None  # the version of the rules by which they have to be clean, None where nobody asks for that
    unless: tuple[str, ...] = ()  # what is to be read all the same, by the end of its name

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
