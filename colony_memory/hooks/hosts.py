"""Pure: the agent hosts, the events that they call hooks at, what they say then and what they are answered.

A host's JSON is data. Of all that is in it, the name of the event is looked at, and whether this is a second try; no
path in it means anything here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._values import dataclass, field

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


#: Bytes that are read of what a host says.
LONGEST_INPUT = 2**20
_MOST_CHARS = 100
#: Hosts cut what is longer than 10,000 characters, or put it elsewhere.
_LONGEST_WORD = 2000


@dataclass(frozen=True)
class HostEvent:
    """What a host has said."""

    name: str = ""  # the event's name, empty where it could not be read
    fields: frozenset[str] = frozenset()  # those of its other fields that are true or false
    problem: str = ""  # why it could not be read, empty where it could

    def is_again(self, host: Host) -> bool:
        """Whether the host is going on because it was kept from it before."""
        return host.again in self.fields


@dataclass(frozen=True)
class HookResult:
    """What a hook has to tell."""

    context: str = ""  # for the agent
    problem: str = ""  # for the person: what is wrong
    unsaved: str = ""  # for the agent, where its memory could not be saved, or not all of it: that, and what to do


def read_event(data: bytes) -> HostEvent:
    r"""What a host says, as far as it matters.

    >>> read_event(b'{"hook_event_name": "Stop", "stop_hook_active": true, "cwd": "/elsewhere"}')
    HostEvent(name='Stop', fields=frozenset({'stop_hook_active'}), problem='')
    >>> read_event(b"hello").problem
    'it is no JSON'
    """
    if len(data) > LONGEST_INPUT:
        return HostEvent(problem=f"it is longer than {LONGEST_INPUT} bytes")
    try:
        found: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return HostEvent(problem="it is not JSON" if data.strip() else "it said nothing")
    if not isinstance(found, dict):
        return HostEvent(problem="it is not a JSON object")
    event = found.get("hook_event_name")
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_CHARS:
        return HostEvent(problem="it names no event")
    return HostEvent(event, frozenset(name for name, value in found.items() if value is True))


def answer(host: Host, event: HostEvent, result: HookResult, *, block: bool) -> str:
    """What is written to stdout for the host: one JSON object on a line, and nothing else."""
    document: dict[str, Any] = {}
    if result.context and event.name in host.tells:
        document["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": result.context}
    if result.problem:
        document["systemMessage"] = f"colony-memory: {result.problem}"[:_LONGEST_WORD]
    how = host.blocks.get(event.name) if block and result.unsaved and not event.is_again(host) else None
    if how == "stop":
        document |= {"continue": False, "stopReason": result.unsaved}
    elif how is not None:
        document |= {"decision": how, "reason": result.unsaved}
    # In ASCII, so that it passes whatever the locale.
    return json.dumps(document)
