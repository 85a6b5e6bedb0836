"""What hosts say, as their documentation has it and as it should not be, and what they are answered."""

from __future__ import annotations

import json

import pytest

from colony_memory.hooks.hosts import HOSTS, LONGEST_INPUT, HookResult, HostEvent, answer, read_event

CLAUDE, CODEX, GEMINI, OPENCLAW = (HOSTS[each] for each in ("claude-code", "codex", "gemini", "openclaw"))
# As the pages of each host have them.
DOCUMENTED = [
    (CLAUDE, {"hook_event_name": "SessionStart", "source": "startup", "model": "claude-sonnet-5"}, "tell"),
    (CLAUDE, {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": ""}, "save"),
    (
        CLAUDE,
        {"hook_event_name": "Stop", "stop_hook_active": True, "background_tasks": []},
        "save",
    ),
    (CLAUDE, {"hook_event_name": "SessionEnd", "reason": "other"}, "save"),
    (CODEX, {"hook_event_name": "SessionStart", "source": "resume", "model": "m", "permission_mode": "plan"}, "tell"),
    (CODEX, {"hook_event_name": "PreCompact", "trigger": "manual", "model": "m", "turn_id": "t"}, "save"),
    (CODEX, {"hook_event_name": "Stop", "stop_hook_active": False, "last_assistant_message": None}, "save"),
    (GEMINI, {"hook_event_name": "SessionStart", "source": "clear", "timestamp": "2026-11-28T08:00:00Z"}, "tell"),
    (GEMINI, {"hook_event_name": "AfterAgent", "prompt": "p", "prompt_response": "r"}, "save"),
    (GEMINI, {"hook_event_name": "PreCompress", "trigger": "auto"}, "save"),
    (GEMINI, {"hook_event_name": "SessionEnd", "reason": "exit"}, "save"),
    (OPENCLAW, {"hook_event_name": "gateway:startup"}, "tell"),
    (OPENCLAW, {"hook_event_name": "session:compact:before"}, "save"),
]
UNREADABLE = {
    "nothing": b"",
    "blank": b" \n",
    "text": b"Session started",
    "list": b'["hook_event_name", "Stop"]',
    "number": b"3",
    "no UTF-8": b'{"hook_event_name": "St\xff"}',
    "two documents": b'{"hook_event_name": "Stop"} {}',
    "cut off": b'{"hook_event_name": "Stop", "last_assistant_message": "lo',
    "no name": b'{"event": "Stop"}',
    "empty name": b'{"hook_event_name": ""}',
    "name of another kind": b'{"hook_event_name": ["Stop"]}',
    "long name": b'{"hook_event_name": "' + b"S" * 101 + b'"}',
    "deep": b'{"hook_event_name": "Stop", "x": ' + b"[" * 200_000,
    "great number": b'{"hook_event_name": "Stop", "x": ' + b"9" * 5000 + b"}",
    "too long": b'{"hook_event_name": "Stop", "x": "' + b"x" * LONGEST_INPUT + b'"}',
}
# What Codex takes, and nothing beside it: it refuses an answer that has more.
CODEX_KEYS = {
    "SessionStart": {"continue", "hookSpecificOutput", "stopReason", "suppressOutput", "systemMessage"},
    "PreCompact": {"continue", "stopReason", "suppressOutput", "systemMessage"},
    "Stop": {"continue", "decision", "reason", "stopReason", "suppressOutput", "systemMessage"},
}
BAD = HookResult(problem="no answer", unsaved="The memory could not be saved.")


def answered(host, said, told, *, block=False):
    line = answer(host, said, told, block=block)
    assert line.isascii()
    assert "\n" not in line
    return json.loads(line)


def test_what_is_installed_is_what_each_host_has():
    documented = {(host.name, said["hook_event_name"]) for host, said, _ in DOCUMENTED}
    installed = {(host.name, event) for host in HOSTS.values() for event in (*host.tells, *host.saves)}
    assert documented <= installed
    assert {event for host in HOSTS.values() for event in host.blocks} - {"SubagentStop"} <= {e for _, e in installed}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_understood_is_an_event_to_save_at(name):
    said = read_event(UNREADABLE[name])
    assert said.problem
    assert said.name == ""
    assert all(host.deed(said.name) == "save" for host in HOSTS.values())
    assert all(answered(host, said, BAD, block=True).keys() == {"systemMessage"} for host in HOSTS.values())


def test_each_host_is_blocked_in_its_own_way():
    reason = BAD.unsaved
    block = {"systemMessage": "colony-memory: no answer", "decision": "block", "reason": reason}
    assert answered(CLAUDE, HostEvent("PreCompact"), BAD, block=True) == block
    assert answered(CLAUDE, HostEvent("Stop"), BAD, block=True) == block
    assert answered(CODEX, HostEvent("Stop"), BAD, block=True) == block
    stop = {"systemMessage": "colony-memory: no answer", "continue": False, "stopReason": reason}
    assert answered(CODEX, HostEvent("PreCompact"), BAD, block=True) == stop
    assert answered(GEMINI, HostEvent("AfterAgent"), BAD, block=True) == {**block, "decision": "deny"}
    for host, event in ((CLAUDE, "SessionEnd"), (GEMINI, "PreCompress"), (OPENCLAW, "command:new")):
        assert answered(host, HostEvent(event), BAD, block=True).keys() == {"systemMessage"}


def test_codex_is_told_nothing_that_it_refuses():
    for event, keys in CODEX_KEYS.items():
        for block in (False, True):
            told = HookResult(context="c", problem="p", unsaved="u")
            assert answered(CODEX, HostEvent(event), told, block=block).keys() <= keys
