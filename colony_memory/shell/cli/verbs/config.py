"""The settings of the configuration file as parameters of a verb, and the verb ``config`` itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._values import asdict, names_of
from colony_memory.shell.app import config as settings
from colony_memory.shell.app.agents import AGENTS
from colony_memory.shell.app.config import Setting, at_key, config_path, effective, load_config, read_setting
from colony_memory.shell.app.pick import names_a_snapshot
from colony_memory.shell.cli.app import CURRENT
from colony_memory.shell.cli.options import FOLDERS, SETTINGS, UNSET, CommonOptions, RetentionOptions
from colony_memory.shell.words import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.shell.app.config import Config
    from colony_memory.shell.cli.call import Call

_DEFAULT = ("default",)


def settled(call: Call) -> dict[str, Any]:
    """All parameters of the verb: as the command line and variables give them, else as the file and --agent do."""
    for name in SETTINGS:
        read_setting(name)  # an empty one is refused, not taken for one that is not set
    given = _given_of(call)
    params = {**call.params, **{name: each.value for name, each in given.items()}}
    if call.verb == "config" or "config" not in params:
        return params
    found = effective(load_config(_named_file(given)), given)
    rules = names_of(RetentionOptions)
    if params.get("leftovers") or any(name in given for name in rules):
        found = {name: each for name, each in found.items() if name in given or name not in rules}
    meant = [name for name in found if name in params and f"{call.verb}.{name}" not in UNSET]
    params |= {name: found[name].value for name in meant}
    _settle_host(call.verb, params, given)
    if call.verb == "status" and not params["paths"] and "exclude" not in given:
        params["exclude"] = None  # nothing is looked at that it could be for
    return params


def _given_of(call: Call) -> dict[str, Setting]:
    """The values that the command line and variables gave, by parameter, each with its option or variable. What a
    variable gives means the same in any directory, or is refused.
    """
    given = {name: Setting(call.params[name], (source,)) for name, source in call.given.items()}
    for name, source in call.given.items():
        if source.isupper() and name in settings.SETTINGS:
            value = call.params[name]
            value = list(value) if isinstance(value, tuple) else value
            given[name] = Setting(at_key(source, settings.SETTINGS[name], value), (source,))
    return given


def _named_file(given: Mapping[str, Setting]) -> str | None:
    """The configuration file that the command line names; the variable is looked at where the file is read."""
    named = given.get("config")
    return str(named.value) if named is not None and named.sources[0].startswith("-") else None


def _settle_host(verb: str, params: dict[str, Any], given: Mapping[str, Setting]) -> None:
    """Where the memory of a host is meant, the folder that it is in, its label, and what of it is saved."""
    name = FOLDERS.get(verb, "")
    words, kinds = list(params.get(name) or []), params.get("kinds") or ()
    agent = params.get("agent") or (_host_itself(words) if verb == "hook" else None)
    if agent is None:
        if kinds:
            raise ValueError("--with is for --agent: give both")
        return
    host = AGENTS[agent]
    kinds = host.read_kinds(kinds)
    params |= {"agent": agent, "kinds": list(kinds) or None}
    if "label" in params and "label" not in given:
        params["label"] = [agent] if isinstance(params["label"], tuple) else agent
    if "exclude" in params and f"{verb}.exclude" not in UNSET:
        params["exclude"] = [*host.exclude(kinds), *(params["exclude"] or [])]
    if name == "paths" and not words:
        params[name] = [str(host.require_folder())]
    elif name == "directory" and not words:
        params[name] = str(host.folder())
    elif name == "words" and (not words or (words[0] == "install" and len(words) == 2)):
        params[name] = [*words, str(host.require_folder() if words else host.folder())]
    elif name == "command":
        params[name] = [str(host.folder()), *words]
    elif name == "target" and (
        not words or (len(words) == 1 and names_a_snapshot(words[0]) and not Path(words[0]).exists())
    ):
        params[name] = [*words, str(host.folder())]


def _host_itself(words: Sequence[str]) -> str | None:
    """The host whose own memory its hooks are to save: no folder is named, or its own."""
    doing, host, folder, *more = (*words, "", "", "")
    if doing != "install" or host not in AGENTS or any(more):
        return None
    return host if not folder or os.path.realpath(folder) == os.path.realpath(AGENTS[host].folder()) else None


def run_config(*, path: bool = False, common: CommonOptions) -> int:
    """Options come before environment variables, and those before the file. The file must belong to you or root, and
    nobody else may write to it. It is never looked for in the working directory or in a folder that is saved.

    colony-memory config
    colony-memory config --json
    """
    from colony_memory.shell.cli.tables import Column, draw

    call = CURRENT.get()
    given = {} if call is None else _given_of(call)
    named = _named_file(given)
    if path:
        place = config_path(named)
        common.output.show({"path": str(place), "exists": place.exists()}, str(place))
        return 0
    config = load_config(named)
    found = _settings(config, given)
    key = "set" if os.environ.get("COLONY_API_KEY") else None
    told = {name: asdict(each) for name, each in found.items()}
    document = {"path": str(config.path), "exists": config.exists, "api_key": key, "settings": told}
    made_first = sorted(found.items(), key=lambda item: item[1].sources == _DEFAULT)
    rows = [(name, each) for name, each in made_first if each.value not in (None, (), [])]
    for name, shows in (("base_url", os.environ.get("COLONY_BASE_URL")), ("api_key", key)):
        rows[:0] = [(name, Setting(shows, (f"COLONY_{name.upper()}",)))] if shows else []
    cells = [(name, _text(each.value), ", ".join(map(_origin, each.sources))) for name, each in rows]
    columns = [Column("setting"), Column("value"), Column("from", wraps=True)]
    table = draw(columns, [[shown(cell) for cell in row] for row in cells])
    there = "" if config.exists else ", which is not there"
    common.output.show(document, f"configuration file {config.path}{there}\n\n{table}")
    return 0


def _settings(config: Config, given: Mapping[str, Setting]) -> dict[str, Setting]:
    from colony_memory.shell.app.open import choose_place
    from colony_memory.shell.cli.app import parameters_of

    found = effective(config, given)
    label = os.environ.get("COLONY_MEMORY_LABEL")
    if label is not None:
        found["label"] = Setting(label, ("COLONY_MEMORY_LABEL",))
    usual = {each.name: each.default or None for verb in ("status", "watch") for each in parameters_of(verb)}
    usual["vault"] = choose_place().url if "vault" not in found else None
    return {name: found.get(name) or Setting(usual.get(name), _DEFAULT) for name in settings.SETTINGS}


def _text(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(source: str) -> str:
    return source if source.startswith("-") or source.isupper() or source in _DEFAULT else f"file: {source}"
