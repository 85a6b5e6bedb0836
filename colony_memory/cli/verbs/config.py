"""The sets and settings of the configuration file as parameters of a verb, and the verb ``config`` itself."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._values import names_of
from colony_memory.app.agents import AGENTS
from colony_memory.app.config import (
    KEYS,
    PATHS,
    BackupSet,
    Setting,
    config_path,
    effective,
    load_config,
    paths_of,
    target_of,
)
from colony_memory.app.pick import names_a_snapshot
from colony_memory.app.values import read_setting, settled_path, settled_url
from colony_memory.cli.app import CURRENT
from colony_memory.cli.options import FOLDERS, SETTINGS, CommonOptions, RetentionOptions
from colony_memory.cli.output import Output, gathering
from colony_memory.words import shown
from colony_memory.words.errors import describe, error_document, report_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from colony_memory.app.config import Config
    from colony_memory.cli.app import Call
    from colony_memory.words.errors import Asked

EXAMPLES = {"config": ("colony-memory config", "colony-memory config --json")}
_DEFAULT = ("default",)


def runs_of(call: Call) -> list[tuple[str, dict[str, Any]]]:
    """The runs that this command line asks for, one or one for each set: its name and all parameters of the verb."""
    verb = call.verb
    for name in SETTINGS:
        read_setting(name)  # an empty one is refused, not taken for one that is not set
    given = _given_of(call)
    for name, each in given.items():  # paths of variables mean the same in any directory, or are refused
        settle = partial(settled_path, each.sources[0])
        if name in PATHS and not _by_option(given, name):
            call.params[name] = settle(each.value)
        elif name in KEYS and not _by_option(given, name):
            call.params[name] = KEYS[name](map(str, each.value), settle)
    params: dict[str, Any] = dict(call.params)
    if verb == "config" or ("config" not in params and "vault" not in params):
        return [("", params)]
    given = _given_of(call)
    config = load_config(_named_file(given))
    chosen: Sequence[BackupSet | None] = _choose(verb, config, params, given) or [None]
    return [("" if each is None else each.name, _merged(verb, config, each, params, given)) for each in chosen]


def run_each(
    runs: Sequence[tuple[str, dict[str, Any]]], asked: Asked, run: Callable[[dict[str, Any]], int | None]
) -> int:
    """Run them in turn, each under its name, whether another failed or not; programs get one document of all."""
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


def _given_of(call: Call) -> dict[str, Setting]:
    """The values that the command line and variables gave, by parameter, each with its option or variable."""
    return {name: Setting(call.params[name], (source,)) for name, source in call.given.items()}


def _by_option(given: Mapping[str, Setting], name: str) -> bool:
    return name in given and given[name].sources[0].startswith("-")


def _named_file(given: Mapping[str, Setting]) -> str | None:
    """The configuration file that the command line names; the variable is looked at where the file is read."""
    return str(given["config"].value) if _by_option(given, "config") else None


def _choose(verb: str, config: Config, params: Mapping[str, Any], given: Mapping[str, Setting]) -> list[BackupSet]:
    agent, kinds = params.get("agent"), params.get("kinds") or ()
    words = params.get(FOLDERS.get(verb, "")) or []
    if verb == "hook" and not params.get("set_name"):
        agent = agent or _host_itself(words)
    named = _named_set(config, agent, params.get("set_name"), kinds)
    if named is not None:
        return [named]
    if kinds:
        raise ValueError("--with is for --agent: give both")
    label = given["label"].value if "label" in given else None
    if verb in ("run", "guard", "rewrite") or (words and verb != "restore") or isinstance(label, (list, tuple)):
        return []
    found = [each for each in config.sets.values() if label in (None, each.label)]
    needed = verb in ("backup", "restore", "watch") and not words
    if not found and config.sets and needed:
        either = " or ".join(config.sets)
        raise ValueError(f"no set has the label {label!r}: name a path, or a set with --set, {either}")
    if len(found) < 2 or verb == "backup":
        return found
    if verb in FOLDERS and verb != "status" and not words:
        either = " or ".join(each.name for each in found)
        raise ValueError(f"there are several sets: say which with --set, {either}")
    return []


def _named_set(config: Config, agent: str | None, name: str | None, kinds: Sequence[str]) -> BackupSet | None:
    if agent and name:
        raise ValueError("--agent and --set each say what is meant: give one of them")
    if agent:
        return BackupSet(agent, agent, agent=agent, kinds=AGENTS[agent].read_kinds(kinds))
    return config.set_of(name) if name else None


def _host_itself(words: Sequence[str]) -> str | None:
    """The host whose own memory its hooks are to save: no folder is named, or its own."""
    doing, host, folder, *more = (*words, "", "", "")
    if doing != "install" or host not in AGENTS or any(more):
        return None
    return host if not folder or os.path.realpath(folder) == os.path.realpath(AGENTS[host].folder()) else None


def _merged(
    verb: str, config: Config, chosen: BackupSet | None, params: Mapping[str, Any], given: Mapping[str, Setting]
) -> dict[str, Any]:
    """The parameters with what the file says for this set where nothing was given."""
    found = effective(config, chosen, given)
    if "encrypt_to" in found and "encrypt_to" not in params and "config" in params:
        raise ValueError(f"{config.path} says whom to encrypt to, and {verb!r} cannot encrypt")
    known = {name: each.value for name, each in found.items() if name in params}
    if verb == "hook":
        known.pop("format", None)  # that of the host's JSON
    if params.get("label", "") is None and verb != "status" and not (params.get("set_name") or params.get("agent")):
        known.pop("label", None)  # what shows all labels is narrowed by what somebody named alone
    if verb == "copy" and isinstance(known.get("label"), str):
        known["label"] = [known["label"]]  # it takes several
    if "vault" in given and not _by_option(given, "vault") and isinstance(known.get("vault"), str):
        known["vault"] = settled_url(given["vault"].sources[0], known["vault"])
    merged = {**params, **known}
    for name in ("url", "source", "target"):
        if isinstance(params.get(name), str):
            merged[name] = config.url_of(params[name])
    label = merged.get("label")
    ruled = params.get("leftovers") or any(params.get(name) is not None for name in names_of(RetentionOptions))
    if "keep_daily" in params and not ruled:
        if "secrets" in params:  # what saves knows those of the file as such
            merged["keep"] = config.retention_of(label or "default")
        elif label is not None:
            merged.update(config.retention.get(label, {}))
    if chosen is not None:
        _place(verb, chosen, merged)
    if verb == "status" and not merged["paths"] and "exclude" not in given:
        merged["exclude"] = None  # nothing is looked at that it could be for
    return merged


def _place(verb: str, chosen: BackupSet, merged: dict[str, Any]) -> None:
    merged["agent"], merged["kinds"] = chosen.agent, list(chosen.kinds) or None
    if chosen.agent is not None and "exclude" in merged:
        merged["exclude"] = [*AGENTS[chosen.agent].exclude(chosen.kinds), *(merged["exclude"] or [])]
    name = FOLDERS.get(verb, "")
    words = list(merged.get(name) or [])
    if name == "paths" and not words:
        merged[name] = paths_of(chosen)
    elif name == "directory" and not words:
        merged[name] = target_of(chosen)
    elif name == "words" and (not words or (words[0] == "install" and len(words) == 2)):
        merged[name] = [*words, *(paths_of(chosen) if words else [target_of(chosen)])]
    elif name == "command":
        merged[name] = [target_of(chosen), *words]
    elif name == "target" and (
        not words or (len(words) == 1 and names_a_snapshot(words[0]) and not Path(words[0]).exists())
    ):
        merged[name] = [*words, target_of(chosen)]
    else:
        return
    if chosen.name != chosen.agent:
        merged["set_name"] = chosen.name


def run_config(*, path: bool = False, common: CommonOptions) -> int:
    """Options come before environment variables, those before what the file says of a set, and that before what it says
    for all of them. Without a set or an agent each set is shown. The file must belong to you or root, and nobody else
    may write to it. It is never looked for in the working directory or in a folder that is saved.
    """
    output, call = common.output, CURRENT.get()
    given = {} if call is None else _given_of(call)
    named = _named_file(given)
    if path:
        place = config_path(named)
        if common.as_json:
            output.answer_json({"path": str(place), "exists": place.exists()})
        else:
            output.answer(str(place))
        return 0
    config = load_config(named)
    chosen = _named_set(config, common.agent, common.set_name, common.kinds or ())
    every = _settings(config, None, given)
    sets = [(each, _settings(config, each, given)) for each in ([chosen] if chosen else config.sets.values())]
    if common.as_json:
        output.answer_json(
            {
                "path": str(config.path),
                "exists": config.exists,
                "api_key": "set" if os.environ.get("COLONY_API_KEY") else None,
                "settings": {name: vars(each) for name, each in every.items()},
                "sets": {
                    each.name: {
                        "paths": list(each.paths),
                        "agent": each.agent,
                        "with": list(each.kinds),
                        "settings": {key: vars(one) for key, one in found.items()},
                    }
                    for each, found in sets
                },
                "vaults": dict(config.vaults),
                "retention": {label: dict(rules) for label, rules in config.retention.items()},
            }
        )
        return 0
    lines = [f"configuration file {config.path}" + ("" if config.exists else ", which is not there"), ""]
    account = {"api_key": Setting("set", ("COLONY_API_KEY",))} if os.environ.get("COLONY_API_KEY") else {}
    if address := os.environ.get("COLONY_BASE_URL"):
        account["base_url"] = Setting(address, ("COLONY_BASE_URL",))
    made_first = sorted(every.items(), key=lambda item: item[1].sources == _DEFAULT)
    lines += _table({**account, **{name: each for name, each in made_first if each.value not in (None, (), [])}})
    for each, found in sets:
        what = " and ".join([f"the memory of {each.agent}", *each.kinds]) if each.agent else ", ".join(each.paths)
        own = {name: one for name, one in found.items() if one != every[name]}
        lines += ["", shown(f"set {each.name}: {what}"), *_table(own)]
    for title, names in (("vault", config.vaults), ("retention", config.retention)):
        lines += [shown(f"{title} {name}: {_text(value)}") for name, value in names.items()]
    output.answer("\n".join(lines))
    return 0


def _settings(config: Config, chosen: BackupSet | None, given: Mapping[str, Setting]) -> dict[str, Setting]:
    from colony_memory.app import config as settings
    from colony_memory.app.open import choose_place
    from colony_memory.cli.app import declared

    found = effective(config, chosen, given)
    label = os.environ.get("COLONY_MEMORY_LABEL")
    if label is not None:
        found["label"] = Setting(label, ("COLONY_MEMORY_LABEL",))
    usual = {each.name: each.default or None for verb in ("status", "watch") for each in declared(verb)[2]}
    usual["vault"] = choose_place().url if "vault" not in found else None
    names = ("vault", "label", *settings.SETTINGS)
    return {name: found.get(name) or Setting(usual.get(name), _DEFAULT) for name in names}


def _table(found: Mapping[str, Setting]) -> list[str]:
    from colony_memory.cli.tables import Column, draw

    rows = [(name, _text(each.value), ", ".join(map(_origin, each.sources))) for name, each in found.items()]
    columns = [Column("setting"), Column("value"), Column("from", wraps=True)]
    return draw(columns, [[shown(cell) for cell in row] for row in rows]).splitlines()


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _origin(source: str) -> str:
    return source if source.startswith("-") or source.isupper() or source in _DEFAULT else f"file: {source}"
