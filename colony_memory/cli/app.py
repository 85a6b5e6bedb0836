"""The verbs of the program, their parameters, and the call that plain arguments make.

What is not plain, such as an error, goes to click, which takes longer to load than most verbs take.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from colony_memory._values import NamedTuple, names_of
from colony_memory.cli.options import GROUPS, OPTIONS, UNSET, VARIABLES
from colony_memory.words.errors import PROGRAM, UsageError, warnings_as_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from colony_memory.words.errors import Asked

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
    found: Any = import_module(f"colony_memory.cli.verbs.{_MODULES.get(verb, verb)}")
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


class Call:
    """A verb with what it was given."""

    def __init__(self, verb: str, params: dict[str, Any], given: Mapping[str, str]) -> None:
        self.verb, self.parameters, self.params = verb, parameters_of(verb), params
        self.given = given  # by parameter the option or variable that gave it, or for an argument its name

    def run(self, asked: Asked) -> int:
        """Run the verb."""
        from colony_memory.cli.verbs.config import settled

        flags = {flag for each in self.parameters for flag in each.flags}
        asked.verb, asked.params, asked.flags = self.verb, self.params, frozenset(flags)
        asked.from_environment = frozenset(name for name, source in self.given.items() if source.isupper())
        self.params = asked.params = settled(self)
        for each in self.parameters:
            if each.default is NEEDED and self.params.get(each.name) in (None, ()):
                what = f"missing argument '{str(each.metavar).removesuffix('...')}'"
                raise UsageError(what, advice=f"{PROGRAM} {self.verb} --help")
        given: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {each.group: {} for each in self.parameters if each.group}
        for each in self.parameters:
            value = self.params[each.name]
            # Several of one are a list, and None where there is none.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (grouped[each.group] if each.group else given)[each.name] = value
        token = CURRENT.set(self)
        try:
            made = {name: GROUPS[name](**each) for name, each in grouped.items()}
            code: int | None = run_of(self.verb)(**given, **made)
        finally:
            CURRENT.reset(token)
        return code or 0


def parse(verb: str, argv: Sequence[str]) -> Call | None:
    """The call that plain arguments make, None where click has to look at them."""
    parameters = parameters_of(verb)
    flags = {flag: each for each in parameters for flag in each.flags}
    words, given, texts = list[str](), dict[str, str](), dict[str, list[Any]]()
    rest = iter(argv)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        flag, equals, text = word.partition("=")
        if flag not in flags or (equals and (flags[flag].metavar is None or not flag.startswith("--"))):
            return None
        one = flags[flag]
        value: Any = True if one.metavar is None else text if equals else next(rest, "")
        if value is not True and (not value.strip() or value.startswith("-")):
            return None
        texts.setdefault(one.name, []).append(value)
        given[one.name] = max(one.flags, key=len)
    params: dict[str, Any] = {}
    arguments = [each for each in parameters if not each.flags]
    for each in parameters[len(arguments) :]:
        if each.name not in given and each.variable and os.environ.get(each.variable):
            texts[each.name], given[each.name] = [os.environ[each.variable]], each.variable
        values = [_value(each, text, given[each.name]) for text in texts.get(each.name, ())]
        if None in values or (each.default is NEEDED and not values):
            return None
        params[each.name] = tuple(values) if each.several else values[-1] if values else each.default
    if len(arguments) == 1 and arguments[0].several:
        params[arguments[0].name] = tuple(words)
    elif len(words) > len(arguments):
        return None
    else:
        defaults = (None if each.default is NEEDED else each.default for each in arguments[len(words) :])
        params |= zip((each.name for each in arguments), (*words, *defaults), strict=True)
    given |= {each.name: each.name for each in arguments[: len(words)]}
    return Call(verb, params, given)


def _value(each: Parameter, text: Any, source: str) -> Any:
    """The value of an option, None for what is none, of which click tells."""
    if (each.several and not source.startswith("-")) or (len(each.choices) > 1 and text not in each.choices):
        return None
    if each.metavar == "N":
        whole = int(text) if text.isascii() and text.isdecimal() else None
        return None if whole is None or whole < each.least else whole
    return text


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv = list(asked.argv)
    with warnings_as_lines(asked):
        if COMPLETION not in os.environ and argv and argv[0] in VERBS:
            call = parse(argv[0], argv[1:])
            if call is not None:
                return call.run(asked)
        from colony_memory.cli.program import run as run_with_click

        return run_with_click(asked)
