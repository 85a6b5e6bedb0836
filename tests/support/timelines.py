"""Snapshots along a time, for tests of retention."""

from datetime import datetime, timedelta, timezone
from itertools import count

from hypothesis import strategies as st

from colony_memory._format.names import new_id
from colony_memory._values import replace
from colony_memory.retention import Retention, before_shrink, plan
from colony_memory.snapshot import SnapshotInfo

UTC = timezone.utc
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)
_serial = count()


def at(moment, *, size=1000, text=None, made=None, issuer=None):
    """A snapshot of a moment, unlike every other one unless ``text`` says so."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    number = next(_serial)
    return SnapshotInfo(
        snapshot_id=new_id(moment, f"{number % 2**24:06x}", []),
        label="work",
        created_at=f"{moment:%Y-%m-%dT%H:%M:%SZ}" if made is None else made,
        doc_names=["MEMORY.md"],
        part_count=1,
        byte_size=size,
        plaintext_sha256=f"sha256:{number if text is None else text}",
        issuer=issuer,
    )


OFFSETS = st.timedeltas(min_value=timedelta(days=-800), max_value=timedelta(days=400))
TIMELINES = st.lists(
    st.builds(
        lambda offset, text, size, made: at(NOW + offset, text=text, size=size, made=made),
        OFFSETS,
        st.sampled_from("abcd"),
        st.integers(0, 10_000),
        st.none() | st.sampled_from(["", "2020-01-01T00:00:00Z", "2031-01-01T00:00:00Z"]),
    ),
    max_size=25,
)
PERIODS = ("hourly", "daily", "weekly", "monthly", "yearly")
RULES = (
    st.fixed_dictionaries(
        {f"keep_{name}": st.none() | st.integers(0, 5) for name in ("last", *PERIODS)}
        | {"keep_within": st.none() | st.timedeltas(min_value=timedelta(0))}
    )
    .filter(lambda rules: any(value is not None for value in rules.values()))
    .map(lambda rules: Retention(**rules))
)


class Agent:
    """Saves memories of given sizes with a retention, carrying on what each backup noted, as a backup does."""

    def __init__(self, **rules):
        self.retention = Retention(**rules)
        self.held = []
        self.noted = {}

    def save(self, moment, size):
        new = at(moment, size=size)
        infos = [*self.held, new]
        shrunk = before_shrink(infos, now=moment, noted=self.noted)
        made = plan(infos, retention=self.retention, now=moment, head=new.snapshot_id, shrunk=shrunk, keep_shrunk=True)
        self.held = list(made.keep)
        self.noted = {i: replace(each, since=each.since.replace(microsecond=0)) for i, each in shrunk.items()}
        return new

    def holds(self, info):
        return info in self.held
