"""The configuration file on disk: where it is, whom it is believed from, and how a first one is made."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._os.files import create_file, make_directory, read_file
from colony_memory._os.homes import config_directory, expanded
from colony_memory.app.config.meaning import Config, read_config
from colony_memory.app.place import read_path_setting, read_setting
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from colony_memory._os.files import Contents

VARIABLE = "COLONY_MEMORY_CONFIG"

_LARGEST = 1 << 20
_BY_OTHERS = 0o022


def config_path(given: str | None = None) -> Path:
    """Where the file is, there or not: what is given, else the variable, else the user's directory for configuration.

    It is never looked for in the working directory, nor in a folder that is saved: what lies there may be a stranger's.

    Raises:
        ValueError: The variable is empty or holds no absolute path, or this user has no home.
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


def _expanded(path: str) -> str:
    try:
        return expanded(path)
    except OSError as error:
        raise ValueError(str(error)) from error


def load_config(given: str | None = None) -> Config:
    """Read the file. Where nobody named one and there is none, or the null device is named, there is nothing in it.

    Raises:
        ValueError: It is missing though it was named, others can write to it, or something in it is wrong. The message
            names the file, and the line or the key.
        ColonyMemoryError: The extra ``cli`` is missing, which Python 3.10 needs to read TOML.
    """
    path = config_path(given)
    if str(path) == os.devnull:  # as for git: whoever names it wants none
        return Config(path=path)
    try:
        found = read_file(path, _LARGEST, follow=True)
    except NotADirectoryError:
        found = None
    except (OSError, ValueError) as error:
        raise ValueError(f"configuration file {path}: {getattr(error, 'strerror', None) or error}") from error
    if found is None:
        if given is not None or read_setting(VARIABLE) is not None:
            raise ValueError(f"configuration file {path}: there is no such file")
        return Config(path=path)
    _require_trusted(path, found)
    try:
        return read_config(_parse(found.data), path=path, home=_expanded("~"))
    except ValueError as error:
        raise ValueError(f"configuration file {path}: {error}") from error


def create_config(text: str, given: str | None = None) -> Path:
    """Make the file, for its owner alone; where it is.

    Raises:
        ValueError: Something of that name is there already, or it cannot be written.
    """
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
        text = data.decode("utf-8-sig")
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
