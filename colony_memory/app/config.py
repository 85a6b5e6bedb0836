"""The user's configuration file, one page of settings: whom it is believed from, what it says, and what counts."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._boundary import read_written
from colony_memory._format.names import require_label
from colony_memory._os.files import read_file
from colony_memory._os.machine import config_directory
from colony_memory._values import dataclass, field
from colony_memory.app.open import settled_identities, settled_recipients
from colony_memory.app.values import (
    at_key,
    choice,
    command,
    expanded_path,
    flag,
    format_number,
    number,
    parse_duration,
    path_of,
    read_path_setting,
    rules,
    texts,
    time,
    url_of,
)
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from colony_memory._os.files import Contents


#: What may stand in the file: by the name of the option.
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "vault": url_of,
    "label": require_label,
    "key_file": path_of,
    "trust": texts,
    "witness": path_of,
    "encrypt_to": lambda given: settled_recipients(texts(given), path_of),
    "identity": lambda given: settled_identities(texts(given), path_of),
    "passphrase_file": path_of,
    "exclude": rules,
    "secrets": choice("stop", "warn", "mask", "allow"),
    "allow_secret": texts,
    "git": flag,
    "on_conflict": choice("raise", "continue", "merge"),
    "format": format_number,
    **dict.fromkeys(("keep", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly"), number),
    "keep_within": time,
    "every": time,
    "final_timeout": time,
    "max_age": time,
    "before": command,
    "on_error": command,
}
#: Of these what the file says counts too where the command line gives more.
ADDED = frozenset({"exclude", "allow_secret"})

_SECRET = frozenset({"api_key", "password", "passphrase", "token", "secret", "key"})


@dataclass(frozen=True)
class Config:
    """The configuration file; one that is not there is empty."""

    path: Path
    exists: bool = False  # whether it is there
    settings: Mapping[str, Any] = field(default_factory=dict)  # by the name of the option


def make_retention(rules: Mapping[str, Any]) -> Retention:
    """The policy of rules by the names of the options of ``prune``, where ``keep_within`` is a text such as ``7d``."""
    given = dict(rules)
    if "keep_within" in given:
        given["keep_within"] = parse_duration(given["keep_within"])
    if "keep" in given:
        given["keep_last"] = given.pop("keep")
    return Retention(**given)


def read_config(document: Mapping[str, Any], *, path: Path) -> Config:
    for key, value in document.items():
        if isinstance(value, dict):
            told = f"[{key}]: this file has no tables any more; a setting in it holds for every command"
            raise ValueError(told)  # noqa: TRY004 - one type of error
        if key in _SECRET:
            raise ValueError(
                f"{key}: secrets do not belong in this file; key_file names a file with a key, and the key of an "
                "account is in COLONY_API_KEY"
            )
        if key not in SETTINGS:
            raise ValueError(f"{key} is not known{_nearest(key.replace('-', '_'))}")
    return Config(path, True, {key: at_key(key, SETTINGS[key], value) for key, value in document.items()})


def _nearest(name: str) -> str:
    """A guess at the name that was meant, or all names that there are."""
    from difflib import get_close_matches

    near = get_close_matches(name, SETTINGS, n=1)
    return f"; did you mean {near[0]}?" if near else f"; keys are {', '.join(SETTINGS)}"


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
    try:
        return read_config(_parse(found.data), path=path)
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


def effective(config: Config, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """Every setting that somebody made: options before variables before the file."""
    found = {name: Setting(value, (name,)) for name, value in config.settings.items()}
    for name, each in given.items():
        over = found.get(name)
        if over is not None and name in ADDED:  # all of them, those that decide last
            found[name] = Setting([*over.value, *each.value], (*over.sources, *each.sources))
        else:
            found[name] = each
    return found
