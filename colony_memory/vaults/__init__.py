"""The protocols of a vault, in words and types, and the vaults that come with the package.

A vault is a flat store of small text files. Any object with the five methods of
``colony_sdk.ColonyClient`` is one. :func:`open_vault` makes one from a URL.

**Obligations of a vault.** Names are plain strings, compared exactly. A file's text comes back as it went in, or
not at all: an upload replaces the whole file or leaves the old one. What an upload has acknowledged, every
later call sees. A file that is not there is reported by an exception whose ``status`` is 404 and whose ``code`` is a
string such as ``"NOT_FOUND"``, and by nothing else; every other failure raises something else. (Without a code it is
looked for in a listing, since a wrong address answers 404 too.) A listing names every file, or says that it is cut
(``has_more`` true, a ``next_cursor``, or ``total`` above the number of items). Calls may come from several
threads at once. Optional capabilities are methods of its class, or attributes of the object itself.
:class:`colony_memory.testing.VaultBackendTests` tests all of it.

**Replies** may be bare or wrapped as ``{"result": …}``. A listing may have ``"files"`` in place of ``"items"``, or be a
bare list; its entries may be bare names. A file's ``etag`` is optional, and so is the reply to a deletion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from colony_memory._boundary import require_text
from colony_memory._values import pattern

__all__ = [
    "AsyncVaultBackend",
    "ConditionalUpload",
    "FileLookup",
    "FreeSpace",
    "ManyDeletion",
    "OperationBudget",
    "OperationReset",
    "PrefixListing",
    "VaultBackend",
    "open_vault",
]


_KINDS = "colony:, file:///absolute/path, s3://, gs:// or az://bucket/prefix, export:path, memory:, or a path"
_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# A colon before any slash, as in host:/path, user@host:path, [::1]:/path or host::module.
_ADDRESS = pattern(r"[^/\\]*:")
_DRIVE = pattern(r"[A-Za-z]:[/\\]")
# Variables that a shell, cmd.exe or a template would have expanded.
VARIABLE = re.compile(r"\$[A-Za-z_{(][A-Za-z0-9_]*[})]?|%[A-Za-z_][A-Za-z0-9_()]*%")
_ESCAPE = pattern(r"%[0-9A-Fa-f]{2}")


@runtime_checkable
class VaultBackend(Protocol):
    """The five methods of ``colony_sdk.ColonyClient`` that a snapshot needs."""

    def vault_status(self) -> Any:
        """``quota_bytes``, ``used_bytes``, ``available_bytes``, ``file_count``; all zero before the first upload."""

    def vault_list_files(self) -> Any:
        """``{"items": [{"filename", "content_size", "updated_at"}], "total"}``: every file, without its content."""

    def vault_get_file(self, filename: str) -> Any:
        """One file with its ``content`` and ``etag``; an exception with ``status`` 404 if it is not there."""

    def vault_upload_file(self, filename: str, content: str) -> Any:
        """Create or replace one file, whole or not at all; its ``filename`` and ``content_size``."""

    def vault_delete_file(self, filename: str) -> Any:
        """Remove one file; an exception with ``status`` 404 if it is not there."""


@runtime_checkable
class AsyncVaultBackend(Protocol):
    """The same five methods as coroutines, as ``colony_sdk.AsyncColonyClient`` has them."""

    def vault_status(self) -> Awaitable[Any]: ...
    def vault_list_files(self) -> Awaitable[Any]: ...
    def vault_get_file(self, filename: str) -> Awaitable[Any]: ...
    def vault_upload_file(self, filename: str, content: str) -> Awaitable[Any]: ...
    def vault_delete_file(self, filename: str) -> Awaitable[Any]: ...


@runtime_checkable
class ConditionalUpload(Protocol):
    """Optional: an upload that happens only if the file is still the one that was read.

    With it two writers cannot overwrite each other's pointer unseen.
    """

    def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Any:
        """Like ``vault_upload_file``; an exception with ``status`` 412, and nothing written, if the condition fails.

        Args:
            filename: Name of the file.
            content: Its new text.
            if_match: Write only if the file is there and has this ``etag`` (as ``vault_get_file`` gave it).
            if_none_match: ``"*"``: write only if the file is not there.
        """


@runtime_checkable
class PrefixListing(Protocol):
    """Optional: a listing of only the files whose name starts with the literal ``prefix``."""

    def vault_list_prefix(self, prefix: str) -> Any: ...


@runtime_checkable
class FileLookup(Protocol):
    """Optional: a listing of those of certain files that are there, where that is less work than listing all.

    Each entry holds for some moment between call and reply, not all of them for the same one.
    """

    def vault_look_up_files(self, filenames: Sequence[str]) -> Any: ...


@runtime_checkable
class ManyDeletion(Protocol):
    """Optional: several files, those that are there, removed with one request; if it fails, any may be gone."""

    def vault_delete_files(self, filenames: Sequence[str]) -> Any: ...


@runtime_checkable
class OperationBudget(Protocol):
    """Optional: number of uploads and deletes that the vault still accepts this hour, None if it has not said."""

    def vault_operations_left(self) -> int | None: ...


@runtime_checkable
class OperationReset(Protocol):
    """Optional: seconds until it accepts the full number of an hour again, None if it has not said."""

    def vault_operations_reset(self) -> int | None: ...


@runtime_checkable
class FreeSpace(Protocol):
    """Optional: bytes that the vault still takes, without a look at all files; None if only its status has them."""

    def vault_free_bytes(self) -> int | None: ...


def open_vault(
    url: str,
    *,
    create: bool = False,
    format: Literal[1, 2] | None = None,  # noqa: A002 - the word for it
) -> VaultBackend:
    """Open the vault that a URL names.

    A vault in a directory or in an object store is made once, on purpose. If none was made, or its disk is not
    mounted, every call of the opened vault raises :class:`~colony_memory.VaultMissing`.

    Args:
        url: ``colony:`` (the hosted vault; key from ``COLONY_API_KEY``, address from ``COLONY_BASE_URL``),
            ``file:///absolute/path`` or a plain path, ``s3://bucket/prefix``, ``gs://bucket/prefix`` or
            ``az://container/prefix`` (credentials by obstore's environment variables, extra ``objects``),
            ``export:path`` (one exported snapshot, to read), ``memory:`` (gone with the process). What looks like an
            address (``host:/path``), or holds a variable that nobody expanded, is no path.
        create: Make it if it is not there: for setting up, not for a program that runs again and again.
        format: With ``create``: 1 or 2, the format in which clients write there from now on by default. If not given,
            it stays as it is; for a new vault it is 2, or 1 without zstd or if the store does not write on
            condition.

    Raises:
        ValueError: The URL is of no known kind, or the format none for it.
        ColonyMemoryError: No key, no extra, wrong settings, a bad export, no way to make it, or format 2 without zstd.
    """
    if not require_text("url", url).strip():
        raise ValueError(f"an empty vault URL; known are {_KINDS}")
    match = None if _begins_a_path(url) else _SCHEME.fullmatch(url)
    kind, rest = (match[1].lower(), match[2]) if match else ("", url)
    if format is not None and kind in {"export", "colony", "memory"}:
        raise ValueError(f"{kind}: keeps no format: whoever writes to it chooses one")
    if kind in {"s3", "gs", "az"}:
        from colony_memory.vaults.objects import ObjectVault
        from colony_memory.vaults.objects.stores import open_store

        return ObjectVault(open_store(kind, rest), create=create, format=format)
    if kind == "export":
        from colony_memory.vaults.memory import ExportVault, load_export

        path = _expand(rest)
        if create:
            raise ValueError("export: is one snapshot, to read; no vault is made there")
        return ExportVault(load_export(path))
    if kind not in {"colony", "memory"}:
        from colony_memory.vaults.local import LocalVault

        path = _read_file_url(rest) if kind == "file" else _expand(_refuse_address(url))
        return LocalVault(path, create=create, format=format)
    if rest.strip("/"):
        raise ValueError(f"{kind}: takes nothing after the colon")
    if kind == "colony":
        from colony_memory.vaults.colony import ColonyVault

        return ColonyVault()
    from colony_memory.vaults.memory import MemoryVault

    return MemoryVault()


def is_path(url: str) -> bool:
    """True if this is the path of a local directory as written, so that it needs no URL."""
    try:
        return _expand(_refuse_address(url)) == url
    except ValueError:
        return False


def _begins_a_path(url: str) -> bool:
    return url.startswith((".", "/", "\\", "~")) or (os.name == "nt" and _DRIVE.match(url) is not None)


def _refuse_address(path: str) -> str:
    """The path. ValueError: it looks like the address of something on another host."""
    if not _begins_a_path(path) and _ADDRESS.match(path):
        # Not repeated whole: addresses may hold passwords.
        match = _SCHEME.fullmatch(path)
        what, dotted = (f"{match[1].lower()}:", f"./{match[1]}:…") if match else ("an address on a host", "./…")
        raise ValueError(f"{what} is not a kind of vault; known are {_KINDS} ({dotted} where a path begins so)")
    return path


def _expand(path: str) -> str:
    """A path with the home directory in place of ``~``. ValueError: a shell would expand something else in it."""
    if not path:
        raise ValueError(f"an empty path; known are {_KINDS}")
    _refuse_variable(path)
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path drops the ./ of ./~name
    # An empty HOME makes ~/vault a directory of the root.
    nowhere = expanded == path or not os.path.isabs(expanded) or os.environ.get("HOME") == ""  # noqa: PTH117
    if path.startswith("~") and nowhere:
        raise ValueError(f"no home directory is known for {path!r}; ./{path} is a directory of that name")
    return expanded


def _refuse_variable(path: str) -> None:
    match = VARIABLE.search(path)
    if match:
        raise ValueError(
            f"{match[0]} in {path!r} looks like a variable that was not expanded; in a file: URL, %24 and %25 are a "
            "plain $ and %"
        )


def _read_file_url(rest: str) -> str:
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path if host.lower() in {"", "localhost"} else ""
    if not rest.startswith("/") or rest.startswith("/~") or "?" in rest or "#" in rest:
        raise ValueError(
            "a file: URL is an absolute path of this host, file:///home/agent/vault; in it ~, ? and # are written %7E, "
            "%3F and %23; a plain path works too"
        )
    _refuse_variable(_ESCAPE.sub("", rest))
    from urllib.parse import unquote_to_bytes

    path = os.fsdecode(unquote_to_bytes(rest))
    return path[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", path) else path
