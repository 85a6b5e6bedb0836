"""Symbolic links of a snapshot: made where they stay in the folder, whatever other links lead through, or go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._os.names import local_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 4095


def link_problem(name: str, target: str, *, said_by: Callable[[str], str | None], is_there: bool = False) -> str | None:
    """Say why a link must not be made, or return None.

    Args:
        name: Where it stands in the folder.
        target: What it says.
        said_by: What a link of that name in the folder says, of the snapshot or there now, empty where only the system
            knows; None where there is no link.
        is_there: It is there already: what it ends at is not for a restore to judge.
    """
    seen, problem, at = {name}, *_follow(name, target, said_by)
    while not is_there and problem is None and at not in seen and (says := said_by(at) if at else None):
        # It ends at another link, which may lead out.
        seen.add(at)
        problem, at = _follow(at, says, said_by)
        problem = problem and f"is a link to {target!r}, which is a link that leads on out of the folder"
    return problem


def _follow(name: str, target: str, said_by: Callable[[str], str | None]) -> tuple[str | None, str]:
    """Why a link must not be made by itself, or None; and where it leads."""
    if not target or "\0" in target or not _fits(target):
        return "is a link that says nothing usable", ""
    if target.startswith("/") or "\\" in target or ":" in target.partition("/")[0]:
        return f"is a link to {target!r}, which is not a path from its own place on", ""
    at = name.split("/")[:-1]
    parts = [part for part in target.split("/") if part not in ("", ".")]
    for number, part in enumerate(parts):
        if part != "..":
            at.append(part)
        elif not at:
            return f"is a link to {target!r}, out of the folder", ""
        else:
            at.pop()
        # What a link in the middle of a path leads to, and what '..' means from there, only the system knows.
        if number < len(parts) - 1 and at and said_by("/".join(at)) is not None:
            return f"is a link to {target!r}, which leads through another link", ""
    return None, "/".join(at)


def _fits(target: str) -> bool:
    """Whether systems can hold it: a text may have surrogates that stand for no byte of a name."""
    try:
        return len(local_bytes(target)) <= _LONGEST
    except UnicodeEncodeError:
        return False
