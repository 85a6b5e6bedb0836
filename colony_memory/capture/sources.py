"""Memory that lies in several stores of different kinds, captured and restored as one set.

A :class:`Source` turns one store into documents and back; three are here, and others are added by writing one. What
belongs to a set lies below one directory, its root, so that all of it can be put in place in one step, or none.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from colony_memory._boundary import require_named, require_type, several
from colony_memory._format import MAX_BYTES
from colony_memory.capture._filenames import name_problem
from colony_memory.capture._metadata import Metadata, describe, split_documents
from colony_memory.capture._recover import recover
from colony_memory.capture._sources import (
    RECORD_NAME,
    SourceDiff,
    compare_sources,
    read_record,
    write_record,
)
from colony_memory.capture._write import place_documents
from colony_memory.capture.folder import Capture, LeftOut, Note
from colony_memory.capture.secrets import is_allowed, judge_secrets, read_allowed
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from colony_memory.capture._question import Question
    from colony_memory.capture._write import Written

__all__ = [
    "RECORD_NAME",
    "Finishing",
    "Part",
    "Source",
    "SourceDiff",
    "SourceSet",
    "compare_sources",
    "file_documents",
]

_CHOICES = ("stop", "warn", "allow")


@dataclass(frozen=True)
class Part:
    """What one source held at one moment.

    Attributes:
        documents: Name to text, as :func:`colony_memory.capture.read_folder` gives them: each name is the source's
            path, or begins with it and a slash. :func:`file_documents` makes them of files.
        counts: What there is of what, such as ``{"rows of events": 12}``: what a diff shows.
        versions: The programs that wrote it, and their versions, such as ``{"agentmemory": "0.4.8"}``.
        left_out: What could not be taken along, with the reason.
        ignored: What was not to be taken along.
        notes: What else is good to know.
    """

    documents: Mapping[str, str]
    counts: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    ignored: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@runtime_checkable
class Source(Protocol):
    """One store of memory. A source holds no state of its own: what it is made with says all.

    ``capture`` changes nothing on disk. ``restore`` writes nothing: it says what is to be written, so that a set can be
    put in place in one step. The same store gives the same documents, else each backup would be a new snapshot.
    """

    @property
    def kind(self) -> str:
        """What kind of store it is, such as ``sqlite-tables``; a snapshot is restored by a source of the same kind."""

    @property
    def path(self) -> str:
        """Where it is below the root, with ``/``."""

    def capture(self, root: Path, *, max_bytes: int) -> Part:
        """Read the store as it is at one moment.

        Raises:
            ValueError: There is none, or it cannot be read.
            ColonyMemoryError: It cannot be captured.
        """

    def restore(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        """Documents of this source, out of a vault and not to be believed, as documents of a folder.

        Raises:
            SnapshotCorrupt: They are not what ``capture`` gives.
        """


@runtime_checkable
class Finishing(Protocol):
    """A source with something left to do when the files are in place."""

    def finish(self, root: Path) -> None:
        """Do it; safe to do again, whatever became of it before.

        Raises:
            ColonyMemoryError: It could not be done. The files are in place.
        """


class SourceSet:
    """Several sources below one directory, as one memory.

    They are captured one after the other, in the order in which they are given. Give what points before what it points
    to: first the cursor that says how far the agent has read, then the tables that it points into, then the repository
    whose commits the tables name. What grows meanwhile is then more than what is pointed at, never less: an agent that
    is restored does a little again and misses nothing.

    Args:
        root: The directory.
        sources: The sources, none of which lies within another.

    Raises:
        ValueError: There are none, two share a place, or a path leads out of the root.
    """

    def __init__(self, root: str | os.PathLike[str], sources: Iterable[Source]) -> None:
        require_named(root)
        self.root = Path(root)
        if isinstance(sources, Source):
            raise ValueError("sources must be several, as a list, not one")  # noqa: TRY004 - one type for bad arguments
        self.sources: tuple[Source, ...] = tuple(several("sources", sources))
        if not self.sources:
            raise ValueError("a set needs at least one source")
        for source in self.sources:
            if not isinstance(source, Source):
                raise ValueError(f"{source!r} is not a source: it lacks kind, path, capture or restore")  # noqa: TRY004
            problem = name_problem(source.path)
            if problem:
                raise ValueError(f"the source {source.path!r} {problem}")
            if source.path.split("/")[0] == RECORD_NAME.split("/", maxsplit=1)[0]:
                raise ValueError(f"{source.path!r} is kept for the set's own record")
        paths = sorted(f"{source.path}/" for source in self.sources)
        for one, other in itertools.pairwise(paths):
            if other.startswith(one):
                raise ValueError(f"the source {other[:-1]!r} lies within {one[:-1]!r}, or is given twice")

    def capture(
        self, *, secrets: str = "warn", allow_secrets: str | Iterable[str] = (), max_bytes: int = MAX_BYTES
    ) -> Capture:
        """Read all of them; :func:`colony_memory.app.save_capture` saves what comes of it.

        Args:
            secrets: What to do about likely secrets: ``"stop"`` raises, ``"warn"`` warns, ``"allow"`` does not look.
            allow_secrets: Findings to save as they are, by their ``id``.
            max_bytes: Bytes that each source may have.

        Raises:
            ValueError: A store is missing or cannot be read, or an argument is wrong.
            SecretsFound: Likely secrets stop it.
            ColonyMemoryError: A store cannot be captured.
        """
        if secrets not in _CHOICES:
            raise ValueError(f"secrets must be one of {', '.join(map(repr, _CHOICES))}, not {secrets!r}")
        allowed = read_allowed(allow_secrets)
        recover(self.root)  # else a half of one memory and a half of another would be saved
        parts = [(source, source.capture(self.root, max_bytes=max_bytes)) for source in self.sources]
        documents, metadata = dict[str, str | bytes](), Metadata()
        for source, part in parts:
            contents, more = split_documents(dict(part.documents))
            names = [*contents, *more.empty_dirs, *more.links]
            _require_own(source, names)
            documents |= contents
            metadata = _joined(metadata, more)
        names = [*documents, *metadata.empty_dirs, *metadata.left_out]
        findings = () if secrets == "allow" else judge_secrets(documents, secrets, allowed, names, metadata.links)
        left_out = tuple(sorted((each for _, part in parts for each in part.left_out), key=lambda each: each.name))
        record = {
            source.path: {"kind": source.kind, "counts": dict(part.counts), "versions": dict(part.versions)}
            for source, part in parts
        }
        return Capture(
            documents={**_texts(documents, metadata), RECORD_NAME: write_record(record)},
            left_out=left_out,
            ignored=tuple(sorted(name for _, part in parts for name in part.ignored)),
            notes=tuple(sorted((note for _, part in parts for note in part.notes), key=lambda note: note.name)),
            secrets=tuple(finding for finding in findings if not is_allowed(finding, allowed)),
            allowed=tuple(finding for finding in findings if is_allowed(finding, allowed)),
        )

    def restore(
        self,
        documents: Mapping[str, str],
        *,
        force: bool = False,
        dry_run: bool = False,
        question: Question | None = None,
        on_progress: Callable[[int, int, str], None] | None = None,
    ) -> Written:
        """Put all of them in place, or none, as :func:`colony_memory.capture.write_folder` does it.

        What else lies in the root stays. Then each source does what it has left to do, such as putting a repository's
        history back; where that fails, the files are in place, and doing it all again is safe.

        Args:
            documents: What a restore of the set's label gave.
            force: As for ``write_folder``.
            dry_run: As for ``write_folder``.
            question: What is asked before anything goes that the root holds; None where all of it may.
            on_progress: As for ``write_folder``.

        Raises:
            ValueError: It is no snapshot of a set, or of one with other sources.
            SnapshotCorrupt: It is not what its sources gave.
            ColonyMemoryError: As for ``write_folder``.
        """
        recorded = read_record(require_type("documents", documents, Mapping))  # type: ignore[type-abstract]
        written = place_documents(
            self.files_of(documents),
            self.root,
            force=force,
            dry_run=dry_run,
            question=question,
            on_progress=on_progress,
        )
        if not dry_run:
            _finish(self.root, [source for source in self.sources if source.path in recorded])
        return written

    def files_of(self, documents: Mapping[str, str]) -> dict[str, str]:
        """What a snapshot of this set is in the root, as documents of a folder. Errors as :meth:`restore`."""
        recorded = read_record(documents)
        own = {source.path: source for source in self.sources}
        for path, entry in recorded.items():
            if path not in own or own[path].kind != entry["kind"]:
                raise ValueError(
                    f"the snapshot has the source {path!r} of kind {entry['kind']!r}, which this set does not have"
                )
        contents, metadata = split_documents({name: text for name, text in documents.items() if name != RECORD_NAME})
        shares = {path: _share(path, contents, metadata) for path in recorded}
        known = {name for files, more in shares.values() for name in [*files, *more.links, *more.empty_dirs]}
        for name in [*contents, *metadata.links, *metadata.empty_dirs]:
            if name not in known:
                raise SnapshotCorrupt(f"document {name!r} belongs to none of the set's sources", file=name)
        files, joined = dict[str, str | bytes](), Metadata()
        for path, (share, more) in shares.items():
            given, extra = split_documents(dict(own[path].restore(_texts(share, more))))
            _require_own(own[path], [*given, *extra.empty_dirs, *extra.links])
            files |= given
            joined = _joined(joined, extra)
        return _texts(files, joined)


def _finish(root: Path, sources: Iterable[Source]) -> None:
    """Let each do what it has left to do, also where another fails at that."""
    failed: ColonyMemoryError | None = None
    for source in sources:
        if isinstance(source, Finishing):
            try:
                source.finish(root)
            except ColonyMemoryError as error:
                failed = failed or error
    if failed is not None:
        raise failed


def file_documents(files: Mapping[str, str | bytes]) -> dict[str, str]:
    """Files as documents that come back as these files: text as it is, bytes in the folder's record."""
    return _texts(dict(files), Metadata())


def _require_own(source: Source, names: Iterable[str]) -> None:
    for name in names:
        if not _belongs(name, source.path):
            raise ValueError(f"the source {source.path!r} gave {name!r}, which is not its own")


def _belongs(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}/")


def _share(
    path: str, contents: Mapping[str, str | bytes], metadata: Metadata
) -> tuple[dict[str, str | bytes], Metadata]:
    """What of a set is one source's."""

    def own(each: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in each.items() if _belongs(name, path)}

    share = Metadata(
        empty_dirs=tuple(name for name in metadata.empty_dirs if _belongs(name, path)),
        executable=frozenset(name for name in metadata.executable if _belongs(name, path)),
        links=own(metadata.links),
        modes=own(metadata.modes),
        times=own(metadata.times),
        left_out=own(metadata.left_out),
        unread=frozenset(name for name in metadata.unread if _belongs(name, path)),
    )
    return own(contents), share


def _joined(one: Metadata, other: Metadata) -> Metadata:
    """What two describe together; the files themselves are not in it."""
    return Metadata(
        empty_dirs=(*one.empty_dirs, *other.empty_dirs),
        executable=one.executable | other.executable,
        links={**one.links, **other.links},
        modes={**one.modes, **other.modes},
        times={**one.times, **other.times},
        left_out={**one.left_out, **other.left_out},
        unread=one.unread | other.unread,
    )


def _texts(contents: Mapping[str, str | bytes], metadata: Metadata) -> dict[str, str]:
    """Files and what else there is to say of them, as documents."""
    files = {name: content for name, content in contents.items() if isinstance(content, bytes)}
    texts = {name: content for name, content in contents.items() if isinstance(content, str)}
    described = replace(metadata, files=files)
    return {**texts, **describe(described)}
