"""The memory of an agent's host on its way back: no setting among it, and projects under their names here.

The memory of a project lies in ``projects/NAME/memory``. NAME is the path of its repository, or else of its directory,
with a dash for everything that is no ASCII letter or digit; so no name leads back to its path, and nothing is guessed.
"""

from __future__ import annotations

import os
import re
import unicodedata
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._values import dataclass, field
from colony_memory.app.content import reshape
from colony_memory.capture._metadata import contents_of, split_documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory.app.agents import Agent

_PROJECTS = "projects"
_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORKTREE = re.compile(rb"gitdir:.*[/\\]worktrees[/\\]")


@dataclass
class Host:
    """The folder of a host that a snapshot is going to be written into."""

    agent: Agent
    directory: str
    project: str | None = None  # the path here of the only project that the snapshot holds
    by_name: Mapping[str, str] = field(default_factory=dict)  # from the name of a project's folder to its path here
    kinds: tuple[str, ...] = ()  # what is written besides memory
    left: list[str] = field(default_factory=list)  # what the snapshot has and is no memory of this host
    renamed: dict[str, str] = field(default_factory=dict)  # the folders of projects that got another name
    strange: list[str] = field(default_factory=list)  # those that this machine has no folder for yet

    def __call__(self, documents: dict[str, str]) -> dict[str, str]:
        """The documents that are written: memory alone, under the names that it has here."""
        found = contents_of(documents)
        self.left = sorted(name for name in found.files if not self.agent.holds(name, self.kinds))
        # Nor what is only there because something in it is not: a project without memory, for one.
        unwanted = {*self.left, *(each for each in found.empty_dirs if not self.agent.holds(f"{each}/x", self.kinds))}
        kept = reshape(documents, wanted=lambda name: name not in unwanted)
        if not kept or len(self.left) == len(found.files):
            raise ValueError(f"nothing in the snapshot is memory of {self.agent.title}")
        shaped, self.renamed = rename_projects(kept, self.project, self.by_name)
        if self.agent.has_projects:
            here = Path(self.directory, _PROJECTS)
            names = _project_names(contents_of(shaped).files)
            self.strange = [name for name in names if name not in self.renamed.values() and not (here / name).is_dir()]
        return shaped


def folder_of_project(path: str) -> str:
    """Claude Code's name for the folder of a project: pure, by the code units that JavaScript counts.

    >>> folder_of_project("/home/ada/my_app.v2")
    '-home-ada-my-app-v2'
    """
    units = unicodedata.normalize("NFC", path).encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(name) <= _LONGEST:
        return name
    number, digits = 0, ""
    for code in codes:
        number = (number * 31 + code) & 0xFFFFFFFF
    number = number if number < 1 << 31 else (1 << 32) - number
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return f"{name[:_LONGEST]}-{digits or '0'}"


def locate_project(path: str) -> str:
    """The path that Claude Code names the folder after, of a project that lies, or will lie, in this directory."""
    if not path.strip():
        raise ValueError("an empty path")
    real = Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111 - as a shell does it
    above = next((each for each in (real, *real.parents) if os.path.lexists(each / ".git")), real)
    if above != real:
        raise ValueError(f"{path!r} is in the repository {str(above)!r}, which has one memory as a whole: give that")
    with suppress(OSError):
        if _WORKTREE.match((real / ".git").read_bytes()):
            raise ValueError(f"{path!r} is a worktree, which shares the memory of its repository: give that")
    return str(real)


def _project_names(documents: Iterable[str]) -> list[str]:
    return sorted({parts[1] for name in documents if len(parts := name.split("/")) > 2 and parts[0] == _PROJECTS})


def _new_names(names: list[str], project: str | None, by_name: Mapping[str, str]) -> dict[str, str]:
    there = f"; there are {', '.join(names)}" if names else "; it has no memory of a project"
    for name in by_name:
        if name not in names:
            raise ValueError(f"the snapshot has no project folder {name!r}{there}")
    new = {name: folder_of_project(path) for name, path in by_name.items()}
    if project is not None:
        rest = [name for name in names if name not in new]
        if len(rest) != 1:
            raise ValueError(f"the snapshot does not hold exactly one project{there}: say which goes where, as OLD=NEW")
        new[rest[0]] = folder_of_project(project)
    ends = [new.get(name, name) for name in names]
    for end in ends:
        if ends.count(end) > 1:
            raise ValueError(f"two project folders of the snapshot would both be {end!r}: restore them one by one")
    return {name: end for name, end in new.items() if name != end}


def rename_projects(
    documents: dict[str, str], project: str | None, by_name: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The documents with the folders of projects under the names of these paths, and which got another name."""
    contents, metadata = split_documents(documents)
    changes = _new_names(_project_names([*contents, *metadata.links]), project, by_name)

    def rename(name: str) -> str:
        parts = name.split("/")
        if len(parts) > 1 and parts[0] == _PROJECTS:
            parts[1] = changes.get(parts[1], parts[1])
        return "/".join(parts)

    def lead(target: str) -> str:
        # A link between projects goes on leading there.
        parts = target.split("/")
        after = [False, *(each in (_PROJECTS, "..") for each in parts[:-1])]
        return "/".join(changes.get(each, each) if is_one else each for each, is_one in zip(parts, after, strict=True))

    return (reshape(documents, rename=rename, lead=lead) if changes else documents), changes


def read_maps(maps: Iterable[str]) -> dict[str, str]:
    """Each ``--map OLD=NEW``: from the name of a project's folder, which OLD is or is the path of, to its path here."""
    by_name: dict[str, str] = {}
    for each in maps:
        old, equals, new = each.partition("=")
        if not (old.strip() and equals and new.strip()):
            raise ValueError(f"{each!r} is not of the form OLD=NEW")
        name = folder_of_project(old.rstrip("/") or old) if os.path.isabs(old) else old  # noqa: PTH117 - a text
        path = locate_project(new)
        if "/" in name or by_name.setdefault(name, path) != path:
            raise ValueError(f"{old!r} is neither an absolute path nor the name of a folder, or goes to two places")
    return by_name
