"""The user's configuration file: read in one place, understood in another, put together with what was given.

No class of the library reads it. The command line does, and so may every other face that acts for the user.
"""

from __future__ import annotations

from colony_memory.app.config.file import Effective, Given, config_path, create_config, effective, load_config
from colony_memory.app.config.meaning import BackupSet, Config, make_retention, read_config

__all__ = [
    "BackupSet",
    "Config",
    "Effective",
    "Given",
    "config_path",
    "create_config",
    "effective",
    "load_config",
    "make_retention",
    "read_config",
]
