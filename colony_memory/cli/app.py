"""The program: its verbs, and how a command line becomes a call of one."""

from __future__ import annotations

import functools
import keyword
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from colony_memory._version import __version__
from colony_memory.cli.commands import PROGRAM, Asked
from colony_memory.cli.errors import UsageError, warnings_as_lines
from colony_memory.cli.options import spread
from colony_memory.cli.output import Output
from colony_memory.cli.parsing import Helping, TyperUsageError, VerbCommand
from colony_memory.cli.values import take_text_as_it_is

if TYPE_CHECKING:
    from colony_memory.cli.words import Grammar

_COMPLETION = "_COLONY_MEMORY_COMPLETE"

#: How the help groups them; the verbs of a group in the order of the help.
GROUPS = {
    "Save and restore": ("backup", "restore", "watch", "run", "guard", "hook", "mcp"),
    "Look": ("status", "list", "show", "cat", "log", "grep", "diff", "verify", "report"),
    "Tidy": ("prune", "delete", "pin", "unpin"),
    "Vaults and keys": ("init", "export", "import", "copy", "keygen", "config"),
}

#: Each verb with the first line of its help. Its module is loaded when it is asked for.
VERBS = {
    "init": "Make a new vault, once.",
    "backup": "Save folders and files as a new snapshot.",
    "restore": "Write a snapshot's files into a folder, all or none.",
    "list": "Show the snapshots in the vault, newest first.",
    "show": "Show one snapshot: when, how large, signed by whom, and the names in it.",
    "cat": "Print one file of a snapshot, byte for byte.",
    "log": "Show what became of one file, from snapshot to snapshot.",
    "grep": "Find lines in all snapshots, and when each came and went.",
    "verify": "Read every byte that is saved, and report what is intact.",
    "diff": "Show what changed from one snapshot to another, or to a folder.",
    "prune": "Delete old snapshots by rules, and the leftovers of interrupted backups.",
    "delete": "Delete one snapshot, for good.",
    "pin": "Keep one snapshot whatever a retention says, until it is unpinned.",
    "unpin": "Let the retention decide about one snapshot again.",
    "status": "Tell whether the memory is protected, and what to do if not.",
    "report": "Write everything about a vault into one HTML page.",
    "export": "Write one snapshot into a file of its own, signature and all.",
    "import": "Put a snapshot that was exported into the vault.",
    "copy": "Copy every snapshot from one vault into another, signatures and all.",
    "watch": "Save folders and files now, and then every so often until told to stop.",
    "run": "Restore a folder, run a command on it, and save it meanwhile and at the end.",
    "guard": "Save a folder, run a command that may spoil it, and say how to get back.",
    "config": "Show which settings count, and where each comes from.",
    "hook": "Save or describe an agent's memory, for the program that runs the agent.",
    "mcp": "Serve one folder's memory to an agent's host, by the Model Context Protocol.",
    "keygen": "Make a key for signing snapshots, in a file that only its owner can read.",
}


class _Verbs(Mapping[str, Any]):
    """The commands by name, each made when it is first looked up."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            if name not in VERBS:
                raise KeyError(name)
            self._made[name] = _load(name, _COMPLETION in os.environ)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class _Program(Helping, typer.core.TyperGroup):
    """The group of verbs, which loads those that are used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = _Verbs()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        return list(VERBS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - likewise
        width = max(map(len, VERBS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", VERBS[name]) for name in names if name in VERBS])


def module_of(verb: str) -> Any:
    """The module that a verb is in."""
    return import_module(f"colony_memory.cli.verbs.{verb}{'_' if keyword.iskeyword(verb) else ''}")


@functools.cache
def _load(name: str, completing: bool) -> Any:
    module = module_of(name)
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    examples = "".join(f"\n  {each}" for each in module.EXAMPLES)
    epilog = f"\b\nExample{'s' if len(module.EXAMPLES) > 1 else ''}:{examples}"
    run = spread(module.run)
    one.command(name, cls=VerbCommand, epilog=epilog)(run)
    command = typer.main.get_command(one)
    take_text_as_it_is(command, run)
    if completing:
        from colony_memory.cli.completion import attach

        attach(command)
    return command


app = typer.Typer(
    name=PROGRAM,
    cls=_Program,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@functools.cache
def _program(completing: bool) -> Any:  # noqa: ARG001 - its verbs are others then
    """The program, made once: to read all the annotations takes typer longer than most verbs take."""
    command = typer.main.get_command(app)
    take_text_as_it_is(command, _root)
    return command


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv, asked.verbs = asked.argv, tuple(VERBS)
    command = _program(_COMPLETION in os.environ)
    if _COMPLETION in os.environ:  # a shell asks what may come next
        from colony_memory.cli.completion import join_bash_words

        join_bash_words()
        command.main(args=list(argv), prog_name=PROGRAM, complete_var=_COMPLETION)
    with warnings_as_lines(asked):
        try:
            # Not command.main(): it takes interrupts and closed pipes into its own hands.
            with command.make_context(PROGRAM, list(argv), obj=asked) as context:
                if not argv:
                    Output().answer(context.get_help())
                code: int | None = command.invoke(context)
        except typer.Exit as stop:
            return stop.exit_code
        except TyperUsageError as error:
            raise _understood(error, argv) from error
    return code or 0


def _understood(error: Any, argv: Sequence[str]) -> UsageError:
    """What is wrong with the arguments and, if that can be told, what was meant."""
    from colony_memory.cli.words import answer

    meant = None
    if type(error) is TyperUsageError or getattr(error, "option_name", None):
        meant = answer(argv, grammars())
    if meant is not None:
        return UsageError(meant.what, advice=meant.command)
    parameter: Any = getattr(error, "param", None)
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = message[:1].lower() + message[1:]  # it goes on after "error: "
    if type(error) is typer.BadParameter and getattr(parameter, "metavar", None) == "N":
        # What typer says differs between versions, and speaks of parsers.
        message = f"{max(parameter.opts, key=len)} takes a whole number{_from(parameter, error.ctx)}"
    return UsageError(message, advice=f"{error.ctx.command_path if error.ctx else PROGRAM} --help")


def _from(parameter: Any, ctx: Any) -> str:
    """The least number that an option takes, as its help has it."""
    found = re.search(r"x>=([0-9]+)", str(parameter.get_help_record(ctx)))
    return f" from {found[1]} up" if found else ""


def grammars() -> dict[str, Grammar]:
    """What each verb takes."""
    from colony_memory.cli.words import Grammar

    return {name: Grammar(_options_of(each), each.arguments) for name, each in _Verbs().items()}


def _options_of(command: Any) -> dict[str, bool]:
    """Each option of a verb, with whether a value follows it."""
    found = {flag: not each.is_flag for each in command.params if hasattr(each, "is_flag") for flag in each.opts}
    return {**found, "-h": False, "--help": False}


def _print_version(asked: bool) -> None:
    if asked:
        Output().answer(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 done, 1 failed or something left out, 2 usage, 3 nothing saved yet, "
    "4 corrupt, untrusted or encrypted to another key, 5 vault missing, unreachable, refused or rate-limited.\n\n"
    "Environment: COLONY_API_KEY and COLONY_BASE_URL for the hosted vault, "
    "COLONY_MEMORY_CONFIG, COLONY_MEMORY_VAULT, COLONY_MEMORY_LABEL, COLONY_MEMORY_KEY_FILE, COLONY_MEMORY_TRUST, "
    "COLONY_MEMORY_WITNESS, COLONY_MEMORY_ENCRYPT_TO, COLONY_MEMORY_IDENTITY, COLONY_MEMORY_PASSPHRASE_FILE "
    "for the options of those names. Options come before them, and they before the file."
)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep an agent's memory safe: snapshots of folders in a vault, and back."""
