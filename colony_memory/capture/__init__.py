"""A place on disk as documents, and documents as a place on disk."""

from __future__ import annotations

from colony_memory.capture._recover import recover
from colony_memory.capture._view import differ_in_times_only
from colony_memory.capture.folder import Capture, LeftOut, Note, Written, read_folder, read_paths, write_folder
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
