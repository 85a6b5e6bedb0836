"""A verb's parameters, the call that plain arguments make, and its runs.

What is not plain, such as an error, goes to click, which takes longer to load than most verbs take.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from colony_memory.cli.options import FOLDERS, Argument, Option, Without
from colony_memory.cli.output import Output, gathering
from colony_memory.words.commands import PROGRAM
from colony_memory.words.errors import UsageError, describe, error_document, report_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from colony_memory.words.commands import Asked

#: The default of an argument that has to be given.
NEEDED = object()
#: The call that is run.
CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)


class Parameter(NamedTuple):
    """A parameter of a verb, those of its groups included."""

    name: str
    kind: Any  # its type: str, int, bool or Path, several of them as a list, or None too
    declared: Argument | Option  # how it is given
    default: Any  # what it is where it is not given, or NEEDED
    group: str | None = None  # the argument of the verb that it is a field of, None where it is one itself

    @property
    def kinds(self) -> set[Any]:
        """The types that its type is made of: of ``list[str] | None`` those of the list, the text and None."""
        return _parts(self.kind)

    @property
    def several(self) -> bool:
        """It may be given several times."""
        return list in self.kinds


def _parts(kind: Any) -> set[Any]:
    inner = get_args(kind)
    own = {list} if getattr(kind, "__origin__", None) is list else set()
    return own.union(*map(_parts, inner)) if inner else {kind}


def parameters_of(run: Callable[..., int]) -> tuple[list[Parameter], dict[str, Any]]:
    """The parameters of a verb, and its arguments that are groups of options, each with its class."""
    found: list[Parameter] = []
    groups: dict[str, Any] = {}
    positional = run.__code__.co_varnames[: run.__code__.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(run.__defaults__ or ()), strict=False))
    defaults |= run.__kwdefaults__ or {}
    for name, text in run.__annotations__.items():
        if name == "return":
            continue
        kind, told = _annotated(text, run.__globals__)
        if isinstance(told, (Argument, Option)):
            found.append(Parameter(name, kind, told, defaults.get(name, NEEDED)))
            continue
        groups[name] = kind
        space = vars(sys.modules[kind.__module__])
        for field, inner in kind.__annotations__.items():
            if told is None or field not in told:
                found.append(Parameter(field, *_annotated(inner, space), getattr(kind, field), name))
    return found, groups


def _annotated(text: str, space: dict[str, Any]) -> tuple[Any, Any]:
    """The type that an annotation names, and what it tells of it."""
    made = eval(text, space)  # noqa: S307 - of our own source
    kind, *told = get_args(made) if hasattr(made, "__metadata__") else [made]
    return kind, next((each for each in told if isinstance(each, (Argument, Option, Without))), None)


class Call:
    """A verb with what it was given."""

    def __init__(
        self, verb: str, run: Callable[..., int], params: dict[str, Any], given: Mapping[str, str], flags: set[str]
    ) -> None:
        self.verb, self.params = verb, params
        self.given = given  # by parameter the option or variable that gave it, or for an argument its name
        self.parameters, self._groups = parameters_of(run)
        self._run, self._flags = run, flags

    def run(self, asked: Asked) -> int:
        """Run the verb, once for each set that it was asked for."""
        from colony_memory.cli.verbs.config import runs_of

        asked.verb, asked.params, asked.flags = self.verb, self.params, frozenset(self._flags)
        asked.from_environment = frozenset(name for name, source in self.given.items() if source.isupper())
        if self.verb not in FOLDERS:
            self._require(self.params)
        runs = runs_of(self)
        if len(runs) > 1:
            return run_each(runs, asked, lambda params: self._run_once(asked, params))
        return self._run_once(asked, runs[0][1])

    def _require(self, params: dict[str, Any]) -> None:
        for each in self.parameters:
            if each.default is NEEDED and params.get(each.name) in (None, ()):
                what = f"missing argument '{each.declared.metavar}'"
                raise UsageError(what, advice=f"{PROGRAM} {self.verb} --help")

    def _run_once(self, asked: Asked, params: dict[str, Any]) -> int:
        self._require(params)
        self.params = asked.params = params
        given: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {name: {} for name in self._groups}
        for each in self.parameters:
            value = params[each.name]
            # Several of one are a list, and None where there is none.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (given if each.group is None else grouped[each.group])[each.name] = value
        token = CURRENT.set(self)
        try:
            made = {name: self._groups[name](**each) for name, each in grouped.items()}
            code: int | None = self._run(**given, **made)
        finally:
            CURRENT.reset(token)
        return code or 0


def parse(verb: str, run: Callable[..., int], argv: Sequence[str]) -> Call | None:
    """The call that plain arguments make, None where click has to look at them."""
    found, _ = parameters_of(run)
    options = [each for each in found if isinstance(each.declared, Option)]
    flags = {flag: each for each in options for flag in _of(each).flags if "/" not in flag}
    words, given, texts = list[str](), dict[str, str](), dict[str, list[Any]]()
    rest = iter(argv)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        flag, equals, text = word.partition("=")
        if flag not in flags or (equals and (bool in flags[flag].kinds or not flag.startswith("--"))):
            return None
        one = flags[flag]
        value: Any = True if bool in one.kinds else text if equals else next(rest, "")
        if value is not True and (not value.strip() or value.startswith("-")):
            return None
        texts.setdefault(one.name, []).append(value)
        given[one.name] = max(_of(one).flags, key=len)
    params: dict[str, Any] = {}
    for each in options:
        variable = _of(each).envvar
        if each.name not in given and variable and os.environ.get(variable):
            texts[each.name], given[each.name] = [os.environ[variable]], variable
        values = [_value(each, text, given[each.name]) for text in texts.get(each.name, ())]
        if None in values or (each.default is NEEDED and not values):
            return None
        params[each.name] = tuple(values) if each.several else values[-1] if values else each.default
    arguments = [each for each in found if each not in options]
    if len(arguments) == 1 and arguments[0].several:
        params[arguments[0].name] = tuple(words)
    elif len(words) > len(arguments) or any(each.several for each in arguments):
        return None
    else:
        defaults = (None if each.default is NEEDED else each.default for each in arguments[len(words) :])
        params |= zip((each.name for each in arguments), (*words, *defaults), strict=True)
    given |= {each.name: each.name for each in arguments[: len(words)]}
    return Call(verb, run, params, given, {*flags, "--help"})


def _of(each: Parameter) -> Option:
    assert isinstance(each.declared, Option)  # noqa: S101 - a type checker cannot know
    return each.declared


def _value(each: Parameter, text: Any, source: str) -> Any:
    """The value of an option, None for what is none, of which click tells."""
    declared = _of(each)
    choices = str(declared.metavar or "").split("|")
    if each.several and not source.startswith("-"):
        return None
    if len(choices) > 1 and text not in choices and source.startswith("-"):
        return None
    if int in each.kinds:
        whole = int(text) if text.isascii() and text.isdecimal() else None
        return None if whole is None or whole < (declared.least or 0) else whole
    if text is True or str in each.kinds:
        return text
    from pathlib import Path

    return Path(text)


def run_each(
    runs: Sequence[tuple[str, dict[str, Any]]], asked: Asked, run: Callable[[dict[str, Any]], int | None]
) -> int:
    """Run them in turn, each under its name, a failure of one or not; programs get one document of all."""
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
