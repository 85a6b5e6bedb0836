"""Contents of a snapshot: one file, a selection by glob, and what it lacks, filled in from other snapshots."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Any

from colony_memory._format import MAX_BYTES
from colony_memory._format.lineage import refused_only
from colony_memory._format.names import id_order
from colony_memory._format.v2.build import LEFT_OUT
from colony_memory._os.paths import real_path
from colony_memory._values import Value, names_of, replace
from colony_memory.capture._metadata import METADATA_NAMES, Metadata, describe, described_by, split_documents
from colony_memory.capture._steady import Sparse
from colony_memory.exceptions import ColonyMemoryError, message_of
from colony_memory.shell.app.pick import BEFORE_RESTORE, left_out, made_at, stamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from colony_memory._engine.load import Loaded
    from colony_memory.shell.app.target import Target
    from colony_memory.snapshot import SnapshotInfo


def content_of(info: SnapshotInfo, documents: Mapping[str, str], name: str) -> str | bytes:
    """The content of one file of a snapshot, bytes if it is not text."""
    files, metadata = split_documents(documents)
    if name in files:
        content = files[name]
        if not isinstance(content, Sparse):
            return content
        if content.size > MAX_BYTES:
            raise ColonyMemoryError(f"{name!r} has {content.size} bytes, mostly holes: restore it instead")
        return content.whole()
    if name in METADATA_NAMES and name in documents:
        return documents[name]
    if name in metadata.links:
        raise ColonyMemoryError(f"{name!r} is a link, to {metadata.links[name]!r}")
    lacks = f"; the snapshot is incomplete, {left_out(info)}" if info.incomplete else ""
    raise ColonyMemoryError(f"there is no {name!r} in snapshot {info.snapshot_id}{near(name, files)}{lacks}")


def near(name: str, names: Collection[str]) -> str:
    """The names closest to one that is missing, as a clause to append to the message; empty if none is close."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=3) or [path for path in names if path.startswith(f"{name.rstrip('/')}/")]
    return f"; the nearest {'is' if len(close) == 1 else 'are'} {', '.join(map(repr, close[:3]))}" if close else ""


def narrow(documents: Mapping[str, str], globs: Sequence[str]) -> dict[str, str]:
    """The files, links and directories whose name matches one of the globs, with their metadata."""
    kept = reshape(documents, lambda name: any(fnmatchcase(name, glob) for glob in globs))
    if not kept:
        raise ValueError(f"nothing in the snapshot matches {', '.join(map(repr, globs))}")
    return kept


def names_in(documents: Mapping[str, str]) -> frozenset[str]:
    """The names of the files and links in a folder's documents."""
    contents, metadata = split_documents(documents)
    return frozenset((*contents, *metadata.links))


def reshape(documents: Mapping[str, str], wanted: Callable[[str], bool]) -> dict[str, str]:
    """The wanted documents, with their metadata."""
    _, before = split_documents(documents)

    def among(known: Any) -> Any:
        kept = [name for name in known if wanted(name.rstrip("/"))]  # directories may end with a slash here
        return {name: known[name] for name in kept} if isinstance(known, dict) else type(known)(kept)

    after = Metadata(**{name: among(getattr(before, name)) for name in names_of(Metadata)})
    rest = {name: text for name, text in documents.items() if name not in METADATA_NAMES and wanted(name)}
    return {**rest, **describe(after)}


# What a snapshot lacks because it kept changing or could not be read is filled in set by set, each set from a single
# snapshot: a missing directory is a set, and so are files of one directory whose names begin alike, like those of a
# database. What was left out for another reason is not filled in, nor is a set that is absent from the newest snapshot
# which left nothing of it out: somebody deleted it.

_MOST = 4  # snapshots read per restore


class Filled(Value):
    """A set of files that the snapshot lacks and another one has."""

    names: tuple[str, ...]  # the files or the directory, as the snapshot's own record names them
    snapshot_id: str  # the newest snapshot that has the set
    made: str  # time of that snapshot, to the minute
    left: str = ""  # why the set was not taken from there; empty if it was

    def is_of(self, documents: Mapping[str, str]) -> bool:
        return _has_any(documents, self.names)

    def __str__(self) -> str:
        refusal = f"stays as it is ({self.left}), and is not taken " if self.left else ""
        return f"{', '.join(self.names)}: {refusal}from snapshot {self.snapshot_id} of {self.made}"


def supplement(target: Target, loaded: Loaded, documents: dict[str, str]) -> tuple[dict[str, str], tuple[Filled, ...]]:
    """The documents of a snapshot, filled in from older ones, and the sets concerned. The folder's own files of a set
    stay if they are not saved anywhere or are open in a program.
    """
    if target.label.endswith(BEFORE_RESTORE):
        return documents, ()
    missing, filled = _sets_of(described_by(documents)), []
    infos = target.look(everything=True).summaries if missing else ()
    refused, last = refused_only(infos), id_order(loaded.info.snapshot_id)
    older = [info for info in infos if id_order(info.snapshot_id) < last and info.snapshot_id not in refused]
    older.sort(key=lambda info: id_order(info.snapshot_id), reverse=True)
    for info in islice((info for info in older if any(_may_have(info, names) for names in missing)), _MOST):
        source = target.documents_of(info.snapshot_id)
        for names in [*missing] if source else ():
            part = _part(source, names)
            if part is None:
                continue
            missing.remove(names)
            if part:
                is_text = all(isinstance(content, str) for content in split_documents(part)[0].values())
                # A set never mixes two snapshots.
                why = "" if is_text or not _has_any(documents, names) else "the snapshot has another part of it"
                why = why or _why_left(target, loaded, part, names)
                filled.append(Filled(names, info.snapshot_id, stamp(made_at(info)), why))
                documents = documents if why else _with_part(documents, part, names)
        if not missing:
            break
    taken = [entry for entry in filled if not entry.left]
    target.filled = tuple(dict.fromkeys(entry.snapshot_id for entry in taken))
    target.displaced = frozenset(name for entry in taken for name in entry.names if target.host is None)
    return documents, tuple(sorted(filled, key=lambda entry: entry.names))


def filled_from(documents: dict[str, str], sources: Iterable[dict[str, str]]) -> dict[str, str]:
    """The documents as a restore wrote them that filled in missing sets from these sources."""
    for source in sources:
        for names in _sets_of(described_by(documents)):
            if part := _part(source, names):
                documents = _with_part(documents, part, names)
    return documents


def _sets_of(described: Metadata) -> list[tuple[str, ...]]:
    sets: dict[str, list[str]] = {}
    for name in sorted(described.unread & described.left_out.keys()):
        parent, _, base = name.rpartition("/")
        key = name if name.endswith("/") else f"{parent}/{base.lstrip('.').partition('.')[0]}"
        sets.setdefault(key, []).append(name)
    return [tuple(names) for names in sets.values()]


def _may_have(info: SnapshotInfo, names: tuple[str, ...]) -> bool:
    known = () if LEFT_OUT in info.incomplete else info.incomplete
    return not any(_is_part(line.partition(": ")[0], names) for line in known)


def _is_part(name: str, names: tuple[str, ...]) -> bool:
    """True for a file or directory (which ends with a slash) of a set, and for a directory that contains the set."""
    if name.endswith("/") and any(item.startswith(name) for item in names):
        return True
    return any(
        name == item or (name.startswith(item) and (item.endswith("/") or name[len(item)] in ".-")) for item in names
    )


def _part(source: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str] | None:
    """The documents of a set in a snapshot: empty if it has none, None if it left some of the set out itself."""
    if any(_is_part(name, names) for name in described_by(source).left_out):
        return None
    part = reshape(source, lambda name: _is_part(name, names))
    return part if names_in(part) else {}


def _with_part(documents: Mapping[str, str], part: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The documents with a set from another snapshot, no longer recorded as left out."""
    if _has_any(documents, names):
        part = reshape(part, lambda name: name in names)
    (_, ours), (_, more) = split_documents(documents), split_documents(part)
    joined = ("files", "executable", "links", "modes", "times")
    described = replace(
        ours,
        **{name: getattr(ours, name) | getattr(more, name) for name in joined},
        empty_dirs=tuple({*ours.empty_dirs, *more.empty_dirs}),
        masked=tuple(sorted({*ours.masked, *more.masked})),
        left_out={name: why for name, why in ours.left_out.items() if name not in names},
        unread=ours.unread - {*names},
    )
    kept = {name: text for name, text in {**documents, **part}.items() if name not in METADATA_NAMES}
    return {**kept, **describe(described)}


def _has_any(documents: Mapping[str, str], names: tuple[str, ...]) -> bool:
    return any(_is_part(name, names) for name in names_in(documents))


def _why_left(target: Target, loaded: Loaded, part: dict[str, str], names: tuple[str, ...]) -> str:
    """The reason to leave the folder's own files of a set in place; empty if they may be replaced."""
    from colony_memory.capture._plan import make_plan  # not needed just to look into a snapshot

    try:
        contents, metadata = split_documents(target.as_here(part))
        removed = names if target.host is None else ()
        plan = make_plan(real_path(target.directory), contents, metadata, delete=removed, force=False)
        if target.host is not None and plan.replaced:
            return "another is here"
        if plan.in_use:
            return f"open in {next(iter(plan.in_use.values()))}"
        if plan.unsaved(replace(target.question(loaded), restored=(contents, metadata))):
            return "what is here is saved nowhere"
    except (ColonyMemoryError, ValueError) as error:
        return message_of(error)
    return ""
