"""Folders on disk read into documents, and documents written to folders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colony_memory.capture._metadata import differ_in_times_only
    from colony_memory.capture._recover import recover
    from colony_memory.capture._tree import LeftOut, Note
    from colony_memory.capture._write import Written, write_folder
    from colony_memory.capture.folder import Capture, read_folder, read_paths
    from colony_memory.capture.secrets import SecretFinding, find_secrets, mask_secrets, masked_names

__all__ = [
    "Capture",
    "LeftOut",
    "Note",
    "SecretFinding",
    "Written",
    "differ_in_times_only",
    "find_secrets",
    "mask_secrets",
    "masked_names",
    "read_folder",
    "read_paths",
    "recover",
    "write_folder",
]

# Loaded on first use: a backup that finds nothing changed needs few of them.
_LATE = {
    "_metadata": ("differ_in_times_only",),
    "_recover": ("recover",),
    "_tree": ("LeftOut", "Note"),
    "_write": ("Written", "write_folder"),
    "folder": ("Capture", "read_folder", "read_paths"),
    "secrets": ("SecretFinding", "find_secrets", "mask_secrets", "masked_names"),
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _LATE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
