"""The user's configuration file: whom it is believed from, what it says, and what counts in the end."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import read_written
from colony_memory._format.names import require_label
from colony_memory._os.files import read_file
from colony_memory._os.machine import config_directory
from colony_memory._values import dataclass, field
from colony_memory.app.agents import AGENTS
from colony_memory.app.open import settled_identities, settled_recipients
from colony_memory.app.values import (
    at_key,
    choice,
    command,
    expanded_path,
    flag,
    format_number,
    nearest,
    number,
    parse_duration,
    path_of,
    read_path_setting,
    read_url,
    rules,
    text,
    texts,
    time,
)
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from colony_memory._os.files import Contents


#: What may stand at the top of the file, for every set and command, and in a set: by the name of the option.
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "vault": text,
    "key_file": path_of,
    "trust": texts,
    "witness": path_of,
    "encrypt_to": texts,
    "identity": texts,
    "passphrase_file": path_of,
    "exclude": rules,
    "secrets": choice("stop", "warn", "mask", "allow"),
    "allow_secret": texts,
    "git": flag,
    "on_conflict": choice("raise", "continue", "merge"),
    "format": format_number,
    "every": time,
    "final_timeout": time,
    "max_age": time,
    "before": command,
    "ping": text,
    "on_error": command,
}
#: Of these a set has what it says and what is said for every set, and the command line adds to it.
ADDED = frozenset({"exclude", "allow_secret"})
#: What is a path; what is in part.
PATHS = frozenset({"key_file", "witness", "passphrase_file"})
KEYS = {"identity": settled_identities, "encrypt_to": settled_recipients}

_RULES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("keep", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly"), number),
    "keep_within": time,
}
_TABLES = ("vaults", "sets", "retention")
_OF_A_SET = ("paths", "agent", "with", "label")
_SECRET = frozenset({"api_key", "password", "passphrase", "token", "secret", "key"})
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class BackupSet:
    """Paths that are saved together under one label."""

    name: str  # what --set calls it
    label: str  # the label of its snapshots
    paths: tuple[str, ...] = ()  # files and directories, absolute; empty where an agent's host says where they are
    agent: str | None = None  # the host whose memory it is, None for paths
    kinds: tuple[str, ...] = ()  # what of it is saved besides its memory
    settings: Mapping[str, Any] = field(default_factory=dict)  # what the file says for this set alone


@dataclass(frozen=True)
class Config:
    """The configuration file; one that is not there is empty."""

    path: Path
    exists: bool = False  # whether it is there
    settings: Mapping[str, Any] = field(default_factory=dict)  # for every set and command, by the name of the option
    vaults: Mapping[str, str] = field(default_factory=dict)  # URLs by name
    sets: Mapping[str, BackupSet] = field(default_factory=dict)  # what is saved, by name, in the order of the file
    retention: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def url_of(self, vault: str) -> str:
        """The URL of a vault that is named; what is no name here is a URL or path already."""
        return self.vaults.get(vault, vault)

    def set_of(self, name: str) -> BackupSet:
        if name not in self.sets:
            raise ValueError(f"there is no set {name!r} in {self.path}{nearest(name, self.sets, 'sets')}")
        return self.sets[name]

    def retention_of(self, label: str) -> Retention | None:
        return make_retention(self.retention[label]) if label in self.retention else None


def make_retention(rules: Mapping[str, Any]) -> Retention:
    """The policy of rules by the names of the options of ``prune``, where ``keep_within`` is a text such as ``7d``."""
    given = dict(rules)
    if "keep_within" in given:
        given["keep_within"] = parse_duration(given["keep_within"])
    if "keep" in given:
        given["keep_last"] = given.pop("keep")
    return Retention(**given)


def read_config(document: Mapping[str, Any], *, path: Path, home: str) -> Config:
    _refuse_unknown(document, (*SETTINGS, *_TABLES), "")
    vaults = {
        name: read_url(url, at=f"vaults.{name}", home=home)
        for name, url in _named(document, "vaults", text, _NAME).items()
    }
    settings = _settings(document, "", vaults=vaults, home=home)
    sets = {
        name: _set(name, table, vaults=vaults, home=home) for name, table in _named(document, "sets", _table).items()
    }
    _refuse_twins(sets.values(), settings.get("vault"))
    return Config(
        path=path,
        exists=True,
        settings=settings,
        vaults=vaults,
        sets=sets,
        retention={
            at_key(f"retention.{label}", require_label, label): _rules_of(table, f"retention.{label}")
            for label, table in _named(document, "retention", _table).items()
        },
    )


def _set(name: str, table: Mapping[str, Any], *, vaults: Mapping[str, str], home: str) -> BackupSet:
    at = f"sets.{name}"
    _refuse_unknown(table, (*_OF_A_SET, *SETTINGS), f"{at}.")
    agent = at_key(f"{at}.agent", choice(*AGENTS), table["agent"]) if "agent" in table else None
    paths = at_key(f"{at}.paths", texts, table["paths"]) if "paths" in table else []
    if agent is None and not paths:
        raise ValueError(f"{at} says nothing of what is saved: give it paths, or an agent")
    if agent is not None and len(paths) > 1:
        raise ValueError(f"{at}.paths may be the one folder of the agent's host: there are {len(paths)}")
    if agent is None and "with" in table:
        raise ValueError(f"{at}.with is for the memory of a host: give it an agent")
    kinds: tuple[str, ...] = ()
    if agent is not None and "with" in table:
        kinds = at_key(f"{at}.with", lambda each: AGENTS[agent].read_kinds(texts(each)), table["with"])
    label = at_key(f"{at}.label" if "label" in table else at, require_label, table.get("label", name))
    found = [os.path.normpath(at_key(f"{at}.paths", lambda each: path_of(each, home=home), each)) for each in paths]
    return BackupSet(
        name, label, tuple(dict.fromkeys(found)), agent, kinds, _settings(table, f"{at}.", vaults=vaults, home=home)
    )


def _settings(table: Mapping[str, Any], lead: str, *, vaults: Mapping[str, str], home: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, check in SETTINGS.items():
        if key not in table:
            continue
        if key in PATHS:
            found[key] = at_key(f"{lead}{key}", lambda value: path_of(value, home=home), table[key])
        elif key in KEYS:
            settle = partial(at_key, f"{lead}{key}", partial(path_of, home=home))
            found[key] = KEYS[key](at_key(f"{lead}{key}", check, table[key]), settle)
        else:
            found[key] = at_key(f"{lead}{key}", check, table[key])
    if "vault" in found:
        known = vaults.get(found["vault"])
        found["vault"] = known or read_url(found["vault"], at=f"{lead}vault", home=home, vaults=vaults)
    return found


def _rules_of(table: Mapping[str, Any], at: str) -> dict[str, Any]:
    _refuse_unknown(table, tuple(_RULES), f"{at}.")
    if not table:
        raise ValueError(f"{at} says nothing of what to keep; known are {', '.join(_RULES)}")
    return {key: at_key(f"{at}.{key}", _RULES[key], value) for key, value in table.items()}


def _named(
    document: Mapping[str, Any], key: str, check: Callable[[Any], Any], pattern: re.Pattern[str] | None = None
) -> dict[str, Any]:
    if key not in document:
        return {}
    table = at_key(key, _table, document[key])
    for name in table:
        if pattern is not None and not pattern.fullmatch(name):
            raise ValueError(f"{key}.{name!r} is no name: letters, digits, '_' and '-' may be in one")
    return {name: at_key(f"{key}.{name}", check, value) for name, value in table.items()}


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be a table")  # noqa: TRY004 - one type of error
    return value


def _refuse_unknown(table: Mapping[str, Any], known: tuple[str, ...], lead: str) -> None:
    for key in table:
        if key in known:
            continue
        if key in _SECRET:
            raise ValueError(
                f"{lead}{key}: secrets do not belong in this file; key_file names a file with a key, and the key of an "
                "account is in COLONY_API_KEY"
            )
        raise ValueError(f"{lead}{key} is not known{nearest(key.replace('-', '_'), known, 'keys here')}")


def _refuse_twins(sets: Iterable[BackupSet], vault: str | None) -> None:
    """Two memories under one label would be each other's latest in turn."""
    seen: dict[tuple[str | None, str], str] = {}
    for each in sets:
        other = seen.setdefault((each.settings.get("vault", vault), each.label), each.name)
        if other != each.name:
            raise ValueError(
                f"sets.{each.name} has the label {each.label!r}, in the same vault as sets.{other}: each would take "
                "the other's latest for its own; give one of them another label"
            )


def paths_of(chosen: BackupSet) -> list[str]:
    if chosen.agent is None or chosen.paths:
        return list(chosen.paths)
    return [str(AGENTS[chosen.agent].require_folder())]


def target_of(chosen: BackupSet) -> str:
    """The folder in which the files of a snapshot lie where they were saved from."""
    if chosen.agent is not None:
        return chosen.paths[0] if chosen.paths else str(AGENTS[chosen.agent].folder())
    first, *more = map(Path, chosen.paths)
    if more:
        if any(each.parent != first.parent for each in more):
            raise ValueError(
                f"the paths of set {chosen.name!r} lie in several folders: say with DIR where to restore to"
            )
        return str(first.parent)
    if first.is_file():
        return str(first.parent)
    if first.suffix and not first.exists():
        raise ValueError(f"{str(first)!r} is not there, and may have been a file: say with DIR where to restore to")
    return str(first)


VARIABLE = "COLONY_MEMORY_CONFIG"

_LARGEST = 1 << 20
_BY_OTHERS = 0o022


def config_path(given: str | None = None) -> Path:
    """Where the file is, there or not: what is given, else the variable, else the user's directory for configuration.

    It is never looked for in the working directory, nor in a folder that is saved: what lies there may be a stranger's.
    """
    if given is not None:
        return Path(expanded_path(given))
    named = read_path_setting(VARIABLE)
    if named is not None:
        return Path(named)
    try:
        return config_directory() / "config.toml"
    except OSError as error:
        raise ValueError(str(error)) from error


def load_config(given: str | None = None) -> Config:
    """Read the file. Where nobody named one and there is none, as for a user without a home, or the null device is
    named, there is nothing in it.
    """
    is_named = given is not None or read_path_setting(VARIABLE) is not None
    try:
        path = config_path(given)
    except ValueError:
        if is_named:
            raise
        path = Path(os.devnull)
    if str(path) == os.devnull:  # as for git: whoever names it wants none
        return Config(path=path)
    try:
        found = read_file(path, _LARGEST, follow=True)
    except NotADirectoryError:
        found = None
    except (OSError, ValueError) as error:
        raise ValueError(f"configuration file {path}: {getattr(error, 'strerror', None) or error}") from error
    if found is None:
        if is_named:
            raise ValueError(f"configuration file {path}: there is no such file")
        return Config(path=path)
    _require_trusted(path, found)
    home = ""  # where there is none, what begins with it is refused
    with contextlib.suppress(ValueError):
        home = expanded_path("~")
    try:
        return read_config(_parse(found.data), path=path, home=home)
    except ValueError as error:
        raise ValueError(f"configuration file {path}: {error}") from error


def _require_trusted(path: Path, found: Contents) -> None:
    """Believe what only this user, or root, can have written: it names commands that are run."""
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return
    owner, mode = found.facts.st_uid, stat.S_IMODE(found.facts.st_mode)
    if owner not in (0, os.geteuid()):
        raise ValueError(f"configuration file {path} belongs to another user ({owner}), and is not believed")
    if mode & _BY_OTHERS:
        raise ValueError(
            f"configuration file {path} can be written by others (mode {mode:04o}); if what it says is yours, "
            f"run: chmod go-w {shlex.quote(str(path))}"
        )


def _parse(data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ColonyMemoryError(
                "reading a configuration file needs the extra 'cli': pip install 'colony-memory[cli]'"
            ) from error
    try:
        text = read_written(data)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8") from error
    try:
        parsed: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not TOML: {error}") from error
    except RecursionError as error:
        raise ValueError("it is not TOML: nested too deeply") from error
    return parsed


@dataclass(frozen=True)
class Setting:
    value: Any
    sources: tuple[str, ...]  # where it comes from: an option, a variable, or keys of the file


def effective(config: Config, chosen: BackupSet | None, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """Every setting that somebody made: options before variables before the set before what is said for all sets."""
    found: dict[str, Setting] = {}
    layers = [{name: Setting(value, (name,)) for name, value in config.settings.items()}]
    if chosen is not None:
        of_set = {name: Setting(value, (f"sets.{chosen.name}.{name}",)) for name, value in chosen.settings.items()}
        layers.append({"label": Setting(chosen.label, (f"sets.{chosen.name}",)), **of_set})
    named = given.get("vault")
    layers.append({**given, **({"vault": Setting(config.url_of(named.value), named.sources)} if named else {})})
    for layer in layers:
        for name, each in layer.items():
            over = found.get(name)
            if over is not None and name in ADDED:  # all of them, those that decide last
                found[name] = Setting([*over.value, *each.value], (*over.sources, *each.sources))
            else:
                found[name] = each
    return found
