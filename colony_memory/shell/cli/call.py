"""One call of a verb: its parameters, parsed from plain arguments, and the memory that it works on.

Anything that is not plain, such as an error, goes to click, which takes longer to load than most verbs take to run.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from colony_memory._engine.session import warn
from colony_memory._values import Value, field, names_of
from colony_memory.client import ColonyMemory
from colony_memory.exceptions import SnapshotNotFound, VaultMissing
from colony_memory.shell.app import config
from colony_memory.shell.app.agents import AGENTS, Host
from colony_memory.shell.app.config import Setting
from colony_memory.shell.app.keys import client_arguments
from colony_memory.shell.app.open import Place, choose_place
from colony_memory.shell.app.pick import names_a_snapshot
from colony_memory.shell.cli import app
from colony_memory.shell.cli.output import Output, Progress
from colony_memory.shell.words import FEW, count
from colony_memory.shell.words.errors import NO_VAULT, NOTHING_SAVED, PROGRAM, Asked, Failure, UsageError, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager


class Call:
    def __init__(self, verb: str, params: dict[str, Any], sources: Mapping[str, str]) -> None:
        self.verb, self.parameters, self.params = verb, app.parameters_of(verb), params
        self.sources = sources  # by parameter the option or variable that set it; an argument's is its name

    def run(self, asked: Asked) -> int:
        flags = {flag for parameter in self.parameters for flag in parameter.flags}
        asked.verb, asked.params, asked.flags = self.verb, self.params, frozenset(flags)
        asked.from_environment = frozenset(name for name, source in self.sources.items() if source.isupper())
        self.params = asked.params = self._resolved()
        for parameter in self.parameters:
            if parameter.default is app.NEEDED and self.params.get(parameter.name) in (None, ()):
                message = f"missing argument '{str(parameter.metavar).removesuffix('...')}'"
                raise UsageError(message, advice=f"{PROGRAM} {self.verb} --help")
        arguments: dict[str, Any] = {}
        grouped: dict[str, dict[str, Any]] = {parameter.group: {} for parameter in self.parameters if parameter.group}
        for parameter in self.parameters:
            value = self.params[parameter.name]
            # A repeatable option is a list, and None if it is empty.
            value = (list(value) or None) if isinstance(value, tuple) else value
            (grouped[parameter.group] if parameter.group else arguments)[parameter.name] = value
        token = app.CURRENT.set(self)
        try:
            groups = {name: app.GROUPS[name](**fields) for name, fields in grouped.items()}
            code = app.run_of(self.verb)(**arguments, **groups)
        finally:
            app.CURRENT.reset(token)
        return code or 0

    def settings(self) -> dict[str, Setting]:
        """The values from the command line and from variables, by parameter, each with its option or variable. A
        variable's value has to mean the same in any directory: ValueError.
        """
        settings = {}
        for name, source in self.sources.items():
            value = self.params[name]
            if source.isupper() and name in config.SETTINGS:
                value = list(value) if isinstance(value, tuple) else value
                value = config.at_key(source, config.SETTINGS[name], value)
            settings[name] = Setting(value, (source,))
        return settings

    @property
    def named_file(self) -> str | None:
        """The configuration file that the command line names; its variable is read with the file."""
        return self.params["config"] if self.sources.get("config", "").startswith("-") else None

    def _resolved(self) -> dict[str, Any]:
        """All parameters: from the command line and variables, else from the configuration file and --agent."""
        for name in app.SETTINGS:
            config.read_setting(name)  # an empty one is refused, not treated as unset
        settings = self.settings()
        params = {**self.params, **{name: setting.value for name, setting in settings.items()}}
        if self.verb == "config" or "config" not in params:
            return params
        effective = config.effective(config.load_config(self.named_file), settings)
        rules = names_of(app.RetentionOptions)
        if params.get("leftovers") or any(name in settings for name in rules):
            effective = {name: setting for name, setting in effective.items() if name in settings or name not in rules}
        relevant = [name for name in effective if name in params and f"{self.verb}.{name}" not in app.UNSET]
        params |= {name: effective[name].value for name in relevant}
        self._resolve_host(params)
        if self.verb == "status" and not params["paths"] and "exclude" not in settings:
            params["exclude"] = None  # there is no folder for it to apply to
        return params

    def _resolve_host(self, params: dict[str, Any]) -> None:
        """If a host's memory is meant, set its folder, its label, and what is excluded."""
        name = app.FOLDERS.get(self.verb, "")
        words, kinds, agent = list(params.get(name) or []), params.get("kinds") or (), params.get("agent")
        if agent is None and self.verb == "hook" and words[:1] == ["install"] and 2 <= len(words) <= 3:
            # The host's own memory: its folder is named, or none is.
            candidate = AGENTS.get(words[1])
            if candidate and (not words[2:] or os.path.realpath(words[2]) == os.path.realpath(candidate.folder())):
                agent = words[1]
        if agent is None:
            if kinds:
                raise ValueError("--with needs --agent")
            return
        host = AGENTS[agent]
        kinds = host.read_kinds(kinds)
        params |= {"agent": agent, "kinds": list(kinds) or None}
        if "label" in params and "label" not in self.sources:
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
            must_exist = name == "paths" or (name == "words" and words)
            folder = str(host.require_folder() if must_exist else host.folder())
            completed = [folder, *words] if name == "command" else [*words, folder]
            params[name] = folder if name == "directory" else completed


def parse(verb: str, argv: Sequence[str]) -> Call | None:
    """The call for plain arguments, or None if click has to parse them."""
    parameters = app.parameters_of(verb)
    flags = {flag: parameter for parameter in parameters for flag in parameter.flags}
    words, sources, texts = list[str](), dict[str, str](), dict[str, list[Any]]()
    rest = iter(argv)
    for word in rest:
        if not word.startswith("-"):
            words.append(word)
            continue
        flag, equals, text = word.partition("=")
        if flag not in flags or (equals and (flags[flag].metavar is None or not flag.startswith("--"))):
            return None
        option = flags[flag]
        value: Any = True if option.metavar is None else text if equals else next(rest, "")
        if value is not True and (not value.strip() or value.startswith("-")):
            return None
        texts.setdefault(option.name, []).append(value)
        sources[option.name] = max(option.flags, key=len)
    params: dict[str, Any] = {}
    arguments = [argument for argument in parameters if not argument.flags]
    for parameter in parameters[len(arguments) :]:
        if parameter.name not in sources and parameter.variable and os.environ.get(parameter.variable):
            texts[parameter.name], sources[parameter.name] = [os.environ[parameter.variable]], parameter.variable
        values = [_value(parameter, text, sources[parameter.name]) for text in texts.get(parameter.name, ())]
        if None in values or (parameter.default is app.NEEDED and not values):
            return None
        params[parameter.name] = tuple(values) if parameter.several else values[-1] if values else parameter.default
    if len(arguments) == 1 and arguments[0].several:
        params[arguments[0].name] = tuple(words)
    elif len(words) > len(arguments):
        return None
    else:
        defaults = (None if arg.default is app.NEEDED else arg.default for arg in arguments[len(words) :])
        params |= zip((arg.name for arg in arguments), (*words, *defaults), strict=True)
    sources |= {argument.name: argument.name for argument in arguments[: len(words)]}
    return Call(verb, params, sources)


def _value(option: app.Parameter, text: Any, source: str) -> Any:
    """The value of an option, or None if it is invalid, which click reports."""
    if (option.several and not source.startswith("-")) or (len(option.choices) > 1 and text not in option.choices):
        return None
    if option.metavar == "N":
        number = int(text) if text.isascii() and text.isdecimal() else None
        return None if number is None or number < option.minimum else number
    return text


_ANOTHER = "set COLONY_API_KEY or --vault for another"


class OpenVault(Value):
    memory: ColonyMemory
    place: Place
    output: Output
    progress: Progress = field(default_factory=Progress)

    def working(self, activity: str = "Reading") -> AbstractContextManager[None]:
        """Show an activity on a terminal; the vault's name follows it."""
        return self.output.working(f"{activity} {self.place.title}", self.progress)


@contextmanager
def open_memory(common: app.CommonOptions, *, making: bool = False, wire: str | None = None) -> Iterator[OpenVault]:
    """Open the memory that the options name; ``making`` is that of :func:`at_vault`."""
    output, progress, trust = common.output, Progress(), trust_of(common)
    with at_vault(common.vault, output, making=making) as place, naming_the_vault(place):
        memory = ColonyMemory(backend=place.backend, format=format_of(wire), on_event=progress, **trust)
        yield OpenVault(memory, place, output, progress)


def format_of(wire: str | None) -> Literal[1, 2] | None:
    """The format for a value of --format, which the parser has checked."""
    return None if wire is None else 2 if wire == "2" else 1


def trust_of(common: app.CommonOptions, *, asks: bool = True) -> dict[str, Any]:
    """The arguments of :class:`colony_memory.ColonyMemory` for trust, recipients and identities, from the options.
    Without ``asks`` a passphrase has to be in a file: a command that runs later has nobody to ask.
    """
    return client_arguments(
        key_file=common.key_file,
        trust=common.trust or (),
        witness=common.witness,
        require_signature=False if common.accept_unsigned else None,
        accept_legacy_pointer=common.accept_legacy_pointer,
        encrypt_to=common.encrypt_to or (),
        identities=common.identity or (),
        passphrase_file=common.passphrase_file,
        ask=_ask if asks else None,
    )


@cache
def _ask(twice: bool) -> str:
    """Ask for the passphrase, once per process: ValueError without a terminal."""
    from getpass import getpass

    if sys.stdin is None or not sys.stdin.isatty():
        raise ValueError("there is no terminal to ask for the passphrase: give --passphrase-file")
    passphrase = getpass("Passphrase: ", sys.stderr)
    if twice and getpass("The same again: ", sys.stderr) != passphrase:
        raise ValueError("the passphrases differ")
    return passphrase


@contextmanager
def at_vault(url: str | None, output: Output, *, making: bool = False) -> Iterator[Place]:
    """The vault, which has to exist; if it is a default that nobody chose, a note at the end names it.

    With ``making`` such a default may be missing: the verb calls :func:`make_unchosen` before it writes.
    """
    place = choose_place(url)
    passed_over = _passed_over(place)
    making = making and not place.chosen and not place.exists()
    try:
        if not making:
            place.require()
    except VaultMissing as error:
        hint = f"make one with: {PROGRAM} init {quoted(place.url)}"
        advice = hint if place.chosen else f"the first backup makes one; {_ANOTHER}"
        raise Failure(error.message, code=NO_VAULT, advice=advice) from error
    yield place
    if passed_over:
        output.note(passed_over)
    if not making and not place.is_known:  # else make_unchosen has named it
        output.note(f"using {place.title}; {_ANOTHER}")


@contextmanager
def naming_the_vault(place: Place) -> Iterator[None]:
    """Name the vault in the error if something is not found."""
    try:
        yield
    except SnapshotNotFound as error:
        parts = [f"{error.message}, in {place.title}", "" if place.chosen else _ANOTHER, _passed_over(place)]
        raise Failure("; ".join(filter(None, parts)), code=NOTHING_SAVED, hint=error.hint) from error


def _passed_over(place: Place) -> str:
    """A note if an API key, set since, leads away from the vault that has this label; else empty."""
    labels = place.labels_passed_over()
    call = app.CURRENT.get()
    label = None if call is None else call.params.get("label")
    if not labels or (isinstance(label, str) and label not in labels):
        return ""
    of = f"label {label}" if isinstance(label, str) else count(len(labels), "label")
    local = quoted(str(place.passed_over))
    return f"COLONY_API_KEY leads to the hosted vault, while the local one has {of}: --vault {local} is that"


def make_unchosen(place: Place) -> None:
    """Make the default vault if it is missing, and say so in a warning, which --quiet does not hide."""
    if place.make_unchosen():
        warn(f"no vault was chosen, so one was made: {place.title}; {_ANOTHER}")


def host_of(name: str | None, directory: str, *, kinds: Iterable[str] | None) -> Host | None:
    return None if name is None else Host(AGENTS[name], directory, tuple(kinds or ()))


def report_host(host: Host, output: Output) -> None:
    """Report what was not written of a host's restored memory, and folders that may need another name."""
    if host.strange:
        more = f" and {len(host.strange) - FEW} more" if len(host.strange) > FEW else ""
        output.note(
            f"new here: the memory of {', '.join(host.strange[:FEW])}{more}; each name stands for the path of a "
            "project: if that is elsewhere on this machine, rename the folder"
        )
    for name in host.left[:FEW]:
        output.warn(f"not written: {name}: not memory of {host.agent.title}")
    if len(host.left) > FEW:
        output.warn(f"not written: {len(host.left) - FEW} more")
