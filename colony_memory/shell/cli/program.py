"""The program in click: for arguments that are not plain, help, errors and completion in a shell."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import click

from colony_memory._values import names_of
from colony_memory._version import __version__
from colony_memory.shell.cli import app
from colony_memory.shell.cli.app import COMPLETION, NEEDED, SECTIONS, VERBS, CommonOptions, Parameter, option_of
from colony_memory.shell.cli.call import Call
from colony_memory.shell.cli.output import Output
from colony_memory.shell.words import shortened
from colony_memory.shell.words.errors import PROGRAM, Asked, UsageError

#: Verbs of restic, borg and git, each with its name here.
FOREIGN = {
    **dict.fromkeys(("create", "save", "commit", "snapshot"), "backup"),
    **dict.fromkeys(("extract", "checkout", "pull"), "restore"),
    **dict.fromkeys(("snapshots", "ls"), "list"),
    **dict.fromkeys(("find", "search"), "grep"),
    **dict.fromkeys(("check", "fsck"), "verify"),
    "history": "log",
    "info": "status",
    "forget": "prune",
    "rm": "delete",
    "sync": "copy",
    "dump": "cat",
}
_SHOWN = 40


class _Program(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        return verb_of(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in VERBS and not ctx.resilient_parsing:
            near = FOREIGN.get(word) or next(iter(get_close_matches(word[:_SHOWN].lower(), VERBS, 1, 0.7)), None)
            did_you_mean = f", did you mean {near!r}?" if near else ""
            advice = " ".join(filter(None, (PROGRAM, near, "--help")))
            raise UsageError(f"there is no command {shortened(word, _SHOWN)!r}{did_you_mean}", advice=advice)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        common = [parameter_of(option_of("", name, getattr(CommonOptions, name))) for name in names_of(CommonOptions)]
        with formatter.section("Common options, which follow the command"):
            formatter.write_dl(list(filter(None, (option.get_help_record(ctx) for option in common))))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        width = max(map(len, VERBS))
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", line) for name, (_, line) in section.items()])


class Verb(click.Command):
    def __init__(self, name: str) -> None:
        examples, (text, *_) = app.examples_of(name), (inspect.getdoc(app.run_of(name)) or "").split(f"\n\n{PROGRAM} ")
        super().__init__(
            name,
            params=[*map(parameter_of, app.parameters_of(name)), _help_option()],
            add_help_option=False,
            help=f"{VERBS[name]}\n\n{text}",
            short_help=VERBS[name],
            epilog="\n  ".join([f"\b\nExample{'s' if len(examples) > 1 else ''}:", *examples]),
        )

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        # The command's own options begin with a dash too.
        return ["[OPTIONS]", *app.arguments_of(self.name or "").replace("COMMAND", "-- COMMAND").split()]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own options, and in one line the names of the common ones."""
        options, shared = [param for param in self.params if isinstance(param, click.Option)], names_of(CommonOptions)
        common = [option for option in options if option.name in shared]
        records = [option.get_help_record(ctx) for option in options if option not in common]
        with formatter.section("Options"):
            formatter.write_dl(list(filter(None, records)))
        formatter.write_paragraph()
        names = ", ".join(max(option.opts, key=len) for option in common)
        formatter.write_text(f"Common options, which 'colony-memory --help' describes: {names}")

    def invoke(self, ctx: click.Context) -> int:
        """Run the verb with its parameters; those that --agent may give can be missing until then."""
        sources = {}
        for param in self.params:
            source = ctx.get_parameter_source(param.name or "")
            if source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT") and param.name in ctx.params:
                sources[param.name] = str(param.envvar) if source.name == "ENVIRONMENT" else max(param.opts, key=len)
        return Call(self.name or "", ctx.params, sources).run(ctx.obj)


def parameter_of(param: Parameter) -> click.Parameter:
    metavar, many, needed = param.metavar, param.several, param.default is NEEDED
    if not param.flags:
        # A missing one is refused when the verb runs: --agent may give it.
        metavar, default = str(metavar).removesuffix("..."), None if needed else param.default
        return click.Argument([param.name], nargs=-1 if many else 1, required=False, metavar=metavar, default=default)
    kind: Any = click.Path() if param.name == "identity" else click.STRING  # splits its variable at colons
    if metavar == "N":
        kind = click.IntRange(min=param.minimum)
    elif len(param.choices) > 1:
        kind = click.Choice(param.choices)
    return click.Option(
        [*param.flags, param.name],
        metavar=metavar,
        help=param.help,
        is_flag=metavar is None,
        type=None if metavar is None else kind,
        callback=_not_empty,
        multiple=many,
        **{"required": True} if needed else {"default": () if many else param.default},
        show_default=True,
        envvar=param.variable,
        show_envvar=True,
    )


def _not_empty(ctx: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse an empty text, which a shell makes of an unset variable."""
    if any(isinstance(item, str) and not item.strip() for item in (value if isinstance(value, tuple) else [value])):
        raise click.BadParameter("it is empty: give a value, or leave it out", ctx, parameter)
    return value


def _answering(flags: list[str], text: str, answer: Callable[[click.Context], str]) -> click.Option:
    """An option that prints an answer and exits. Unlike click's own, it reports a closed output as all answers do."""

    def call(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            Output().answer(answer(ctx))
            ctx.exit()

    return click.Option(flags, is_flag=True, is_eager=True, expose_value=False, help=text, callback=call)


def _help_option() -> click.Option:
    return _answering(["-h", "--help"], "Show this message and exit.", click.Context.get_help)


verb_of = functools.cache(Verb)


program = _Program(
    PROGRAM,
    help="Keep an agent's memory safe: snapshots of folders in a vault, and back.",
    params=[_answering(["--version"], "Print the version.", lambda _: f"{PROGRAM} {__version__}"), _help_option()],
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
    """Parse the arguments, run the verb, and return the exit code; errors are raised."""
    argv = list(asked.argv)
    if COMPLETION in os.environ:  # a shell asks for completions
        program.main(args=argv, prog_name=PROGRAM, complete_var=COMPLETION)
    try:
        # Not program.main(), which handles interrupts and closed pipes itself.
        with program.make_context(PROGRAM, argv, obj=asked) as context:
            if not argv:
                Output().answer(context.get_help())
                raise UsageError("a command is missing", advice=f"{PROGRAM} --help")
            code: int | None = program.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        raise _usage_error(error, argv) from error
    return code or 0


def _usage_error(error: click.UsageError, argv: Sequence[str]) -> UsageError:
    # Errors from the parser of a verb's options have no context.
    path = error.ctx.command_path if error.ctx else f"{PROGRAM} {argv[0]}" if argv[0] in VERBS else PROGRAM
    message = " ".join(error.format_message().split()).removesuffix(".")
    if isinstance(error, click.NoSuchOption):
        near = f", did you mean {error.possibilities[0]}?" if error.possibilities else ""
        message = f"there is no option {shortened(error.option_name, _SHOWN)}{near}"
        if path == PROGRAM:
            message += " before the command"
    return UsageError(message[:1].lower() + message[1:], advice=f"{path} --help")  # it follows "error: "
