"""A vault in an object store: S3 and what speaks its language, Google Cloud Storage, Azure Blob Storage.

One object for each file of the vault, in one folder a label, ``<label>/<file name>``, so that the cost of a label's
listing depends on that label alone; files of no label lie above the folders. Any key of another form is foreign. Needs
the extra ``objects`` (obstore).

**Proof of absence.** A store answers alike for an object that is missing and for one whose bucket is missing. So
whenever something is absent, the marker is read again: if it is there, so is the bucket, and that is the proof. A
bucket with neither the marker nor any file of a snapshot is no vault: :class:`VaultMissing`.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._format.names import leading_label
from colony_memory.exceptions import ColonyMemoryWarning, VaultError, VaultMissing, VaultUnavailable
from colony_memory.vaults import _files as files
from colony_memory.vaults._files import MARKER, MOST_BYTES, Mark, MarkedVault
from colony_memory.vaults.memory import UNLIMITED_BYTES
from colony_memory.vaults.objects.stores import asking, deleting_singly, describe, probe_conditions, writes_on_condition

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

__all__ = ["ObjectVault"]

_MOST_OBJECTS = 100_000
_PAGE = 1000
_WHY_MISSING = "or its bucket does not exist"
_ONE_WRITER = "has no conditional writes: let one program at a time save there, since two might overwrite each other's "
_ONE_WRITER += "latest snapshot unseen"
# Every store takes these as they are, in a key, in an address and in its XML. All names of ours are made of them.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
_ESCAPE = re.compile(rb"=([0-9A-F]{2})")


def key_of(name: str) -> str:
    """The key of a file, below the vault's prefix; bytes that a store might change are written ``=XX``."""
    label = leading_label(name)
    written = "".join(chr(byte) if byte in _PLAIN else f"={byte:02X}" for byte in name.encode("utf-8"))
    return written if label is None else f"{label}/{written}"


def name_of(key: str) -> str | None:
    """The file of a key, None for a foreign key."""
    try:
        raw = key.rpartition("/")[2].encode("ascii")
        name = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), raw).decode("utf-8")
    except UnicodeError:
        return None
    return name if files.is_plain_name(name) and key_of(name) == key else None


def tag_of(meta: Any) -> str | None:
    """Whatever the store needs to recognise a state of an object, as one text: its e_tag, after its version."""
    tag, version = meta.get("e_tag"), meta.get("version")
    if not tag:
        return None
    return f"{version or ''}|{tag}" if version or "|" in tag else str(tag)


def read_tag(filename: str, tag: str) -> dict[str, str]:
    """Parse a tag of :func:`tag_of`, for a conditional write. VaultError: it is none."""
    version, _, e_tag = tag.partition("|") if "|" in tag else ("", "", tag)
    if not e_tag or not (tag.isascii() and tag.isprintable()):
        raise VaultError(f"not an etag of {filename}: {tag!r}", status=400, code="INVALID_INPUT")
    return {"e_tag": e_tag, "version": version} if version else {"e_tag": e_tag}


class ObjectVault(MarkedVault):
    """A vault in an obstore store. Several threads may use it, but not a fork of the process.

    With ``create=True`` the store is tested for conditional writes, and a marker is put there. A vault whose store has
    none has no ``vault_upload_file_if``. A store with neither the marker nor any file of a snapshot is no vault, and
    every call raises :class:`~colony_memory.VaultMissing`. If the store cannot be reached, or refuses, that is an error
    and never counts as absence.

    How long a request may take, and how large a page of a listing may be, are the store's bounds: obstore waits 30 s
    for a whole answer unless told otherwise. A listing of more than 100,000 objects is refused. Bytes that are no
    longer UTF-8 come back as U+FFFD. ``etag`` and ``updated_at`` are the store's. An object whose key is not that of a
    vault's file is foreign: it is neither listed, nor read, nor removed.

    Args:
        store: The store, with whatever prefix, options, timeouts and retries it was made with.
        create: Make it a vault if it is none yet. Not for a program that runs again and again.
        conditional: False for a store that cannot write on condition. ``LocalStore``, ``HTTPStore``, and S3 with
            ``conditional_put="disabled"`` are known to be such.
        max_file_bytes: Most bytes of a file that are written or read.
        format: With ``create``: 1 or 2, the format in which clients write there by default. If not given, that of the
            vault that is there; for a new one 2, or 1 without conditional writes or without zstd.

    Attributes:
        url: Name of the vault: ``s3://bucket/prefix`` and the like, or the store's class.
        snapshot_format: That format, as the marker had it when it was last read.

    Raises:
        ValueError: There is no such format, or this store cannot have it.
        VaultError: With ``create``: the vault cannot be made, or the store does not write on condition (code
            ``"NOT_SUPPORTED"``).

    Warns:
        ColonyMemoryWarning: With ``create``: the vault does not write on condition.
    """

    vault_upload_file_if: Callable[..., Any]
    #: There is no quota: no verb has to list everything to learn how much of one is left.
    unlimited = True

    def __init__(
        self,
        store: ObjectStore,
        *,
        create: bool = False,
        conditional: bool = True,
        max_file_bytes: int = MOST_BYTES,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> None:
        if max_file_bytes < 1:
            raise ValueError(f"max_file_bytes must be at least 1, not {max_file_bytes!r}")
        self.url = describe(store)
        self._store: Any = deleting_singly(store)
        self._bulk_store: Any = store
        self._max_bytes = max_file_bytes
        self._known, self._id = False, ""
        if conditional and writes_on_condition(store):
            # On the object, not the class: some vaults have it, others do not.
            self.vault_upload_file_if = self._upload_if
        if create:
            self._make(format)
        elif format is not None:
            raise ValueError("a format is for a vault that is being made")

    def __repr__(self) -> str:
        return f"ObjectVault({self.url!r})"

    def identity(self) -> str:
        """Identity of the vault, wherever it is moved to: the id in its marker; without one, its address."""
        if not self._id:
            self._id = self._marker().id or ""
        return f"vault:{self._id}" if self._id else self.url

    def require(self) -> None:
        """Require a vault; the store is asked once, and again whenever something is absent."""
        if not self._known:
            self._look_again()

    # --- the five methods

    def vault_status(self) -> dict[str, int]:
        """Bytes and number of files. A store has no quota; :data:`UNLIMITED_BYTES` stands in for one."""
        sizes = [item["content_size"] for item in self.vault_list_files()["items"]]
        return files.describe_room(UNLIMITED_BYTES, sum(sizes), len(sizes))

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        key = self._locate(filename)
        self.require()
        try:
            data, meta = self._read(key, f"reading {filename}", self._max_bytes)
        except FileNotFoundError:
            raise self._absent(filename) from None
        return {**_describe(filename, meta), "content": data.decode("utf-8", "replace"), "etag": tag_of(meta)}

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        return self._upload(filename, content, "overwrite")

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        key = self._locate(filename)
        self.require()
        try:
            with asking(f"deleting {filename}"):
                # Some stores claim to have deleted what was never there.
                self._store.head(key)
                self._store.delete(key)
        except FileNotFoundError:
            raise self._absent(filename) from None
        return {}

    def vault_delete_files(self, filenames: Sequence[str]) -> dict[str, Any]:
        """A thousand files with one request, if the store can."""
        keys = [self._locate(filename) for filename in filenames]
        self.require()
        try:
            with asking(f"deleting {len(keys)} files"):
                self._bulk_store.delete(keys)
        except FileNotFoundError:
            raise self._absent(filenames[0]) from None
        return {}

    # --- optional methods

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        self.require()
        items, strays = [], []
        # With a whole label in the prefix, every file lies in that label's folder.
        for meta in self._objects(leading_label(prefix), f"listing {prefix}*"):
            name = name_of(meta["path"])
            if name is None:
                last = meta["path"].rpartition("/")[2]
                if files.is_ours(last) and last.startswith(prefix):
                    strays.append(meta["path"])
            elif name.startswith(prefix):
                items.append(_describe(name, meta))
        if strays:
            msg = f"{len(strays)} of them, such as {min(strays)[:200]!r}; they are passed over"
            msg = f"{self.url}: names of snapshot files in places where none belong, {msg}"
            warnings.warn(msg, ColonyMemoryWarning, stacklevel=2)
        if not items:
            self._look_again()
        items.sort(key=lambda item: str(item["filename"]))
        return {"items": items, "total": len(items), "has_more": False}

    def _upload_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        files.check_none_match(if_none_match)
        if if_match is not None and if_none_match is not None:
            # No file both has a tag and does not exist.
            raise VaultError(f"{filename}: not written", status=412, code="PRECONDITION_FAILED")
        if if_match is not None:
            return self._upload(filename, content, read_tag(filename, if_match))
        return self._upload(filename, content, "overwrite" if if_none_match is None else "create")

    # --- in the store

    def _locate(self, filename: str) -> str:
        files.refuse_odd_name(self.url, filename)
        return key_of(filename)

    def _read(self, key: str, doing: str, most: int) -> tuple[bytes, ObjectMeta]:
        """An object of at most so many bytes; FileNotFoundError if it, or its bucket, is absent."""
        with asking(doing):
            reply = self._store.get(key)
            meta: ObjectMeta = reply.meta
            if meta["size"] > most:
                raise VaultUnavailable(
                    f"{doing} failed: it takes {meta['size']} bytes, and {most} are read at most", code=files.UNFIT_FILE
                )
            data = bytes(reply.bytes())
        if len(data) != meta["size"]:
            raise VaultUnavailable(f"{doing} failed: {len(data)} bytes came of {meta['size']}, try again")
        return data, meta

    def _objects(self, folder: str | None, doing: str) -> Iterator[ObjectMeta]:
        """Every object in a folder, or of the whole vault; all of them or an error."""
        number = 0
        try:
            with asking(doing):
                for page in self._store.list(folder, chunk_size=_PAGE):
                    number += len(page)
                    if number > _MOST_OBJECTS:
                        raise VaultUnavailable(
                            f"{doing} failed: there are more than {_MOST_OBJECTS} objects; give the vault a prefix of "
                            "its own"
                        )
                    yield from page
        except FileNotFoundError:
            raise files.no_vault(self.url, _WHY_MISSING) from None
        except VaultError as error:
            # Of a listing, only the bucket can be absent.
            raise (files.no_vault(self.url, _WHY_MISSING) if error.status == 404 else error) from None

    def _upload(self, filename: str, content: str, mode: Any) -> dict[str, Any]:
        key, doing = self._locate(filename), f"writing {filename}"
        data = files.encode_text(self.url, filename, content, self._max_bytes)
        self.require()
        try:
            with asking(doing):
                # In one piece: only then is it there as a whole or not at all, and leaves nothing behind.
                reply = self._store.put(key, data, mode=mode, use_multipart=False)
        except FileNotFoundError:
            self._look_again()
            raise VaultUnavailable(f"{doing} failed: the store does not find the place for it, try again") from None
        if not reply.get("e_tag"):
            return {"filename": filename}  # no proof of it, so that the caller reads it back
        return {"filename": filename, "content_size": len(data), "etag": tag_of(reply)}

    def _absent(self, filename: str) -> VaultError:
        """The error for an absent file, once its absence is proven."""
        self._look_again()
        return files.no_such_file(self.url, filename)

    # --- the marker

    def _marker(self) -> Mark:
        try:
            data, _ = self._read(MARKER, f"reading the marker of {self.url}", files.MARKER_BYTES)
        except FileNotFoundError:
            return Mark("")
        except VaultUnavailable as error:
            if error.code != files.UNFIT_FILE:
                raise
            return Mark("it is too large")
        return files.read_marker(data, self.url, files.IN_OBJECTS)

    def _holds_snapshots(self) -> bool:
        objects = self._objects(None, f"looking into {self.url}")
        return any(files.is_ours(name_of(meta["path"]) or "") for meta in objects)

    def _look_again(self) -> None:
        """Ask the store: require a vault, by its marker or by files of snapshots in it."""
        self._known = False
        marker = self._marker()
        self.snapshot_format = marker.require(self.url, used=self._holds_snapshots, why_missing=_WHY_MISSING)
        self._known, self._id = True, marker.id or ""

    def _make(self, wanted: Literal[1, 2] | None) -> None:
        conditional = hasattr(self, "vault_upload_file_if")
        files.check_format(wanted, conditional=conditional)
        marker = self._marker()
        if not marker.is_fine(wanted):
            doing = f"making a vault in {self.url}"
            try:
                if conditional:
                    with asking(doing):
                        probe_conditions(self._store, f".cmem-probe.{os.urandom(16).hex()}", self.url)
                marker = marker.renewed(wanted, files.IN_OBJECTS, conditional=conditional, used=self._holds_snapshots)
                with asking(doing):
                    self._store.put(MARKER, marker.data, mode="overwrite", use_multipart=False)
            except FileNotFoundError:
                raise VaultMissing(f"there is no bucket or container for {self.url}: make that first") from None
            if not conditional:
                warnings.warn(f"{self.url} {_ONE_WRITER}", ColonyMemoryWarning, stacklevel=3)
        self.snapshot_format, self._known = marker.snapshots, True


def _describe(filename: str, meta: ObjectMeta) -> dict[str, Any]:
    """A file without its content; its time is the store's."""
    return {"filename": filename, "content_size": meta["size"], "updated_at": files.written_time(meta["last_modified"])}
