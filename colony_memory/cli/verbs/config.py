"""The verb ``config``."""

from __future__ import annotations

import os
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any

import click

from colony_memory.cli.options import (
    CommonOptions,
    Option,
    parameters_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.app.config import BackupSet, Config, Effective, Given

CONFIG_EXAMPLES = (
    "colony-memory config",
    "colony-memory config --json",
    "colony-memory config --init",
)


def run_config(
    *,
    path: Annotated[bool, Option("--path", help="Print where the configuration file is, there or not.")] = False,
    init: Annotated[
        bool, Option("--init", help="Make one in which every setting is a comment. None is overwritten.")
    ] = False,
    common: CommonOptions,
) -> int:
    """Show which settings count, and where each comes from.

    Options come before environment variables, those before what the file says of a set, and that before what it says
    for all of them. Without a set or an agent each set is shown. The file must belong to you or root, and nobody else
    may write to it. It is never looked for in the working directory or in a folder that is saved.
    """
    from colony_memory.app.config import config_path, create_config, load_config
    from colony_memory.cli.settings import given_of, named_file

    output = common.output
    if path and init:
        raise ValueError("--path shows where the file is, and --init makes it: give one of them")
    given = given_of(click.get_current_context())
    named = named_file(given)
    if path or init:
        place = create_config(_example(), named) if init else config_path(named)
        if common.as_json:
            output.answer_json({"path": str(place), "exists": place.exists()})
        elif path:
            output.answer(str(place))
        else:
            output.report(f"made {place}")
        return 0
    config = load_config(named)
    chosen = _chosen(config, common)
    shown = {each.name: _settings(config, each, given) for each in chosen}
    every = _settings(config, None, given)
    if common.as_json:
        output.answer_json(_document(config, every, {each.name: (each, shown[each.name]) for each in chosen}))
    else:
        output.answer("\n".join(_lines(config, every, {each.name: (each, shown[each.name]) for each in chosen})))
    return 0


def _example() -> str:
    return (files("colony_memory.cli") / "example.toml").read_text("utf-8")


def _chosen(config: Config, common: CommonOptions) -> list[BackupSet]:
    from colony_memory.app.agents import AGENTS
    from colony_memory.app.config import BackupSet

    if common.agent and common.set_name:
        raise ValueError("--agent and --set each say what is meant: give one of them")
    if common.agent:
        kinds = AGENTS[common.agent].read_kinds(common.kinds or ())
        return [BackupSet(common.agent, common.agent, agent=common.agent, kinds=kinds)]
    return [config.set_of(common.set_name)] if common.set_name else list(config.sets.values())


def _settings(config: Config, chosen: BackupSet | None, given: Mapping[str, Given]) -> dict[str, Effective]:
    """Every setting, those that nobody made as they are then."""
    from colony_memory.app.config import SETTINGS, Effective, effective
    from colony_memory.app.place import choose_place

    label = os.environ.get("COLONY_MEMORY_LABEL")
    found = effective(config, chosen, given)
    if label is not None:
        found["label"] = Effective(label, ("COLONY_MEMORY_LABEL",))
    if "vault" not in found:
        found["vault"] = Effective(choose_place().url, ("default",))
    defaults = _defaults()
    return {
        name: found.get(name) or Effective(defaults.get(name), ("default",)) for name in ("vault", "label", *SETTINGS)
    }


def _defaults() -> dict[str, Any]:
    """What the verbs do where nobody says anything."""
    from colony_memory.cli.verbs.backup import run_watch
    from colony_memory.cli.verbs.check import run_status

    return {each.name: each.default for run in (run_status, run_watch) for each in parameters_of(run)[0]}


def _document(
    config: Config, every: Mapping[str, Effective], sets: Mapping[str, tuple[BackupSet, Mapping[str, Effective]]]
) -> dict[str, Any]:
    return {
        "path": str(config.path),
        "exists": config.exists,
        "api_key": "set" if os.environ.get("COLONY_API_KEY") else None,
        "settings": {name: asdict(each) for name, each in every.items()},
        "sets": {
            name: {
                "paths": list(chosen.paths),
                "agent": chosen.agent,
                "with": list(chosen.kinds),
                "settings": {key: asdict(each) for key, each in found.items()},
            }
            for name, (chosen, found) in sets.items()
        },
        "vaults": dict(config.vaults),
        "retention": {label: dict(rules) for label, rules in config.retention.items()},
        "lenses": {name: list(globs) for name, globs in config.lenses.items()},
    }


def _lines(
    config: Config, every: Mapping[str, Effective], sets: Mapping[str, tuple[BackupSet, Mapping[str, Effective]]]
) -> list[str]:
    from colony_memory.cli.tables import Column, draw, prose
    from colony_memory.words.text import shown

    def table(found: Mapping[str, Effective], *, of: Mapping[str, Effective] | None = None) -> list[str]:
        made = [
            (name, _text(each.value), ", ".join(map(_origin, each.sources)))
            for name, each in found.items()
            if each.sources != ("default",) and (of is None or each != of[name])
        ]
        usual = [(name, _text(each.value), "default") for name, each in found.items() if each.sources == ("default",)]
        rows = made if of is not None else [*_account(), *made, *(row for row in usual if row[1])]
        columns = [Column("setting"), Column("value", folds=20), Column("from", folds=12)]
        return draw(columns, [[shown(cell) for cell in row] for row in rows]).splitlines()

    there = f"configuration file {config.path}" if config.exists else f"there is no configuration file {config.path}"
    lines = [prose(shown(there)), "", *table(every)]
    for name, (chosen, found) in sets.items():
        what = (
            " and ".join([f"the memory of {chosen.agent}", *chosen.kinds]) if chosen.agent else ", ".join(chosen.paths)
        )
        lines += ["", prose(shown(f"set {name}: {what}")), *table(found, of=every)]
    for title, names in (("vault", config.vaults), ("retention", config.retention), ("lens", config.lenses)):
        if names:
            lines += ["", *(prose(shown(f"{title} {name}: {_text(value)}")) for name, value in names.items())]
    return lines


def _account() -> list[tuple[str, str, str]]:
    """What variables alone say; a key is never shown."""
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
    if value is None or value is False:
        return "" if value is None else "false"
    if isinstance(value, bool):
        return "true"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return str(value)
