"""Claude Code's folders of projects, which are named after a path, and their names on another machine.

The memory of a project lies in ``projects/NAME/memory``. NAME is the path of its repository, or else of its directory,
with a dash for everything that is no ASCII letter or digit; so no name leads back to its path, and nothing is guessed.

The memory of an agent's host on its way back: no setting among it, and projects under their names here.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._values import dataclass, field
from colony_memory.app.content import reshape
from colony_memory.capture._metadata import contents_of, split_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory.app.agents import Agent

__all__ = ["Host", "Moves", "folder_of_project", "locate_project", "project_names", "read_moves"]


@dataclass
class Host:
    """The folder of a host that a snapshot is going to be written into."""

    agent: Agent  # the host.
    directory: str  # its folder
    moves: Moves  # which folders of projects get another name
    kinds: tuple[str, ...] = ()  # what is written besides memory
    left: list[str] = field(default_factory=list)  # what the snapshot has and is no memory of this host
    renamed: dict[str, str] = field(default_factory=dict)  # the folders of projects that got another name
    strange: list[str] = field(default_factory=list)  # those that this machine has no folder for yet

    def __call__(self, documents: dict[str, str]) -> dict[str, str]:
        """The documents that are written: memory alone, under the names that it has here."""
        found = contents_of(documents)
        left = {name for name in found.files if not self.agent.holds(name, self.kinds)}
        self.left = sorted(left)
        # Nor what is only there because something in it is not: a project without memory, for one.
        empty = {name for name in found.empty_dirs if not self.agent.holds(f"{name}/x", self.kinds)}
        kept = reshape(documents, wanted=lambda name: name not in left and name not in empty)
        if not kept or left == set(found.files):
            raise ValueError(f"nothing in the snapshot is memory of {self.agent.title}")
        shaped, self.renamed = self.moves.apply(kept)
        if self.agent.has_projects:
            here = Path(self.directory, "projects")
            names = project_names(contents_of(shaped).files)
            self.strange = [name for name in names if name not in self.renamed.values() and not (here / name).is_dir()]
        return shaped


_PROJECTS = "projects"
_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORKTREE = re.compile(rb"gitdir:.*[/\\]worktrees[/\\]")


def folder_of_project(path: str) -> str:
    """Claude Code's name for the folder of a project: pure, by the code units that JavaScript counts.

    >>> folder_of_project("/home/ada/my_app.v2")
    '-home-ada-my-app-v2'
    """
    path = unicodedata.normalize("NFC", path)
    units = path.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(name) <= _LONGEST:
        return name
    digest = 0
    for code in codes:
        digest = (digest * 31 + code) & 0xFFFFFFFF
    return f"{name[:_LONGEST]}-{_base36(digest if digest < 1 << 31 else (1 << 32) - digest)}"


def locate_project(path: str) -> str:
    """The path that Claude Code names the folder after, of a project that lies, or will lie, in this directory."""
    if not path.strip():
        raise ValueError("an empty path")
    real = os.path.realpath(os.path.expanduser(path))  # noqa: PTH111 - as a shell does it
    above = real
    while True:
        git = os.path.join(above, ".git")  # noqa: PTH118 - a text
        if os.path.lexists(git):
            break
        if os.path.dirname(above) == above:  # noqa: PTH120 - a text
            return real
        above = os.path.dirname(above)  # noqa: PTH120 - a text
    if above != real:
        raise ValueError(f"{path!r} is in the repository {above!r}, which has one memory as a whole: give that")
    if os.path.isfile(git) and _is_worktree(git):  # noqa: PTH113 - a text
        raise ValueError(f"{path!r} is a worktree, which shares the memory of its repository: give that")
    return real


def project_names(documents: Iterable[str]) -> list[str]:
    return sorted({parts[1] for name in documents if len(parts := name.split("/")) > 2 and parts[0] == _PROJECTS})


@dataclass(frozen=True)
class Moves:
    """Which folders of projects get another name, as the user has said."""

    project: str | None = None  # the path of the only project that a snapshot holds, None where it is not said
    by_name: Mapping[str, str] = field(default_factory=dict)  # from a folder's name to the path of the project here

    def __bool__(self) -> bool:
        return self.project is not None or bool(self.by_name)

    def renamed(self, found: Iterable[str]) -> dict[str, str]:
        names = list(found)
        there = f"; there are {', '.join(names)}" if names else "; it has no memory of a project"
        for name in self.by_name:
            if name not in names:
                raise ValueError(f"the snapshot has no project folder {name!r}{there}")
        new = {name: folder_of_project(path) for name, path in self.by_name.items()}
        if self.project is not None:
            rest = [name for name in names if name not in new]
            if len(rest) != 1:
                raise ValueError(
                    f"the snapshot does not hold exactly one project{there}: say which goes where, as OLD=NEW"
                )
            new[rest[0]] = folder_of_project(self.project)
        ends = [new.get(name, name) for name in names]
        for end in ends:
            if ends.count(end) > 1:
                raise ValueError(f"two project folders of the snapshot would both be {end!r}: restore them one by one")
        return {name: end for name, end in new.items() if name != end}

    def apply(self, documents: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        contents, metadata = split_documents(documents)
        changes = self.renamed(project_names([*contents, *metadata.links]))
        if not changes:
            return dict(documents), changes

        def rename(name: str) -> str:
            parts = name.split("/")
            if len(parts) > 1 and parts[0] == _PROJECTS:
                parts[1] = changes.get(parts[1], parts[1])
            return "/".join(parts)

        def lead(target: str) -> str:
            # A link between projects goes on leading there.
            parts = target.split("/")
            after = [False, *(each in (_PROJECTS, "..") for each in parts[:-1])]
            return "/".join(
                changes.get(each, each) if follows else each for each, follows in zip(parts, after, strict=True)
            )

        return reshape(documents, rename=rename, lead=lead), changes


def read_moves(project: str | None, maps: Iterable[str]) -> Moves:
    """The moves of ``--project PATH`` and each ``--map OLD=NEW``. OLD is a path, or a folder's name as the snapshot has
    it.
    """
    by_name: dict[str, str] = {}
    for each in maps:
        old, equals, new = each.partition("=")
        if not (old.strip() and equals and new.strip()):
            raise ValueError(f"{each!r} is not of the form OLD=NEW")
        name = folder_of_project(old.rstrip("/") or old) if os.path.isabs(old) else old  # noqa: PTH117 - a text
        if "/" in name or by_name.get(name, new) != new:
            raise ValueError(f"{old!r} is neither an absolute path nor the name of a folder, or goes to two places")
        by_name[name] = locate_project(new)
    return Moves(None if project is None else locate_project(project), by_name)


def _is_worktree(git: str) -> bool:
    try:
        with open(git, "rb") as file:  # noqa: PTH123 - a text
            return bool(_WORKTREE.match(file.read(4096)))
    except OSError:
        return False


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
