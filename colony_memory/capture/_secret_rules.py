"""The table of what likely secrets look like, and the name of its rules, for a search and for what was searched."""

from __future__ import annotations

import hashlib
import os
from typing import Any

_MATCHER = 9  # counts up with what is found by other means than the table
#: The table of what likely secrets look like; what it says is read where something is searched.
_LOADER: Any = __spec__.loader
TABLE: bytes = _LOADER.get_data(os.path.join(os.path.dirname(__file__), "secret_kinds.txt"))  # noqa: PTH118, PTH120
#: Names the rules: what was found clean by the same ones need not be searched again.
RULES = hashlib.sha256(b"%d\n%s" % (_MATCHER, TABLE)).hexdigest()[:16]
