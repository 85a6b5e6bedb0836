"""The verbs of the program, and how a command line becomes a call of one."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from colony_memory.cli.parsing import parameters_of, parse
from colony_memory.words.errors import warnings_as_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from colony_memory.words.errors import Asked

COMPLETION = "_COLONY_MEMORY_COMPLETE"

#: The verbs as the help groups them, each with its arguments and the first line of its help. Its module is loaded when
#: it is asked for.
SECTIONS = {
    "Save and restore": {
        "backup": ("PATH...", "Save folders and files as a new snapshot."),
        "restore": ("[ID] DIR", "Write a snapshot's files into a folder, all or none."),
        "watch": ("PATH...", "Save folders and files now, and then every so often until told to stop."),
        "run": ("DIR COMMAND...", "Restore a folder, run a command on it, and save it meanwhile and at the end."),
        "guard": ("DIR COMMAND...", "Save a folder, run a command that may spoil it, and say how to get back."),
        "hook": (
            "[install|uninstall HOST] [DIR]",
            "Save or describe an agent's memory, for the program that runs the agent.",
        ),
        "mcp": ("DIR", "Serve one folder's memory to an agent's host, by the Model Context Protocol."),
    },
    "Look": {
        "status": ("[PATH]...", "Tell whether the memory is protected, and what to do if not."),
        "list": ("", "Show the snapshots in the vault, newest first."),
        "show": ("ID", "Show one snapshot: when, how large, signed by whom, and the names in it."),
        "cat": ("[ID] NAME", "Print one file of a snapshot, byte for byte."),
        "log": ("NAME", "Show what became of one file, from snapshot to snapshot."),
        "grep": ("PATTERN", "Find lines in all snapshots, and when each came and went."),
        "diff": ("[A] [B]", "Show what changed from one snapshot to another, or to a folder."),
        "verify": ("[ID|FILE]", "Read every byte that is saved, and report what is intact."),
        "report": ("", "Write everything about a vault into one HTML page."),
    },
    "Tidy": {
        "prune": ("", "Delete old snapshots by rules, and the leftovers of interrupted backups."),
        "delete": ("ID", "Delete one snapshot, for good."),
        "rewrite": ("", "Save all snapshots anew without a text or a file, in another format or under other keys."),
        "pin": ("ID", "Keep one snapshot whatever a retention says, until it is unpinned."),
        "unpin": ("ID", "Let the retention decide about one snapshot again."),
        "tag": ("ID", "Give one snapshot tags, or take some from it."),
    },
    "Vaults and keys": {
        "init": ("[URL]", "Make a new vault, once."),
        "export": ("ID FILE", "Write one snapshot into a file of its own, signature and all."),
        "import": ("FILE", "Put a snapshot that was exported into the vault."),
        "copy": ("", "Copy every snapshot from one vault into another, signatures and all."),
        "keygen": ("[FILE]", "Make a key for signing snapshots, in a file that only its owner can read."),
        "config": ("", "Show which settings count, and where each comes from."),
    },
}
VERBS = {name: line for section in SECTIONS.values() for name, (_, line) in section.items()}

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
    examples: tuple[str, ...] = module_of(verb).EXAMPLES[verb]
    return examples


def declared(verb: str) -> tuple[Callable[..., int], str, list[Any]]:
    """What runs the verb, its arguments as its help has them, and its parameters."""
    run: Callable[..., int] = getattr(module_of(verb), f"run_{verb}")
    arguments = next(section[verb][0] for section in SECTIONS.values() if verb in section)
    return run, arguments, parameters_of(verb, run, arguments)


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv, asked.verbs = list(asked.argv), tuple(VERBS)
    with warnings_as_lines(asked):
        if COMPLETION not in os.environ and argv and argv[0] in VERBS:
            run, _, parameters = declared(argv[0])
            call = parse(argv[0], run, parameters, argv[1:])
            if call is not None:
                return call.run(asked)
        from colony_memory.cli.program import run as run_with_click

        return run_with_click(asked)
