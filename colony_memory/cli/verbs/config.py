"""The sets and settings of the configuration file as parameters of a verb, and the verb ``config`` itself."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from colony_memory.app.agents import AGENTS
from colony_memory.app.config import KEYS, PATHS, BackupSet, Setting, effective, load_config, paths_of, target_of
from colony_memory.app.pick import names_a_snapshot
from colony_memory.app.values import read_setting, settled_path, settled_url
from colony_memory.cli.options import FOLDERS, SETTINGS, CommonOptions, Option, RetentionOptions
from colony_memory.cli.parsing import CURRENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.app.config import Config
    from colony_memory.cli.parsing import Call

CONFIG_EXAMPLES = (
    "colony-memory config",
    "colony-memory config --json",
    "colony-memory config --init",
)
#: The verbs that run once for each set where nobody names one.
_EACH = frozenset({"backup", "status", "prune"})
_DEFAULT = ("default",)


def runs_of(call: Call) -> list[tuple[str, dict[str, Any]]]:
    """The runs that this command line asks for, one or one for each set: its name and all parameters of the verb."""
    verb = call.verb
    for name in SETTINGS:
        read_setting(name)  # an empty one is refused, not taken for one that is not set
    _settle(call)
    params: dict[str, Any] = dict(call.params)
    if verb == "config" or ("config" not in params and "vault" not in params):
        return [("", params)]
    given = _given_of(call)
    config = load_config(_named_file(given))
    choices = {each.name: str(each.declared.metavar or "").split("|") for each in call.parameters}
    chosen: Sequence[BackupSet | None] = _choose(verb, config, params, given) or [None]
    return [
        ("" if each is None else each.name, _merged(verb, config, each, params, given=given, choices=choices))
        for each in chosen
    ]


def _given_of(call: Call) -> dict[str, Setting]:
    """The values that the command line and variables gave, by parameter, each with its option or variable."""
    return {name: Setting(call.params[name], (source,)) for name, source in call.given.items()}


def _by_option(given: Mapping[str, Setting], name: str) -> bool:
    return name in given and given[name].sources[0].startswith("-")


def _named_file(given: Mapping[str, Setting]) -> str | None:
    """The configuration file that the command line names; the variable is looked at where the file is read."""
    return str(given["config"].value) if _by_option(given, "config") else None


def _settle(call: Call) -> None:
    """Let the paths that variables gave mean the same in any directory, or refuse them."""
    given = _given_of(call)
    for name, each in given.items():
        settle = partial(settled_path, each.sources[0])
        if name in PATHS and not _by_option(given, name):
            call.params[name] = settle(each.value)
        elif name in KEYS and not _by_option(given, name):
            call.params[name] = KEYS[name](map(str, each.value), settle)


def _choose(verb: str, config: Config, params: Mapping[str, Any], given: Mapping[str, Setting]) -> list[BackupSet]:
    agent, kinds = params.get("agent"), params.get("kinds") or ()
    if verb == "hook" and not params.get("set_name"):
        agent = agent or _host_itself(params["words"])
    named = _named_set(config, agent, params.get("set_name"), kinds)
    if named is not None:
        return [named]
    if kinds:
        raise ValueError("--with is for --agent: give both")
    words = params.get(FOLDERS.get(verb, "")) or []
    label = given["label"].value if "label" in given else None
    found = [each for each in config.sets.values() if label in (None, each.label)]
    if verb in ("run", "guard") or (words and verb != "restore") or isinstance(label, (list, tuple)):
        return []
    if "exclude" in params and verb not in FOLDERS:
        return []  # it saves a folder that was named, under no label but the one that was
    if verb == "prune":
        found = _with_rules(config, found, label, params)
    if not found and config.sets and verb in ("backup", "restore", "watch") and not words:
        either = " or ".join(config.sets)
        raise ValueError(f"no set has the label {label!r}: name a path, or a set with --set, {either}")
    if len(found) < 2 or verb in _EACH:
        return found
    if verb in FOLDERS and not words:
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


def _has_rules(params: Mapping[str, Any]) -> bool:
    """A verb that takes each rule by itself was given one."""
    return any(params[name] is not None for name in RetentionOptions.__annotations__)


def _with_rules(
    config: Config, found: list[BackupSet], label: str | None, params: Mapping[str, Any]
) -> list[BackupSet]:
    """Where no rules are given, what the file has rules for; else the only set, if there is one."""
    if params["leftovers"] or _has_rules(params):
        return found if len(found) == 1 else []
    others = [each for each in config.retention if all(each != one.label for one in config.sets.values())]
    labelled = [BackupSet(each, each) for each in others if label in (None, each)]
    return [each for each in (*found, *labelled) if each.label in config.retention]


def _merged(
    verb: str,
    config: Config,
    chosen: BackupSet | None,
    params: Mapping[str, Any],
    *,
    given: Mapping[str, Setting],
    choices: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The parameters with what the file says for this set where nothing was given."""
    found = effective(config, chosen, given)
    if "encrypt_to" in found and "encrypt_to" not in params and "config" in params:
        raise ValueError(f"{config.path} says whom to encrypt to, and {verb!r} cannot encrypt")
    known = {
        name: each.value
        for name, each in found.items()
        # Another verb may mean something else by a word, such as the format of its answer.
        if name in params and (len(choices[name]) < 2 or each.value in choices[name])
    }
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
    if "keep_daily" in params and not params.get("leftovers") and not _has_rules(params):
        if "secrets" in params:  # what saves knows those of the file as such
            merged["keep"] = config.retention_of(label or "default")
        elif label is not None:
            merged.update(config.retention.get(label, {}))
    if params.get("lens"):
        merged["only"] = [*(params.get("only") or []), *config.lens_of(params["lens"])]
    if chosen is not None:
        _place(verb, chosen, merged)
    if verb == "status" and not merged["paths"] and "exclude" not in given:
        merged["exclude"] = None  # nothing is looked at that it could be for
    return merged


def _place(verb: str, chosen: BackupSet, merged: dict[str, Any]) -> None:
    """Put in the folders of the set where none are given."""
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


def run_config(
    *,
    path: Annotated[bool, Option("--path", "Print where the configuration file is, there or not.")] = False,
    init: Annotated[
        bool, Option("--init", "Make one in which every setting is a comment. None is overwritten.")
    ] = False,
    common: CommonOptions,
) -> int:
    """Show which settings count, and where each comes from.

    Options come before environment variables, those before what the file says of a set, and that before what it says
    for all of them. Without a set or an agent each set is shown. The file must belong to you or root, and nobody else
    may write to it. It is never looked for in the working directory or in a folder that is saved.
    """
    from importlib.resources import files

    from colony_memory.app.config import config_path, create_config

    output = common.output
    if path and init:
        raise ValueError("--path shows where the file is, and --init makes it: give one of them")
    call = CURRENT.get()
    given = {} if call is None else _given_of(call)
    named = _named_file(given)
    if path or init:
        example = files("colony_memory.cli") / "example.toml"
        place = create_config(example.read_text("utf-8"), named) if init else config_path(named)
        if common.as_json:
            output.answer_json({"path": str(place), "exists": place.exists()})
        elif path:
            output.answer(str(place))
        else:
            output.report(f"made {place}")
        return 0
    config = load_config(named)
    chosen = _named_set(config, common.agent, common.set_name, common.kinds or ())
    sets = [(each, _settings(config, each, given)) for each in ([chosen] if chosen else config.sets.values())]
    every = _settings(config, None, given)
    if common.as_json:
        output.answer_json(_document(config, every, sets))
    else:
        output.answer("\n".join(_lines(config, every, sets)))
    return 0


def _settings(config: Config, chosen: BackupSet | None, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """Every setting, those that nobody made as they are then."""
    from colony_memory.app.config import SETTINGS
    from colony_memory.app.place import choose_place
    from colony_memory.cli.parsing import parameters_of
    from colony_memory.cli.verbs.backup import run_watch
    from colony_memory.cli.verbs.check import run_status

    label = os.environ.get("COLONY_MEMORY_LABEL")
    found = effective(config, chosen, given)
    if label is not None:
        found["label"] = Setting(label, ("COLONY_MEMORY_LABEL",))
    if "vault" not in found:
        found["vault"] = Setting(choose_place().url, _DEFAULT)
    defaults = {each.name: each.default for run in (run_status, run_watch) for each in parameters_of(run)[0]}
    return {name: found.get(name) or Setting(defaults.get(name), _DEFAULT) for name in ("vault", "label", *SETTINGS)}


def _document(
    config: Config, every: Mapping[str, Setting], sets: Sequence[tuple[BackupSet, Mapping[str, Setting]]]
) -> dict[str, Any]:
    return {
        "path": str(config.path),
        "exists": config.exists,
        "api_key": "set" if os.environ.get("COLONY_API_KEY") else None,
        "settings": {name: vars(each) for name, each in every.items()},
        "sets": {
            chosen.name: {
                "paths": list(chosen.paths),
                "agent": chosen.agent,
                "with": list(chosen.kinds),
                "settings": {key: vars(each) for key, each in found.items()},
            }
            for chosen, found in sets
        },
        "vaults": dict(config.vaults),
        "retention": {label: dict(rules) for label, rules in config.retention.items()},
        "lenses": {name: list(globs) for name, globs in config.lenses.items()},
    }


def _lines(
    config: Config, every: Mapping[str, Setting], sets: Sequence[tuple[BackupSet, Mapping[str, Setting]]]
) -> list[str]:
    from colony_memory.cli.tables import Column, draw
    from colony_memory.words.text import shown

    def table(found: Mapping[str, Setting], *, of_a_set: bool = False) -> list[str]:
        made = [
            (name, _text(each.value), ", ".join(map(_origin, each.sources)))
            for name, each in found.items()
            if each.sources != _DEFAULT and not (of_a_set and each == every[name])
        ]
        if not of_a_set:
            usual = [(name, _text(each.value), "default") for name, each in found.items() if each.sources == _DEFAULT]
            made = [*_account(), *made, *(row for row in usual if row[1])]
        columns = [Column("setting"), Column("value"), Column("from")]
        return draw(columns, [[shown(cell) for cell in row] for row in made]).splitlines()

    there = f"configuration file {config.path}" if config.exists else f"there is no configuration file {config.path}"
    lines = [shown(there), "", *table(every)]
    for chosen, found in sets:
        kinds = " and ".join([f"the memory of {chosen.agent}", *chosen.kinds])
        what = kinds if chosen.agent else ", ".join(chosen.paths)
        lines += ["", shown(f"set {chosen.name}: {what}"), *table(found, of_a_set=True)]
    for title, names in (("vault", config.vaults), ("retention", config.retention), ("lens", config.lenses)):
        if names:
            lines += ["", *(shown(f"{title} {name}: {_text(value)}") for name, value in names.items())]
    return lines


def _account() -> list[tuple[str, str, str]]:
    """Settings that only variables make; a key is never shown."""
    named = {"api_key": ("COLONY_API_KEY", "set"), "base_url": ("COLONY_BASE_URL", None)}
    return [
        (name, shown or os.environ[variable], variable)
        for name, (variable, shown) in named.items()
        if os.environ.get(variable)
    ]


def _origin(source: str) -> str:
    """An option, a variable, or a key, which is said to be of the file."""
    return source if source.startswith("-") or source.isupper() else f"file: {source}"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return "" if value is None else str(value)
