"""Hosts of agents: where each keeps what its agent remembers, what of that folder is memory, and how it comes back.

What is said here of each host is what its documentation or source says; ``docs/hosts.md`` tells which, and of when.
No setting of a host is obeyed, and no file of its folder. The memory of a project of Claude Code lies in
``projects/NAME/memory``. NAME is the path of its repository, or else of its directory, with a dash for everything that
is no ASCII letter or digit; so no name leads back to its path, and nothing is guessed.
"""

from __future__ import annotations

import contextlib
import os
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.paths import real_path
from colony_memory._values import dataclass, field, pattern
from colony_memory.shell.app.config import expanded_path, read_path_setting, read_setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory.capture._ignore import Following, IgnoreRules

#: Never memory: secrets, caches, logs, what editors and systems leave.
_NEVER = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", ".credentials.json", "auth.json", "credentials/",
    "*.log", "logs/", "*.tmp", "*.lock", "*.pid", "*.swp", "*~", ".DS_Store", "Thumbs.db",
    ".cache/", "__pycache__/", "node_modules/", ".venv/", "venv/",
)  # fmt: skip


#: Where systems keep what programs know of a user.
_SYSTEMS = ("Library", "AppData")


@dataclass(frozen=True)
class Agent:
    name: str  # what --agent calls it, and its label unless another is given
    title: str  # what people call it
    variable: str  # the environment variable that says where its folder is
    memory: tuple[str, ...]  # what of its folder is memory, as rules of gitignore have it; empty for all of it
    _default: Callable[[], Path]
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # what is none and may be saved with it
    _never: tuple[str, ...] = ()
    has_projects: bool = False  # whether it has folders that are named after projects

    def exclude(self, kinds: Iterable[str] = ()) -> tuple[str, ...]:
        """The rules of gitignore by which a backup of its folder that takes these kinds besides leaves out the rest."""
        taken = [rule for kind in kinds for rule in self.more[kind]]
        return (*_only((*self.memory, *taken)), *_NEVER, *self._never)

    def read_kinds(self, given: Iterable[str]) -> tuple[str, ...]:
        """Kinds as they are given, commas between some of them."""
        found = tuple(dict.fromkeys(kind.strip() for each in given for kind in each.split(",") if kind.strip()))
        for kind in found:
            if kind not in self.more:
                known = ", ".join(self.more) or "nothing to be saved"
                raise ValueError(f"besides its memory, {self.title} has {known}: not {kind!r}")
        return found

    def kinds_among(self, names: Iterable[str]) -> list[str]:
        """Which kinds there are among what was left out, a directory as a whole with a slash or without."""
        left = [name.rstrip("/") for name in names]
        return [
            kind
            for kind, rules in self.more.items()
            if any(_rules(tuple(f"/{rule}" for rule in rules)).covers(name, is_directory=True) for name in left)
        ]

    def folder(self) -> Path:
        return read_path_setting(self.variable) or self._default()

    def require_folder(self) -> Path:
        folder = self.folder()
        if not folder.is_dir():
            raise ValueError(
                f"there is no {str(folder)!r}, where {self.title} keeps its memory; if that is elsewhere, set "
                f"{self.variable} or name the folder"
            )
        return folder

    def holds(self, name: str, kinds: Iterable[str] = ()) -> bool:
        """A file of this name in its folder is memory or of these kinds, and neither a setting nor a secret."""
        return not _rules(self.exclude(kinds)).covers(name, is_directory=False)

    def following(self) -> Following | None:
        """Which links in its memory are followed: below the user's home, to what is no secret and is not hidden, or is
        memory of a host. None where this user has no home.
        """
        from colony_memory.capture._ignore import Following

        try:
            return Following(real_path(_home()), _why_not_followed)
        except ValueError:
            return None


@lru_cache
def _rules(exclude: tuple[str, ...]) -> IgnoreRules:
    from colony_memory.capture._ignore import read_excluded  # most commands need nothing of folders

    return read_excluded(exclude)


def _only(memory: tuple[str, ...]) -> list[str]:
    """Rules that exclude everything but these paths; ``*`` in one stands for any directory."""
    rules = ["/*"] if memory else []
    for path in memory:
        *above, _ = path.rstrip("/").split("/")
        for depth in range(1, len(above) + 1):
            directory = "/".join(above[:depth])
            rules += [rule for rule in (f"!/{directory}/", f"/{directory}/*") if rule not in rules]
        rules.append(f"!/{path.rstrip('/')}")  # a link of that name too, so that it is named
    return rules


def _why_not_followed(path: str, is_directory: bool) -> str:
    """Why a link to a path below the home is not followed, or nothing."""
    end = real_path(_home()).joinpath(*path.split("/"))
    for agent in AGENTS.values():
        with contextlib.suppress(ValueError):
            name = end.relative_to(real_path(agent.folder())).as_posix()
            is_memory = agent.holds(f"{name}/MEMORY.md" if is_directory else name)
            return "" if is_memory else f"that is no memory of {agent.title}"
    for part in path.split("/"):
        if part in _SYSTEMS or (part.startswith(".") and part != ".dotfiles"):
            return f"{part!r} may hold secrets"
    return "that may be a secret" if _rules(_NEVER).covers(path, is_directory=is_directory) else ""


def _home(*names: str) -> Path:
    return Path(expanded_path("~"), *names)


def _openclaw() -> Path:
    state = read_path_setting("OPENCLAW_STATE_DIR")
    profile = read_setting("OPENCLAW_PROFILE")
    if state is None:
        state = _home(f".openclaw-{profile}" if profile not in (None, "default") else ".openclaw")
    return state / "workspace"


def _hermes() -> Path:
    if os.name == "nt":  # pragma: no cover - chosen by the platform
        return Path(os.environ.get("LOCALAPPDATA") or _home("AppData", "Local")) / "hermes"
    return _home(".hermes")


_OF_HERMES = (
    "SOUL.md", "MEMORY.md", "USER.md", "AGENTS.md",
    "memories/", "skills/", "plans/", "knowledge/", "preferences/",
)  # fmt: skip

#: By name.
AGENTS = {
    each.name: each
    for each in (
        Agent(
            "claude-code",
            "Claude Code",
            "CLAUDE_CONFIG_DIR",
            ("CLAUDE.md", "rules/", "agent-memory/", "projects/*/memory/"),
            lambda: _home(".claude"),
            {
                "transcripts": ("projects/*/*.jsonl", "history.jsonl"),
                "skills": ("skills/",),
                "plans": ("plans/",),
                "agents": ("agents/",),
                "commands": ("commands/",),
            },
            has_projects=True,
        ),
        Agent("openclaw", "OpenClaw", "OPENCLAW_WORKSPACE_DIR", (), _openclaw),
        Agent(
            "hermes",
            "Hermes",
            "HERMES_HOME",
            (*_OF_HERMES, *(f"profiles/*/{each}" for each in _OF_HERMES)),
            _hermes,
            {"transcripts": ("sessions/", "profiles/*/sessions/")},
        ),
        Agent(
            "codex",
            "Codex",
            "CODEX_HOME",
            ("AGENTS.md", "AGENTS.override.md", "memories/"),
            lambda: _home(".codex"),
            {
                "transcripts": ("sessions/", "archived_sessions/", "history.jsonl"),
                "skills": ("skills/",),
                "prompts": ("prompts/",),
            },
            ("/memories/.git/",),  # by which Codex tells what has changed; it makes it anew
        ),
    )
}


_PROJECTS = "projects"
_LONGEST = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WORKTREE = pattern(rb"gitdir:.*[/\\]worktrees[/\\]")


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
        from colony_memory.capture._metadata import contents_of
        from colony_memory.shell.app.content import reshape

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
    with contextlib.suppress(OSError):
        if (real / ".git").is_file() and _WORKTREE.match((real / ".git").read_bytes()):
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
    from colony_memory.capture._metadata import split_documents
    from colony_memory.shell.app.content import reshape

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
