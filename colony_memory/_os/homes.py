"""Where this user's own files of this package are: its vault, what it remembers between two runs, its configuration."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "colony-memory"


def data_directory() -> Path:
    """Where this user's data is kept, there or not.

    Raises:
        OSError: The user has no home.
    """
    return _directory("XDG_DATA_HOME", ".local/share")


def state_directory() -> Path:
    """Where this user's state is kept, there or not.

    Raises:
        OSError: The user has no home.
    """
    return _directory("XDG_STATE_HOME", ".local/state")


def config_directory() -> Path:
    """Where this user's configuration is kept, there or not.

    Raises:
        OSError: The user has no home.
    """
    return _directory("XDG_CONFIG_HOME", ".config")


def _directory(variable: str, usual: str) -> Path:
    given = Path(os.environ.get(variable, "").strip())
    if given.is_absolute():
        base = given
    elif sys.platform == "win32":  # pragma: no cover - chosen by the platform
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / _NAME
    else:
        base = home_directory(variable) / ("Library/Application Support" if sys.platform == "darwin" else usual)
    return base / _NAME


def home_directory(instead: str = "HOME") -> Path:
    """The user's home, also where ``HOME`` is empty or no path.

    Args:
        instead: The variable to set where there is none, for the error.

    Raises:
        OSError: The user has no home.
    """
    given = Path(os.environ.get("HOME", ""))
    if given.is_absolute():
        return given
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return Path.home()
    import pwd

    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        raise FileNotFoundError(f"this user has no home directory: set {instead}") from None


def expanded(path: str) -> str:
    """The path with the home directory in the place of ``~``; any other is as it is.

    Raises:
        OSError: The user has no home.
    """
    return f"{home_directory()}{path[1:]}" if path == "~" or path.startswith("~/") else path
