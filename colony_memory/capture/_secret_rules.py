"""The table of the forms of likely secrets, and the version of its rules, for a search and for its stored results."""

from __future__ import annotations

import hashlib
import os
from typing import Any

_MATCHER = 9  # version of the search apart from the table
#: The table of the forms of likely secrets; it is parsed only for a search.
_LOADER: Any = __spec__.loader
TABLE: bytes = _LOADER.get_data(os.path.join(os.path.dirname(__file__), "secret_kinds.txt"))  # noqa: PTH118, PTH120
#: The version of the rules: files found clean by the same ones need not be searched again.
RULES = hashlib.sha256(b"%d\n%s" % (_MATCHER, TABLE)).hexdigest()[:16]
