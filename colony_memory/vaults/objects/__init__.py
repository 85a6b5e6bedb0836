"""A vault in an object store: S3 and what speaks its language, Google Cloud Storage, Azure Blob Storage.

One object for each file of the vault, under the keys of :mod:`.keys`. Needs the extra ``objects`` (obstore).

**What counts as absence.** A store says the same of an object that is not there and of one in a bucket that is not
there. So whenever something is absent, the marker is read again: where it is there, the bucket is, and that is the
proof. A bucket without the marker and without any file of a snapshot is no vault: :class:`VaultMissing`.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import (
    ColonyMemoryWarning,
    Hint,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.vaults._directory import UNFIT_FILE, is_plain_name
from colony_memory.vaults._marker import (
    IN_OBJECTS,
    MARKER,
    MARKER_BYTES,
    Marked,
    NewerVault,
    check_format,
    is_ours,
    read_marker,
)
from colony_memory.vaults._text import encode_text
from colony_memory.vaults.memory import UNLIMITED_BYTES
from colony_memory.vaults.objects.errors import told
from colony_memory.vaults.objects.keys import folder_of, key_of, name_of
from colony_memory.vaults.objects.probe import probe_conditions
from colony_memory.vaults.objects.replies import describe_object, read_tag, tag_of
from colony_memory.vaults.objects.stores import describe, refuse_fork, writes_on_condition

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator
    from typing import Literal

    from obstore import ObjectMeta
    from obstore.store import ObjectStore

__all__ = ["ObjectVault"]

_MOST_BYTES = 512 * 2**20
"""Bytes of a file that are written and read at most, as in a local vault."""
_MOST_OBJECTS = 100_000
_PAGE = 1000


class ObjectVault:
    """A vault in a store of obstore; may be used from several threads, not across a fork.

    It is made once, on purpose, with ``create=True``, which puts a marker there and tries whether the store writes on
    condition. Where there is neither the marker nor any file of a snapshot there is no vault, and every call raises
    :class:`~colony_memory.VaultMissing`. A store that cannot be reached or says no is an error, never absence.

    Text is stored as its UTF-8 bytes. What is no longer UTF-8 comes back with U+FFFD for every broken byte, so that
    the reader sees wrong content. The ``etag`` is the store's. ``updated_at`` is by the store's clock. What has no key
    of a file of a vault is foreign: neither listed, nor read, nor removed.

    A store that does not write on condition has no ``vault_upload_file_if``.

    Args:
        store: The store, with whatever prefix, options, timeouts and retries it was made with.
        create: Make it a vault where it is none yet. Not for a program that runs again and again.
        conditional: False: do not write on condition, for a store that cannot. ``LocalStore``, ``HTTPStore``, and
            S3 with ``conditional_put="disabled"`` are known not to.
        max_file_bytes: Most bytes of a file that are written or read.
        format: With ``create``, the format that snapshots are to be written in by whoever says none: 1 or 2. By
            default what a vault that is there already has, and for a new one 2, or 1 where it does not write on
            condition or zstd is not installed.

    Attributes:
        url: What the vault is called: ``s3://bucket/prefix`` and its like, or the store's class.
        snapshot_format: That format, as the marker had it when it was read last.

    Raises:
        ValueError: There is no such format, or not for this store.
        VaultError: With ``create``, it cannot be made, or the store does not write on condition (code
            ``"NOT_SUPPORTED"``).

    Warns:
        ColonyMemoryWarning: With ``create``, the vault does not write on condition.
    """

    vault_upload_file_if: Callable[..., Any]
    #: There is no quota, so that no verb lists everything to learn how much is left of one.
    unlimited = True

    def __init__(
        self,
        store: ObjectStore,
        *,
        create: bool = False,
        conditional: bool = True,
        max_file_bytes: int = _MOST_BYTES,
        format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
    ) -> None:
        if max_file_bytes < 1:
            raise ValueError(f"max_file_bytes must be at least 1, not {max_file_bytes!r}")
        self.url = describe(store)
        self._store: Any = store
        self._most = max_file_bytes
        self._known = False
        self.snapshot_format: Literal[1, 2] = 1
        if conditional and writes_on_condition(store):
            # Of the object, not of the class: a vault has it or has it not.
            self.vault_upload_file_if = self._upload_if
        if create:
            self._make(format)
        elif format is not None:
            raise ValueError("a format is for a vault that is being made")

    def __repr__(self) -> str:
        return f"ObjectVault({self.url!r})"

    def exists(self) -> bool:
        """Whether a vault was made there.

        Raises:
            VaultError: Nobody can tell.
        """
        try:
            self.require()
        except VaultMissing:
            return False
        return True

    def require(self) -> None:
        """Go on only in a vault; asked of the store once, and again whenever something is absent.

        Raises:
            VaultMissing: There is none.
            VaultError: Nobody can tell.
        """
        if not self._known:
            self._look_again()

    # --- the five methods

    def vault_status(self) -> dict[str, int]:
        """Bytes and number of files; a store has no quota, and :data:`UNLIMITED_BYTES` is given as one."""
        items = self.vault_list_files()["items"]
        used = sum(item["content_size"] for item in items)
        return {
            "quota_bytes": UNLIMITED_BYTES,
            "used_bytes": used,
            "available_bytes": max(0, UNLIMITED_BYTES - used),
            "file_count": len(items),
        }

    def vault_list_files(self) -> dict[str, Any]:
        """Every file's name, size in bytes and time of its last upload, by name; all of them or an error."""
        return self.vault_list_prefix("")

    def vault_get_file(self, filename: str) -> dict[str, Any]:
        """One file with its ``content`` and ``etag``.

        Raises:
            VaultError: ``status`` 404: it is not there.
            VaultUnavailable: It cannot be read; with the ``code`` ``"UNFIT_FILE"`` it is too large.
        """
        key, doing = self._locate(filename), f"reading {filename}"
        self.require()
        try:
            data, meta = self._read(key, doing, self._most)
        except FileNotFoundError:
            raise self._absent(filename) from None
        return {
            **describe_object(filename, meta),
            "content": data.decode("utf-8", "replace"),
            "etag": tag_of(meta),
        }

    def vault_upload_file(self, filename: str, content: str) -> dict[str, Any]:
        """Create or replace one file, whole or not at all.

        Raises:
            VaultError: ``status`` 400: a name or text that cannot be stored, or more than ``max_file_bytes``.
            VaultUnavailable: No answer; it may have been written.
        """
        return self._upload(filename, content, "overwrite")

    def vault_delete_file(self, filename: str) -> dict[str, Any]:
        """Remove one file.

        Raises:
            VaultError: ``status`` 404: it is not there.
        """
        key, doing = self._locate(filename), f"deleting {filename}"
        self.require()
        try:
            with self._told(doing):
                # Some stores say of what is not there that it was deleted.
                self._store.head(key)
                self._store.delete(key)
        except FileNotFoundError:
            raise self._absent(filename) from None
        return {}

    # --- what the hosted vault has besides

    def vault_list_prefix(self, prefix: str) -> dict[str, Any]:
        """Like :meth:`vault_list_files`, for names that start with the literal ``prefix``.

        For a prefix with a whole label, ``cmem.<label>.``, only that label's folder is asked for.
        """
        self.require()
        items, strays = [], []
        for meta in self._objects(folder_of(prefix), f"listing {prefix}*"):
            name = name_of(meta["path"])
            if name is None:
                last = meta["path"].rpartition("/")[2]
                if is_ours(last) and last.startswith(prefix):
                    strays.append(meta["path"])
            elif name.startswith(prefix):
                items.append(describe_object(name, meta))
        if strays:
            _warn(
                f"{self.url}: {len(strays)} objects bear names of files of snapshots and are not where those lie, such "
                f"as {min(strays)[:200]!r}; they are passed over"
            )
        if not items:
            self._look_again()
        items.sort(key=lambda item: str(item["filename"]))
        return {"items": items, "total": len(items), "has_more": False}

    def _upload_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> dict[str, Any]:
        """Like :meth:`vault_upload_file`, if the file still has the etag ``if_match``, or is not there (``"*"``).

        Raises:
            ValueError: ``if_none_match`` is neither None nor ``"*"``.
            VaultError: ``status`` 412: the condition failed and nothing was written.
        """
        if if_none_match not in {None, "*"}:
            raise ValueError(f"if_none_match must be None or '*', not {if_none_match!r}")
        if if_match is not None and if_none_match is not None:
            # What is to be there with a tag, and not to be there, is neither.
            raise VaultError(f"{filename}: not written", status=412, code="PRECONDITION_FAILED")
        if if_match is not None:
            return self._upload(filename, content, read_tag(filename, if_match))
        return self._upload(filename, content, "overwrite" if if_none_match is None else "create")

    # --- in the store

    def _locate(self, filename: str) -> str:
        if not is_plain_name(filename):
            raise VaultError(f"not a name of a file in {self.url}: {filename!r}", status=400, code="INVALID_INPUT")
        return key_of(filename)

    def _upload(self, filename: str, content: str, mode: Any) -> dict[str, Any]:
        key, doing = self._locate(filename), f"writing {filename}"
        data = encode_text(filename, content)
        if len(data) > self._most:
            raise VaultError(
                f"{filename} takes {len(data)} bytes; a file in {self.url} may take {self._most}",
                status=400,
                code="QUOTA_EXCEEDED",
            )
        self.require()
        try:
            with self._told(doing):
                # In one piece: only so it is whole or not there at all, and leaves nothing behind.
                reply = self._store.put(key, data, mode=mode, use_multipart=False)
        except FileNotFoundError:
            self._look_again()
            raise VaultUnavailable(f"{doing} failed: the store does not find the place for it, try again") from None
        if not reply.get("e_tag"):
            return {"filename": filename}  # no proof, so that whoever asked reads it back
        return {"filename": filename, "content_size": len(data), "etag": tag_of(reply)}

    def _read(self, key: str, doing: str, most: int) -> tuple[bytes, ObjectMeta]:
        """An object of at most so many bytes; FileNotFoundError where it is absent, or its bucket."""
        with self._told(doing):
            found = self._store.get(key)
            meta: ObjectMeta = found.meta
            if meta["size"] > most:
                raise VaultUnavailable(
                    f"{doing} failed: it takes {meta['size']} bytes, and {most} are read at most", code=UNFIT_FILE
                )
            data = bytes(found.bytes())
        if len(data) != meta["size"]:
            raise VaultUnavailable(f"{doing} failed: {len(data)} bytes came of {meta['size']}, try again")
        return data, meta

    def _objects(self, folder: str | None, doing: str) -> Iterator[ObjectMeta]:
        """Every object in a folder, or of the whole vault; all of them or an error."""
        number = 0
        try:
            with self._told(doing):
                for page in self._store.list(folder, chunk_size=_PAGE):
                    number += len(page)
                    if number > _MOST_OBJECTS:
                        raise VaultUnavailable(
                            f"{doing} failed: there are more than {_MOST_OBJECTS} objects; give the vault a prefix of "
                            "its own"
                        )
                    yield from page
        except FileNotFoundError:
            raise self._no_vault() from None
        except VaultError as error:
            # Of a listing, only the bucket can be absent.
            raise (self._no_vault() if error.status == 404 else error) from None

    def _absent(self, filename: str) -> VaultError:
        """The error of a file that is not there, once that is proven."""
        self._look_again()
        return VaultError(f"no such file in {self.url}: {filename}", status=404, code="NOT_FOUND")

    def _look_again(self) -> None:
        """See that this is a vault: by its marker, or by the files of snapshots in it."""
        self._known = False
        marked = self._look_at_marker()
        doubt = marked.doubt
        if doubt is not None:
            snapshots = self._holds_snapshots()
            if snapshots and doubt:
                _warn(f"{self.url}: {MARKER} is no marker: {doubt}; the snapshots beside it are read without it")
            elif doubt:
                raise VaultUnavailable(
                    f"nobody can tell whether {self.url} is a vault: no snapshot is there, and {MARKER} is no marker: "
                    f"{doubt}"
                )
            elif not snapshots:
                raise self._no_vault()
        self.snapshot_format, self._known = marked.snapshots, True

    def _holds_snapshots(self) -> bool:
        doing = f"looking into {self.url}"
        return any(is_ours(name_of(meta["path"]) or "") for meta in self._objects(None, doing))

    def _look_at_marker(self) -> Marked:
        try:
            data, _ = self._read(MARKER, f"reading the marker of {self.url}", MARKER_BYTES)
            return Marked(None, read_marker(data, IN_OBJECTS), data)
        except FileNotFoundError:
            return Marked("")
        except NewerVault as newer:
            raise VaultUnavailable(
                f"what {self.url} holds is of the format {newer}: a later version made it, which takes an upgrade, or "
                "a local vault was put there file by file, which 'copy' does right"
            ) from None
        except ValueError as error:
            return Marked(str(error))
        except VaultUnavailable as error:
            if error.code != UNFIT_FILE:
                raise
            return Marked("it is too large")

    def _make(self, asked: Literal[1, 2] | None) -> None:
        doing = f"making a vault in {self.url}"
        conditional = hasattr(self, "vault_upload_file_if")
        check_format(asked, conditional=conditional)
        marked = self._look_at_marker()
        if marked.is_fine(asked):
            self.snapshot_format, self._known = marked.snapshots, True
            return
        name = os.urandom(16).hex()
        try:
            with self._told(doing):
                if conditional:
                    probe_conditions(self._store, f".cmem-probe.{name}", self.url)
                used = self._holds_snapshots
                marked = marked.renewed(asked, name, IN_OBJECTS, conditional=conditional, used=used)
                self._store.put(MARKER, marked.data, mode="overwrite", use_multipart=False)
        except FileNotFoundError:
            raise VaultMissing(f"there is no bucket or container for {self.url}: make that first") from None
        self.snapshot_format, self._known = marked.snapshots, True
        if not conditional:
            _warn(
                f"{self.url} does not write on condition: let one program at a time save there, since two might "
                "overwrite each other's latest snapshot unseen"
            )

    def _no_vault(self) -> VaultMissing:
        return VaultMissing(
            f"there is no vault in {self.url}: none was ever made there, or its bucket is not there",
            hint=Hint("init", "create", value=True),
        )

    def _told(self, doing: str) -> contextlib.AbstractContextManager[None]:
        refuse_fork(doing)
        return told(doing)


def _warn(text: str) -> None:
    warnings.warn(text, ColonyMemoryWarning, stacklevel=3)
