"""The sources that are here: a file, a directory with its git history, tables of SQLite, and an agentmemory store."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory._os.paths import local_name
from colony_memory.capture._contents import NotSaved, read_contents
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._steady import Deadline, TookTooLong, TooLarge
from colony_memory.capture.folder import read_named
from colony_memory.capture.git import (
    BUNDLE_NAME,
    GIT_NAME,
    NotBundled,
    bring_back,
    count_commits,
    holds_bundle,
    is_repository,
    version_of_git,
)
from colony_memory.capture.sources import Part, file_documents
from colony_memory.capture.tables import SqliteTables, why_unread
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GitDirectory", "SqliteTables", "StoredFile", "agentmemory_store"]

_SECONDS = 65.0

AGENTMEMORY_SCHEMA = """
CREATE TABLE kv_store (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scope, key));
CREATE INDEX idx_kv_scope ON kv_store(scope);
CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ts INTEGER NOT NULL, agent_id TEXT NOT NULL, message TEXT NOT NULL
);
"""


def agentmemory_store(path: str = "agentmemory.db", *, versions: Mapping[str, str] | None = None) -> SqliteTables:
    """The store that agentmemory keeps in one SQLite database, in the mode that logs ahead.

    Its tables are ``kv_store(scope, key, value)`` and ``audit_log(id, ts, agent_id, message)``.

    Args:
        path: Where it is below the root of the set, ``~/.agentmemory`` for most.
        versions: The programs that write it, and their versions.
    """
    return SqliteTables(path, AGENTMEMORY_SCHEMA, versions=versions or {})


@dataclass(frozen=True)
class StoredFile:
    """One file, byte for byte, such as a cursor in JSON. No link is followed.

    Attributes:
        path: Where it is below the root.
        versions: The programs that write it, and their versions.
    """

    path: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``file``."""
        return "file"

    def capture(self, root: Path, *, max_bytes: int) -> Part:
        """See :class:`colony_memory.capture.sources.Source`."""
        *inside, name = map(local_name, self.path.split("/"))
        try:
            with open_below(root, inside) as place:
                data = bytes(read_contents(place, name, limit=max_bytes, deadline=Deadline(_SECONDS)).data)
        except (OSError, NotSaved, TooLarge, TookTooLong) as error:
            raise ValueError(f"{str(root / self.path)!r} cannot be read: {why_unread(error)}") from error
        content: str | bytes = data
        with contextlib.suppress(UnicodeDecodeError):
            content = data.decode("utf-8")
        return Part(file_documents({self.path: content}), {"bytes": len(data)}, self.versions)

    def restore(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        """See :class:`colony_memory.capture.sources.Source`."""
        return documents


@dataclass(frozen=True)
class GitDirectory:
    """A directory of files and the git repository that they are checked out of, with all its commits.

    A restore puts the files in place, and then the history: into a repository that is there already nothing comes but
    what it lacks, under ``refs/colony-memory/``. Configuration, hooks and what is staged are not kept, and repositories
    within it come back as bundles.

    Attributes:
        path: Where it is below the root.
        versions: The programs that write it, and their versions; git's own is added.
    """

    path: str
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``git``."""
        return "git"

    def capture(self, root: Path, *, max_bytes: int) -> Part:
        """See :class:`colony_memory.capture.sources.Source`."""
        inside = [*map(local_name, self.path.split("/"))]
        try:
            with open_below(root, inside) as place:
                has_repository = is_repository(place)
        except OSError as error:
            raise ValueError(f"{str(root / self.path)!r} cannot be read: {why_unread(error)}") from error
        if not has_repository:
            raise ValueError(f"{str(root / self.path)!r} has no git repository")
        folder = Path(root, *inside)
        found = read_named(folder, self.path, git=True, max_bytes=max_bytes)
        contents, metadata = split_documents(found.documents)
        bundle, versions, commits = f"{self.path}/{BUNDLE_NAME}", dict(self.versions), 0
        if bundle in contents:
            try:
                versions.setdefault("git", version_of_git(folder / GIT_NAME))
                commits = count_commits(folder / GIT_NAME)
            except NotBundled as error:
                raise ColonyMemoryError(f"{str(folder)!r}: {error}") from error
        files = sum(name != bundle for name in [*contents, *metadata.links])
        counts = {"commits": commits, "files": files}
        return Part(found.documents, counts, versions, found.left_out, found.ignored, found.notes)

    def restore(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        """See :class:`colony_memory.capture.sources.Source`."""
        return documents

    def finish(self, root: Path) -> None:
        """See :class:`colony_memory.capture.sources.Finishing`."""
        folder = Path(root, *map(local_name, self.path.split("/")))
        bundle = folder / BUNDLE_NAME
        if not bundle.is_file() or bundle.is_symlink():
            return
        try:
            bring_back(folder / GIT_NAME, bundle, within=root)
            if not holds_bundle(folder / GIT_NAME, bundle.read_bytes()):
                raise SnapshotCorrupt(f"not all of {str(bundle)!r} arrived in the repository", file=BUNDLE_NAME)
        except (NotBundled, OSError) as error:
            raise ColonyMemoryError(
                f"the files of {str(folder)!r} are in place, and its history is not: {error}; it is in {BUNDLE_NAME}"
            ) from error
        bundle.unlink()
