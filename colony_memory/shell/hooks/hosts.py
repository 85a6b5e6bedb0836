"""Pure: the agent hosts, the events that they call hooks at, what they say then and what they are answered.

A host's JSON is data. Of all that is in it, only the name of the event is looked at.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


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
    variable: str = ""  # environment variable of the directory that it keeps its settings in
    directory: str = ""  # that directory in the home directory where the variable is not set
    file: str = ""  # the settings in it that hold hooks; empty where there is no such file
    second: int = 1  # what one second is in the unit of its timeouts
    switch: tuple[str, str] = ("", "")  # the file in it that can switch hooks off, and a pattern of what it says then
    afterwards: str = ""


HOSTS: Mapping[str, Host] = {
    each.name: each
    for each in (
        Host(
            "claude-code",
            "Claude Code",
            saves=("PreCompact", "Stop", "SessionEnd"),
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


#: Bytes that are read of what a host says.
LONGEST_INPUT = 2**20
_MOST_CHARS = 100
#: Hosts cut what is longer than 10,000 characters, or put it elsewhere.
_LONGEST_WORD = 2000


def read_event(data: bytes) -> tuple[str, str]:
    r"""The name of the event, or empty, and why it could not be read.

    >>> read_event(b'{"hook_event_name": "Stop", "cwd": "/elsewhere"}')
    ('Stop', '')
    >>> read_event(b"hello")
    ('', 'it is not JSON')
    """
    if len(data) > LONGEST_INPUT:
        return "", f"it is longer than {LONGEST_INPUT} bytes"
    try:
        found: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return "", "it is not JSON" if data.strip() else "it said nothing"
    event = found.get("hook_event_name") if isinstance(found, dict) else None
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_CHARS:
        return "", "it names no event"
    return event, ""


def answer(host: Host, event: str, context: str, problem: str) -> str:
    """The answer on stdout for the host, one JSON object on a line: words for the agent, and for the person."""
    document: dict[str, Any] = {}
    if context and event in host.tells:
        document["hookSpecificOutput"] = {"hookEventName": event, "additionalContext": context}
    if problem:
        document["systemMessage"] = f"colony-memory: {problem}"[:_LONGEST_WORD]
    # In ASCII, so that it passes whatever the locale.
    return json.dumps(document)
