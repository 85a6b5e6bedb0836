"""Pure: the agent hosts, with the events that they call hooks at and where they are told of hooks."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is to be done: tell the agent about its memory, or save it.
Deed = Literal["tell", "save"]
#: How a host is kept from going on: a decision to block, an end of what it does, or a decision to deny.
Block = Literal["block", "stop", "deny"]


@dataclass(frozen=True)
class Host:
    """A program that runs agents and calls commands at its events.

    Attributes:
        tells: The events at which the agent is told; at any other its memory is saved.
        afterwards: What a person has to do once the hooks are in, or how they get in where there is no such file.
    """

    name: str  # as options name it
    title: str  # as people name it
    tells: tuple[str, ...] = ("SessionStart",)
    saves: tuple[str, ...] = ()  # the events that an installation has the memory saved at
    blocks: Mapping[str, Block] = field(default_factory=dict)  # the events that can be kept from going on, and how
    again: str = "stop_hook_active"  # the field of an event that says that it comes because it was blocked before
    variable: str = ""  # environment variable of the directory that it keeps its settings in
    directory: str = ""  # that directory in the home directory where the variable is not set
    file: str = ""  # the settings in it that hold hooks; empty where there is no such file
    second: int = 1  # what one second is in the unit of its timeouts
    switch: tuple[str, str] = ("", "")  # the file in it that can switch hooks off, and a pattern of what it says then
    afterwards: str = ""

    def deed(self, event: str) -> Deed:
        """What to do at an event. One that is not known is one that somebody has chosen, to save at."""
        return "tell" if event in self.tells else "save"


HOSTS: Mapping[str, Host] = {
    each.name: each
    for each in (
        Host(
            "claude-code",
            "Claude Code",
            saves=("PreCompact", "Stop", "SessionEnd"),
            blocks={"PreCompact": "block", "Stop": "block", "SubagentStop": "block"},
            variable="CLAUDE_CONFIG_DIR",
            directory=".claude",
            file="settings.json",
            switch=("settings.json", r'"disableAllHooks"\s*:\s*true'),
            afterwards="Claude Code takes them over by itself; /hooks shows them",
        ),
        Host(
            "codex",
            "Codex",
            saves=("PreCompact", "Stop"),
            blocks={"PreCompact": "stop", "Stop": "block", "SubagentStop": "block"},
            variable="CODEX_HOME",
            directory=".codex",
            file="hooks.json",
            switch=("config.toml", r"(?m)^\s*(?:features\.)?(?:codex_)?hooks\s*=\s*false"),
            afterwards="Codex runs them once you have trusted them, with /hooks",
        ),
        Host(
            "gemini",
            "Gemini CLI",
            saves=("AfterAgent", "PreCompress", "SessionEnd"),
            blocks={"AfterAgent": "deny"},
            variable="",
            directory=".gemini",
            file="settings.json",
            second=1000,
            switch=("settings.json", r'"hooksConfig"\s*:\s*\{[^{}]*"enabled"\s*:\s*false'),
            afterwards="Gemini CLI takes them over at its next start; /hooks panel shows them",
        ),
        Host(
            "openclaw",
            "OpenClaw",
            tells=("gateway:startup",),
            saves=("command:new", "command:reset", "command:stop", "session:compact:before"),
            afterwards="OpenClaw takes a hook of two files: https://memory.thecolony.cc/hosts.html#openclaw",
        ),
    )
}
