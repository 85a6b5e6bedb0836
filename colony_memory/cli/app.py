"""The verbs of the program, and how a command line becomes a call of one."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from colony_memory.cli.parsing import parse
from colony_memory.words.errors import warnings_as_lines

if TYPE_CHECKING:
    from types import ModuleType

    from colony_memory.words.commands import Asked

COMPLETION = "_COLONY_MEMORY_COMPLETE"

#: The verbs as the help groups them, each with the first line of its help. Its module is loaded when it is asked for.
GROUPS = {
    "Save and restore": {
        "backup": "Save folders and files as a new snapshot.",
        "restore": "Write a snapshot's files into a folder, all or none.",
        "watch": "Save folders and files now, and then every so often until told to stop.",
        "run": "Restore a folder, run a command on it, and save it meanwhile and at the end.",
        "guard": "Save a folder, run a command that may spoil it, and say how to get back.",
        "hook": "Save or describe an agent's memory, for the program that runs the agent.",
        "mcp": "Serve one folder's memory to an agent's host, by the Model Context Protocol.",
    },
    "Look": {
        "status": "Tell whether the memory is protected, and what to do if not.",
        "list": "Show the snapshots in the vault, newest first.",
        "show": "Show one snapshot: when, how large, signed by whom, and the names in it.",
        "cat": "Print one file of a snapshot, byte for byte.",
        "log": "Show what became of one file, from snapshot to snapshot.",
        "grep": "Find lines in all snapshots, and when each came and went.",
        "diff": "Show what changed from one snapshot to another, or to a folder.",
        "verify": "Read every byte that is saved, and report what is intact.",
        "report": "Write everything about a vault into one HTML page.",
    },
    "Tidy": {
        "prune": "Delete old snapshots by rules, and the leftovers of interrupted backups.",
        "delete": "Delete one snapshot, for good.",
        "rewrite": "Save all snapshots anew without a text or a file, in another format or under other keys.",
        "pin": "Keep one snapshot whatever a retention says, until it is unpinned.",
        "unpin": "Let the retention decide about one snapshot again.",
        "tag": "Give one snapshot tags, or take some from it.",
    },
    "Vaults and keys": {
        "init": "Make a new vault, once.",
        "export": "Write one snapshot into a file of its own, signature and all.",
        "import": "Put a snapshot that was exported into the vault.",
        "copy": "Copy every snapshot from one vault into another, signatures and all.",
        "keygen": "Make a key for signing snapshots, in a file that only its owner can read.",
        "config": "Show which settings count, and where each comes from.",
    },
}
VERBS = {name: line for group in GROUPS.values() for name, line in group.items()}

#: The modules of verbs that have none of their own.
_MODULES = {
    "watch": "backup",
    "guard": "run",
    "mcp": "hook",
    **dict.fromkeys(("list", "show", "cat", "log", "grep", "diff"), "look"),
    **dict.fromkeys(("status", "verify", "report"), "check"),
    **dict.fromkeys(("prune", "delete", "rewrite", "pin", "unpin", "tag"), "tidy"),
    **dict.fromkeys(("init", "export", "import", "copy", "keygen"), "vaults"),
}


def module_of(verb: str) -> ModuleType:
    """The module that a verb is in."""
    return import_module(f"colony_memory.cli.verbs.{_MODULES.get(verb, verb)}")


def examples_of(verb: str) -> tuple[str, ...]:
    """How a verb is used, as its help has it."""
    examples: tuple[str, ...] = getattr(module_of(verb), f"{verb.upper()}_EXAMPLES")
    return examples


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv, asked.verbs = list(asked.argv), tuple(VERBS)
    with warnings_as_lines(asked):
        if COMPLETION not in os.environ and argv and argv[0] in VERBS:
            verb = argv[0]
            call = parse(verb, getattr(module_of(verb), f"run_{verb}"), argv[1:])
            if call is not None:
                return call.run(asked)
        from colony_memory.cli.program import run

        return run(asked)
