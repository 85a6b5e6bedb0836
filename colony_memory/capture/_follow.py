"""The links of a host's own memory that lead out of its folder, and where they may lead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._os import paths
from colony_memory._os.directory import open_below
from colony_memory._os.paths import decode_name, local_name, real_path
from colony_memory._values import dataclass
from colony_memory.capture._ignore import VAULT, is_of_vault, why_unsaved

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable
    from pathlib import Path

_MOST = 10
"""Links to one directory, or into it: a stranger's links may make no more of a home than so much."""


@dataclass(frozen=True)
class Following:
    """Which links that lead out of a folder are followed.

    Attributes:
        home: Those that end below this real path.
        refuse: Says of a path from there on, and of whether it is a directory, why it is not followed, or nothing.
    """

    home: Path
    refuse: Callable[[str, bool], str]


@dataclass(frozen=True)
class End:
    """Where a link ends: what leads there from the home on, each name a directory's or the file's and none a link's."""

    home: Path
    parts: tuple[str, ...]
    is_directory: bool


class NotFollowed(OSError):
    """Why a link is not followed."""


def find_end(follow: Following, root: Path, name: str, taken: Counter[tuple[str, ...]], _: object) -> End:
    """Where a link of this name in a folder ends.

    Args:
        follow: Which are followed.
        root: The folder.
        name: The link.
        taken: How many links lead to a directory, or into it; is added to.

    Raises:
        OSError: It is not followed.
    """
    link = root.joinpath(*map(local_name, name.split("/")))
    end = real_path(link)
    if end == follow.home or not end.is_relative_to(follow.home):
        raise NotFollowed(f"that is not below {str(follow.home)!r}")
    if real_path(root).is_relative_to(end):
        raise NotFollowed("the folder itself is in there")
    *inside, own = parts = tuple(map(decode_name, end.relative_to(follow.home).parts))
    with open_below(follow.home, inside) as place:
        status = place.look(own)
    if status is None:
        raise NotFollowed("nothing is there")
    is_directory = paths.is_directory(status)
    why = follow.refuse("/".join(parts), is_directory) or why_unsaved(own, name, status)
    if status.st_uid != (owner := link.lstat().st_uid) and owner:
        why = "that belongs to somebody else"
    elif is_of_vault(own, status):
        why = VAULT
    elif taken[parts] >= _MOST:
        why = f"{taken[parts]} others lead there, too"
    if why or not (is_directory or paths.is_file(status)):
        raise NotFollowed(why or "that is neither a file nor a directory")
    taken.update(parts[:depth] for depth in range(1, len(parts) + 1) if is_directory)
    return End(follow.home, parts, is_directory)
