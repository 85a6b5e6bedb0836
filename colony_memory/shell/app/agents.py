"""Hosts of agents: where each keeps what its agent remembers, what of that folder is memory, and how it comes back.

What is said here of each host is what its documentation or source says; ``docs/hosts.md`` tells which, and of when.
No setting of a host is obeyed, and no file of its folder.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory._os.paths import real_path
from colony_memory._values import Record, Value, field
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


class Agent(Value):
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


class Host(Record):
    """The folder of a host that a snapshot is going to be written into."""

    agent: Agent
    directory: str
    kinds: tuple[str, ...] = ()  # what is written besides memory
    left: list[str] = field(default_factory=list)  # what the snapshot has and is no memory of this host
    strange: list[str] = field(default_factory=list)  # projects that this machine has no folder for yet

    def memory_of(self, documents: dict[str, str]) -> dict[str, str]:
        """The documents that are written there: memory alone."""
        from colony_memory.capture._metadata import contents_of
        from colony_memory.shell.app.content import reshape

        found = contents_of(documents)
        self.left = sorted(name for name in found.files if not self.agent.holds(name, self.kinds))
        # Nor what is only there because something in it is not: a project without memory, for one.
        unwanted = {*self.left, *(each for each in found.empty_dirs if not self.agent.holds(f"{each}/x", self.kinds))}
        kept = reshape(documents, lambda name: name not in unwanted)
        if not kept or len(self.left) == len(found.files):
            raise ValueError(f"nothing in the snapshot is memory of {self.agent.title}")
        if self.agent.has_projects:
            parts = [name.split("/") for name in contents_of(kept).files]
            names = {each[1] for each in parts if each[0] == _PROJECTS and len(each) > 2}
            self.strange = sorted(name for name in names if not Path(self.directory, _PROJECTS, name).is_dir())
        return kept
