"""A store as a vault reads it: which key a file has, one object, all objects of a folder, and what the store can.

One folder a label, ``<label>/<file name>``, so that a label's listing costs what that label holds; what is of no label
lies above them. Whatever is not the key of a file, exactly as written here, is foreign. Whatever obstore raises leaves
as an error of this package, but for the ``FileNotFoundError`` of an object that is absent, or whose bucket is: the
marker shows which of the two.

>>> key_of("cmem.default.latest.json")
'default/cmem.default.latest.json'
>>> name_of("default/cmem.default.latest.json")
'cmem.default.latest.json'
>>> key_of("a b.json")
'a=20b.json'
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory._format.names import leading_label
from colony_memory.exceptions import VaultError, VaultUnavailable
from colony_memory.vaults._files import (
    IN_OBJECTS,
    MARKER,
    MARKER_BYTES,
    UNFIT_FILE,
    Marked,
    is_ours,
    is_plain_name,
    no_vault,
    read_marked,
    written_time,
)
from colony_memory.vaults.objects.stores import errors_translated, refuse_fork, translate_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from obstore import ObjectMeta


# Every store takes these as they are, in a key, in an address and in its XML. All names of ours are made of them.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPE = re.compile(rb"=([0-9A-F]{2})")


def key_of(name: str) -> str:
    """The key of a file, below the vault's own place; bytes that a store might change are written ``=XX``."""
    label = leading_label(name)
    written = _escape(name.encode("utf-8"))
    return written if label is None else f"{label}/{written}"


def name_of(key: str) -> str | None:
    """The file that a key is of, None where it is of none and so foreign."""
    try:
        raw = key.rpartition("/")[2].encode("ascii")
        name = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw).decode("utf-8")
    except UnicodeError:
        return None
    return name if is_plain_name(name) and key_of(name) == key else None


def folder_of(prefix: str) -> str | None:
    """The one folder in which every file lies whose name starts so; None where they lie in several."""
    return leading_label(prefix)


def describe_object(filename: str, meta: ObjectMeta) -> dict[str, Any]:
    """A file without its content; its time is the store's."""
    return {"filename": filename, "content_size": meta["size"], "updated_at": written_time(meta["last_modified"])}


def tag_of(found: Any) -> str | None:
    """Whatever the store needs to know a state of an object again, as one text: its e_tag, its version before it."""
    tag, version = found.get("e_tag"), found.get("version")
    if not tag:
        return None
    return f"{version or ''}|{tag}" if version or "|" in tag else str(tag)


def read_tag(filename: str, tag: str) -> dict[str, str]:
    """The tag that :func:`tag_of` made, for a write on condition."""
    version, _, e_tag = tag.partition("|") if "|" in tag else ("", "", tag)
    if not e_tag or not (tag.isascii() and tag.isprintable()):
        raise VaultError(f"not an etag of {filename}: {tag!r}", status=400, code="INVALID_INPUT")
    return {"e_tag": e_tag, "version": version} if version else {"e_tag": e_tag}


def _escape(raw: Iterable[int]) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in raw)


WHY_MISSING = "or its bucket does not exist"
_MOST_OBJECTS = 100_000
_PAGE = 1000


class Bucket(NamedTuple):
    """A store, and what it is called in messages."""

    store: Any
    url: str

    def asking(self, doing: str) -> contextlib.AbstractContextManager[None]:
        """Around every call of the store: its errors become ones of this package, and a fork is refused."""
        refuse_fork(doing)
        return errors_translated(doing)

    def read(self, key: str, doing: str, most: int) -> tuple[bytes, ObjectMeta]:
        """An object of at most so many bytes; FileNotFoundError if it, or its bucket, is absent."""
        with self.asking(doing):
            found = self.store.get(key)
            meta: ObjectMeta = found.meta
            if meta["size"] > most:
                raise VaultUnavailable(
                    f"{doing} failed: it takes {meta['size']} bytes, and {most} are read at most", code=UNFIT_FILE
                )
            data = bytes(found.bytes())
        if len(data) != meta["size"]:
            raise VaultUnavailable(f"{doing} failed: {len(data)} bytes came of {meta['size']}, try again")
        return data, meta

    def objects(self, folder: str | None, doing: str) -> Iterator[ObjectMeta]:
        """Every object in a folder, or of the whole vault; all of them or an error."""
        number = 0
        try:
            with self.asking(doing):
                for page in self.store.list(folder, chunk_size=_PAGE):
                    number += len(page)
                    if number > _MOST_OBJECTS:
                        raise VaultUnavailable(
                            f"{doing} failed: there are more than {_MOST_OBJECTS} objects; give the vault a prefix of "
                            "its own"
                        )
                    yield from page
        except FileNotFoundError:
            raise no_vault(self.url, WHY_MISSING) from None
        except VaultError as error:
            # Of a listing, only the bucket can be absent.
            raise (no_vault(self.url, WHY_MISSING) if error.status == 404 else error) from None


def holds_snapshots(bucket: Bucket) -> bool:
    """True if there is a file of a snapshot."""
    doing = f"looking into {bucket.url}"
    return any(is_ours(name_of(meta["path"]) or "") for meta in bucket.objects(None, doing))


def look_at_marker(bucket: Bucket) -> Marked:
    """Read the marker."""
    try:
        data, _ = bucket.read(MARKER, f"reading the marker of {bucket.url}", MARKER_BYTES)
    except FileNotFoundError:
        return Marked("")
    except VaultUnavailable as error:
        if error.code != UNFIT_FILE:
            raise
        return Marked("it is too large")
    return read_marked(data, bucket.url, IN_OBJECTS)


_ANOTHER = '"00000000000000000000000000000000"'


def probe_conditions(store: Any, key: str, place: str) -> None:
    """Write an object of this key, which nobody has, on conditions that hold and that do not, and remove it."""
    try:
        heeds = _try_conditions(store, key)
    except Exception as error:
        if translate_store(error, "").code != "NOT_SUPPORTED":
            with contextlib.suppress(Exception):  # it may be there all the same, and what was raised says more
                store.delete(key)
            raise
        heeds = False
    _remove(store, key, place)
    if not heeds:
        raise VaultError(
            f"{place} has no conditional writes, so two writers could overwrite each other's latest snapshot unseen; "
            "where one program at a time saves to an S3 store, set AWS_CONDITIONAL_PUT=disabled",
            status=501,
            code="NOT_SUPPORTED",
        )


def _try_conditions(store: Any, key: str) -> bool:
    store.put(key, b"0", mode="create", use_multipart=False)
    meta = store.get(key).meta
    if not meta["e_tag"] or not _refuses(store, key, "create"):
        return False
    version = {"version": "1"} if meta["version"] else {}
    if not _refuses(store, key, {"e_tag": _ANOTHER, **version}):
        return False
    now = {"e_tag": meta["e_tag"], **({"version": meta["version"]} if version else {})}
    return not _refuses(store, key, now)


def _remove(store: Any, key: str, place: str) -> None:
    try:
        store.delete(key)
    except FileNotFoundError:
        pass  # the store took none on condition
    except Exception as error:
        if translate_store(error, "").code != "NOT_SUPPORTED":
            raise
        raise VaultError(
            f"{place} did not delete {key}, which is left there: a vault has to be able to delete its files",
            status=501,
            code="NOT_SUPPORTED",
        ) from None


def _refuses(store: Any, key: str, mode: Any) -> bool:
    """True if the store says that the condition does not hold."""
    try:
        store.put(key, b"1", mode=mode, use_multipart=False)
    except Exception as error:
        if translate_store(error, "").status != 412:
            raise
        return True
    return False
