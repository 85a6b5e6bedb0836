"""Pure: wire formats. Here are the values that are needed before anything else is loaded."""

from __future__ import annotations

from typing import Any

FORMAT = "colony-memory/1"
FORMAT_2 = "colony-memory/2"
LATEST_FORMAT = "colony-memory/latest/1"

#: Bytes of plain text that a snapshot may hold, unless the client says otherwise.
MAX_BYTES = 256 * 2**20

#: Tells ``restore(default=…)`` that none was given.
NO_DEFAULT: Any = object()
