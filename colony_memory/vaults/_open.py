"""From a vault's URL to the vault."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from colony_memory.vaults import VaultBackend

_KINDS = "colony:, file:///absolute/path, export:path, memory:, or a path"
# Two letters at least, so that a Windows drive is none.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)


def open_url(url: str) -> VaultBackend:
    """Open the vault that a URL or a path names; see :func:`colony_memory.vaults.open_vault`.

    Raises:
        ValueError: The URL is of no known kind, or says something that its kind does not take.
        ColonyMemoryError: ``colony:`` without a key, or ``export:`` with a file that cannot be read or is no export.
    """
    found = None if url.startswith((".", "/", "~")) else _SCHEME.fullmatch(url)
    if found is None:
        return _open_directory(_expand(url))
    kind, rest = found[1].lower(), found[2]
    if kind == "file":
        return _open_directory(_read_file_url(rest))
    if kind == "export":
        from colony_memory._export_file import load_export
        from colony_memory.vaults.exported import ExportVault

        return ExportVault(load_export(_expand(rest)))
    if kind in {"s3", "gs", "az"}:
        raise ValueError(f"{kind}: object stores are not in this version; known are {_KINDS}")
    if kind not in {"colony", "memory"}:
        # Not repeated whole: addresses may hold passwords.
        raise ValueError(f"{kind}: is no kind of vault; known are {_KINDS} (./{kind}:… where a path begins so)")
    if rest.strip("/"):
        raise ValueError(f"{kind}: takes nothing after the colon")
    if kind == "colony":
        from colony_memory.vaults.colony import ColonyVault

        return ColonyVault()
    from colony_memory.vaults.memory import MemoryVault

    return MemoryVault()


def _open_directory(path: str) -> VaultBackend:
    from colony_memory.vaults.local import LocalVault

    return LocalVault(path)


def _expand(path: str) -> str:
    if not path:
        raise ValueError(f"an empty vault URL; known are {_KINDS}")
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path would drop what tells ~name from ./~name
    if path.startswith("~") and expanded == path:
        raise ValueError(f"no home directory is known for {path!r}; ./{path} is a directory of that name")
    return expanded


def _read_file_url(rest: str) -> str:
    if "?" in rest or "#" in rest:
        raise ValueError("a file: URL takes no ? or #; in a path they are written %3F and %23")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in {"", "localhost"}:
            raise ValueError(
                f"file://{host} names another host: an absolute path takes three slashes, file:///{host}{slash}{path}"
            )
        rest = slash + path
    if not rest.startswith("/"):
        raise ValueError("a file: URL needs an absolute path, such as file:///home/agent/vault; a plain path works too")
    path = os.fsdecode(unquote_to_bytes(rest))
    return path[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", path) else path
