import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from snapshot_files import unhurried

from colony_memory._format import names

UTC = timezone.utc
END = datetime.max.replace(tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC))
TOKENS = st.text("0123456789abcdef", min_size=6, max_size=6)
LABELS = st.text("abcxyz019_-", min_size=1, max_size=20)
PLAIN = "ABCXYZabcxyz0189"
IDS = st.builds(str.__add__, st.sampled_from(PLAIN), st.text(f"{PLAIN}_-", max_size=63))


@pytest.mark.parametrize(
    ("given_label", "usable"),
    [
        ("default", "default"),
        ("Work", "work"),
        ("  work\t\n", "work"),
        ("\u2003Agent_7\u00a0", "agent_7"),
        ("a-b_c", "a-b_c"),
        ("0", "0"),
        ("\N{KELVIN SIGN}", "k"),  # folding case is all that it needs
        ("x" * 171, "x" * 171),
    ],
)
def test_a_label_is_folded_in_case_and_outer_blanks(given_label, usable):
    assert names.require_label(given_label) == usable
    assert names.require_label(usable) == usable
    assert names.sanitize_label(given_label) == usable


@pytest.mark.parametrize(
    ("label", "spelling"),
    [
        ("a b", "a-b"),
        ("Work/Acme", "work-acme"),
        ("-x-", "x"),
        ("../../etc/passwd", "etc-passwd"),
        ("café", "caf"),
        ("\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}x", "i-x"),
        ("a\nb", "a-b"),
        ("work项目", "work"),
    ],
)
def test_a_label_that_needs_more_is_refused_with_the_spelling_to_use(label, spelling):
    with pytest.raises(ValueError, match=re.escape(f"use {spelling!r} if that is what you mean")) as caught:
        names.require_label(label)
    assert repr(label) in str(caught.value)
    assert names.require_label(spelling) == spelling
    assert names.sanitize_label(label) == spelling


@pytest.mark.parametrize("label", ["", " ", "项目甲", "---", "/", "Привет", "\ud800", "-Default-"])
def test_a_label_without_a_spelling_never_becomes_the_default_one(label):
    with pytest.raises(ValueError, match="give the label a name in those characters") as caught:
        names.require_label(label)
    assert "use 'default'" not in str(caught.value)
    assert names.sanitize_label(label) == "default"


@pytest.mark.parametrize("label", [None, 7, b"work", ["work"], True])
def test_a_label_that_is_no_string_is_refused(label):
    with pytest.raises(ValueError, match=f"label must be a string, not {type(label).__name__}"):
        names.require_label(label)


@pytest.mark.parametrize("length", [172, 300, 100_000])
def test_a_label_that_no_file_name_holds_is_refused_briefly(length):
    with pytest.raises(ValueError, match="too long") as caught:
        names.require_label("l" * length)
    assert len(str(caught.value)) < 200


@unhurried
@given(st.text(st.characters()))
def test_two_labels_share_a_stream_only_if_case_and_blanks_tell_them_apart(label):
    try:
        usable = names.require_label(label)
    except ValueError:
        return
    assert usable == label.strip().lower() == names.sanitize_label(label)
    assert re.fullmatch("[a-z0-9_-]+", usable)


@pytest.mark.parametrize(
    "snapshot_id",
    ["", "-a", "_a", "a.b", "a/b", "../a", "a b", "a\n", "a\0", "é", "\u0661", "a" * 65, None, 7, b"a", ["a"]],
)
def test_what_is_no_plain_id_is_refused(snapshot_id):
    with pytest.raises(ValueError, match="is not a snapshot id") as caught:
        names.require_id(snapshot_id)
    assert repr(snapshot_id) in str(caught.value)


def test_what_is_no_id_is_shown_briefly():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for bad in ("x" * 1_000_000, deep, list(range(100_000)), {"a": "b" * 1_000_000}, 10**4000):
        with pytest.raises(ValueError, match="is not a snapshot id") as caught:
            names.require_id(bad)
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "snapshot_id",
    [
        "",
        "20260102T030405000006Z-abcde",
        "20260102T030405000006Z-ABCDEF",
        "20260102T030405000006Z-abcdef\n",
        " 20260102T030405000006Z-abcdef",
        "20260102T030405Z-abcdef",
        "20261302T030405000006Z-abcdef",
        "20260102T030460000006Z-abcdef",
        "00000102T030405000006Z-abcdef",
        "\u0662\u0660\u0662\u06660102T030405000006Z-abcdef",
    ],
)
def test_an_id_of_another_form_has_no_time(snapshot_id):
    assert names.id_time(snapshot_id) is None
    assert names.id_order(snapshot_id) < names.id_order("10000101T000000000000Z-000000")


@unhurried
@given(st.lists(st.tuples(MOMENTS, TOKENS), min_size=2, max_size=6))
def test_plain_order_of_ids_is_order_of_time(made):
    ids = [names.new_id(moment, token, []) for moment, token in made]
    by_time = sorted(ids, key=lambda snapshot_id: (names.id_time(snapshot_id), snapshot_id[-6:]))
    assert sorted(ids) == by_time == sorted(ids, key=names.id_order)


@unhurried
@given(
    st.lists(st.tuples(MOMENTS.filter(lambda m: m < END - timedelta(hours=1)), TOKENS), max_size=8),
    MOMENTS,
    TOKENS,
    st.lists(IDS, max_size=3),
)
def test_a_new_id_is_later_than_every_one_seen(seen, now, token, others):
    ids = [names.new_id(moment, tail, []) for moment, tail in seen]
    ids += [other for other in others if names.id_time(other) is None]
    made = names.new_id(now, token, ids)
    time = names.id_time(made)
    assert time is not None
    assert time >= now
    assert all(names.id_order(made) > names.id_order(other) for other in ids)
    latest = max((moment for moment, _ in seen), default=None)
    assert time == (now if latest is None or latest < now else latest + timedelta(microseconds=1))


def test_an_id_at_the_end_of_time_is_passed_over():
    end = names.new_id(END, "abcdef", [])
    assert end == "99991231T235959999999Z-abcdef"
    assert names.new_id(datetime(2026, 1, 1, tzinfo=UTC), "000000", [end]) == "20260101T000000000000Z-000000"
    assert names.id_time(names.new_id(END, "000000", [end])) == END


@unhurried
@given(LABELS.map(names.sanitize_label), IDS, st.integers(0, 999_999))
def test_reading_a_file_name_undoes_writing_it(label, snapshot_id, seq):
    manifest, part = names.manifest_filename(label, snapshot_id), names.part_filename(label, snapshot_id, seq)
    pointer = names.latest_filename(label)
    assert names.read_filename(manifest) == (label, snapshot_id, "manifest", None)
    assert names.read_filename(names.pin_filename(label, snapshot_id)) == (label, snapshot_id, "pin", None)
    assert names.read_filename(part) == names.VaultFile(label, snapshot_id, "part", seq)
    assert names.read_filename(pointer) == (label, None, "latest", None)
    assert all(map(names.is_cortex_file, (manifest, part, pointer)))


@pytest.mark.parametrize(
    "filename",
    [
        "",
        "cmem..latest.json",
        "cmem.a.b.json",
        "cmem.a.b.p.json",
        "cmem.a.b.p01.json",
        "cmem.a.b.p1000000.json",
        "cmem.a.b.p\u0661.json",
        "cmem.a.b.P0.json",
        "cmem.a.b.manifest.json\n",
        "cmem.a.b.c.manifest.json",
        "cmem.A.b.manifest.json",
        "cmem.a/b.c.manifest.json",
        "notes/cmem.a.b.manifest.json",
    ],
)
def test_other_names_are_not_of_the_format(filename):
    assert names.read_filename(filename) is None


NEARLY_LABELS = st.text("a0_-A. \n\u0131\u212aé/", max_size=4) | st.sampled_from(
    ["l" * 171, "l" * 172, f"{'l' * 170}-"]
)
NEARLY_IDS = st.text("aZ0_-. \n\u0661é/", max_size=4) | st.sampled_from(
    ["i" * 64, "i" * 65, f"{'i' * 63}-", "latest", "p0"]
)


def is_taken(require, text):
    try:
        return require(text) == text
    except ValueError:
        return False


@unhurried
@given(
    NEARLY_LABELS | st.text(max_size=4),
    NEARLY_IDS | st.text(max_size=4),
    st.sampled_from(["manifest", "pin", "p0", "p12"]),
)
@example("-", "x", "manifest")
@example("_", "x", "manifest")
@example("a", "_", "p0")
def test_a_file_has_a_label_and_an_id_only_if_every_verb_takes_them(label, snapshot_id, kind):
    is_label, is_id = is_taken(names.require_label, label), is_taken(names.require_id, snapshot_id)
    pointer, file = (
        names.read_filename(f"cmem.{label}.latest.json"),
        names.read_filename(f"cmem.{label}.{snapshot_id}.{kind}.json"),
    )
    assert (pointer is not None) == is_label
    assert (file is not None) == (is_label and is_id)
    if pointer is not None:
        assert pointer == (label, None, "latest", None)
    if file is not None:
        assert file[:2] == (label, snapshot_id)
