"""The program as click has it: for what is not plain, its help, its errors, and what a shell completes."""

from __future__ import annotations

import functools
import inspect
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colony_memory.cli.app import COMPLETION, GROUPS, VERBS, examples_of, module_of
from colony_memory.cli.options import CommonOptions, Option
from colony_memory.cli.output import Output, print_version
from colony_memory.cli.parsing import NEEDED, Call, Parameter, parameters_of
from colony_memory.words.commands import PROGRAM, Asked
from colony_memory.words.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Verbs of restic, borg and git, and what they are called here.
FOREIGN = {
    **dict.fromkeys(("create", "save", "commit", "snapshot"), "backup"),
    **dict.fromkeys(("extract", "checkout", "pull"), "restore"),
    **dict.fromkeys(("snapshots", "ls"), "list"),
    **dict.fromkeys(("dump", "print"), "cat"),
    **dict.fromkeys(("find", "search"), "grep"),
    **dict.fromkeys(("check", "fsck"), "verify"),
    "history": "log",
    "info": "status",
    "forget": "prune",
    "compare": "diff",
    "rm": "delete",
    "sync": "copy",
    "help": "--help",
    "version": "--version",
}
_SHOWN = 40


class Verb(click.Command):
    """One verb. It notes what it was asked in the context's :class:`~colony_memory.words.commands.Asked`."""

    def __init__(self, name: str, run: Callable[..., int], examples: Sequence[str]) -> None:
        found, _ = parameters_of(run)
        super().__init__(
            name,
            params=[*map(parameter_of, found), help_option()],
            add_help_option=False,
            help=inspect.getdoc(run),
            epilog="\n  ".join([f"\b\nExample{'s' if len(examples) > 1 else ''}:", *examples]),
        )
        self._run = run
        self._declared = {each.name: each for each in found}

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words for its arguments, as its help has them."""
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        needed = {name for name, each in self._declared.items() if each.default is NEEDED}
        return tuple(word for each in arguments for word in _words_of(each, needed=each.name in needed))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """The usage line after the name of the verb."""
        words = list(self.arguments)
        if "COMMAND..." in words:  # whose own options begin with a dash too
            words.insert(words.index("COMMAND..."), "--")
        return ["[OPTIONS]", *words]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, and in one line the names of those that every verb has."""
        params = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shared = {*CommonOptions.__annotations__}
        common = [each for each in params if each.name in shared]
        records = [each.get_help_record(ctx) for each in params if each not in common]
        with formatter.section("Options"):
            formatter.write_dl([each for each in records if each is not None])
        formatter.write_paragraph()
        names = ", ".join(max(each.opts, key=len) for each in common)
        formatter.write_text(f"Common options, which 'colony-memory --help' describes: {names}")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; those that a set may give can be missing until :meth:`invoke`."""
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # the parser of options knows none
            raise
        for each in self.params:
            _check(each, ctx)
        return rest

    def invoke(self, ctx: click.Context) -> int:
        """Run the verb."""
        return self.call_of(ctx).run(ctx.obj)

    def call_of(self, ctx: click.Context) -> Call:
        """The verb with what it was given."""
        given = {}
        for each in self.params:
            source = ctx.get_parameter_source(each.name or "")
            if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT") and each.name in ctx.params:
                variable = source.name == "ENVIRONMENT"
                given[str(each.name)] = str(each.envvar) if variable else max(each.opts, key=len)
        flags = {flag for each in self.params for flag in each.opts}
        return Call(self.name or "", self._run, ctx.params, given, flags)


def parameter_of(each: Parameter) -> click.Parameter:
    """The parameter of the parser that is what a verb says of one of its own."""
    kinds, several = each.kinds, each.several
    if not isinstance(each.declared, Option):
        # What has to be given is asked for when the verb is run: a set of the configuration file may give it.
        default = None if each.default is NEEDED else each.default
        nargs, metavar = (-1 if several else 1), each.declared.metavar
        return click.Argument([each.name], nargs=nargs, required=False, metavar=metavar, default=default)
    declared = each.declared
    settings: dict[str, Any] = {"metavar": declared.metavar, "help": declared.help, "envvar": declared.envvar}
    if bool in kinds:
        settings |= {"is_flag": True}
    elif int in kinds:
        settings |= {"type": click.IntRange(min=declared.least)}
    else:
        settings |= {"type": click.Path(path_type=Path) if Path in kinds else click.STRING, "multiple": several}
    settings |= {"required": each.default is NEEDED}
    default = () if several else None if each.default is NEEDED else each.default
    shows_variable = declared.envvar is not None
    return click.Option(
        [*declared.flags, each.name], default=default, show_default=True, show_envvar=shows_variable, **settings
    )


def common_options() -> list[click.Parameter]:
    """The options that every verb has."""

    def run(*, common: CommonOptions) -> int:
        raise NotImplementedError(common)

    return [parameter_of(each) for each in parameters_of(run)[0]]


def help_option() -> click.Option:
    """The option ``--help``, so that an output that is closed is reported as with every answer."""
    # Not click's own: it is made anew, and translated, each time that the parameters are asked for.
    return click.Option(
        ["-h", "--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        help="Show this message and exit.",
        callback=_print_help,
    )


def _print_help(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        Output().answer(ctx.get_help())
        ctx.exit()


def _check(parameter: click.Parameter, ctx: click.Context) -> None:
    """Refuse an option whose value is empty, or is not one of the few words that it takes."""
    name = parameter.name or ""
    source = ctx.get_parameter_source(name)
    if ctx.resilient_parsing or source is None or source.name != "COMMANDLINE" or isinstance(parameter, click.Argument):
        return
    given, flag, advice = ctx.params.get(name), max(parameter.opts, key=len), f"{ctx.command_path} --help"
    several: Sequence[Any] = given if isinstance(given, (list, tuple)) else [given]
    # An empty path has become the current directory, which is no file either.
    values = ["" if each == Path() else str(each) for each in several if isinstance(each, (str, Path))]
    if any(not each.strip() for each in values):
        raise UsageError(f"{flag} is given without a value: give one, or leave it out", advice=advice)
    choices = str(parameter.metavar or "").split("|")
    if len(choices) > 1 and any(each not in choices for each in values):
        *others, last = choices
        raise UsageError(f"{flag} is {', '.join(others)} or {last}, not {values[0][:40]!r}", advice=advice)


def _words_of(argument: click.Argument, *, needed: bool) -> list[str]:
    """``[ID] DIR`` as two words, ``PATH...`` if there may be several, ``[B]`` if it may be missing."""
    words = str(argument.metavar).split()
    if argument.nargs == -1 and len(words) == 1:
        return [f"{words[0]}..."]
    return words if needed or words[0].startswith("[") else [f"[{each}]" for each in words]


class _Program(click.Group):
    """The group of verbs, which loads those that are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        return verb_of(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not ctx.resilient_parsing:
            raise _unknown(args[0])
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """The verbs, without loading them, and the options of the program."""
        verbs = [
            click.shell_completion.CompletionItem(name, help=line)
            for name, line in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        records = [each.get_help_record(ctx) for each in common_options()]
        with formatter.section("Common options, which follow the command"):
            formatter.write_dl([each for each in records if each is not None])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        width = max(map(len, VERBS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", VERBS[name]) for name in names])


@functools.cache
def verb_of(name: str) -> Verb:
    """The verb of this name."""
    return Verb(name, getattr(module_of(name), f"run_{name}"), examples_of(name))


def _print_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.exit(print_version())


program = _Program(
    PROGRAM,
    help="Keep an agent's memory safe: snapshots of folders in a vault, and back.",
    params=[
        click.Option(["--version"], is_flag=True, callback=_print_version, is_eager=True, help="Print the version."),
        help_option(),
    ],
    add_help_option=False,
    no_args_is_help=False,
    context_settings={"max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed or something left out, 2 usage, 3 nothing saved yet, "
    "4 corrupt, untrusted or encrypted to another key, 5 vault missing, unreachable, refused or rate-limited.\n\n"
    "Environment: COLONY_API_KEY and COLONY_BASE_URL for the hosted vault, "
    "COLONY_MEMORY_CONFIG, COLONY_MEMORY_VAULT, COLONY_MEMORY_LABEL, COLONY_MEMORY_KEY_FILE, COLONY_MEMORY_TRUST, "
    "COLONY_MEMORY_WITNESS, COLONY_MEMORY_ENCRYPT_TO, COLONY_MEMORY_IDENTITY, COLONY_MEMORY_PASSPHRASE_FILE "
    "for the options of those names. Options come before them, and they before the file.",
)


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv = list(asked.argv)
    if COMPLETION in os.environ:  # a shell asks what may come next
        program.main(args=argv, prog_name=PROGRAM, complete_var=COMPLETION)
    try:
        # Not program.main(): it takes interrupts and closed pipes into its own hands.
        with program.make_context(PROGRAM, argv, obj=asked) as context:
            if not argv:
                Output().answer(context.get_help())
                raise UsageError("a command is missing", advice=f"{PROGRAM} --help")
            code: int | None = program.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        raise _understood(error) from error
    return code or 0


def _unknown(word: str) -> UsageError:
    """The error of a word that is no verb, with the one that was meant where that can be told."""
    from difflib import get_close_matches

    near = FOREIGN.get(word) or next(iter(get_close_matches(word[:_SHOWN].lower(), VERBS, n=1, cutoff=0.7)), None)
    what = f"there is no command {_cut(word)!r}"
    if near is None or near.startswith("-"):
        return UsageError(what, advice=f"{PROGRAM} {near or '--help'}")
    return UsageError(f"{what}, did you mean {near!r}?", advice=f"{PROGRAM} {near} --help")


def _understood(error: click.UsageError) -> UsageError:
    """An error of the parser, as every error is told."""
    context = error.ctx
    path = context.command_path if context else PROGRAM
    advice = f"{path} --help"
    if isinstance(error, click.NoSuchOption):
        if context is not None and context.command is program:
            return UsageError(f"{_cut(error.option_name)} is no option, or stands after the command", advice=advice)
        near = f", did you mean {error.possibilities[0]}?" if error.possibilities else ""
        verb = context.command.name if context else PROGRAM
        if error.option_name == "--format" and verb in ("copy", "import"):
            what = f"{verb!r} carries snapshots over as they are"
            return UsageError(f"{what}: 'rewrite' changes the format", advice=f"{PROGRAM} rewrite --help")
        return UsageError(f"{verb!r} has no option {_cut(error.option_name)}{near}", advice=advice)
    parameter = getattr(error, "param", None)
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = message[:1].lower() + message[1:]  # it goes on after "error: "
    if type(error) is click.BadParameter and isinstance(parameter, click.Option) and parameter.metavar == "N":
        # What click says differs between versions, and speaks of ranges.
        least = re.search(r"x>=([0-9]+)", str(parameter.get_help_record(context or click.Context(program))))
        what = f" from {least[1]} up" if least else ""
        message = f"{max(parameter.opts, key=len)} takes a whole number{what}"
    return UsageError(message, advice=advice)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\u2026"
