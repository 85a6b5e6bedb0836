"""Where a path leads."""

from __future__ import annotations

import os
from pathlib import Path

_TRIES = 100


def real_path(path: str | os.PathLike[str]) -> Path:
    """The path without links, there or not.

    Python's own fails where a link is removed, or a directory takes its place, between a look at it and the reading of
    it. The next look finds what is there then.

    Raises:
        OSError: It changes all the time.
    """
    for _ in range(_TRIES - 1):
        try:
            return Path(os.path.realpath(path))
        except OSError:
            continue
    return Path(os.path.realpath(path))
