"""Agent hosts: the folder of each host, the part of it that is the agent's memory, and how that is restored.

The facts about each host come from its documentation or source, with references and dates in ``docs/hosts.md``.
No setting of a host is obeyed, and no file in its folder.
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

#: Never memory: secrets, caches, logs, leftovers of editors and systems.
_NEVER = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", ".credentials.json", "auth.json", "credentials/",
    "*.log", "logs/", "*.tmp", "*.lock", "*.pid", "*.swp", "*~", ".DS_Store", "Thumbs.db",
    ".cache/", "__pycache__/", "node_modules/", ".venv/", "venv/",
)  # fmt: skip


#: Directories in which systems keep programs' data about a user.
_SYSTEMS = ("Library", "AppData")


class Agent(Value):
    name: str  # its name for --agent, and its label unless another is given
    title: str  # its name in texts
    variable: str  # the environment variable for its folder
    memory: tuple[str, ...]  # the memory in its folder, as gitignore rules; empty if that is all of it
    _default: Callable[[], Path]
    more: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # rules by kind: not memory, but may be saved too
    _never: tuple[str, ...] = ()
    has_projects: bool = False  # its folder has directories named after projects

    def exclude(self, kinds: Iterable[str] = ()) -> tuple[str, ...]:
        """Gitignore rules for a backup of its folder: everything but memory and these kinds is excluded."""
        taken = [rule for kind in kinds for rule in self.more[kind]]
        return (*_only((*self.memory, *taken)), *_NEVER, *self._never)

    def read_kinds(self, given: Iterable[str]) -> tuple[str, ...]:
        """Parse kinds, separated by commas or given one by one."""
        kinds = tuple(dict.fromkeys(kind.strip() for text in given for kind in text.split(",") if kind.strip()))
        for kind in kinds:
            if kind not in self.more:
                known = ", ".join(self.more) or "nothing to be saved"
                raise ValueError(f"{self.title} has no {kind!r}; besides its memory it has {known}")
        return kinds

    def kinds_among(self, names: Iterable[str]) -> list[str]:
        """The kinds among left-out names; a whole directory may end with a slash or not."""
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
        """True if a file of its folder is memory or of these kinds, and neither a setting nor a secret."""
        return not _rules(self.exclude(kinds)).covers(name, is_directory=False)

    def following(self) -> Following | None:
        """The policy for links in its memory: only those to paths below the user's home are followed that are neither
        secret nor hidden, or are memory of a host. None if this user has no home.
        """
        from colony_memory.capture._ignore import Following

        try:
            return Following(real_path(_home()), _why_not_followed)
        except ValueError:
            return None


@lru_cache
def _rules(exclude: tuple[str, ...]) -> IgnoreRules:
    from colony_memory.capture._ignore import read_excluded  # most commands don't need it

    return read_excluded(exclude)


def _only(memory: tuple[str, ...]) -> list[str]:
    """Rules that exclude everything but these paths; ``*`` in one stands for any directory."""
    rules = ["/*"] if memory else []
    for path in memory:
        *parents, _ = path.rstrip("/").split("/")
        for depth in range(1, len(parents) + 1):
            directory = "/".join(parents[:depth])
            rules += [rule for rule in (f"!/{directory}/", f"/{directory}/*") if rule not in rules]
        rules.append(f"!/{path.rstrip('/')}")  # without the slash it covers a link too, which is then reported
    return rules


def _why_not_followed(path: str, is_directory: bool) -> str:
    """The reason not to follow a link to a path below the home; empty if it is followed."""
    end = real_path(_home()).joinpath(*path.split("/"))
    for agent in AGENTS.values():
        with contextlib.suppress(ValueError):
            name = end.relative_to(real_path(agent.folder())).as_posix()
            is_memory = agent.holds(f"{name}/MEMORY.md" if is_directory else name)
            return "" if is_memory else f"that is not memory of {agent.title}"
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
    agent.name: agent
    for agent in (
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
            (*_OF_HERMES, *(f"profiles/*/{name}" for name in _OF_HERMES)),
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
            ("/memories/.git/",),  # Codex tracks changes with it, and recreates it
        ),
    )
}


_PROJECTS = "projects"


class Host(Record):
    """The folder of a host as the target of a restore."""

    agent: Agent
    directory: str
    kinds: tuple[str, ...] = ()  # kinds of files to write besides memory
    left: list[str] = field(default_factory=list)  # files of the snapshot that are not memory of this host
    strange: list[str] = field(default_factory=list)  # projects without a folder on this machine so far

    def memory_of(self, documents: dict[str, str]) -> dict[str, str]:
        """The documents to write there: only memory, and files of the chosen kinds."""
        from colony_memory.capture._metadata import contents_of
        from colony_memory.shell.app.content import reshape

        found = contents_of(documents)
        self.left = sorted(name for name in found.files if not self.agent.holds(name, self.kinds))
        # Nor directories left empty by that, such as a project without memory.
        unwanted = {*self.left, *(path for path in found.empty_dirs if not self.agent.holds(f"{path}/x", self.kinds))}
        kept = reshape(documents, lambda name: name not in unwanted)
        if not kept or len(self.left) == len(found.files):
            raise ValueError(f"nothing in the snapshot belongs to the memory of {self.agent.title}")
        if self.agent.has_projects:
            parts = [name.split("/") for name in contents_of(kept).files]
            names = {part[1] for part in parts if part[0] == _PROJECTS and len(part) > 2}
            self.strange = sorted(name for name in names if not Path(self.directory, _PROJECTS, name).is_dir())
        return kept
