"""The catalogue cut into pages: what is opened, what is carried over, and what a page that lies is worth."""

import base64
import gzip
import json
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory._format import catalog, payload, rows
from colony_memory._format.catalog import PAGE_ROWS, Catalog, Entry
from colony_memory._format.json import canonical
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory._format.rows import raw_rows, read_rows
from colony_memory.exceptions import SnapshotCorrupt
from colony_memory.snapshot import SnapshotInfo

LABEL, FILE = "work", "cmem.work.latest.json"


def entry(n, **more):
    chance = random.Random(n)
    made = datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(hours=n, microseconds=chance.randrange(10**9))
    values = {
        "snapshot_id": f"{made:%Y%m%dT%H%M%S%f}Z-{chance.randrange(16**6):06x}",
        "label": LABEL,
        "created_at": f"{made:%Y-%m-%dT%H:%M:%SZ}",
        "doc_names": ["MEMORY.md", "notes.md"],
        "part_count": 1,
        "byte_size": 1000 + n,
        "plaintext_sha256": f"sha256:{chance.getrandbits(256):064x}",
        "stored_bytes": 700 + chance.randrange(100),
    }
    return Entry(SnapshotInfo(**{**values, **more}), f"sha256:{chance.getrandbits(256):064x}")


def entries(*numbers):
    return tuple(entry(n) for n in sorted(numbers, reverse=True))


def pointer(rows, **more):
    return Pointer(LABEL, rows[0].snapshot_id if rows else None, "2026-01-02T03:04:05Z", 7, "0" * 16, rows, **more)


def reread(at):
    return read_pointer(write_pointer(at), label=LABEL)


def pages(at):
    found = json.loads(write_pointer(at))["catalog"]
    assert isinstance(found, list)
    return found


def with_pages(*texts):
    raw = json.loads(write_pointer(pointer(entries(9))))
    return read_pointer(json.dumps({**raw, "catalog": texts}), label=LABEL)


def damage(*texts):
    raw = json.loads(write_pointer(pointer(entries(9))))
    with pytest.raises(SnapshotCorrupt, match=f"catalogue in {FILE} is not readable") as caught:
        read_pointer(json.dumps({**raw, "catalog": texts}), label=LABEL, strict=True)
    assert caught.value.file == FILE
    return str(caught.value)


def grown(rows):
    """As a client leaves it that saved so often."""
    at = pointer(entries(0))
    for n in range(1, rows):
        at = reread(at).follow(
            entry(n).snapshot_id, updated_at="", entries=at.catalog.adding(entry(n)), stream="0" * 16
        )
    return at


@pytest.fixture
def opened(monkeypatch):
    texts = list[str]()
    read = catalog._read_page

    def telling(page, label):
        texts.append(page.text)
        return read(page, label)

    monkeypatch.setattr(catalog, "_read_page", telling)
    return texts


# --- what is opened and carried over ---


def test_a_row_more_opens_and_writes_the_first_page_alone(opened):
    before = pages(pointer(entries(*range(300))))
    at = read_pointer(write_pointer(pointer(entries(*range(300)))), label=LABEL)
    assert opened == before[:1]
    moved = at.follow("x", updated_at="", entries=at.catalog.adding(entry(300)), stream="0" * 16)
    assert pages(moved)[1:] == before[1:]
    assert opened == before[:1]
    assert reread(moved).entries == entries(*range(301))


def test_pages_fill_up_and_are_never_touched_again():
    at, seen = pointer(entries(0)), set[str]()
    for n in range(1, 3 * PAGE_ROWS):
        at = reread(at)
        at = at.follow("x", updated_at="", entries=at.catalog.adding(entry(n)), stream="0" * 16)
        texts = pages(at)
        assert len(texts) == n // PAGE_ROWS + 1
        assert seen <= set(texts)
        seen |= set(texts[1:])
    assert reread(at).entries == entries(*range(3 * PAGE_ROWS))


def test_what_leaves_changes_its_own_page_alone():
    at = reread(grown(5 * PAGE_ROWS))
    gone = 2 * PAGE_ROWS + 3
    rows = [row for row in at.entries or () if row.info.byte_size != 1000 + gone]
    moved = at.follow("x", updated_at="", entries=rows, stream="0" * 16)
    changed = [place for place, (old, new) in enumerate(zip(pages(at), pages(moved), strict=True)) if old != new]
    assert changed == [2]
    assert reread(moved).entries == tuple(rows)


@unhurried
@given(
    st.integers(0, 120),
    st.lists(
        st.tuples(st.sampled_from(["add", "add many", "remove", "thin", "older"]), st.integers(0, 400)), max_size=12
    ),
)
def test_a_catalogue_is_what_a_list_would_be(size, steps):
    numbers = set(range(1000, 1000 + size))
    at = reread(pointer(entries(*numbers)))
    for what, n in steps:
        if what == "add":
            fresh = entry(max(numbers, default=1000) + 1)
            numbers.add(fresh.info.byte_size - 1000)
            rows = at.catalog.adding(fresh)
        else:
            if what == "add many":
                numbers |= set(range(max(numbers, default=1000) + 1, max(numbers, default=1000) + n // 4))
            elif what == "remove":
                numbers -= {sorted(numbers)[n % len(numbers)]} if numbers else set()
            elif what == "thin":
                numbers = {each for each in numbers if each % (n % 7 + 1) == 0}
            else:
                numbers.add(n)
            rows = list(entries(*numbers))
            random.Random(n).shuffle(rows)
        at = reread(at.follow("x", updated_at="", entries=rows, stream="0" * 16))
        assert at.entries == entries(*numbers)
        read = at.catalog
        assert read.damage is None
        for a, b in zip(at.catalog._opened, at.catalog._opened[1:], strict=False):
            assert len(a) <= PAGE_ROWS
            # A backup does not open the second page, and so joins nothing.
            assert len(a) + len(b) > PAGE_ROWS or what == "add"


# --- sizes ---


@pytest.mark.parametrize("fast", [True, False])
def test_a_snapshot_more_takes_at_most_150_bytes(fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(payload, "_libdeflate", lambda: None)
    issuer = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
    ids = [entry(n).snapshot_id for n in range(1000)]

    def signed(n):
        chain = tuple(ids[n - n % 16 : n + 1])
        more = {"part_count": 0, "doc_names": [], "format": "colony-memory/2", "signed": True, "issuer": issuer}
        return replace(entry(n, parent_id=ids[n - 1] if n else None, **more), packs=chain)

    rows = [signed(n) for n in reversed(range(1000))]
    few, many = (len(write_pointer(pointer(some))) for some in (rows[-10:], rows))
    assert (many - few) / 990 <= 150


def test_long_lists_of_names_are_not_repeated_for_every_few_rows():
    names = [f"sessions/2026/transcript-{n * 2654435761 % 2**32:08x}.jsonl" for n in range(1000)]
    rows = [entry(n, doc_names=names) for n in reversed(range(300))]
    assert len(pages(pointer(rows))) == 4
    at = pointer(rows[-1:])
    for row in rows[-2::-1]:
        at = at.follow("x", updated_at="", entries=at.catalog.adding(row), stream="0" * 16)
        if len(at.catalog._opened[0]) > 60:
            break
    assert len(pages(at)) == 1


def test_the_oldest_pages_are_left_out_of_what_would_be_too_long():
    rows = entries(*range(5000))
    kept = reread(pointer(rows)).entries or ()
    assert 2000 < len(kept) < 5000
    assert kept == rows[: len(kept)]
    # Added to, it is still what may be read.
    at = reread(pointer(rows))
    for n in range(5000, 5000 + PAGE_ROWS + 2):
        at = at.follow("x", updated_at="", entries=at.catalog.adding(entry(n)), stream="0" * 16)
    assert sum(map(len, pages(at))) <= catalog.MAX_CATALOG_CHARS
    assert (reread(at).entries or ())[0] == entry(5000 + PAGE_ROWS + 1)


def test_a_row_that_is_too_large_takes_the_older_ones_with_it():
    noise = random.Random(1)
    large = entry(5, doc_names=[f"{noise.getrandbits(256):064x}" for _ in range(20_000)])
    assert reread(pointer([*entries(7, 6), large, *entries(4, 3)])).entries == entries(7, 6)
    at = reread(pointer(entries(4, 3)))
    assert at.catalog.adding(large) == ()
    assert at.follow("x", updated_at="", entries=at.catalog.adding(large), stream="0" * 16).catalog.stored() == ([], [])


# --- pages that are not what they should be ---

ROWS = entries(*range(3 * PAGE_ROWS))
GOOD = pages(pointer(ROWS))


def page(plain, *, size=0, values=0):
    data = plain if isinstance(plain, bytes) else json.dumps(plain).encode()
    blob = base64.b64encode(gzip.compress(data, mtime=0)).decode()
    return f"{len(data) + size}:{sum(data.count(sign) for sign in b',:[{') + values}:{blob}"


RAW = raw_rows(ROWS[PAGE_ROWS : 2 * PAGE_ROWS])
ODD = raw_rows([entry(0, snapshot_id="a-name")])
BAD = [
    None,
    "",
    "::",
    "0:1:",
    "-1:1:AAAA",
    "01:1:AAAA",
    "²:1:AAAA",
    "16777217:1:AAAA",
    "1:500001:AAAA",
    "1:1:AAAA",
    "1:1:" + "\x01" * 300_000,
    "1:1:" + "\u20ac" * 300_000,
    GOOD[1][:-8],
    GOOD[1].rstrip("=") + "QUJD",
    GOOD[1].replace(":", "::"),
    page(RAW, size=1),
    page(RAW, values=1),
    page(b"null"),
    page(b"[" * 500),
    page({**RAW, "format": "colony-memory/catalog/2"}),
    page({**RAW, "snapshots": RAW["snapshots"][::-1]}),
    page({**RAW, "snapshots": [*RAW["snapshots"], RAW["snapshots"][-1]]}),
    page({**RAW, "snapshots": [*RAW["snapshots"], [0] * 14]}),
    page({**RAW, "names": []}),
    page({**RAW, "snapshots": [[*row[:11], True, *row[12:]] for row in RAW["snapshots"]]}),
    page({**RAW, "snapshots": [[*row[:3], None, *row[4:]] for row in ODD["snapshots"]]}),
    GOOD[0],
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_a_page_that_is_none_ends_the_catalogue(bad):
    at = with_pages(GOOD[0], bad, GOOD[2])
    assert at.entries == ROWS[:PAGE_ROWS]
    assert "page 2" in damage(GOOD[0], bad, GOOD[2])
    if bad != GOOD[0]:
        assert with_pages(bad, GOOD[1]).entries is None
        assert "page 1" in damage(bad, GOOD[1])
    # What is known to be damaged is not written again; what nobody has looked at may be.
    assert at.catalog.stored() == (GOOD[:1], [])


def test_pages_are_bounded_together():
    def of(start, **more):
        return page(raw_rows(entries(start)), **more)

    # Bytes are believed until a page is opened, and what cannot be opened ends the catalogue anyway.
    assert with_pages(of(9), of(8, size=2**24)).entries == entries(9)
    assert with_pages(of(9), of(8, values=500_000)).entries == entries(9)
    many = [f"9000000:400000:{'A' * 8}"] * 2
    assert "page 2 is damaged" in damage(of(9), *many)
    assert with_pages(of(9), *[of(8)] * 10_000).entries == entries(9, 8)


@pytest.mark.parametrize(("char", "times"), [("a", 1), ("\u00e9", 2), ("\U0001f600", 4)])
def test_a_page_weighs_what_it_takes_as_text(char, times, monkeypatch):
    for module in (rows, catalog):
        monkeypatch.setattr(module, "MAX_WEIGHT", 2**16)
    for size, fits in ((2**16 // times - 600, True), (2**16 // times, False)):
        wide = entry(0, doc_names=[char + "a" * size])
        plain = canonical(raw_rows([wide]))
        if fits:
            assert read_rows(plain, LABEL) == (wide,)
        else:
            with pytest.raises(ValueError, match="holds too much"):
                read_rows(plain, LABEL)
        assert bool(Catalog.of(LABEL, [wide]).stored()[0]) is fits


# --- page files


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(catalog, "PAGE_ROWS", 2)
    page = len(Catalog.of(LABEL, entries(*range(2))).stored()[0][0])
    monkeypatch.setattr(catalog, "SPILL_CHARS", 6 * page)
    monkeypatch.setattr(catalog, "STAY_CHARS", 2 * page)
    monkeypatch.setattr(catalog, "FILE_CHARS", 3 * page)


class Stored:
    """A catalogue as a vault has it: pages of a pointer, and page files."""

    def __init__(self, rows=()):
        self.files = {}
        self.written = []
        self.save(Catalog.of(LABEL, rows))

    def save(self, grown):
        out, texts = grown.spilled(f"20270101T000000000000Z-{len(self.written):06x}")
        assert not self.files.keys() & texts.keys()
        assert tuple(out) == tuple(grown)
        self.files |= texts
        self.written += texts
        self.at = pointer(out)
        self.text = write_pointer(self.at)
        return [*texts]

    def read(self, files=None):
        return read_pointer(self.text, label=LABEL, files=self.files if files is None else files)

    @property
    def older(self):
        return json.loads(self.text).get("older", [])

    def altered(self, **changes):
        return read_pointer(json.dumps({**json.loads(self.text), **changes}), label=LABEL, files=self.files)


@pytest.mark.usefixtures("small_files")
def test_the_oldest_pages_go_into_files_that_never_change():
    stored, before = Stored(), list[dict[str, Any]]()
    for n in range(60):
        # A backup has read none of the files.
        stored.save(stored.read({}).catalog.adding(entry(n)))
        assert stored.older[len(stored.older) - len(before) :] == before
        before = stored.older
        assert tuple(stored.read().entries or ()) == entries(*range(n + 1))
        assert len(json.loads(stored.text)["catalog"]) <= 6
    assert len(stored.older) == len(stored.files) > 5
    assert read_pointer(stored.text, label=LABEL, strict=True, files=stored.files) == stored.read()
    assert stored.read({}).catalog.unread == tuple(each["file"] for each in stored.older)
    assert stored.read().catalog.files == stored.read({}).catalog.files
    assert stored.read({}).catalog.may_lack
    assert not stored.read().catalog.may_lack
    assert stored.read().catalog.find(entry(1).snapshot_id) == entry(1)
    assert stored.read({}).catalog.find(entry(1).snapshot_id) is None


@pytest.mark.usefixtures("small_files")
def test_what_goes_out_of_a_file_makes_that_one_anew():
    stored = Stored(entries(*range(60)))
    names = [each["file"] for each in stored.older]
    rows = [each for each in entries(*range(60)) if each.snapshot_id != entry(12).snapshot_id]
    fresh = stored.save(stored.read().catalog.following(rows))
    after = [each["file"] for each in stored.older]
    assert len(fresh) == 1
    assert len({*names} - {*after}) == 1
    assert len(after) == len(names)
    assert tuple(stored.read().entries or ()) == tuple(rows)
    assert stored.save(stored.read().catalog.following(rows)) == []
    # All but a few, and nothing is in files any more.
    stored.save(stored.read().catalog.following(entries(1, 30, 50)))
    assert stored.older == []
    assert tuple(stored.read().entries or ()) == entries(1, 30, 50)


@pytest.mark.usefixtures("small_files")
def test_many_files_are_joined(monkeypatch):
    stored = Stored(entries(*range(60)))
    monkeypatch.setattr(catalog, "MANY_FILES", 4)
    monkeypatch.setattr(catalog, "FILE_CHARS", 10**6)
    assert len(stored.save(stored.read().catalog)) == 1
    assert len(stored.older) == 1
    assert tuple(stored.read().entries or ()) == entries(*range(60))
    monkeypatch.setattr(catalog, "MANY_FILES", 0)
    monkeypatch.setattr(catalog, "SPILL_CHARS", 10**6)
    assert stored.save(stored.read().catalog) == []
    assert stored.older == []
    assert tuple(stored.read().entries or ()) == entries(*range(60))


@pytest.mark.usefixtures("small_files")
def test_a_row_that_belongs_into_a_file_that_was_not_read_ends_the_catalogue_before_it():
    stored = Stored(entries(*range(60)))
    own = tuple(stored.read({}).entries or ())
    grown = stored.read({}).catalog.following([*own, entry(3)])
    assert tuple(grown) == (*own, entry(3))
    assert grown.unread == ()
    large = entry(70, doc_names=["x" * 17_000_000])
    assert stored.read({}).catalog.adding(large).unread == ()


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda _: None, "cannot be read"),
        (lambda text: text + " ", "is not the one"),
        (lambda text: text.replace(LABEL, "other"), "of that many pages of this label"),
        (lambda text: text.replace("pages/1", "pages/2"), "of that many pages of this label"),
        (lambda text: json.dumps({**json.loads(text), "pages": 3}), "of that many pages of this label"),
        (lambda text: json.dumps({**json.loads(text), "pages": []}), "of that many pages of this label"),
        (lambda text: "[" * 90 + text, "page file"),
        (lambda text: json.dumps({**json.loads(text), "x": [0] * 100_000}), "larger than one may be"),
        (
            lambda text: json.dumps({**json.loads(text), "pages": [""] * len(json.loads(text)["pages"])}),
            r"page \d+ is malformed",
        ),
        (
            lambda text: json.dumps({**json.loads(text), "pages": json.loads(text)["pages"][::-1]}),
            r"page \d+ is damaged",
        ),
    ],
)
def test_a_file_that_lies_ends_the_catalogue_before_it(spoil, problem):
    stored = Stored(entries(*range(60)))
    whole, older = stored.read(), stored.older
    name = older[2]["file"]
    text = spoil(stored.files[name])
    files = {**stored.files, name: text}
    if problem != "is not the one" and text is not None:
        older[2]["sha256"] = payload.sha256(text.encode())
        stored.text = json.dumps({**json.loads(stored.text), "older": older})
    rows = tuple(stored.read(files).entries or ())
    if "damaged" not in problem:  # a page of older rows is right by itself
        assert rows == tuple(whole.entries or ())[: len(rows)]
    assert 8 < len(rows) < 40
    with pytest.raises(SnapshotCorrupt, match=problem):
        read_pointer(stored.text, label=LABEL, strict=True, files=files)
    assert stored.read(files).catalog.may_lack


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize(
    "change",
    [
        {"file": "cmem.other.20270101T000000000000Z-000000.c0.json"},
        {"file": "cmem.work.20270101T000000000000Z-000000.k0.json"},
        {"file": 3},
        {"sha256": "sha256:1"},
        {"newest": "../x"},
        {"pages": 0},
        {"pages": True},
    ],
)
def test_what_a_pointer_says_of_files_is_derived_and_bounded(change):
    stored = Stored(entries(*range(60)))
    older = stored.older
    changed = stored.altered(older=[older[0], {**older[1], **change}, *older[2:]])
    assert changed.catalog.files == (older[0]["file"],)
    assert stored.altered(older=[older[0], older[0]]).catalog.files == (older[0]["file"],)
    for nothing in ("x", {}, None, [3]):
        assert stored.altered(older=nothing).catalog.files == ()
    many = [{**older[0], "file": f"cmem.work.20270101T000000000000Z-000000.c{n}.json"} for n in range(100)]
    assert len(read_pointer(json.dumps({**json.loads(stored.text), "older": many}), label=LABEL).catalog.files) == 64


@pytest.mark.usefixtures("small_files")
def test_all_pages_together_are_bounded(monkeypatch):
    stored = Stored(entries(*range(60)))
    values = sum(page.values for page in stored.read().catalog._pages)
    monkeypatch.setattr(catalog, "MAX_VALUES", values // 8)
    cut = stored.read()
    assert 0 < len(cut.entries or ()) < 40
    assert cut.catalog.may_lack
    stored.text = write_pointer(pointer(stored.at.catalog))
    rows = tuple(stored.read().entries or ())
    assert rows
    assert rows == tuple(cut.entries or ())[: len(rows)]
    monkeypatch.setattr(catalog, "IN_FILES", 100)
    monkeypatch.setattr(catalog, "MAX_FILES", 2)
    assert len(stored.older) == 2 or stored.save(stored.at.catalog) == []
    assert catalog.weight_of_file(next(iter(stored.files.values()))) > 5000
