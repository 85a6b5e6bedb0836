"""What the configuration file adds to what a verb was given, and for which of its sets the verb runs."""

from __future__ import annotations

import os
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._values import dataclass
from colony_memory.app.agents import AGENTS
from colony_memory.app.config import KEYS, PATHS, BackupSet, Given, effective, load_config, paths_of, target_of
from colony_memory.app.pick import names_a_snapshot
from colony_memory.app.place import settled_path, settled_url
from colony_memory.cli.options import FOLDERS, refuse_empty_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory.app.config import Config

#: The verbs that run once for each set where nobody names one.
_EACH = frozenset({"backup", "status", "prune"})


@dataclass(frozen=True)
class Run:
    """One run of a verb."""

    name: str  # the set, empty where it is about none
    params: dict[str, Any]  # what its arguments and options come to


def given_of(ctx: Any) -> dict[str, Given]:
    """What the command line and variables gave, by parameter, with the option or variable that did."""
    found = {}
    for each in ctx.command.params:
        source = ctx.get_parameter_source(each.name)
        if source is None or source.name not in ("COMMANDLINE", "ENVIRONMENT") or each.name not in ctx.params:
            continue
        named = each.envvar if source.name == "ENVIRONMENT" else max(each.opts, key=len)
        found[each.name] = Given(ctx.params[each.name], str(named))
    return found


def named_file(given: Mapping[str, Given]) -> str | None:
    """The configuration file that the command line names; the variable is looked at where the file is read."""
    each = given.get("config")
    return None if each is None or not each.source.startswith("-") else str(each.value)


def runs_of(verb: str, ctx: Any) -> list[Run]:
    """The runs that this command line asks for: one, or one for each set."""
    refuse_empty_settings()
    _settle(ctx)
    params: dict[str, Any] = dict(ctx.params)
    if verb == "config" or ("config" not in params and "vault" not in params):
        return [Run("", params)]
    given = given_of(ctx)
    config = load_config(named_file(given))
    choices = {each.name: str(each.metavar or "").split("|") for each in ctx.command.params}
    chosen: Sequence[BackupSet | None] = _choose(verb, config, params, given) or [None]
    return [
        Run("" if each is None else each.name, _merged(verb, config, each, params, given, choices=choices))
        for each in chosen
    ]


def _settle(ctx: Any) -> None:
    """Let the paths that variables gave mean the same in any directory, or refuse them."""
    for name, each in given_of(ctx).items():
        if each.source.startswith("-"):
            continue
        settle = partial(settled_path, each.source)
        if name in PATHS:
            ctx.params[name] = settle(each.value)
        elif name in KEYS:
            ctx.params[name] = KEYS[name](map(str, each.value), settle)


def _choose(verb: str, config: Config, params: Mapping[str, Any], given: Mapping[str, Given]) -> list[BackupSet]:
    agent, name = params.get("agent"), params.get("set_name")
    if agent and name:
        raise ValueError("--agent and --set each say what is meant: give one of them")
    if verb == "hook" and not name:
        agent = agent or _host_itself(params["words"])
    kinds = params.get("kinds") or ()
    if agent:
        return [BackupSet(agent, agent, agent=agent, kinds=AGENTS[agent].read_kinds(kinds))]
    if kinds:
        raise ValueError("--with is for --agent: give both")
    if name:
        return [config.set_of(name)]
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
        raise ValueError(f"no set has the label {label!r}: name a path, or a set with --set, {_either(config.sets)}")
    if len(found) < 2 or verb in _EACH:
        return found
    if verb in FOLDERS and not words:
        raise ValueError(f"there are several sets: say which with --set, {_either(each.name for each in found)}")
    return []


def _host_itself(words: Sequence[str]) -> str | None:
    """The host whose own memory its hooks are to save: no folder is named, or its own."""
    doing, host, folder, *more = (*words, "", "", "")
    if doing != "install" or host not in AGENTS or any(more):
        return None
    return host if not folder or os.path.realpath(folder) == os.path.realpath(AGENTS[host].folder()) else None


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


def _has_rules(params: Mapping[str, Any]) -> bool:
    """Whether a verb that takes each rule by itself was given one."""
    from colony_memory.cli.saving import RetentionOptions

    return any(params[each.name] is not None for each in fields(RetentionOptions))


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
    given: Mapping[str, Given],
    *,
    choices: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The parameters with what the file says for this set where nothing was given."""
    merged = dict(params)
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
    if "vault" in given and not given["vault"].source.startswith("-") and isinstance(known.get("vault"), str):
        known["vault"] = settled_url(given["vault"].source, known["vault"])
    merged.update(known)
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
        merged = _placed(verb, chosen, merged)
    if verb == "status" and not merged["paths"] and "exclude" not in given:
        merged["exclude"] = None  # nothing is looked at that it could be for
    return merged


def _placed(verb: str, chosen: BackupSet, merged: dict[str, Any]) -> dict[str, Any]:
    """The same, with the folders of the set where none are given."""
    merged["agent"], merged["kinds"] = chosen.agent, list(chosen.kinds) or None
    if chosen.agent is not None and "exclude" in merged:
        merged["exclude"] = [*AGENTS[chosen.agent].exclude(chosen.kinds), *(merged["exclude"] or [])]
    name = FOLDERS.get(verb)
    words = list(merged.get(name or "") or [])
    if name == "paths" and not words:
        merged[name] = paths_of(chosen)
    elif name == "directory" and not words:
        merged[name] = target_of(chosen)
    elif name == "words" and (not words or (words[0] == "install" and len(words) == 2)):
        merged[name] = [*words, *(paths_of(chosen) if words else [target_of(chosen)])]
    elif name == "command":
        merged[name] = [target_of(chosen), *words]
    elif name == "target" and (not words or (len(words) == 1 and _is_snapshot(words[0]))):
        merged[name] = [*words, target_of(chosen)]
    else:
        return merged
    if chosen.name != chosen.agent:
        merged["set_name"] = chosen.name
    return merged


def _is_snapshot(word: str) -> bool:
    return names_a_snapshot(word) and not Path(word).exists()
