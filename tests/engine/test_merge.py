import difflib
import random
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colony_memory._diff import Steps
from colony_memory._engine import merge as merging
from colony_memory._engine.merge import merge
from colony_memory.reports import Merged

# A busy machine is no failure.
unhurried = settings(deadline=None)

ID = "20261127T081500000000Z-0a1b2c"
FIVE = "one\ntwo\nthree\nfour\nfive\n"
EDITED_FIRST = "ONE\ntwo\nthree\nfour\nfive\n"
EDITED_LAST = "one\ntwo\nthree\nfour\nFIVE\n"
EDITED_LAST_TOO = "one\ntwo\nthree\nfour\nV\n"

# Few lines, so that both sides meet on the same ones: with and without an end, and with what is none.
LINES = st.sampled_from(
    ["a\n", "b\n", "c\n", "\n", "a\r\n", "\r", "\x0b", "\u2028", "\0\n", "\ud83d", "\ude00\n", "é\n", "tail"]
)
TEXTS = st.lists(LINES, max_size=8).map("".join)
# Twins of case and of composition, dotfiles, directories, what a conflict makes of a name, and no name at all.
NAMES = st.sampled_from(
    [
        "n.md",
        "N.md",
        "n",
        "d/n.md",
        ".env",
        "é",
        "e\u0301",
        "",
        "n.theirs-x.md",
        "n.theirs-x-2.md",
        "N.theirs-x.md",
        "\ud83d",
    ]
)
MEMORIES = st.dictionaries(NAMES, TEXTS, max_size=6)


def lines_of(text):
    """The lines of a text with their ends; a line ends with LF or with the text."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def lines_in(texts):
    return {line for text in texts for line in lines_of(text)}


def lines_added(before, after):
    return {line for name in after for line in set(lines_of(after[name])) - set(lines_of(before.get(name, "")))}


def folded(name):
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def of_one(base, ours, theirs, *, name="n.md"):
    sides = ({} if text is None else {name: text} for text in (base, ours, theirs))
    return merge(*sides, theirs_name=ID)


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        (FIVE, EDITED_FIRST, EDITED_LAST, "ONE\ntwo\nthree\nfour\nFIVE\n"),
        (FIVE, FIVE + "six\n", "zero\n" + FIVE, "zero\n" + FIVE + "six\n"),
        (FIVE, "two\nthree\nfour\nfive\n", FIVE + "six\n", "two\nthree\nfour\nfive\nsix\n"),
        # What both did alike is done once.
        (FIVE, "ONE\ntwo\nthree\nfour\nV\n", EDITED_FIRST, "ONE\ntwo\nthree\nfour\nV\n"),
        (FIVE, "ONE\ntwo\nthree\nfour\n", "ONE\nthree\nfour\nfive\n", None),
        ("a\r\nb\nc", "A\r\nb\nc", "a\r\nb\nc\r\nd", "A\r\nb\nc\r\nd"),
        ("a\nb\nc", "A\nb\nc", "a\nb\nC", "A\nb\nC"),
        ("a\0\nb\n\ud83d\n", "\0\nb\n\ud83d\n", "a\0\nb\n\ude00\n", "\0\nb\n\ude00\n"),
    ],
)
def test_what_both_changed_is_joined_by_line(base, ours, theirs, merged):
    result = of_one(base, ours, theirs)
    if merged is None:
        assert result.conflicts == ("n.md",)
        return
    assert result == Merged({"n.md": merged}, joined=() if merged == ours else ("n.md",))
    assert of_one(base, theirs, ours).documents == result.documents


@pytest.mark.parametrize(
    ("base", "ours", "theirs"),
    [
        (FIVE, EDITED_LAST, EDITED_LAST_TOO),
        (FIVE, EDITED_FIRST, FIVE.replace("two", "2")),
        (FIVE, "four\nfive\n", EDITED_FIRST),
        (None, "a\n", "b\n"),
        ("", "a", "b"),
        ("a", "b", ""),
        # Of two changes one can be made: the document is kept twice as it is, and not half merged.
        (FIVE, "ONE\ntwo\nthree\nfour\nFIVE\n", EDITED_LAST_TOO),
        # No line of any of these ends.
        ("a\rb\rc", "A\rb\rc", "a\rb\rC"),
        ("a\u2028b\u2028c", "A\u2028b\u2028c", "a\u2028b\u2028C"),
    ],
)
def test_where_both_changed_the_same_lines_both_texts_are_kept(base, ours, theirs):
    beside = f"n.theirs-{ID}.md"
    result = of_one(base, ours, theirs)
    assert result == Merged({"n.md": ours, beside: theirs}, {"n.md": beside})
    assert result.conflicts == ("n.md",)
    assert of_one(base, theirs, ours).documents == {"n.md": theirs, beside: ours}


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("notes.md", "notes.theirs-x.md"),
        ("Makefile", "Makefile.theirs-x"),
        (".env", ".env.theirs-x"),
        (".config.json", ".config.theirs-x.json"),
        ("..", "...theirs-x"),
        ("", ".theirs-x"),
        ("v1.2/notes", "v1.2/notes.theirs-x"),
        ("a/b.c/.env", "a/b.c/.env.theirs-x"),
        ("dir/", "dir/.theirs-x"),
        ("notes.md~", "notes.theirs-x.md~"),
        ("a.c++", "a.theirs-x.c++"),
        # What follows the last dot of a sentence is no extension.
        ("On 5. May", "On 5. May.theirs-x"),
        ("a." + "e" * 16, "a.theirs-x." + "e" * 16),
        ("a." + "e" * 17, "a." + "e" * 17 + ".theirs-x"),
    ],
)
def test_the_other_text_has_a_name_that_says_whose_it_is(name, beside):
    assert merge(None, {name: "o"}, {name: "t"}, theirs_name="x").documents == {name: "o", beside: "t"}


@pytest.mark.parametrize("stem", ["n" * 251, "é" * 125, "\ud83d" * 83, "😀" * 62, "n" * 300, "n" * 100_000])
@pytest.mark.parametrize("extension", ["", ".md", "." + "e" * 16])
@pytest.mark.parametrize("directory", ["", "dir.d/" * 3, "d" * 1000 + "/"])
def test_a_name_stays_short_enough_for_file_systems(stem, extension, directory):
    names = [f"{directory}{stem}{last}{extension}" for last in ("", "x", "y")]
    ours, theirs = dict.fromkeys(names, "o"), {name: f"t{n}" for n, name in enumerate(names)}
    result = merge(None, ours, theirs, theirs_name="i" * 64)
    assert result.conflicts == tuple(names)
    for name, new in result.copies.items():
        assert new.startswith(directory)
        assert new.endswith(f".theirs-{'i' * 64}{extension}")
        file = new[len(directory) :]
        assert len(file.encode("utf-8", "surrogatepass")) <= 255
        # As much of it as there is room for: one more character would have been too long.
        kept = file[: file.index(".theirs-")]
        assert stem.startswith(kept[:-9])
        assert len(file.encode("utf-8", "surrogatepass")) > 255 - 4 or kept.startswith(stem)
        assert result.documents[new] == theirs[name]


@pytest.mark.parametrize("side", ["base", "ours", "theirs"])
@pytest.mark.parametrize("taken", ["n.theirs-x.md", "N.Theirs-X.MD", "n.theirs-x.md/below", "N.theirs-x.md/a/b"])
def test_a_name_that_is_taken_is_not_taken_again(side, taken):
    base, ours, theirs = {"n.md": ""}, {"n.md": "o"}, {"n.md": "t"}
    {"base": base, "ours": ours, "theirs": theirs}[side][taken] = "there"
    # What sorts between the name and what is below it hides neither.
    ours["n.theirs-x.md!"] = ours["n.theirs-x.md-"] = ""
    result = merge(base, ours, theirs, theirs_name="x")
    assert result.copies == {"n.md": "n.theirs-x-2.md"}
    assert result.documents["n.theirs-x-2.md"] == "t"
    assert result.documents.get(taken) == (None if side == "base" else "there")


@pytest.mark.parametrize("twins", [("N.md", "n.md"), ("e\u0301.md", "\u00e9.md"), ("\N{KELVIN SIGN}.md", "k.md")])
def test_twins_of_case_or_composition_get_names_that_are_none(twins):
    ours, theirs = dict.fromkeys(twins, "o"), dict.fromkeys(twins, "t")
    beside = merge(None, ours, theirs, theirs_name="x").copies
    assert len({folded(new) for new in beside.values()}) == 2
    again = merge(None, merge(None, ours, theirs, theirs_name="x").documents, theirs, theirs_name="x")
    assert again.copies == beside


def test_many_twins_are_named_in_a_time_that_does_not_grow_with_their_square():
    names = ["".join(c.upper() if n >> at & 1 else c for at, c in enumerate("abcdefghijkl")) for n in range(4096)]
    calls = 0
    fold = merging._folded

    def counted(name):
        nonlocal calls
        calls += 1
        return fold(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "_folded", counted)
        result = merge(None, dict.fromkeys(names, "o"), dict.fromkeys(names, "t"), theirs_name="x")
    assert len({fold(new) for new in result.copies.values()}) == len(names)
    assert calls <= 3 * len(names)


def test_what_is_kept_beside_already_is_not_kept_again():
    text = "the text of the other"
    ours = {"n": "o", "n.theirs-x": text}
    assert merge(None, ours, {"n": "".join(list(text))}, theirs_name="x") == Merged(ours, {"n": "n.theirs-x"})


@pytest.mark.parametrize("name", ["", "../x", "a/b", "x.y", None, "x" * 65, "\ud83d"])
def test_an_id_that_is_none_never_gets_into_a_name(name):
    with pytest.raises(ValueError, match="is not a snapshot id"):
        merge(None, {"a": "1"}, {"a": "1"}, theirs_name=name)


def test_more_lines_than_the_bound_are_kept_twice(monkeypatch):
    lines = FIVE.count("\n") * 3
    monkeypatch.setattr(merging, "_MAX_LINES", lines)
    assert not of_one(FIVE, EDITED_FIRST, EDITED_LAST).conflicts
    monkeypatch.setattr(merging, "_MAX_LINES", lines - 1)
    assert of_one(FIVE, EDITED_FIRST, EDITED_LAST).conflicts


@pytest.mark.parametrize("shorter", ["ours", "theirs", "neither"])
def test_the_steps_are_shared_and_the_small_documents_come_first(monkeypatch, shorter):
    monkeypatch.setattr(merging, "Steps", lambda: Steps(100))
    base, ours, theirs = ("".join(random.Random(n).choices(["a\n", "b\n", "c\n"], k=150)) for n in range(3))
    ours, theirs = "" if shorter == "ours" else ours, "" if shorter == "theirs" else theirs
    result = merge(
        {"a": base, "m": FIVE, "z": base},
        {"a": ours, "m": EDITED_FIRST, "z": ours},
        {"a": theirs, "m": EDITED_LAST, "z": theirs},
        theirs_name="x",
    )
    assert result.joined == ("m",)
    assert result.conflicts == ("a", "z")


def test_the_worst_lines_take_no_more_steps_than_the_bound(monkeypatch):
    """Lines that come again and again in another order: each match is short, and each search looks at all."""
    looked = 0

    def find(self, *where):
        nonlocal looked
        looked += sum(len(self.b2j.get(self.a[at], ())) for at in range(where[0], where[1]))
        return find_longest_match(self, *where)

    find_longest_match = difflib.SequenceMatcher.find_longest_match
    monkeypatch.setattr(difflib.SequenceMatcher, "find_longest_match", find)
    monkeypatch.setattr(merging, "Steps", lambda: Steps(30_000))
    texts = ["".join(f"{line}\n" for line in random.Random(seed).choices(range(60), k=190)) for seed in range(60)]
    sides = [{str(n): text for n, text in enumerate(texts[at : at + 20])} for at in (0, 20, 40)]
    result = merge(*sides, theirs_name="x")
    assert len(result.conflicts) == 20
    assert 15_000 < looked <= 30_000


@unhurried
@given(MEMORIES, MEMORIES, MEMORIES)
@example({}, {"n.md": "o"}, {"n.md": "t", "N.theirs-x.md": "there"})
@example({"n.md": "a\nb\ntail"}, {"n.md": "c\nb\ntail"}, {"n.md": "a\nb\ntail\nc\n"})
def test_no_text_is_lost_and_the_report_says_what_was_done(base, ours, theirs):
    result = merge(base, ours, theirs, theirs_name="x")
    kept = lines_in(result.documents.values())
    assert lines_added(base, ours) <= kept
    assert lines_added(base, theirs) <= kept
    # Nor is a line there that nobody wrote: two that ran into one, or a mark.
    assert kept <= lines_in([*base.values(), *ours.values(), *theirs.values()])
    for name, text in ours.items():
        # Our text is changed only by what the other did to the same document.
        if name not in (*result.taken, *result.joined, *result.removed):
            assert result.documents[name] == text
    for name, text in theirs.items():
        if text != base.get(name) and name not in result.joined and text != ours.get(name):
            joined_to_ours = result.documents.get(name) == ours.get(name) and name not in result.copies
            assert result.documents[result.copies.get(name, name)] == text or joined_to_ours
    # The report says what was done.
    kinds = [set(result.conflicts), set(result.taken), set(result.joined), set(result.removed)]
    assert sum(map(len, kinds)) == len(set().union(*kinds))
    assert set(result.removed) <= set(ours) - set(theirs)
    assert not set(result.removed) & (set(result.documents) - set(result.copies.values()))
    assert all(result.documents[name] == theirs[name] != ours.get(name) for name in result.taken)
    assert all(result.documents[name] != ours[name] for name in result.joined)
    assert all(ours[name] != theirs[name] for name in result.conflicts)
    assert set(result.documents) <= {*ours, *theirs, *result.copies.values()}
    # A conflict takes nobody's name.
    used = {folded(name) for name in (*base, *ours, *theirs)}
    for name, beside in result.copies.items():
        there = beside in {*ours, *theirs}
        assert folded(beside) not in used or (there and result.documents[beside] == theirs[name])
    for new in (
        list(result.copies.values()),
        [folded(each) for each in result.copies.values() if each not in {*ours, *theirs}],
    ):
        assert len(set(new)) == len(new)


@unhurried
@given(MEMORIES, MEMORIES)
def test_an_unchanged_side_gives_the_other_exactly(base, changed):
    from_theirs = merge(base, base, changed, theirs_name="x")
    assert from_theirs.documents == changed
    assert from_theirs.conflicts == from_theirs.joined == ()
    assert set(from_theirs.taken) == {name for name in changed if changed[name] != base.get(name)}
    assert set(from_theirs.removed) == set(base) - set(changed)
    assert merge(base, changed, base, theirs_name="x") == Merged(dict(sorted(changed.items())))


@unhurried
@given(MEMORIES, MEMORIES, MEMORIES)
def test_what_was_merged_and_is_merged_again_stays_as_it_is(base, ours, theirs):
    first = merge(base, ours, theirs, theirs_name="x")
    # Over what the other has, which is how it is when the first merge was saved.
    assert merge(theirs, first.documents, theirs, theirs_name="x").documents == first.documents
    assert merge(ours, ours, first.documents, theirs_name="y").documents == first.documents
    # Over the old base, as after a lost race: what is kept twice is not kept a third time.
    again = merge(base, first.documents, theirs, theirs_name="x")
    assert again.documents == first.documents


@unhurried
@given(MEMORIES, MEMORIES, MEMORIES)
def test_both_sides_come_to_the_same_but_for_the_names_of_conflicts(base, ours, theirs):
    here = merge(base, ours, theirs, theirs_name="x")
    there = merge(base, theirs, ours, theirs_name="y")
    assert here.conflicts == there.conflicts
    clear = {*ours, *theirs} - set(here.conflicts) - {*here.copies.values(), *there.copies.values()}
    assert {n: here.documents.get(n) for n in clear} == {n: there.documents.get(n) for n in clear}
    assert lines_in(here.documents.values()) == lines_in(there.documents.values())
