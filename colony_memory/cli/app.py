"""The program: its verbs, and how arguments become a call."""

from __future__ import annotations

import functools
import keyword
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from colony_memory._version import __version__
from colony_memory.cli.commands import PROGRAM, Asked
from colony_memory.cli.errors import UsageError, warnings_as_lines
from colony_memory.cli.options import FOLDERS, CommonOptions, spread
from colony_memory.cli.output import Output
from colony_memory.cli.values import take_as_it_is, take_text_as_it_is

if TYPE_CHECKING:
    from colony_memory.cli.words import Grammar

_COMPLETION = "_COLONY_MEMORY_COMPLETE"
_ARGUMENTS = "colony_memory.arguments"

#: How the help groups them; the verbs of a group in the order of the help.
GROUPS = {
    "Save and restore": ("backup", "restore", "watch", "run", "guard", "hook", "mcp"),
    "Look": ("status", "list", "show", "cat", "log", "grep", "diff", "verify", "report"),
    "Tidy": ("prune", "delete", "pin", "unpin"),
    "Vaults and keys": ("init", "export", "import", "copy", "keygen", "config"),
}

#: Each verb, in the order of the help, with the first line of its own. Its module is loaded when it is asked for.
VERBS = {
    "init": "Make a new vault, once.",
    "backup": "Save folders and files as a new snapshot.",
    "restore": "Write a snapshot's files into a folder, all or none.",
    "list": "Show the snapshots in the vault, newest first.",
    "show": "Show one snapshot: when, how large, signed by whom, and the names in it.",
    "cat": "Print one file of a snapshot, byte for byte.",
    "log": "Show what became of one file, from snapshot to snapshot.",
    "grep": "Find lines in all snapshots, and when each came and went.",
    "verify": "Read every byte that is saved and say what holds.",
    "diff": "Show what changed from one snapshot to another, or to a folder.",
    "prune": "Delete old snapshots by rules, and the leftovers of interrupted backups.",
    "delete": "Delete one snapshot, for good.",
    "pin": "Keep one snapshot whatever a retention says, until it is unpinned.",
    "unpin": "Leave one snapshot to the retention again.",
    "status": "Tell whether the memory is protected, and what to do if not.",
    "report": "Write all that there is to see of a vault into one page of HTML.",
    "export": "Write one snapshot into a file of its own, signature and all.",
    "import": "Put a snapshot that was exported into the vault.",
    "copy": "Copy every snapshot from one vault into another, signatures and all.",
    "watch": "Save folders and files now, and then every so often until told to stop.",
    "run": "Restore a folder, run a command on it, and save it meanwhile and at the end.",
    "guard": "Save a folder, run a command that may spoil it, and say how to get back.",
    "config": "Show which settings count, and where each comes from.",
    "hook": "Save or tell of an agent's memory, called by the program that runs the agent.",
    "mcp": "Serve one folder's memory to an agent's host, by the Model Context Protocol.",
    "keygen": "Make a key that snapshots are signed with, in a file that its owner alone may read.",
}

# Public names only, so that it does not matter which copy of click typer brings along.
_UsageError: Any = typer.BadParameter.__base__


class _Verbs(Mapping[str, Any]):
    """The commands by name, made at the first look."""

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


class _Helping:
    """A command that writes its help as every answer is written, so that a closed output is told of as there."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None and option.callback is not _print_help:
            option.callback = _print_help
            take_as_it_is(option, is_text=False)
        return option


class _Program(_Helping, typer.core.TyperGroup):
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


class _Command(_Helping, typer.core.TyperCommand):
    """One verb, which notes what it was asked."""

    #: Arguments that are needed, and may be missing for the moment.
    _spared: Sequence[Any] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """What stands beside options, a word each."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return tuple(
            word for each in arguments for word in _words_of(each, needed=each.required or each in self._spared)
        )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        words = list(self.arguments)
        if "COMMAND..." in words:  # what begins with a dash there is the command's
            words.insert(words.index("COMMAND..."), "--")
        return ["[OPTIONS]", *words]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        common = {field.name for field in fields(CommonOptions)} | {"help"}
        groups: dict[bool, list[Any]] = {False: [], True: []}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is not None:
                groups[each.name in common].append(record)
        for title, records in (("Options", groups[False]), ("Common options", groups[True])):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = list(args)
        try:
            with self._lenient():
                rest: list[str] = super().parse_args(ctx, args)
        except _UsageError as error:
            error.ctx = error.ctx or ctx  # the parser of options knows none
            raise
        for each in self.params:
            _check(each, ctx)
        return rest

    @contextmanager
    def _lenient(self) -> Iterator[None]:
        """Take a command line without the arguments that a set of the configuration file may give."""
        if self.name in FOLDERS:
            self._spared = [each for each in self.params if each.param_type_name == "argument" and each.required]
        try:
            for each in self._spared:
                each.required = False
            yield
        finally:
            for each in self._spared:
                each.required = True
            self._spared = []

    def invoke(self, ctx: Any) -> Any:
        from colony_memory.cli.settings import runs_of

        asked: Asked = ctx.obj
        asked.verb, asked.params, asked.verbs = self.name or "", ctx.params, tuple(VERBS)
        asked.flags = frozenset(flag for each in self.params for flag in each.opts)
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        asked.from_environment = frozenset(
            name for name, source in sources.items() if source is not None and source.name == "ENVIRONMENT"
        )
        runs = runs_of(asked.verb, ctx)
        if len(runs) > 1:
            from colony_memory.cli.each import run_each

            return run_each(runs, asked, lambda params: self._run(ctx, asked, params))
        return self._run(ctx, asked, runs[0].params)

    def _run(self, ctx: Any, asked: Asked, params: dict[str, Any]) -> Any:
        for each in self.params:
            if each.param_type_name == "argument" and each.required and not params.get(each.name):
                super().parse_args(ctx, list(ctx.meta[_ARGUMENTS]))  # says what is missing
        ctx.params = asked.params = params
        return super().invoke(ctx)


def _check(parameter: Any, ctx: Any) -> None:
    """Refuse an option that is given without a value, and one of a few words that is none of them.

    What is empty is mostly a variable that nobody set, and to go on without the option would be to do something else.

    Raises:
        UsageError: It is such a one.
    """
    source = ctx.get_parameter_source(parameter.name)
    if ctx.resilient_parsing or source is None or source.name != "COMMANDLINE" or parameter.param_type_name != "option":
        return
    given, flag, advice = ctx.params.get(parameter.name), max(parameter.opts, key=len), f"{ctx.command_path} --help"
    several = given if isinstance(given, (list, tuple)) else [given]
    # Of a file, what is empty has become the directory that one is in, which is no file either.
    values = ["" if each == Path() else str(each) for each in several if isinstance(each, (str, Path))]
    if any(not each.strip() for each in values):
        raise UsageError(f"{flag} is given without a value: give one, or leave it out", advice=advice)
    choices = str(parameter.metavar or "").split("|")
    if len(choices) > 1 and any(each not in choices for each in values):
        *others, last = choices
        raise UsageError(f"{flag} is {', '.join(others)} or {last}, not {values[0][:40]!r}", advice=advice)


def _words_of(argument: Any, *, needed: bool) -> list[str]:
    """``[ID] DIR`` as two words, ``PATH...`` where there may be several, ``[B]`` where it may be missing."""
    words = str(argument.metavar).split()
    if argument.nargs == -1 and len(words) == 1:
        return [f"{words[0]}..."]
    return words if needed or words[0].startswith("[") else [f"[{each}]" for each in words]


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
    one.command(name, cls=_Command, epilog=epilog)(run)
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
    """The program, made once: what typer makes of all those annotations takes longer than most verbs."""
    command = typer.main.get_command(app)
    take_text_as_it_is(command, _root)
    return command


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say and return the exit code; errors are raised."""
    argv = asked.argv
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
        except _UsageError as error:
            raise _understood(error, argv) from error
    return code or 0


def _understood(error: Any, argv: Sequence[str]) -> UsageError:
    """What is wrong with the arguments, and what was meant by them if that can be told."""
    from colony_memory.cli.words import answer

    meant = None
    if type(error) is _UsageError or getattr(error, "option_name", None):
        meant = answer(argv, grammars())
    if meant is not None:
        return UsageError(meant.what, advice=meant.command)
    parameter: Any = getattr(error, "param", None)
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = message[:1].lower() + message[1:]  # it goes on after "error: "
    if type(error) is typer.BadParameter and getattr(parameter, "metavar", None) == "N":
        # What typer says of it is different in each version, and speaks of parsers.
        message = f"{max(parameter.opts, key=len)} takes a whole number{_from(parameter, error.ctx)}"
    return UsageError(message, advice=f"{error.ctx.command_path if error.ctx else PROGRAM} --help")


def _from(parameter: Any, ctx: Any) -> str:
    """The least that an option takes, as its help has it."""
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


def _print_help(ctx: Any, _parameter: Any, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        Output().answer(ctx.get_help())
        raise typer.Exit


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
