"""How many fault schedules the suite tried, shown at the end of a run."""

from collections import Counter

TRIED = Counter()
