"""A place on disk as documents, and documents as a place on disk."""

from __future__ import annotations

from colony_memory.capture.folder import Capture, LeftOut, Written, read_folder, read_paths, write_folder

__all__ = ["Capture", "LeftOut", "Written", "read_folder", "read_paths", "write_folder"]
