"""The survey of a folder that was read: searched for secrets, compared with its index, and turned into documents."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from colony_memory._format.payload import digests_of, document_digest, of_file, sha256, tree_of_digests
from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory._os.paths import PERMISSIONS
from colony_memory._values import Record, replace
from colony_memory.capture import _metadata
from colony_memory.capture._filenames import INDEX, parents_of, stem_of
from colony_memory.capture._ignore import VAULT
from colony_memory.capture._secret_rules import RULES
from colony_memory.capture._steady import NO_FILE, VANISHED, companions_of
from colony_memory.capture._tree import PART, Row, is_settled
from colony_memory.capture.secrets import Pieces, SecretFinding, is_allowed, judge_secrets, shown_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.capture._reading import Found
    from colony_memory.capture.index import FolderIndex

# Reasons of names that are gone, or never saved: no other snapshot stands in for this one there.
_GONE = (VANISHED, NO_FILE, VAULT)


class _File(Record):
    """A file that was read and searched."""

    is_text: bool  # it is a document of its own
    digest: str  # empty without an index
    clean: str = ""  # version of the rules by which it has no likely secret
    pieces: str = ""  # of a large file, those without one
    is_masked: bool = False


class Survey:
    """Everything to save of a folder; raises SecretsFound if likely secrets stop it, or cannot be masked.

    With an index, ``digests`` are those of the documents, and ``tree`` that of all; empty if only reading them tells.
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
        # A file that the index knows to be clean has no likely secret in its path.
        clean = {parent for name in found.unread for parent in parents_of(name)}
        names = [*found.contents, *found.tree.directories, *(entry.name for entry in found.tree.left_out)]
        self._take_in({}, [name for name in names if name not in clean])
        self.digests = {} if index is None else self._known_digests()
        self.tree = self._tree_of(self.digests) if self.digests else ""

    @property
    def acted_on(self) -> tuple[SecretFinding, ...]:
        """The likely secrets that nobody has allowed."""
        return tuple(finding for finding in self.findings if not is_allowed(finding, self._allowed))

    @property
    def masked(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, file in self._files.items() if file.is_masked))

    @property
    def contents(self) -> _metadata.Contents:
        files, others = sorted((name, file.is_text) for name, file in self._all.items()), self._others()
        texts, rest = (tuple(name for name, is_text in files if is_text is of_text) for of_text in (True, False))
        return _metadata.Contents(texts, rest, dict(sorted(others.links.items())), tuple(sorted(others.empty_dirs)))

    @property
    def size(self) -> int:
        return sum(self.found.status[name].st_size for name in self._all if name in self.found.status)

    @property
    def _all(self) -> dict[str, _File | Row]:
        return {**self._files, **{name: row for name, (_, row) in self.found.unread.items()}}

    def read_rest(self) -> None:
        """Read the files that were skipped, with any changes made meanwhile."""
        known = {name: row for name, (_, row) in self.found.unread.items()}
        self.found.within_reach(self.found.read_rest, None)
        self._take_in(known, [])

    @property
    def fresh(self) -> dict[str, str | bytes]:
        """The content of all files that were read and, if all digests are known, the documents about the folder."""
        described = {_metadata.METADATA_NAME: self._described} if _metadata.METADATA_NAME in self.digests else {}
        return {**self.found.contents, **described, **({ATTRIBUTES_NAME: self._attributes} if self._attributes else {})}

    def documents(self) -> dict[str, str]:
        if self._documents:
            return self._documents
        others, documents, files = self._others(), self._documents, dict[str, bytes]()
        # Popped one by one, to have no large file in memory twice.
        for name in sorted(self.found.contents):
            content = self.found.contents.pop(name)
            if isinstance(content, str) and name in self._files and self._files[name].is_text:
                documents[name] = content
            else:
                files[name] = content.encode("utf-8") if isinstance(content, str) else content
        if files or others:
            documents[_metadata.METADATA_NAME] = _metadata.dump_metadata(others, files)
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
            # Companions without data come and go with the readers of a database.
            if row.digest == PART and name not in rows and (name.endswith(INDEX) or not row.size):
                database = rows.get(stem_of(name))
                if database is not None and database.is_database:
                    rows[name] = row
        described = document_digest(self._described) if self._described else ""
        index.update(rows=rows, described=described, attributes=self._attributes)

    def _take_in(self, known: Mapping[str, Row], names: list[str]) -> None:
        """Take the digests of files just read, and search those for secrets that differ from their ``known`` rows."""
        contents, files = self.found.contents, self._files
        fresh = {name: contents[name] for name in contents if name in self.found.fresh or name not in files}
        self.found.fresh.clear()
        dropped = {*fresh, *(files.keys() - contents.keys())}
        self.findings = tuple(finding for finding in self.findings if finding.name not in dropped)
        self._files = files = {name: file for name, file in files.items() if name not in dropped}
        searched = dict[str, str | bytes]()
        for name, content in fresh.items():
            is_text = isinstance(content, str) and name not in _metadata.METADATA_NAMES
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
            pieces = Pieces(digest for row in rows for digest in row.pieces.split())
        findings = judge_secrets(searched, self._secrets, self._allowed, names, links, pieces=pieces, depth=5)
        suspicious = {*shown_names(searched), *(finding.name for finding in findings)}
        for name, content in searched.items():
            file = files[name]
            file.clean = "" if name in suspicious else RULES
            file.pieces = " ".join(pieces.clean.get(name, ())) if pieces is not None else ""
            if content is not fresh[name]:
                contents[name], file.digest, file.is_masked = content, _digest(content), True
        self.findings += findings

    def _known_digests(self) -> dict[str, str]:
        """The digests for the tree; none if a file has the name of a document about the folder."""
        others, every = self._others(), self._all
        files = {name: of_file(file.digest) for name, file in every.items() if not file.is_text}
        if not files.keys().isdisjoint(_metadata.METADATA_NAMES):
            return {}
        digests = {name: file.digest for name, file in every.items() if file.is_text}
        if files or others:
            self._described = _metadata.dump_metadata(others, {})
            digests |= {**files, _metadata.METADATA_NAME: document_digest(self._described)}
        return digests

    def _tree_of(self, digests: dict[str, str]) -> str:
        """Choose the permissions and times to save; return the tree of all documents if there is an index."""
        if self._with_attributes:
            found, known = self.found, "" if self.index is None else self.index.attributes
            statuses = {name: found.status[name] for name in self._all if name in found.status}
            statuses |= {f"{name}/": status for name, status in found.tree.directories.items()}
            modes = {name: status.st_mode & PERMISSIONS for name, status in statuses.items()}
            if os.name == "nt":  # without such bits: those that other systems saved are kept
                known_modes = _metadata.described_by({ATTRIBUTES_NAME: known} if known else {}).modes
                modes = {name: known_modes[name] for name in statuses if name in known_modes}
            current = _metadata.dump_attributes(modes, {name: status.st_mtime_ns for name, status in statuses.items()})
            # The first that gives the tree of the last snapshot is saved, so that times alone make no new one: none at
            # all, the permissions with the times known of it, or all as on disk.
            for self._attributes in ("", _metadata.at_known_times(current, known), current):
                if self._attributes:
                    digests[ATTRIBUTES_NAME] = document_digest(self._attributes)
                if self.index is not None and tree_of_digests(digests) == self.index.read().tree:
                    break
        return "" if self.index is None else tree_of_digests(digests)

    def _others(self) -> _metadata.Metadata:
        """The metadata of the folder, without the content of files."""
        found, tree, names = self.found, self.found.tree, {*self._files, *self.found.unread}
        implied = {
            parent for name in [*names, *tree.directories, *tree.links, *found.sets] for parent in parents_of(name)
        }
        executable = [name for name in names & found.status.keys() if found.status[name].st_mode & stat.S_IXUSR]
        return _metadata.Metadata(
            # Only the innermost of nested ones.
            empty_dirs=tuple(name for name in tree.directories if name not in implied),
            executable=frozenset() if os.name == "nt" else frozenset(executable),  # no such bits on Windows
            links=tree.links,
            left_out={entry.name: entry.reason for entry in tree.left_out if entry.reason != VAULT},
            unread=frozenset(entry.name for entry in tree.left_out if entry.unread and entry.reason not in _GONE),
            masked=self.masked,
        )


def _digest(content: str | bytes) -> str:
    return document_digest(content) if isinstance(content, str) else sha256(content)
