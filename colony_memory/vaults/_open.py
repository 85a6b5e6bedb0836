"""From a vault's URL to the vault."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote_to_bytes

from colony_memory._arguments import require_text

if TYPE_CHECKING:
    from colony_memory.vaults import VaultBackend

_KINDS = "colony:, file:///absolute/path, s3://, gs:// or az://bucket/prefix, export:path, memory:, or a path"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# A colon before any slash, as in host:/path, user@host:path, [::1]:/path or host::module.
_ADDRESS = re.compile(r"[^/\\]*:")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
# What a shell, cmd.exe or a template would have put something in the place of.
VARIABLE = re.compile(r"\$[A-Za-z_{(][A-Za-z0-9_]*[})]?|%[A-Za-z_][A-Za-z0-9_()]*%")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


def open_url(url: str, *, create: bool, format: Literal[1, 2] | None = None) -> VaultBackend:  # noqa: A002
    """Open the vault that a URL or a path names; see :func:`colony_memory.vaults.open_vault`."""
    if not require_text("url", url).strip():
        raise ValueError(f"an empty vault URL; known are {_KINDS}")
    drive = os.name == "nt" and _DRIVE.match(url)
    found = None if url.startswith((".", "/", "\\", "~")) or drive else _SCHEME.fullmatch(url)
    kind, rest = (found[1].lower(), found[2]) if found else ("", url)
    if kind == "file":
        return _open_directory(_read_file_url(rest), create=create, format=format)
    if format is not None and kind in {"export", "colony", "memory"}:
        raise ValueError(f"{kind}: keeps no format: whoever writes to it chooses one")
    if kind == "export":
        from colony_memory._export_file import load_export
        from colony_memory.vaults.memory import ExportVault

        path = _expand(rest)
        if create:
            raise ValueError("export: is one snapshot, to read; no vault is made there")
        return ExportVault(load_export(path))
    if kind in {"s3", "gs", "az"}:
        return _open_objects(kind, rest, create=create, format=format)
    if kind not in {"colony", "memory"}:
        return _open_directory(_expand(_refuse_address(url)), create=create, format=format)
    if rest.strip("/"):
        raise ValueError(f"{kind}: takes nothing after the colon")
    if kind == "colony":
        from colony_memory.vaults.colony import ColonyVault

        return ColonyVault()
    from colony_memory.vaults.memory import MemoryVault

    return MemoryVault()


def is_path(url: str) -> bool:
    """True if this names a local directory as it stands, so that it needs no URL."""
    try:
        return _expand(_refuse_address(url)) == url
    except ValueError:
        return False


def _open_directory(path: str, **options: Any) -> VaultBackend:
    from colony_memory.vaults.local import LocalVault

    return LocalVault(path, **options)


def _open_objects(kind: str, rest: str, **options: Any) -> VaultBackend:
    from colony_memory.vaults.objects import ObjectVault
    from colony_memory.vaults.objects.stores import open_store

    return ObjectVault(open_store(kind, rest), **options)


def _refuse_address(path: str) -> str:
    """The path, unless it looks like the address of something on another host."""
    if path.startswith((".", "/", "\\", "~")) or (os.name == "nt" and _DRIVE.match(path)):
        return path
    if _ADDRESS.match(path):
        # Not repeated whole: addresses may hold passwords.
        found = _SCHEME.fullmatch(path)
        what, dotted = (f"{found[1].lower()}:", f"./{found[1]}:…") if found else ("an address on a host", "./…")
        raise ValueError(f"{what} is not a kind of vault; known are {_KINDS} ({dotted} where a path begins so)")
    return path


def _expand(path: str) -> str:
    """A path with the home directory in the place of ``~``; nothing else is expanded, and what would be is refused."""
    if not path:
        raise ValueError(f"an empty path; known are {_KINDS}")
    _refuse_variable(path)
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path would drop what tells ~name from ./~name
    # An empty HOME makes ~/vault a directory of the root.
    nowhere = expanded == path or not os.path.isabs(expanded) or os.environ.get("HOME") == ""  # noqa: PTH117
    if path.startswith("~") and nowhere:
        raise ValueError(f"no home directory is known for {path!r}; ./{path} is a directory of that name")
    return expanded


def _refuse_variable(path: str) -> None:
    found = VARIABLE.search(path)
    if found:
        raise ValueError(
            f"{found[0]} in {path!r} looks like a variable that was not expanded; in a file: URL, %24 and %25 are a "
            "plain $ and %"
        )


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
    _refuse_variable(_ESCAPE.sub("", rest))
    if rest.startswith("/~"):
        raise ValueError("a file: URL does not expand ~; a plain path does, and %7E is a literal ~")
    if not rest.startswith("/"):
        raise ValueError("a file: URL needs an absolute path, such as file:///home/agent/vault; a plain path works too")
    path = os.fsdecode(unquote_to_bytes(rest))
    return path[1:] if os.name == "nt" and re.match(r"/[A-Za-z]:", path) else path
