"""A verb with what it was given, and the call that plain arguments make.

What is not plain, such as an error, goes to click, which takes longer to load than most verbs take.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from colony_memory.shell.cli.app import CURRENT, NEEDED, Parameter, parameters_of, run_of
from colony_memory.shell.cli.options import GROUPS
from colony_memory.shell.words.errors import PROGRAM, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.shell.words.errors import Asked


class Call:
    """A verb with what it was given."""

    def __init__(self, verb: str, params: dict[str, Any], given: Mapping[str, str]) -> None:
        self.verb, self.parameters, self.params = verb, parameters_of(verb), params
        self.given = given  # by parameter the option or variable that gave it, or for an argument its name

    def run(self, asked: Asked) -> int:
        """Run the verb."""
        from colony_memory.shell.cli.verbs.config import settled

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
