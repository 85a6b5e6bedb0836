"""Pure: labels, snapshot ids, names of vault files, and heads, which mark how far a label has come."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from colony_memory._boundary import require_text
from colony_memory._format.json import shown
from colony_memory._values import NamedTuple, pattern
from colony_memory.exceptions import Hint, bad_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeGuard


#: Longest label: with the longest id, every file name still has at most 255 characters, which a vault takes.
MAX_LABEL = 171

_FOLDED = pattern(r"[^a-z0-9_-]+")
_LABEL = rf"(?!-)[a-z0-9_-]{{1,{MAX_LABEL}}}(?<!-)"
_ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_IS_LABEL = pattern(_LABEL)
_IS_ID = pattern(_ID)
_TIMED_ID = pattern(r"([0-9]{4})([0-9]{2})([0-9]{2})T([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{6})Z-[0-9a-f]{6}")
_FILE = pattern(rf"cmem\.({_LABEL})\.(?:({_ID})\.(?:(manifest|pin)|([pkc])(0|[1-9][0-9]{{0,5}}))|latest)\.json")
_LEADING_LABEL = pattern(rf"cmem\.({_LABEL})\.")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_STAMPED = pattern(r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_TICK = timedelta(microseconds=1)


class VaultFile(NamedTuple):
    label: str  # its label
    snapshot_id: str | None  # its snapshot, or the id of a page file; None for a pointer
    kind: str  # latest (a pointer), manifest, part, pack, pin or page (pages of a catalogue)
    seq: int | None = None  # number of a part, pack file or page file, None for the others


def sanitize_label(label: str) -> str:
    """Fold any text to the characters of a file name, ``[a-z0-9_-]``; to ``"default"`` if none is left.

    Different labels can fold to the same text: the verbs use :func:`require_label`.
    """
    return _folded(label or "default")


@lru_cache(maxsize=256)
def _folded(label: str) -> str:
    return _FOLDED.sub("-", label.strip().lower()).strip("-") or "default"


def require_label(label: object) -> str:
    label = require_text("label", label)
    usable = sanitize_label(label)
    if label.strip().lower() != usable:
        suggestion = f"use {usable!r} if that is what you mean"
        advice = "give the label a name in those characters" if usable == "default" else suggestion
        raise ValueError(f"label {label!r} cannot be used as it is: only a-z, 0-9, '_' and '-' are kept; {advice}")
    if not _IS_LABEL.fullmatch(usable):
        raise ValueError(f"label {label[:20]!r}… is too long: file names hold {MAX_LABEL} characters of one")
    return usable


def is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _is_id(value)


@lru_cache(maxsize=8192)
def _is_id(text: str) -> bool:
    return _IS_ID.fullmatch(text) is not None


def require_id(snapshot_id: object) -> str:
    if not is_id(snapshot_id):
        raise bad_argument(f"{shown(snapshot_id)} is not a snapshot id", hint=Hint("list_snapshots"))
    return snapshot_id


def is_digest(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def is_hex16(value: object) -> TypeGuard[str]:
    """True for 16 hex digits: the identity of a label's history, or the origin of a snapshot."""
    return isinstance(value, str) and len(value) == 16 and all(char in "0123456789abcdef" for char in value)


#: The largest count: JSON readers of every language hold it exactly.
LARGEST = 2**53 - 1


def is_count(value: object, most: int = LARGEST) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= most


def is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def list_of(is_valid: Callable[[Any], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(is_valid, value))


#: Kind of a field that came out of a vault: the test of its value, and the words for it in an error.
Kind: TypeAlias = "tuple[Callable[[Any], bool], str]"
TEXT: Kind = (is_text, "a string")
COUNT: Kind = (is_count, "a count")
DIGEST: Kind = (is_digest, "'sha256:' and 64 hex digits")
TREE: Kind = (lambda value: value is None or is_digest(value), DIGEST[1])
TEXTS: Kind = (list_of(is_text), "a list of strings")
COUNTS: Kind = (list_of(is_count), "a list of counts")


def expect(raw: Mapping[str, Any], key: str, kind: Kind) -> Any:
    is_valid, wanted = kind
    if not is_valid(raw.get(key)):
        raise ValueError(f"{key} should be {wanted}")
    return raw.get(key)


def stamp(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime(_STAMP)


@lru_cache(maxsize=8192)
def read_stamp(text: object) -> datetime | None:
    try:
        # Not strptime(): loading its modules takes longer than the whole command `list`.
        if not isinstance(text, str) or not _STAMPED.fullmatch(text):
            return None
        return datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def id_time(snapshot_id: str) -> datetime | None:
    """The time in an id of the form ``YYYYMMDDThhmmss<µs>Z-<6 hex>`` (UTC), or None for an id of another form."""
    match = _TIMED_ID.fullmatch(snapshot_id)
    if match is None:
        return None
    try:
        return datetime(*map(int, match.groups()), tzinfo=timezone.utc)  # type: ignore[arg-type,misc]
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def id_order(snapshot_id: str) -> tuple[bool, str]:
    """Sort key: ids with a time by that time, all others before them."""
    return id_time(snapshot_id) is not None, snapshot_id


def new_id(now: datetime, token: str, seen: Iterable[str]) -> str:
    """An id later than every id in ``seen``: the time ``now``, or one microsecond after the newest of them."""
    moment = now.astimezone(timezone.utc)
    # Ids with a time sort by it, so the first one decides.
    for snapshot_id in sorted(seen, reverse=True):
        time = id_time(snapshot_id)
        if time is not None and time < datetime.max.replace(tzinfo=timezone.utc):
            moment = max(moment, time + _TICK)
            break
    # %Y drops the leading zeros of a year before 1000 on some platforms.
    return f"{moment.year:04d}{moment:%m%dT%H%M%S}{moment.microsecond:06d}Z-{token}"


def manifest_filename(label: str, snapshot_id: str) -> str:
    return f"cmem.{sanitize_label(label)}.{snapshot_id}.manifest.json"


def part_filename(label: str, snapshot_id: str, seq: int) -> str:
    return f"cmem.{sanitize_label(label)}.{snapshot_id}.p{seq}.json"


def pack_filename(label: str, pack_id: str, seq: int) -> str:
    """Name of a pack file, ``seq`` from 0. Under a part's name, readers of format 1 alone take it for a leftover."""
    return f"cmem.{sanitize_label(label)}.{pack_id}.k{seq}.json"


def page_filename(label: str, file_id: str, seq: int) -> str:
    """Name of a page file, which continues a catalogue; the id is drawn for it, and ``seq`` counts from 0."""
    return f"cmem.{sanitize_label(label)}.{file_id}.c{seq}.json"


def pin_filename(label: str, snapshot_id: str) -> str:
    return f"cmem.{sanitize_label(label)}.{snapshot_id}.pin.json"


def latest_filename(label: str) -> str:
    return f"cmem.{sanitize_label(label)}.latest.json"


def leading_label(start: str) -> str | None:
    """The label of every file whose name starts so; None if several labels, or none, are possible."""
    found = _LEADING_LABEL.match(start)
    return None if found is None else found[1]


def common_start(filenames: Sequence[str]) -> str:
    first, last = min(filenames, default=""), max(filenames, default="")
    length = next((at for at, char in enumerate(first) if not last.startswith(char, at)), len(first))
    return first[:length]


def is_place(label: str, snapshot_id: str) -> bool:
    return read_filename(manifest_filename(label, snapshot_id)) == VaultFile(label, snapshot_id, "manifest")


def is_cortex_file(filename: str) -> bool:
    return filename.startswith("cmem.") and filename.endswith(".json")


def read_filename(filename: str) -> VaultFile | None:
    """Parse the name of a vault file; None if it is malformed: no verb could ask for such a label or id."""
    match = _FILE.fullmatch(filename)
    if match is None:
        return None
    label, snapshot_id, kind, letter, seq = match.groups()
    if seq is not None:
        return VaultFile(label, snapshot_id, {"p": "part", "k": "pack", "c": "page"}[letter], int(seq))
    return VaultFile(label, snapshot_id, kind or "latest")


_HEAD = pattern(r"([1-9][0-9]{0,15})(?::([0-9a-f]{16})(?::([0-9a-f]{16}))?)?")
_NOTHING = "sha256:" + "0" * 64


class Head(NamedTuple):
    """``generation:digest``, with 16 hex digits of the manifest's digest; a witness adds a colon and the stream."""

    generation: int  # generation of the pointer
    # First 16 hex digits of the digest of the latest snapshot's manifest; None if only the generation is known
    digest: str | None = None
    stream: str | None = None  # identity of the label's history; None if it is not known


def write_head(generation: int, manifest_sha256: str | None) -> str:
    if not _is_generation(generation):
        raise ValueError(f"a generation is a positive integer, not {shown(generation)}")
    manifest_sha256 = _NOTHING if manifest_sha256 is None else manifest_sha256
    if not is_digest(manifest_sha256):
        raise ValueError(f"a manifest_sha256 is {DIGEST[1]}, not {shown(manifest_sha256)}")
    return f"{generation}:{manifest_sha256.removeprefix('sha256:')[:16]}"


def read_head(head: str | int) -> Head:
    """Parse a head: ``"42:0123456789abcdef"``, a generation alone, or a witness's form. ValueError: none of these."""
    if isinstance(head, str):
        found = _HEAD.fullmatch(head)
        if found is not None and int(found[1]) <= LARGEST:
            return Head(int(found[1]), found[2], found[3])
    elif _is_generation(head):
        return Head(head)
    raise ValueError(f"{shown(head)} is not a head: a head is '42:0123456789abcdef' or a generation such as 42")


def _is_generation(value: object) -> bool:
    return is_count(value) and value > 0
