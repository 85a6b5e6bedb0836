"""The configuration file on disk: where it is, whom it is believed from, and how a first one is made.

Where a set is on this machine: the paths that are saved, and the one folder that a restore writes into.

What counts in the end, and where it comes from: the command line, a variable, or the file.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._arguments import read_written
from colony_memory._os.files import create_file, make_directory, read_file
from colony_memory._os.machine import config_directory, expanded
from colony_memory._values import dataclass
from colony_memory.app.agents import AGENTS
from colony_memory.app.config.meaning import ADDED, SETTINGS, Config, read_config
from colony_memory.app.place import read_path_setting
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._os.files import Contents
    from colony_memory.app.config.meaning import BackupSet


def paths_of(chosen: BackupSet) -> list[str]:
    """What is saved."""
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
        return Path(_expanded(given))
    named = read_path_setting(VARIABLE)
    if named is not None:
        return Path(named)
    try:
        return config_directory() / "config.toml"
    except OSError as error:
        raise ValueError(str(error)) from error


def _home() -> str:
    """The user's home, empty where there is none: what begins with it is refused then."""
    with contextlib.suppress(OSError):
        return expanded("~")
    return ""


def _expanded(path: str) -> str:
    try:
        return expanded(path)
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
        return read_config(_parse(found.data), path=path, home=_home())
    except ValueError as error:
        raise ValueError(f"configuration file {path}: {error}") from error


def create_config(text: str, given: str | None = None) -> Path:
    """Make the file, for its owner alone; where it is."""
    path = config_path(given)
    try:
        make_directory(path.parent)
    except OSError as error:
        raise ValueError(f"the directory of {path} cannot be made: {error.strerror}") from error
    try:
        create_file(path, text.encode())
    except FileExistsError as error:
        raise ValueError(f"{path} is there already, and is not overwritten") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}") from error
    return path


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
class Given:
    """What the user gave with this command."""

    value: Any
    source: str  # the option, or the variable


@dataclass(frozen=True)
class Effective:
    """What counts for one setting."""

    value: Any
    sources: tuple[str, ...]  # where it comes from: an option, a variable, or keys of the file


def effective(config: Config, chosen: BackupSet | None, given: Mapping[str, Given]) -> dict[str, Effective]:
    """Every setting that somebody made: options before variables before the set before what is said for all sets."""
    found: dict[str, Effective] = {}
    if chosen is not None:
        found["label"] = Effective(chosen.label, (f"sets.{chosen.name}",))
    for name in SETTINGS:
        layers = [
            Effective(layer[name], (f"{lead}{name}",))
            for lead, layer in (("", config.settings), (_lead(chosen), chosen.settings if chosen else {}))
            if name in layer
        ]
        if layers:
            found[name] = _joined(layers) if name in ADDED else layers[-1]
    for name, each in given.items():
        value = config.url_of(each.value) if name == "vault" else each.value
        layer = Effective(value, (each.source,))
        found[name] = _joined([found[name], layer]) if name in ADDED and name in found else layer
    return found


def _lead(chosen: BackupSet | None) -> str:
    return f"sets.{chosen.name}." if chosen else ""


def _joined(layers: list[Effective]) -> Effective:
    """All of them, those that decide last."""
    return Effective(
        [value for each in layers for value in each.value], tuple(source for each in layers for source in each.sources)
    )
