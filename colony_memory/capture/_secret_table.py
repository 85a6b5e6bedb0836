"""The table of what likely secrets look like, and its name; what it says is read where something is searched."""

from __future__ import annotations

import hashlib
import pkgutil

__all__ = ["RULES", "TABLE"]

_MATCHER = 7  # counts up with what is found by other means than the table

TABLE = pkgutil.get_data(__package__, "secret_kinds.txt") or b""
#: Names the rules: what was found clean by the same ones need not be searched again.
RULES = hashlib.sha256(b"%d\n%s" % (_MATCHER, TABLE)).hexdigest()[:16]
