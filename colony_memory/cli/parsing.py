"""A verb's parameters, and the call that plain arguments make.

What is not plain, such as an error, goes to click, which takes longer to load than most verbs take.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from colony_memory._values import NamedTuple, names_of
from colony_memory.cli.options import FOLDERS, GROUPS, OPTIONS, VARIABLES
from colony_memory.words.errors import PROGRAM, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from colony_memory.words.errors import Asked

#: The default of what has to be given.
NEEDED = object()
#: The call that is run.
CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)


class Parameter(NamedTuple):
    """A parameter of a verb, those of its groups included."""

    name: str
    flags: tuple[str, ...]  # an argument has none
    metavar: str | None  # what stands for its value, None where it is a flag; N is a number, several end with ...
    help: str
    default: Any  # what it is where it is not given, or NEEDED
    group: str | None = None  # the argument of the verb that it is a field of, None where it is one itself

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

    @property
    def variable(self) -> str | None:
        """The environment variable that may give it too."""
        return f"COLONY_MEMORY_{self.name.upper()}" if self.name in VARIABLES else None


def parameters_of(verb: str, run: Callable[..., int], arguments: str) -> list[Parameter]:
    """The parameters of a verb: what its function takes by position are arguments, all else are options."""
    code, words = run.__code__, arguments.split()
    places = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(places), reversed(run.__defaults__ or ()), strict=False)) | (run.__kwdefaults__ or {})
    if len(places) != len(words) or arguments.endswith("..."):
        words = [arguments if arguments.endswith("...") else f"{arguments}..."]
    found = [
        Parameter(name, (), word, "", defaults.get(name, NEEDED)) for name, word in zip(places, words, strict=True)
    ]
    for name in code.co_varnames[len(places) : len(places) + code.co_kwonlyargcount]:
        kind = GROUPS.get(name)
        if kind is None:
            found.append(option_of(verb, name, defaults.get(name, NEEDED)))
            continue
        left_out = ("note", "tag") if name == "saving" and verb not in ("backup", "watch") else ()
        of_group = [each for each in names_of(kind) if each not in left_out]
        found += [option_of(verb, each, getattr(kind, each), name) for each in of_group]
    return found


def option_of(verb: str, name: str, default: Any, group: str | None = None) -> Parameter:
    """The option that gives this parameter of a verb."""
    declared, text = OPTIONS.get(f"{verb}.{name}") or OPTIONS[name]
    words = declared.split()
    flags = tuple(word for word in words if word.startswith("-"))
    return Parameter(name, flags, None if len(flags) == len(words) else words[-1], text, default, group)


class Call:
    """A verb with what it was given."""

    def __init__(
        self,
        verb: str,
        run: Callable[..., int],
        parameters: list[Parameter],
        params: dict[str, Any],
        given: Mapping[str, str],
    ) -> None:
        self.verb, self.parameters, self.params, self._run = verb, parameters, params, run
        self.given = given  # by parameter the option or variable that gave it, or for an argument its name

    def run(self, asked: Asked) -> int:
        """Run the verb, once for each set that it was asked for."""
        from colony_memory.cli.verbs.config import run_each, runs_of

        flags = {flag for each in self.parameters for flag in each.flags}
        asked.verb, asked.params, asked.flags = self.verb, self.params, frozenset(flags)
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
                what = f"missing argument '{str(each.metavar).removesuffix('...')}'"
                raise UsageError(what, advice=f"{PROGRAM} {self.verb} --help")

    def _run_once(self, asked: Asked, params: dict[str, Any]) -> int:
        self._require(params)
        self.params = asked.params = params
        given: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {each.group: {} for each in self.parameters if each.group}
        for each in self.parameters:
            value = params[each.name]
            # Several of one are a list, and None where there is none.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (grouped[each.group] if each.group else given)[each.name] = value
        token = CURRENT.set(self)
        try:
            made = {name: GROUPS[name](**each) for name, each in grouped.items()}
            code: int | None = self._run(**given, **made)
        finally:
            CURRENT.reset(token)
        return code or 0


def parse(verb: str, run: Callable[..., int], parameters: list[Parameter], argv: Sequence[str]) -> Call | None:
    """The call that plain arguments make, None where click has to look at them."""
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
    return Call(verb, run, parameters, params, given)


def _value(each: Parameter, text: Any, source: str) -> Any:
    """The value of an option, None for what is none, of which click tells."""
    if (each.several and not source.startswith("-")) or (len(each.choices) > 1 and text not in each.choices):
        return None
    if each.metavar == "N":
        whole = int(text) if text.isascii() and text.isdecimal() else None
        return None if whole is None or whole < each.least else whole
    return text
