"""What hosts say, as their documentation has it and as it should not be, and what they are answered."""

import json

import pytest

from colony_memory.shell.hooks.hosts import HOSTS, LONGEST_INPUT, answer, read_event

CLAUDE, CODEX, GEMINI, OPENCLAW = (HOSTS[each] for each in ("claude-code", "codex", "gemini", "openclaw"))
# As the pages of each host have them.
DOCUMENTED = [
    (CLAUDE, {"hook_event_name": "SessionStart", "source": "startup", "model": "claude-sonnet-5"}, "tell"),
    (CLAUDE, {"hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": ""}, "save"),
    (CLAUDE, {"hook_event_name": "Stop", "stop_hook_active": True, "background_tasks": []}, "save"),
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
    "text": b"Session started",
    "list": b'["hook_event_name", "Stop"]',
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
BAD = ("context", "no answer")


@pytest.mark.parametrize(("host", "said", "deed"), DOCUMENTED)
def test_what_each_host_says_is_answered_as_it_takes_it(host, said, deed):
    event, problem = read_event(json.dumps(said).encode())
    assert (event, problem) == (said["hook_event_name"], "")
    assert event in (host.tells if deed == "tell" else host.saves)
    line = answer(host, event, *BAD)
    assert line.isascii()
    assert "\n" not in line
    told = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "context"}} if deed == "tell" else {}
    assert json.loads(line) == {**told, "systemMessage": "colony-memory: no answer"}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_understood_is_an_event_to_save_at(name):
    event, problem = read_event(UNREADABLE[name])
    assert problem
    assert all(event not in host.tells for host in HOSTS.values())
    assert json.loads(answer(CLAUDE, event, *BAD)).keys() == {"systemMessage"}
