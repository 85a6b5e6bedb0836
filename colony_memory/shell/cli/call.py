"""A verb with what it was given, and the call that plain arguments make.

What is not plain, such as an error, goes to click, which takes longer to load than most verbs take.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from colony_memory._values import names_of
from colony_memory.shell.app import config
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.config import Setting
from colony_memory.shell.app.pick import names_a_snapshot
from colony_memory.shell.cli import app
from colony_memory.shell.words.errors import PROGRAM, Asked, UsageError


class Call:
    def __init__(self, verb: str, params: dict[str, Any], given: Mapping[str, str]) -> None:
        self.verb, self.parameters, self.params = verb, app.parameters_of(verb), params
        self.given = given  # by parameter the option or variable that gave it, or for an argument its name

    def run(self, asked: Asked) -> int:
        flags = {flag for each in self.parameters for flag in each.flags}
        asked.verb, asked.params, asked.flags = self.verb, self.params, frozenset(flags)
        asked.from_environment = frozenset(name for name, source in self.given.items() if source.isupper())
        self.params = asked.params = self._settled()
        for each in self.parameters:
            if each.default is app.NEEDED and self.params.get(each.name) in (None, ()):
                what = f"missing argument '{str(each.metavar).removesuffix('...')}'"
                raise UsageError(what, advice=f"{PROGRAM} {self.verb} --help")
        given: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {each.group: {} for each in self.parameters if each.group}
        for each in self.parameters:
            value = self.params[each.name]
            # Several of one are a list, and None where there is none.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (grouped[each.group] if each.group else given)[each.name] = value
        token = app.CURRENT.set(self)
        try:
            made = {name: app.GROUPS[name](**each) for name, each in grouped.items()}
            code = app.run_of(self.verb)(**given, **made)
        finally:
            app.CURRENT.reset(token)
        return code or 0

    def settings(self) -> dict[str, Setting]:
        """The values that the command line and variables gave, by parameter, each with its option or variable. What a
        variable gives means the same in any directory, or is refused.
        """
        given = {}
        for name, source in self.given.items():
            value = self.params[name]
            if source.isupper() and name in config.SETTINGS:
                value = list(value) if isinstance(value, tuple) else value
                value = config.at_key(source, config.SETTINGS[name], value)
            given[name] = Setting(value, (source,))
        return given

    @property
    def named_file(self) -> str | None:
        """The configuration file that the command line names; the variable is looked at where the file is read."""
        return self.params["config"] if self.given.get("config", "").startswith("-") else None

    def _settled(self) -> dict[str, Any]:
        """All parameters: as the command line and variables give them, else as the file and --agent do."""
        for name in app.SETTINGS:
            config.read_setting(name)  # an empty one is refused, not taken for one that is not set
        given = self.settings()
        params = {**self.params, **{name: each.value for name, each in given.items()}}
        if self.verb == "config" or "config" not in params:
            return params
        found = config.effective(config.load_config(self.named_file), given)
        rules = names_of(app.RetentionOptions)
        if params.get("leftovers") or any(name in given for name in rules):
            found = {name: each for name, each in found.items() if name in given or name not in rules}
        meant = [name for name in found if name in params and f"{self.verb}.{name}" not in app.UNSET]
        params |= {name: found[name].value for name in meant}
        self._settle_host(params)
        if self.verb == "status" and not params["paths"] and "exclude" not in given:
            params["exclude"] = None  # nothing is looked at that it could be for
        return params

    def _settle_host(self, params: dict[str, Any]) -> None:
        """Where the memory of a host is meant, the folder that it is in, its label, and what of it is saved."""
        name = app.FOLDERS.get(self.verb, "")
        words, kinds, agent = list(params.get(name) or []), params.get("kinds") or (), params.get("agent")
        if agent is None and self.verb == "hook" and words[:1] == ["install"] and 2 <= len(words) <= 3:
            # No folder is named, or the host's own.
            own = AGENTS.get(words[1])
            if own and (not words[2:] or os.path.realpath(words[2]) == os.path.realpath(own.folder())):
                agent = words[1]
        if agent is None:
            if kinds:
                raise ValueError("--with is for --agent: give both")
            return
        host = AGENTS[agent]
        kinds = host.read_kinds(kinds)
        params |= {"agent": agent, "kinds": list(kinds) or None}
        if "label" in params and "label" not in self.given:
            params["label"] = [agent] if isinstance(params["label"], tuple) else agent
        if "exclude" in params and f"{self.verb}.exclude" not in app.UNSET:
            params["exclude"] = [*host.exclude(kinds), *(params["exclude"] or [])]
        is_missing = {
            "": False,
            "command": True,
            "words": not words or (words[0] == "install" and len(words) == 2),
            "target": not words or (len(words) == 1 and names_a_snapshot(words[0]) and not Path(words[0]).exists()),
        }.get(name, not words)
        if is_missing:
            has_to_be = name == "paths" or (name == "words" and words)
            folder = str(host.require_folder() if has_to_be else host.folder())
            known = [folder, *words] if name == "command" else [*words, folder]
            params[name] = folder if name == "directory" else known


def parse(verb: str, argv: Sequence[str]) -> Call | None:
    """The call that plain arguments make, None where click has to look at them."""
    parameters = app.parameters_of(verb)
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
        if None in values or (each.default is app.NEEDED and not values):
            return None
        params[each.name] = tuple(values) if each.several else values[-1] if values else each.default
    if len(arguments) == 1 and arguments[0].several:
        params[arguments[0].name] = tuple(words)
    elif len(words) > len(arguments):
        return None
    else:
        defaults = (None if each.default is app.NEEDED else each.default for each in arguments[len(words) :])
        params |= zip((each.name for each in arguments), (*words, *defaults), strict=True)
    given |= {each.name: each.name for each in arguments[: len(words)]}
    return Call(verb, params, given)


def _value(each: app.Parameter, text: Any, source: str) -> Any:
    """The value of an option, None for what is none, of which click tells."""
    if (each.several and not source.startswith("-")) or (len(each.choices) > 1 and text not in each.choices):
        return None
    if each.metavar == "N":
        whole = int(text) if text.isascii() and text.isdecimal() else None
        return None if whole is None or whole < each.least else whole
    return text
