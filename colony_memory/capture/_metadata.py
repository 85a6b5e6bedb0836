"""The documents for everything but text: other bytes, empty directories, links, permissions, times.

Permissions and times have one of their own, ``.colony-memory/attributes.json``, so that they can change without all
other bytes being read. Both are canonical JSON in the form::

    {"empty_dirs": ["logs"], "executable": ["bin/run.sh"], "files": {"face.png": "<base64>"},
     "format": "colony-memory/folder/1", "left_out": {"socket": "socket"}, "links": {"today.md": "notes/monday.md"},
     "masked": ["keys.md"], "unread": ["store/"]}
    {"format": "colony-memory/folder/1", "modes": {"bin/run.sh": "755", "notes/": "750"},
     "times": {"a.md": 1795766400000000000}}

A reader that does not know them still gets every text file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

from colony_memory._format.json import canonical, load_object
from colony_memory._format.record import ATTRIBUTES_NAME, FORMAT, RECORD_NAME, RECORDS, decode_file, record_pieces
from colony_memory._values import Value, field, replace
from colony_memory.capture._steady import MAGIC, Sparse
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._diff import File, SnapshotDiff

_MODE = re.compile("[0-7]{3}")
_EARLIEST, _LATEST = -(2**31) * 10**9, 2**63 - 1

METADATA_NAME, METADATA_NAMES = RECORD_NAME, RECORDS


class Metadata(Value):
    """Everything in a folder but its text files."""

    files: dict[str, bytes] = field(default_factory=dict)  # content of the files that are not text
    empty_dirs: tuple[str, ...] = ()
    executable: frozenset[str] = frozenset()  # files that their owner may execute
    masked: tuple[str, ...] = ()  # files in which secrets were masked before they were saved, sorted
    links: dict[str, str] = field(default_factory=dict)  # symbolic links, with their targets
    modes: dict[str, int] = field(default_factory=dict)  # permission bits; names of directories end with a slash
    times: dict[str, int] = field(default_factory=dict)  # of change, in nanoseconds since 1970, under the same names
    left_out: dict[str, str] = field(default_factory=dict)  # names missing from the snapshot, with the reasons
    # Those of them that were never quiet, or unreadable; a directory stands for everything in it.
    unread: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.files or self.empty_dirs or self.executable or _optional(self))


def dump_metadata(metadata: Metadata, files: Mapping[str, bytes] | None = None) -> str:
    """The text of the one document for all of it, with ``files`` in the place of its own, if given."""
    record = {"empty_dirs": sorted(metadata.empty_dirs), "executable": sorted(metadata.executable), "files": {}}
    files = dict(sorted((metadata.files if files is None else files).items()))
    # In pieces, to make no needless copies of large files.
    pieces = record_pieces(canonical({**record, "format": FORMAT, **_optional(metadata)}), files)
    return "".join(str(piece, "utf-8", "surrogatepass") for piece, _ in pieces)


def describe(metadata: Metadata) -> dict[str, str]:
    """The documents for it, by name; none if it is empty."""
    others = replace(metadata, modes={}, times={})
    found = {METADATA_NAME: dump_metadata(others)} if others else {}
    if metadata.modes or metadata.times:
        found[ATTRIBUTES_NAME] = dump_attributes(metadata.modes, metadata.times)
    return found


def dump_attributes(modes: Mapping[str, int], times: Mapping[str, int]) -> str:
    """The text of the document of permissions and times."""
    fields = _optional(Metadata(modes={**modes}, times={**times}))
    return canonical({"format": FORMAT, **fields}).decode("utf-8", "surrogatepass")


def _optional(metadata: Metadata) -> dict[str, object]:
    """The later fields, without empty ones: so documents from before there were these fields stay the same."""
    found = {
        "left_out": metadata.left_out,
        "links": metadata.links,
        "masked": sorted(metadata.masked),
        "modes": {name: f"{mode:03o}" for name, mode in metadata.modes.items()},
        "times": metadata.times,
        "unread": sorted(metadata.unread),
    }
    return {key: value for key, value in found.items() if value}


def load_metadata(text: str) -> Metadata:
    """Read the document, ignoring unknown fields: SnapshotCorrupt if malformed, UnsupportedFormat if of another."""
    try:
        parsed = load_object(text)
    except ValueError as error:
        raise _corrupt(f"is not readable: {error}") from error
    if parsed.get("format") != FORMAT:
        raise UnsupportedFormat(
            f"document {METADATA_NAME!r} has the format {parsed.get('format')!r}, and this version reads {FORMAT!r}",
            file=METADATA_NAME,
        )
    metadata = Metadata(
        files={name: _decode(name, data) for name, data in _mapping(parsed, "files", str).items()},
        empty_dirs=tuple(dict.fromkeys(_names(parsed, "empty_dirs"))),
        executable=frozenset(_names(parsed, "executable")),
        masked=tuple(sorted(set(_names(parsed, "masked")))),
        links=_mapping(parsed, "links", str),
        modes={name: _mode(name, mode) for name, mode in _mapping(parsed, "modes", str).items()},
        times=_mapping(parsed, "times", int),
        left_out=_mapping(parsed, "left_out", str),
        unread=frozenset(_names(parsed, "unread")),
    )
    for name, time in metadata.times.items():
        if not _EARLIEST <= time <= _LATEST:
            raise _corrupt(f"has a time of {name!r} that no file system holds")
    for field_name, other_name in (("empty_dirs", "files"), ("links", "files"), ("links", "empty_dirs")):
        if both := {*getattr(metadata, field_name)}.intersection(getattr(metadata, other_name)):
            raise _corrupt(f"has {min(both)!r} both in {field_name!r} and in {other_name!r}")
    return metadata


def at_known_times(attributes: str, known: str) -> str:
    """The document of permissions and times, with times from an earlier one for the names in both."""
    try:
        now, before = load_metadata(attributes), load_metadata(known) if known else Metadata()
    except SnapshotCorrupt:  # somebody changed the copy in the index
        return attributes
    return dump_attributes(now.modes, {name: before.times.get(name, time) for name, time in now.times.items()})


def described_by(documents: Mapping[str, str]) -> Metadata:
    """The metadata in the documents about the folder; raises SnapshotCorrupt if one is malformed."""
    metadata = load_metadata(documents[METADATA_NAME]) if METADATA_NAME in documents else Metadata()
    if ATTRIBUTES_NAME in documents:
        more = load_metadata(documents[ATTRIBUTES_NAME])
        metadata = replace(metadata, modes={**metadata.modes, **more.modes}, times={**metadata.times, **more.times})
    return metadata


def split_documents(documents: Mapping[str, str]) -> tuple[dict[str, str | bytes], Metadata]:
    """Every file with its content, and the metadata; SnapshotCorrupt if that is malformed or contradicts them."""
    texts = {name: text for name, text in documents.items() if name not in METADATA_NAMES}
    metadata = described_by(documents)
    for name in [*metadata.files, *metadata.empty_dirs, *metadata.links]:
        if name in texts:
            raise _corrupt(f"has {name!r}, which is a document of its own")
    return {**texts, **metadata.files}, metadata


def encode_text(content: str | bytes) -> bytes:
    """The bytes of a file; a lone surrogate, which is not valid in UTF-8, becomes three bytes."""
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")


class Contents(Value):
    """The entries of a snapshot of a folder, as sorted paths: every count of files comes from here."""

    texts: tuple[str, ...]  # files that are text
    others: tuple[str, ...] = ()  # other files: these are in the document about the folder, itself not counted
    links: Mapping[str, str] = field(default_factory=dict)  # with their targets
    empty_dirs: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """Every file, including links: everything that a restore writes except directories."""
        return tuple(sorted((*self.texts, *self.others, *self.links)))


def contents_of(documents: Mapping[str, str]) -> Contents:
    """The entries of documents on a disk; raises SnapshotCorrupt as :func:`split_documents`."""
    metadata = split_documents(documents)[1]
    texts = sorted(name for name in documents if name not in METADATA_NAMES)
    links = dict(sorted(metadata.links.items()))
    return Contents(tuple(texts), tuple(sorted(metadata.files)), links, tuple(sorted(metadata.empty_dirs)))


# --- two memories compared, file by file


def view_files(documents: Mapping[str, str]) -> dict[str, str]:
    """Each file with its content, other bytes as one character each; also directories, executable bits and links."""
    files, metadata = split_documents(documents)
    view = {name: content if isinstance(content, str) else content.decode("latin-1") for name, content in files.items()}
    view |= dict.fromkeys((f"{name}/" for name in metadata.empty_dirs), "")
    view |= dict.fromkeys((f"{name} (executable)" for name in metadata.executable), "")
    return view | {f"{name} (link)": target for name, target in metadata.links.items()}


def compare_files(
    before: Mapping[str, str], after: Mapping[str, str], *, instead: Mapping[str, str] | None = None
) -> SnapshotDiff:
    """The changes from one memory to another, by :func:`view_files`; ``instead`` replaces contents of ``after``."""
    from colony_memory._diff import SnapshotDiff, compare

    (files, old), (others, new) = split_documents(before), split_documents(after)
    found = compare(view_files(before), {**view_files(after), **(instead or {})})
    # An executable bit counts by itself for files on both sides; else it comes and goes with the file.
    marked = old.executable ^ new.executable
    own = {*files, *others}
    silent = {f"{name} (executable)" for name in marked if (name in files) != (name in others)} - own
    same = [name for name in files if name in others and name not in found.changed and name not in marked]
    return SnapshotDiff(
        added=tuple(name for name in found.added if name not in silent),
        removed=tuple(name for name in found.removed if name not in silent),
        changed=found.changed,
        unchanged=len(same) + len(old.links.items() & new.links.items()),
    )


def git_files(documents: Mapping[str, str], *, modes: bool = True) -> dict[str, File]:
    """Each file and link as git has it: no empty directories, and without ``modes`` no executable files."""
    from colony_memory._diff import EXECUTABLE, LINK, PLAIN, File

    files, metadata = split_documents(documents)
    executable = metadata.executable if modes else frozenset()
    found = {name: File(data, EXECUTABLE if name in executable else PLAIN) for name, data in files.items()}
    return found | {name: File(target, LINK) for name, target in metadata.links.items()}


def differ_in_times_only(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """True if two memories are the same, but perhaps for the times of change of their files."""
    (files, metadata), (others, more) = split_documents(one), split_documents(other)
    return files == others and replace(metadata, times={}) == replace(more, times={})


# --- checks of fields


def _corrupt(what: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(f"document {METADATA_NAME!r} {what}", file=METADATA_NAME)


def _names(parsed: dict[str, Any], key: str) -> list[str]:
    names = parsed.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _corrupt(f"has something other than a list of names in {key!r}")
    return names


_Value = TypeVar("_Value", str, int)


def _mapping(parsed: dict[str, Any], key: str, kind: type[_Value]) -> dict[str, _Value]:
    found = parsed.get(key, {})
    if not isinstance(found, dict) or not all(type(value) is kind for value in found.values()):
        raise _corrupt(f"has something other than names, each with one value of its kind, in {key!r}")
    return found


def _mode(name: str, mode: str) -> int:
    # Three digits: the bits that make a program run as somebody else never come out of a vault.
    if not _MODE.fullmatch(mode):
        raise _corrupt(f"has permissions of {name!r} that are not three octal digits")
    return int(mode, 8)


def _decode(name: str, data: str) -> bytes:
    try:
        decoded = decode_file(data, 0, len(data))
    except ValueError:
        raise _corrupt(f"has no canonical base64 for {name!r}") from None
    try:
        return Sparse(decoded) if decoded.startswith(MAGIC) else decoded
    except ValueError as error:
        raise _corrupt(f"has {name!r} as {error}") from error
