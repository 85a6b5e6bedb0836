"""Pure: wire formats. This file has the values that are needed before anything else is loaded."""

from __future__ import annotations

from typing import Any

FORMAT = "colony-memory/1"
FORMAT_2 = "colony-memory/2"
LATEST_FORMAT = "colony-memory/latest/1"

#: Default limit of a snapshot's plain text, in bytes.
MAX_BYTES = 256 * 2**20

#: The value of ``restore(default=…)`` if none is given.
NO_DEFAULT: Any = object()
