"""How many fault schedules the suite tried, shown at the end of a run."""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()
