"""Pure: what a host says, and what it is answered.

A host's JSON is data. Of all that is in it, the name of the event is looked at, and whether this is a second try; no
path in it means anything here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from colony_memory.hooks.hosts import Host

__all__ = ["LONGEST_INPUT", "Said", "Told", "answer", "read_event"]

#: Bytes that are read of what a host says.
LONGEST_INPUT = 2**20
_MOST_CHARS = 100
#: Hosts cut what is longer than 10,000 characters, or put it elsewhere.
_LONGEST_WORD = 2000


@dataclass(frozen=True)
class Said:
    """What a host has said."""

    event: str = ""  # the event's name, empty where it could not be read
    fields: frozenset[str] = frozenset()  # those of its other fields that are true or false
    problem: str = ""  # why it could not be read, empty where it could

    def is_again(self, host: Host) -> bool:
        """Whether the host is going on because it was kept from it before."""
        return host.again in self.fields


@dataclass(frozen=True)
class Told:
    """What a hook has to tell."""

    context: str = ""  # for the agent
    problem: str = ""  # for the person: what is wrong
    unsaved: str = ""  # for the agent, where its memory could not be saved, or not all of it: that, and what to do


def read_event(data: bytes) -> Said:
    r"""What a host says, as far as it matters.

    >>> read_event(b'{"hook_event_name": "Stop", "stop_hook_active": true, "cwd": "/elsewhere"}')
    Said(event='Stop', fields=frozenset({'stop_hook_active'}), problem='')
    >>> read_event(b"hello").problem
    'it is no JSON'
    """
    if len(data) > LONGEST_INPUT:
        return Said(problem=f"it is longer than {LONGEST_INPUT} bytes")
    try:
        found: Any = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return Said(problem="it is not JSON" if data.strip() else "it said nothing")
    if not isinstance(found, dict):
        return Said(problem="it is not a JSON object")
    event = found.get("hook_event_name")
    if not isinstance(event, str) or not 0 < len(event) <= _MOST_CHARS:
        return Said(problem="it names no event")
    return Said(event, frozenset(name for name, value in found.items() if value is True))


def answer(host: Host, said: Said, told: Told, *, block: bool) -> str:
    """What is written to stdout for the host: one JSON object on a line, and nothing else."""
    document: dict[str, Any] = {}
    if told.context and said.event in host.tells:
        document["hookSpecificOutput"] = {"hookEventName": said.event, "additionalContext": told.context}
    if told.problem:
        document["systemMessage"] = f"colony-memory: {told.problem}"[:_LONGEST_WORD]
    how = host.blocks.get(said.event) if block and told.unsaved and not said.is_again(host) else None
    if how == "stop":
        document |= {"continue": False, "stopReason": told.unsaved}
    elif how is not None:
        document |= {"decision": how, "reason": told.unsaved}
    # In ASCII, so that it passes whatever the locale.
    return json.dumps(document)
