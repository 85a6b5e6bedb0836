"""Symbolic links of a snapshot: made where they stay in the folder, whatever other links lead through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._os.names import local_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 4095


def link_problem(name: str, target: str, *, is_link: Callable[[str], bool]) -> str | None:
    """Say why a link must not be made, or return None.

    Args:
        name: Where it stands in the folder.
        target: What it says.
        is_link: Whether a name in the folder is a link, in the snapshot or there now.
    """
    if not target or "\0" in target or not _fits(target):
        return "is a link that says nothing usable"
    if target.startswith("/") or "\\" in target or ":" in target.partition("/")[0]:
        return f"is a link to {target!r}, which is not a path from its own place on"
    at = name.split("/")[:-1]
    parts = [part for part in target.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts):
        if part != "..":
            at.append(part)
        elif not at:
            return f"is a link to {target!r}, out of the folder"
        else:
            at.pop()
        # What a link in the middle of a path leads to, and what '..' means from there, only the system knows.
        if number < len(parts) - 1 and at and is_link("/".join(at)):
            return f"is a link to {target!r}, which leads through another link"
    return None


def _fits(target: str) -> bool:
    """Whether systems can hold it: a text may have surrogates that stand for no byte of a name."""
    try:
        return len(local_bytes(target)) <= _LONGEST
    except UnicodeEncodeError:
        return False
