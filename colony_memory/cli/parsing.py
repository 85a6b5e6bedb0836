"""How the arguments of a verb are parsed, and how its help is laid out.

A verb that runs once for each set of the configuration file: one failure does not keep the others from running.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin, get_type_hints

import click

from colony_memory.cli.options import FOLDERS, Argument, CommonOptions, Option, Without
from colony_memory.cli.output import Output, gathering
from colony_memory.words.errors import UsageError, describe, error_document, report_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.words.commands import Asked


class Verb(click.Command):
    """One verb. It notes what it was asked in the context's :class:`~colony_memory.words.commands.Asked`."""

    def __init__(self, name: str, run: Callable[..., int], examples: Sequence[str]) -> None:
        found, self._groups = parameters_of(run)
        super().__init__(
            name,
            params=[*map(parameter_of, found), help_option()],
            add_help_option=False,
            help=inspect.getdoc(run),
            epilog="\n  ".join([f"\b\nExample{'s' if len(examples) > 1 else ''}:", *examples]),
        )
        self._run = run
        self._group_of = {each.name: each.group for each in found}
        self._needed = [
            each
            for each, given in zip(self.params, found, strict=False)
            if isinstance(each, click.Argument) and given.default is inspect.Parameter.empty
        ]

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words for its arguments, as its help has them."""
        arguments = [each for each in self.params if isinstance(each, click.Argument)]
        return tuple(word for each in arguments for word in _words_of(each, needed=each in self._needed))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        """The usage line after the name of the verb."""
        words = list(self.arguments)
        if "COMMAND..." in words:  # whose own options begin with a dash too
            words.insert(words.index("COMMAND..."), "--")
        return ["[OPTIONS]", *words]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, and in one line the names of those that every verb has."""
        params = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        shared = {each.name for each in fields(CommonOptions)}
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
        if self.name not in FOLDERS and not ctx.resilient_parsing:
            self._require(ctx, ctx.params)
        return rest

    def _require(self, ctx: click.Context, params: dict[str, Any]) -> None:
        for each in self._needed:
            if params.get(each.name or "") in (None, ()):
                raise click.MissingParameter(ctx=ctx, param=each)

    def invoke(self, ctx: click.Context) -> int:
        """Run the verb, once for each set that it was asked for."""
        from colony_memory.cli.verbs.config import runs_of

        asked: Asked = ctx.obj
        asked.verb, asked.params = self.name or "", ctx.params
        asked.flags = frozenset(flag for each in self.params for flag in each.opts)
        sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
        asked.from_environment = frozenset(
            name for name, source in sources.items() if source is not None and source.name == "ENVIRONMENT"
        )
        runs = runs_of(asked.verb, ctx)
        if len(runs) > 1:
            return run_each(runs, asked, lambda params: self._call(ctx, asked, params))
        return self._call(ctx, asked, runs[0][1])

    def _call(self, ctx: click.Context, asked: Asked, params: dict[str, Any]) -> int:
        self._require(ctx, params)
        ctx.params = asked.params = params
        given: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {name: {} for name in self._groups}
        for name, group in self._group_of.items():
            value = params[name]
            # Several of one are a list, and None where there is none.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (given if group is None else grouped[group])[name] = value
        code: int | None = self._run(**given, **{name: self._groups[name](**each) for name, each in grouped.items()})
        return code or 0


class Parameter(NamedTuple):
    """A parameter of a verb, those of its groups included."""

    name: str
    kind: Any  # its type: str, int, bool or Path, several of them as a list, or None too
    declared: Argument | Option  # how it is given
    default: Any  # what it is where it is not given; that of the inspect module where it has to be
    group: str | None = None  # the argument of the verb that it is a field of, None where it is one itself


def parameters_of(run: Callable[..., int]) -> tuple[list[Parameter], dict[str, Any]]:
    """The parameters of a verb, and its arguments that are dataclasses, each with the dataclass that it takes."""
    found: list[Parameter] = []
    groups: dict[str, Any] = {}
    # Not get_type_hints() of the function: before Python 3.11 it wraps what has the default None.
    for each in inspect.signature(run, eval_str=True).parameters.values():
        kind, *told = get_args(each.annotation) or [each.annotation]
        if not is_dataclass(kind):
            found.append(Parameter(each.name, kind, told[0], each.default))
            continue
        groups[each.name] = kind
        left_out = {name for one in told if isinstance(one, Without) for name in one}
        of_fields = get_type_hints(kind, include_extras=True)
        for one in fields(kind):
            if one.name not in left_out:
                inner, declared = get_args(of_fields[one.name])
                found.append(Parameter(one.name, inner, declared, one.default, each.name))
    return found, groups


def parameter_of(each: Parameter) -> click.Parameter:
    """The parameter of the parser that is what a verb says of one of its own."""
    kinds = _leaves(each.kind) - {NoneType}
    several = any(get_origin(part) is list for part in (each.kind, *get_args(each.kind)))
    if not isinstance(each.declared, Option):
        # What has to be given is asked for when the verb is run: a set of the configuration file may give it.
        default = None if each.default is inspect.Parameter.empty else each.default
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
    default = () if several else each.default
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


def _leaves(kind: Any) -> set[Any]:
    """The types that one is made of: of ``list[str] | None`` those of the text and of None."""
    inner = get_args(kind)
    return set().union(*map(_leaves, inner)) if inner else {kind}


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


def run_each(
    runs: Sequence[tuple[str, dict[str, Any]]], asked: Asked, run: Callable[[dict[str, Any]], int | None]
) -> int:
    """Run them in turn, each under its name; programs get one document with each under its name."""
    output, code = Output(asked.as_json, bool(asked.params.get("quiet"))), 0
    documents: dict[str, Any] = {}
    for name, params in runs:
        output.report(*([""] if documents else []), f"{name}:")
        asked.set_name = name
        with gathering() as gathered:
            try:
                ended = run(params) or 0
            except Exception as error:  # noqa: BLE001 - told as where it is the only one
                ended = report_failure(error, asked)
                if not gathered:  # else it has answered, and the error says what that comes to
                    gathered.append(error_document(describe(error), error, asked))
        documents[name] = gathered[0] if gathered else None
        code = code or ended
    if output.as_json:
        output.answer_json({"sets": documents})
    return code
