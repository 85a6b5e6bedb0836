"""The verbs of the program and their parameters."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from colony_memory._values import NamedTuple, names_of
from colony_memory.shell.cli.options import GROUPS, OPTIONS, UNSET, VARIABLES
from colony_memory.shell.words.errors import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from colony_memory.shell.cli.call import Call

COMPLETION = "_COLONY_MEMORY_COMPLETE"
#: The default of what has to be given.
NEEDED = object()
#: The call that is run.
CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)

#: The verbs as the help groups them, each with its arguments and the first line of its help. Its module is loaded when
#: it is asked for.
SECTIONS = {
    "Save and restore": {
        "backup": ("PATH...", "Save folders and files as a new snapshot."),
        "restore": ("[ID] DIR", "Write a snapshot's files into a folder, all or none."),
        "watch": ("PATH...", "Save folders and files now, and then every so often until told to stop."),
        "run": ("DIR COMMAND...", "Restore a folder, run a command on it, and save it meanwhile and at the end."),
        "guard": ("DIR COMMAND...", "Save a folder, run a command that may spoil it, and say how to get back."),
        "hook": ("[install|uninstall HOST] [DIR]", "Save or describe an agent's memory, for the program that runs it."),
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
    "mcp": "run",
    **dict.fromkeys(("list", "show", "cat", "log", "grep", "diff"), "look"),
    **dict.fromkeys(("prune", "delete", "rewrite", "pin", "unpin", "tag"), "tidy"),
    **dict.fromkeys(("init", "export", "import", "copy", "keygen", "verify", "report"), "vaults"),
}


def run_of(verb: str) -> Callable[..., int]:
    """The function that runs a verb; its docstring is the help, with the examples at its end."""
    found: Any = import_module(f"colony_memory.shell.cli.verbs.{_MODULES.get(verb, verb)}")
    return found.__dict__[f"run_{verb}"]  # type: ignore[no-any-return]


def arguments_of(verb: str) -> str:
    """Its arguments, as its help has them."""
    return next(section[verb][0] for section in SECTIONS.values() if verb in section)


def examples_of(verb: str) -> list[str]:
    """How a verb is used, as its help has it."""
    lines = map(str.strip, (run_of(verb).__doc__ or "").splitlines())
    return [line for line in lines if line.startswith(f"{PROGRAM} ")]


class Parameter(NamedTuple):
    """A parameter of a verb, those of its groups included."""

    name: str
    flags: tuple[str, ...]  # an argument has none
    metavar: str | None  # what stands for its value, None where it is a flag; N is a number, several end with ...
    help: str
    default: Any  # what it is where it is not given, or NEEDED
    group: str | None = None  # the argument of the verb that it is a field of, None where it is one itself
    variable: str | None = None  # the environment variable that may give it too

    @property
    def several(self) -> bool:
        """It may be given several times."""
        return str(self.metavar).endswith("...")

    @property
    def choices(self) -> list[str]:
        """The words that it takes, one at most where it takes others."""
        return str(self.metavar).split("|")

    @property
    def least(self) -> int:
        """The least number that it takes."""
        return int(self.name == "keep" and self.group == "saving")


def parameters_of(verb: str) -> list[Parameter]:
    """The parameters of a verb: what its function takes by position are arguments, all else are options."""
    run, arguments = run_of(verb), arguments_of(verb)
    code, words = run.__code__, arguments.split()
    places = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(places), reversed(run.__defaults__ or ()), strict=False)) | (run.__kwdefaults__ or {})
    if len(places) != len(words) or arguments.endswith("..."):
        words = [arguments if arguments.endswith("...") else f"{arguments}..."]
    pairs = zip(places, words, strict=True)
    found = [Parameter(name, (), word, "", defaults.get(name, NEEDED)) for name, word in pairs]
    for name in code.co_varnames[len(places) : len(places) + code.co_kwonlyargcount]:
        kind = GROUPS.get(name)
        if kind is None:
            found.append(option_of(verb, name, defaults.get(name, NEEDED)))
        else:
            left_out = ("note", "tag") if name == "saving" and verb not in ("backup", "watch") else ()
            of_group = (each for each in names_of(kind) if each not in left_out)
            found += [option_of(verb, each, getattr(kind, each), name) for each in of_group]
    return found


def option_of(verb: str, name: str, default: Any, group: str | None = None) -> Parameter:
    """The option that gives this parameter of a verb."""
    declared, text = OPTIONS.get(f"{verb}.{name}") or OPTIONS[name]
    words = declared.split()
    flags = tuple(word for word in words if word.startswith("-"))
    has_variable = name in VARIABLES and f"{verb}.{name}" not in UNSET
    variable = f"COLONY_MEMORY_{name.upper()}" if has_variable else None
    return Parameter(name, flags, None if len(flags) == len(words) else words[-1], text, default, group, variable)
