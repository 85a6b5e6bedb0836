"""What in a folder is not saved, told by its name and its status."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

from colony_memory._format.names import is_cortex_file
from colony_memory._os.paths import is_directory, is_file, is_link, name_kind
from colony_memory.capture._filenames import LONGEST_NAME, depth_problem, is_staging, name_problem
from colony_memory.capture._ignore import IGNORE_NAME
from colony_memory.capture.git import GIT_NAME

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

VAULT = "a vault: each backup would hold all the ones before; keep it elsewhere"
"""Why a vault is left out. A restore misses nothing by it."""

_MARKER = ".cmem-vault.json"
# What a sync service leaves in a file's place: a name of its own, or a mark that the system keeps.
_PLACEHOLDER_SUFFIXES = (".nextcloud", ".owncloud")
_DATALESS = 0x40000000  # SF_DATALESS of macOS
_RECALLED = 0x00401000 | 0x00040000  # FILE_ATTRIBUTE_OFFLINE and RECALL_ON_… of Windows


def is_of_vault(name: str, status: os.stat_result) -> bool:
    """Whether it is a file of a vault."""
    return is_file(status) and (is_cortex_file(name) or name == _MARKER)


def is_vault(entries: Mapping[str, os.stat_result]) -> bool:
    """Whether a directory is one of a vault, in which there is nothing but its files and hidden ones."""
    own = [name for name, status in entries.items() if is_of_vault(name, status)]
    return bool(own) and all(name in own or (name.startswith(".") and name != IGNORE_NAME) for name in entries)


def why_unsaved(own: str, name: str, status: os.stat_result) -> str:
    """Say why what stands there is not saved, or nothing."""
    if is_staging(own):
        return "left by a restore that was cut off; it may hold originals, look and then delete it"
    if own == GIT_NAME and is_link(status):
        return "a link in the place of a git repository, which is not followed"
    problem = name_problem(name) or depth_problem(name)
    if problem:
        return f"{problem}; rename it"
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST_NAME:
        return f"has a path longer than {LONGEST_NAME} bytes"
    return _special(status) or _placeholder(own, status)


def _special(status: os.stat_result) -> str:
    """Say what a thing is that is no plain file, directory or link, or nothing."""
    if stat.S_ISLNK(status.st_mode) or is_file(status) or is_directory(status):
        return ""
    if is_link(status):
        return "leads to another directory, and is not followed"
    return (name_kind(status.st_mode) or "").removeprefix("a ")


def _placeholder(own: str, status: os.stat_result) -> str:
    """Say that a file's bytes are elsewhere, or nothing. To read it would fetch it, or give something else."""
    if not is_file(status):
        return ""
    if own.startswith(".") and own.endswith(".icloud") and len(own) > len("..icloud"):
        return f"a placeholder: iCloud keeps {own[1 : -len('.icloud')]!r} elsewhere; download it first"
    marked = getattr(status, "st_flags", 0) & _DATALESS or getattr(status, "st_file_attributes", 0) & _RECALLED
    if marked or (own.endswith(_PLACEHOLDER_SUFFIXES) and status.st_size <= 1):
        return "a placeholder: a sync service keeps its bytes elsewhere; download it first"
    return ""
