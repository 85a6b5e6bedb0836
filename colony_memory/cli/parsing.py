"""How the arguments of a verb are parsed, and how its help is laid out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
import typer.core

from colony_memory.cli.errors import UsageError
from colony_memory.cli.options import FOLDERS, CommonOptions
from colony_memory.cli.output import Output
from colony_memory.cli.values import take_as_it_is

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from colony_memory.cli.commands import Asked

_ARGUMENTS = "colony_memory.arguments"
#: What typer raises over arguments. A public name only, so that it does not matter which copy of click it brings along.
TyperUsageError: Any = typer.BadParameter.__base__


class Helping:
    """A command that writes its help as it writes every answer, so that a closed output is reported alike."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option ``--help``, which prints as answers are printed."""
        option: Any = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None and option.callback is not _print_help:
            option.callback = _print_help
            take_as_it_is(option, is_text=False)
        return option


class VerbCommand(Helping, typer.core.TyperCommand):
    """One verb. It notes what it was asked in the context's :class:`~colony_memory.cli.commands.Asked`."""

    #: Arguments that the verb needs, but that may be missing while it is parsed.
    _spared: Sequence[Any] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words for its arguments, as its help has them."""
        arguments = [each for each in self.params if each.param_type_name == "argument"]
        return tuple(
            word for each in arguments for word in _words_of(each, needed=each.required or each in self._spared)
        )

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature is typer's
        """What follows the name of the verb in the usage line."""
        words = list(self.arguments)
        if "COMMAND..." in words:  # whose own options begin with a dash too
            words.insert(words.index("COMMAND..."), "--")
        return ["[OPTIONS]", *words]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write its own options, and after them those that every verb has."""
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
        """Parse the arguments; those that a set may give can be missing until :meth:`invoke`."""
        ctx.meta[_ARGUMENTS] = list(args)
        try:
            with self._lenient():
                rest: list[str] = super().parse_args(ctx, args)
        except TyperUsageError as error:
            error.ctx = error.ctx or ctx  # the parser of options knows none
            raise
        for each in self.params:
            _check(each, ctx)
        return rest

    @contextmanager
    def _lenient(self) -> Iterator[None]:
        """Accept a command line without the arguments that a set of the configuration file may give."""
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
        """Run the verb, once for each set that it was asked for."""
        from colony_memory.cli.settings import runs_of

        asked: Asked = ctx.obj
        asked.verb, asked.params = self.name or "", ctx.params
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
    """Refuse an option whose value is empty, or is not one of the few words that it takes.

    An empty value mostly comes from a variable that nobody set; going on without the option would do something else.

    Raises:
        UsageError: It is such an option.
    """
    source = ctx.get_parameter_source(parameter.name)
    if ctx.resilient_parsing or source is None or source.name != "COMMANDLINE" or parameter.param_type_name != "option":
        return
    given, flag, advice = ctx.params.get(parameter.name), max(parameter.opts, key=len), f"{ctx.command_path} --help"
    several = given if isinstance(given, (list, tuple)) else [given]
    # An empty path has become the current directory, which is no file either.
    values = ["" if each == Path() else str(each) for each in several if isinstance(each, (str, Path))]
    if any(not each.strip() for each in values):
        raise UsageError(f"{flag} is given without a value: give one, or leave it out", advice=advice)
    choices = str(parameter.metavar or "").split("|")
    if len(choices) > 1 and any(each not in choices for each in values):
        *others, last = choices
        raise UsageError(f"{flag} is {', '.join(others)} or {last}, not {values[0][:40]!r}", advice=advice)


def _words_of(argument: Any, *, needed: bool) -> list[str]:
    """``[ID] DIR`` as two words, ``PATH...`` if there may be several, ``[B]`` if it may be missing."""
    words = str(argument.metavar).split()
    if argument.nargs == -1 and len(words) == 1:
        return [f"{words[0]}..."]
    return words if needed or words[0].startswith("[") else [f"[{each}]" for each in words]


def _print_help(ctx: Any, _parameter: Any, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        Output().answer(ctx.get_help())
        raise typer.Exit
