"""Tables of an SQLite database as text, a row a line, and back into a new database.

As text a row that changed is a line that changed: a diff shows it, ``search`` finds it, and the next snapshot is small.
The schema comes from the caller, never out of a vault: what is restored are values.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._format.json import load_object
from colony_memory._os.directory import open_below
from colony_memory._os.paths import local_name
from colony_memory.capture._contents import reason_of
from colony_memory.capture._steady import Deadline, TookTooLong, TooLarge
from colony_memory.capture._tree import LeftOut
from colony_memory.capture.sources import Part, file_documents
from colony_memory.capture.sqlite import DatabaseDamaged, DatabaseLocked, NotMerged, read_database
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Schema = str | Callable[[sqlite3.Connection], object]

_SECONDS = 65.0
_TABLE = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_KEPT_IN = ("data", "idx", "content", "docsize", "config", "segments", "segdir", "stat", "node", "rowid", "parent")
_LOGS_AHEAD = b"\2\2"
_LARGEST = 2**63 - 1


class _Text(bytes):
    """Text as the database has it: most likely, and not necessarily, UTF-8."""


@dataclass(frozen=True)
class SqliteTables:
    """The tables of one SQLite database that a schema names, whoever has it open.

    A restore makes a new database of the schema and the rows. A table or column that the schema does not name is left
    out, which is said; so are virtual tables. Of a table that the schema names and the database lacks there are no
    rows. Triggers of the schema do not run on what is restored.

    Attributes:
        path: Where it is below the root.
        schema: SQL that makes the tables in an empty database, or a function that does so on a connection, such as the
            ``setup`` of the program that writes it. It is run on scratch databases only.
        versions: The programs that write it, and their versions.
    """

    path: str
    schema: Schema
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``sqlite-tables``."""
        return "sqlite-tables"

    def capture(self, root: Path, *, max_bytes: int) -> Part:
        """See :class:`colony_memory.capture.sources.Source`."""
        *inside, name = map(local_name, self.path.split("/"))
        where = repr(str(root / self.path))
        try:
            with open_below(root, inside) as place:
                data = read_database(place, name, limit=max_bytes, deadline=Deadline(_SECONDS)).data
        except OSError as error:
            raise ValueError(f"{where} cannot be read: {why_unread(error)}") from error
        except (DatabaseLocked, DatabaseDamaged, NotMerged, TooLarge, TookTooLong) as error:
            raise ColonyMemoryError(f"{where} cannot be captured: {error}") from error
        with tempfile.TemporaryDirectory(prefix="colony-memory-") as scratch:
            known = self._known(Path(scratch, "schema"))
            copy = Path(scratch, "copy")
            copy.write_bytes(data)
            try:
                with closing(sqlite3.connect(copy)) as database:
                    return self._read(database, known, logs_ahead=data[18:20] == _LOGS_AHEAD)
            except sqlite3.Error as error:
                raise ColonyMemoryError(f"{where} cannot be captured: {error}") from error

    def restore(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        """See :class:`colony_memory.capture.sources.Source`."""
        head = self._head(documents)
        with tempfile.TemporaryDirectory(prefix="colony-memory-") as scratch:
            made = Path(scratch, "database")
            known = self._known(made)
            tables = {self._document(table): table for table in known}
            with closing(sqlite3.connect(made)) as database:
                try:
                    for name, text in documents.items():
                        if name != self._document(None):
                            if name not in tables:
                                raise _corrupt(name, f"is of no table that the schema of {self.path!r} makes")
                            _fill(database, tables[name], known[tables[name]], name, text)
                    _set_counters(database, head["sequences"])
                    database.execute(f"PRAGMA user_version={head['user_version']}")
                    database.execute(f"PRAGMA application_id={head['application_id']}")
                    database.commit()
                    mode = "wal" if head["logs_ahead"] else "delete"
                    database.execute(f"PRAGMA journal_mode={mode}").fetchone()
                except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
                    raise _corrupt(self.path, f"does not fit its schema: {error}") from error
            return file_documents({self.path: made.read_bytes()})

    def _known(self, scratch: Path) -> dict[str, list[str]]:
        """The tables that the schema makes in a new database, with their columns."""
        with closing(sqlite3.connect(scratch)) as database:
            if callable(self.schema):
                self.schema(database)
            else:
                database.executescript(self.schema)
            database.commit()
            known = _tables(database)
        for table in known:
            if not _TABLE.fullmatch(table):
                raise ValueError(
                    f"the schema of {self.path!r} makes a table {table!r}: its name cannot be part of a document's name"
                )
        if not known:
            raise ValueError(f"the schema of {self.path!r} makes no table")
        return known

    def _document(self, table: str | None) -> str:
        return f"{self.path}/database.json" if table is None else f"{self.path}/{table}.jsonl"

    def _read(self, database: sqlite3.Connection, known: dict[str, list[str]], *, logs_ahead: bool) -> Part:
        database.execute("PRAGMA trusted_schema=OFF")
        database.text_factory = _Text  # so that it is told from a blob, whatever its bytes are
        there = _tables(database)
        files, counts, left_out = dict[str, str | bytes](), dict[str, int](), list[LeftOut]()
        for table in sorted({*there, *known}):
            if table not in known:
                left_out.append(LeftOut(f"{self.path}/{table}", "a table that its schema does not name"))
                continue
            columns = [column for column in there.get(table, ()) if column in known[table]]
            lost = [column for column in there.get(table, ()) if column not in known[table]]
            left_out += [LeftOut(f"{self.path}/{table}.{c}", "a column that its schema does not name") for c in lost]
            lines = [_line(columns), *(_line(map(_encode, row)) for row in _rows(database, table, columns))]
            counts[f"rows of {table}"] = len(lines) - 1
            files[self._document(table)] = "".join(lines)
        left_out += [
            LeftOut(f"{self.path}/{name}", "a virtual table, which is not saved") for name in _virtual(database)
        ]
        head = {
            "application_id": database.execute("PRAGMA application_id").fetchone()[0],
            "logs_ahead": logs_ahead,
            "sequences": {name: value for name, value in _counters(database).items() if name in known},
            "user_version": database.execute("PRAGMA user_version").fetchone()[0],
        }
        files[self._document(None)] = json.dumps(head, sort_keys=True) + "\n"
        return Part(file_documents(files), counts, self.versions, tuple(left_out))

    def _head(self, documents: Mapping[str, str]) -> dict[str, Any]:
        name = self._document(None)
        if name not in documents:
            raise _corrupt(name, "is missing")
        try:
            head = load_object(documents[name])
        except ValueError as error:
            raise _corrupt(name, f"is not readable: {error}") from error
        numbers = [head.get("application_id"), head.get("user_version")]
        sequences = head.get("sequences")
        if not isinstance(sequences, dict) or type(head.get("logs_ahead")) is not bool:
            raise _corrupt(name, "does not say what it is the head of")
        if not all(type(each) is int and -(2**31) <= each < 2**32 for each in numbers):
            raise _corrupt(name, "has no numbers of a database")
        if not all(type(each) is int and 0 <= each <= _LARGEST for each in sequences.values()):
            raise _corrupt(name, "has a counter that is not a number")
        return head


def why_unread(error: Exception) -> str:
    """Say in a few words why a store that the caller named could not be read."""
    return "there is none" if isinstance(error, FileNotFoundError) else reason_of(error)


def _tables(database: sqlite3.Connection) -> dict[str, list[str]]:
    """The plain tables of a database, with their columns."""
    virtual = _virtual(database)
    names = [_text(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    # What a virtual table keeps its content in is named after it.
    hidden = {*virtual, *(f"{name}_{suffix}" for name in virtual for suffix in _KEPT_IN)}
    plain = sorted(name for name in names if name not in hidden and not name.startswith("sqlite_"))
    return {name: [_text(row[1]) for row in database.execute(f"PRAGMA table_info({_quote(name)})")] for name in plain}


def _virtual(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type='table' AND sql LIKE 'CREATE VIRTUAL%'")
    return sorted(_text(name) for (name,) in found)


def _rows(database: sqlite3.Connection, table: str, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    if not columns:
        return iter(())
    keyed = [(row[5], _text(row[1])) for row in database.execute(f"PRAGMA table_info({_quote(table)})") if row[5]]
    order = ", ".join(_quote(column) for _, column in sorted(keyed)) or "rowid"
    return iter(database.execute(f"SELECT {', '.join(map(_quote, columns))} FROM {_quote(table)} ORDER BY {order}"))  # noqa: S608


def _counters(database: sqlite3.Connection) -> dict[str, int]:
    """The largest id that each table with AUTOINCREMENT ever gave, so that none is given twice."""
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name='sqlite_sequence'").fetchone():
        return {}
    found = database.execute("SELECT name, seq FROM sqlite_sequence ORDER BY name").fetchall()
    return {_text(name): seq for name, seq in found if isinstance(seq, int)}


def _set_counters(database: sqlite3.Connection, counters: Mapping[str, int]) -> None:
    if not counters:
        return
    found = database.execute("SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")
    counted = {_text(name) for (name,) in found}
    for table, largest in counters.items():
        if table not in counted:
            raise sqlite3.IntegrityError(f"{table!r} has no counter")
        database.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        database.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, largest))


def _fill(database: sqlite3.Connection, table: str, known: list[str], name: str, text: str) -> None:
    """Put the rows of a document into an empty table."""
    lines = text.split("\n")
    if lines.pop() != "" or not lines:
        raise _corrupt(name, "does not end with a whole line")
    columns = _parse(name, lines[0])
    if not all(isinstance(column, str) for column in columns) or len({*columns}) != len(columns):
        raise _corrupt(name, "does not begin with the names of its columns")
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise _corrupt(name, f"has a column {unknown[0]!r} that its schema does not make")
    if not columns:
        return
    triggers = database.execute(
        "SELECT name, sql FROM sqlite_master WHERE type='trigger' AND tbl_name=?", (table,)
    ).fetchall()
    for trigger, _ in triggers:
        database.execute(f"DROP TRIGGER {_quote(trigger)}")
    database.execute(f"DELETE FROM {_quote(table)}")  # noqa: S608 - what a schema fills in by itself is saved too
    names = ", ".join(map(_quote, columns))
    for line in lines[1:]:
        values, places = [], []
        row = _parse(name, line)
        if len(row) != len(columns):
            raise _corrupt(name, "has a row of another length than its columns")
        for value in row:
            decoded, place = _decode(name, value)
            values.append(decoded)
            places.append(place)
        database.execute(f"INSERT INTO {_quote(table)} ({names}) VALUES ({', '.join(places)})", values)  # noqa: S608
    for _, sql in triggers:
        database.execute(sql)


def _parse(name: str, line: str) -> list[Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _corrupt(name, f"has a line that is not JSON: {error}") from error
    if not isinstance(row, list):
        raise _corrupt(name, "has a line that is not a row")
    return row


def _line(values: Any) -> str:
    return json.dumps(list(values), ensure_ascii=False, separators=(",", ":")) + "\n"


def _encode(value: Any) -> Any:
    """A value as JSON has it; what JSON lacks becomes an object of one key."""
    if isinstance(value, _Text):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"text": base64.b64encode(value).decode("ascii")}
    if isinstance(value, bytes):
        return {"blob": base64.b64encode(value).decode("ascii")}
    return {"real": str(value)} if isinstance(value, float) and math.isinf(value) else value


def _decode(name: str, value: Any) -> tuple[Any, str]:
    """A value, and what stands for it in a statement."""
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
        if isinstance(value, float) and not math.isfinite(value):
            raise _corrupt(name, "has a value that is not a number")
        return value, "?"
    if isinstance(value, dict) and len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "real" and content in ("inf", "-inf"):
            return float(content), "?"
        try:
            data = base64.b64decode(content, validate=True)
        except (ValueError, TypeError) as error:
            raise _corrupt(name, "has bytes that are not base64") from error
        if kind in ("blob", "text"):
            return data, "?" if kind == "blob" else "CAST(? AS TEXT)"
    raise _corrupt(name, "has a value that no database holds")


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _corrupt(name: str, what: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(f"document {name!r} {what}", file=name)
