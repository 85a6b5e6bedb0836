"""A folder between its files and its documents: searched for secrets, compared with its index, and turned into text."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from colony_memory._format.payload import digests_of, document_digest, of_file, sha256, tree_of_digests
from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory._os.paths import PERMISSIONS
from colony_memory._values import Record, replace
from colony_memory.capture._filenames import INDEX, parents_of, whole_of
from colony_memory.capture._ignore import VAULT
from colony_memory.capture._metadata import (
    METADATA_NAME,
    METADATA_NAMES,
    Contents,
    Metadata,
    at_known_times,
    described_by,
    dump_attributes,
    dump_metadata,
)
from colony_memory.capture._secret_rules import RULES
from colony_memory.capture._steady import NO_FILE, VANISHED, companions_of
from colony_memory.capture._tree import PART, Row, is_settled
from colony_memory.capture.secrets import Pieces, SecretFinding, is_allowed, judge_secrets, shown_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture._reading import Found
    from colony_memory.capture.index import FolderIndex

# What somebody took away is in no other snapshot for this one.
_GONE = (VANISHED, NO_FILE, VAULT)


class _File(Record):
    """A file that was read and searched."""

    is_text: bool  # it is a document of its own
    digest: str  # empty without an index
    clean: str = ""  # the version of the rules by which no likely secret is in it
    pieces: str = ""  # of a large one, those in which none is
    is_masked: bool = False


class Survey:
    """Everything that is to be saved of a folder; SecretsFound where likely secrets stop it, or cannot be masked.

    With an index, ``digests`` are those of the documents, of which ``tree`` is made; empty where only reading tells.
    """

    def __init__(
        self,
        found: Found,
        *,
        secrets: str,
        allowed: frozenset[str],
        attributes: bool,
        index: FolderIndex | None,
        began: int,
    ) -> None:
        self.found, self.index, self._began = found, index, began
        self._secrets, self._allowed, self._with_attributes = secrets, allowed, attributes
        self._files: dict[str, _File] = {}
        self._attributes = self._described = ""
        self._documents: dict[str, str] = {}
        self.findings: tuple[SecretFinding, ...] = ()
        # No file that the index knows to be clean has a likely secret in its name.
        clean = {parent for name in found.unread for parent in parents_of(name)}
        names = [*found.contents, *found.tree.directories, *(each.name for each in found.tree.left_out)]
        self._take_in({}, [name for name in names if name not in clean])
        self.digests = {} if index is None else self._known_digests()
        self.tree = self._tree_of(self.digests) if self.digests else ""

    @property
    def acted_on(self) -> tuple[SecretFinding, ...]:
        """The likely secrets that nobody has allowed."""
        return tuple(each for each in self.findings if not is_allowed(each, self._allowed))

    @property
    def masked(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, file in self._files.items() if file.is_masked))

    @property
    def contents(self) -> Contents:
        files, others = sorted((name, file.is_text) for name, file in self._all.items()), self._others()
        texts, rest = (tuple(name for name, is_text in files if is_text is of_text) for of_text in (True, False))
        return Contents(texts, rest, dict(sorted(others.links.items())), tuple(sorted(others.empty_dirs)))

    @property
    def size(self) -> int:
        return sum(self.found.status[name].st_size for name in self._all if name in self.found.status)

    @property
    def _all(self) -> dict[str, _File | Row]:
        return {**self._files, **{name: row for name, (_, row) in self.found.unread.items()}}

    def read_rest(self) -> None:
        """Read what was passed over. What has changed meanwhile is as it is now."""
        known = {name: row for name, (_, row) in self.found.unread.items()}
        self.found.within_reach(self.found.read_rest, None)
        self._take_in(known, [])

    @property
    def fresh(self) -> dict[str, str | bytes]:
        """Everything that was read, as long as the digests of all are known, with what describes the folder."""
        described = {METADATA_NAME: self._described} if METADATA_NAME in self.digests else {}
        return {**self.found.contents, **described, **({ATTRIBUTES_NAME: self._attributes} if self._attributes else {})}

    def documents(self) -> dict[str, str]:
        if self._documents:
            return self._documents
        others, documents, files = self._others(), self._documents, dict[str, bytes]()
        # Taken out one by one: large files should not stand twice in memory.
        for name in sorted(self.found.contents):
            content = self.found.contents.pop(name)
            if isinstance(content, str) and name in self._files and self._files[name].is_text:
                documents[name] = content
            else:
                files[name] = content.encode("utf-8") if isinstance(content, str) else content
        if files or others:
            documents[METADATA_NAME] = dump_metadata(others, files)
        self.tree = self._tree_of({} if self.index is None else self._known_digests() or digests_of(documents))
        if self._attributes:
            documents[ATTRIBUTES_NAME] = self._attributes
        return documents

    def note(self, index: FolderIndex) -> None:
        found, rows = self.found, dict[str, Row]()
        for name, (_, row) in found.unread.items():
            mode = found.status[name].st_mode
            rows[name] = row if row.mode == mode else replace(row, mode=mode)
        for name, file in self._files.items():
            if name in found.status:
                is_database = name in found.databases
                parts = [found.parts[part] for part in companions_of(name) if is_database and part in found.parts]
                is_final = not file.is_masked and all(is_settled(part, self._began) for part in parts)
                more = {"clean": file.clean, "pieces": file.pieces, "is_text": file.is_text, "is_database": is_database}
                digest = file.digest if is_final else ""
                rows[name] = Row.of(found.status[name], digest, began=self._began, **more)
        for name, status in found.parts.items():
            rows[name] = Row.of(status, PART, began=sys.maxsize, is_text=False)
        for name, row in index.rows.items():
            # Readers of a database come and go, and with them what holds nothing.
            if row.digest == PART and name not in rows and (name.endswith(INDEX) or not row.size):
                whole = rows.get(whole_of(name))
                if whole is not None and whole.is_database:
                    rows[name] = row
        described = document_digest(self._described) if self._described else ""
        index.update(rows=rows, described=described, attributes=self._attributes)

    def _take_in(self, known: Mapping[str, Row], names: list[str]) -> None:
        """Search what has been read for secrets, unless it is what was searched before, and take its digests."""
        contents, files = self.found.contents, self._files
        fresh = {name: contents[name] for name in contents if name in self.found.fresh or name not in files}
        self.found.fresh.clear()
        gone = {*fresh, *(files.keys() - contents.keys())}
        self.findings = tuple(each for each in self.findings if each.name not in gone)
        self._files = files = {name: file for name, file in files.items() if name not in gone}
        searched = dict[str, str | bytes]()
        for name, content in fresh.items():
            is_text = isinstance(content, str) and name not in METADATA_NAMES
            file = files[name] = _File(is_text, "" if self.index is None else _digest(content))
            row = known.get(name)
            if row is not None and row.digest == file.digest:
                file.clean, file.pieces = row.clean, row.pieces
            else:
                searched[name] = content
        if self._secrets == "allow":
            return
        links, pieces = self.found.tree.links if names else {}, None
        if self.index is not None:
            rows = [self.index.rows[name] for name in searched.keys() & self.index.rows.keys()]
            pieces = Pieces(each for row in rows for each in row.pieces.split())
        findings = judge_secrets(searched, self._secrets, self._allowed, names, links, pieces=pieces, depth=5)
        suspicious = {*shown_names(searched), *(each.name for each in findings)}
        for name, content in searched.items():
            file = files[name]
            file.clean = "" if name in suspicious else RULES
            file.pieces = " ".join(pieces.clean.get(name, ())) if pieces is not None else ""
            if content is not fresh[name]:
                contents[name], file.digest, file.is_masked = content, _digest(content), True
        self.findings += findings

    def _known_digests(self) -> dict[str, str]:
        """The digests of which the tree is made; none where a file has the name of what describes the folder."""
        others, every = self._others(), self._all
        files = {name: of_file(file.digest) for name, file in every.items() if not file.is_text}
        if not files.keys().isdisjoint(METADATA_NAMES):
            return {}
        digests = {name: file.digest for name, file in every.items() if file.is_text}
        if files or others:
            self._described = dump_metadata(others, {})
            digests |= {**files, METADATA_NAME: document_digest(self._described)}
        return digests

    def _tree_of(self, digests: dict[str, str]) -> str:
        """Settle permissions and times, and give the tree of all documents where there is an index."""
        if self._with_attributes:
            found, known = self.found, "" if self.index is None else self.index.attributes
            told = {name: found.status[name] for name in self._all if name in found.status}
            told |= {f"{name}/": status for name, status in found.tree.directories.items()}
            modes = {name: status.st_mode & PERMISSIONS for name, status in told.items()}
            if os.name == "nt":  # which has no such bits: those that others have are not lost here
                saved = described_by({ATTRIBUTES_NAME: known} if known else {}).modes
                modes = {name: saved[name] for name in told if name in saved}
            now = dump_attributes(modes, {name: status.st_mtime_ns for name, status in told.items()})
            # Where a snapshot without either is the same in all else, neither is told; where nothing but times is
            # otherwise than it was saved last, they count as they were.
            for self._attributes in ("", at_known_times(now, known), now):
                if self._attributes:
                    digests[ATTRIBUTES_NAME] = document_digest(self._attributes)
                if self.index is not None and tree_of_digests(digests) == self.index.read().tree:
                    break
        return "" if self.index is None else tree_of_digests(digests)

    def _others(self) -> Metadata:
        """Everything beside the files themselves."""
        found, tree, names = self.found, self.found.tree, {*self._files, *self.found.unread}
        implied = {
            parent for name in [*names, *tree.directories, *tree.links, *found.sets] for parent in parents_of(name)
        }
        executable = [name for name in names & found.status.keys() if found.status[name].st_mode & stat.S_IXUSR]
        return Metadata(
            # Of nested ones, the innermost.
            empty_dirs=tuple(name for name in tree.directories if name not in implied),
            executable=frozenset() if os.name == "nt" else frozenset(executable),  # which has no such bits
            links=tree.links,
            left_out={entry.name: entry.reason for entry in tree.left_out if entry.reason != VAULT},
            unread=frozenset(entry.name for entry in tree.left_out if entry.unread and entry.reason not in _GONE),
            masked=self.masked,
        )


def _digest(content: str | bytes) -> str:
    return document_digest(content) if isinstance(content, str) else sha256(content)
