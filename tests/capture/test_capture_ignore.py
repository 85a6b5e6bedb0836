import atexit
import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import pytest
from capture_faults import fail_at
from capture_trees import make, posix
from hypothesis import example, given, settings
from hypothesis import strategies as st

from colony_memory.capture import _ignore, read_folder, read_paths
from colony_memory.capture._ignore import IgnoreRules, parse
from colony_memory.capture._metadata import split_documents
from colony_memory.exceptions import ColonyMemoryError


def saved(folder, *exclude):
    capture = read_folder(folder, exclude=exclude)
    assert capture.left_out == ()
    return set(split_documents(capture.documents)[0])


def test_what_rules_exclude_is_named(tmp_path):
    rules = {
        ".cmemignore": b"\xef\xbb\xbf*.log\n\n# cache\n/build\ncache/\n!keep.log\n",
        "notes/.cmemignore": b"!b.log\r\ndraft*\r\n",
    }
    kept = ["MEMORY.md", "keep.log", "notes/build/plan.md", "notes/b.log", "draft-2", "cache"]
    going = ["a.log", "build/out", "notes/cache/x", "notes/c.log", "notes/draft-1"]
    src = make(tmp_path / "src", {**rules, **dict.fromkeys([*kept, *going], b"x")})
    capture = read_folder(src)
    assert set(capture.documents) == {*rules, *kept}
    assert capture.ignored == ("a.log", "build/", "notes/c.log", "notes/cache/", "notes/draft-1")
    # Of several paths, each has rules of its own, for its own names.
    several = read_paths([src, make(tmp_path / "other", {"a.log": b"x"})])
    assert "other/a.log" in several.documents
    assert several.ignored == tuple(f"src/{name}" for name in capture.ignored)


def git_saves(src):
    """What git takes, with its own reading of the rules."""
    subprocess.run(["git", "init", "-q", src], check=True)
    command = ["git", "-C", src, "ls-files", "-z", "--others", "--exclude-per-directory=.cmemignore"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout
    shutil.rmtree(src / ".git")
    return without_rules({name.decode("utf-8", "surrogateescape") for name in listed.split(b"\0") if name})


def without_rules(names):
    """The files of rules themselves are saved always, which is no rule of git."""
    return {name for name in names if not name.endswith(".cmemignore")}


def a_tree(root):
    names = [f"{d}{f}" for d in ("", "a/", "a/b/", "a/b/c/", "b/", "c/a/") for f in ("x.md", "y.log", "x", "a.md")]
    return make(root, dict.fromkeys([*names, "#x", "!x", "space  ", "caf\udce9.txt"], b"x"))


@posix
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("git"), reason="needs git, and names of any bytes")
def test_any_rules_are_those_of_git(tmp_path):
    draw = random.Random(7)
    pieces = ["a", "b", "c", "x", "*", "**", "*.md", "x.*", "?", "[ab]", "y.log"]
    for number in range(30):
        src = a_tree(tmp_path / str(number))
        for directory in ("", "a/", "a/b/"):
            rules = [
                draw.choice(["", "", "!"])
                + draw.choice(["", "", "/"])
                + "/".join(draw.choices(pieces, k=draw.randint(1, 3)))
                + draw.choice(["", "", "/"])
                for _ in range(draw.randint(1, 3))
            ]
            make(src, {f"{directory}.cmemignore": "\n".join(rules).encode()})
        expected = git_saves(src)
        assert without_rules(saved(src)) == expected, [path.read_text() for path in src.rglob(".cmemignore")]


def test_the_files_beside_an_excluded_database_are_excluded_with_it(tmp_path):
    src = make(tmp_path / "src", {".cmemignore": b"*.db\nlog\n", "log": b"text", "log-journal": b"notes"})
    (src / "dir.db").mkdir()
    make(src, {"dir.db-wal": b"notes"})
    with contextlib.closing(sqlite3.connect(src / "m.db")) as database:
        database.execute("PRAGMA journal_mode=WAL").fetchall()
        database.execute("CREATE TABLE t(x)").fetchall()
        assert (src / "m.db-wal").stat().st_size
        capture = read_folder(src)
    assert set(capture.documents) == {".cmemignore", "log-journal", "dir.db-wal"}
    assert set(capture.ignored) >= {"dir.db/", "log", "m.db", "m.db-shm", "m.db-wal"}


def test_what_cannot_be_read_of_an_excluded_file_does_not_matter(tmp_path, monkeypatch):
    src = make(tmp_path / "src", {".cmemignore": b"*.db\n", "m.db": b"x", "m.db-wal": b"notes"})
    fail_at(monkeypatch, "open", "m.db", PermissionError(13, "Permission denied"))
    assert saved(src) == {".cmemignore", "m.db-wal"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("!", "nothing to bring back"),
        ("[z-a]", "ends before it begins"),
        ("[abc", "not closed"),
        ("[[:digit:]", "not closed"),
        ("[[:digits:]]", "unknown class 'digits'"),
        ("[\\", "not closed"),
        ("[a-\\", "not closed"),
        ("a\\", "backslash at the end"),
        ("a\0b", "byte of zero"),
        ("x" * 5000, "longer than any path"),
    ],
)
def test_a_line_that_can_match_nothing_is_named(tmp_path, line, why):
    src = make(tmp_path / "src", {"a.md": b"a", ".cmemignore": f"*.log\n{line}\n".encode()})
    with pytest.raises(ColonyMemoryError, match=rf"\.cmemignore:2: '.* is not a rule of gitignore: .*{why}"):
        read_folder(src)


def hold_rules(folder, rules, *, depth):
    """Directories of long names in one another, each with these rules; the innermost."""
    for _ in range(depth):
        make(folder, {".cmemignore": rules})
        folder = folder / ("a" * 200)
        folder.mkdir()
    return folder


@pytest.mark.parametrize("rule", ["/**/a*a*{}b", "{}", "a*a*{}b"])
def test_rules_that_would_take_for_ever_are_refused(tmp_path, rule, monkeypatch):
    monkeypatch.setattr(_ignore, "_STEPS_FOR_A_NAME", 500)
    monkeypatch.setattr(_ignore, "_STEPS_MORE", 10_000)
    rules = "".join(f"{rule.format(number)}\n" for number in range(1500)).encode()
    inner = hold_rules(tmp_path, rules, depth=3)
    for number in range(9):
        (inner / f"{'a' * 200}{number}").write_text("x")
    with pytest.raises(ColonyMemoryError, match=r"rules of .cmemignore for 'a.*' are too many"):
        read_folder(tmp_path)


def test_a_long_pattern_costs_more():
    short, long = (parse(b"*a" * count + b"*") for count in (3, 1500))
    assert short.steps(b"a" * 100) == 101
    assert long.steps(b"a" * 100) == 1 + 24 * 100
    assert parse(b"*.log").steps(b"a" * 100) == 1
    assert parse(b"build/*x*").steps(b"a" * 100) == 1


FILES = {
    "MEMORY.md": b"m",
    "a.log": b"x",
    "#draft#": b"x",
    "cache/x": b"x",
    "notes/a.log": b"x",
    "notes/build/plan.md": b"x",
    "notes/cache": b"a file",
    "build/out": b"x",
}


def test_a_file_in_the_folder_cannot_bring_back_what_the_caller_excludes(tmp_path):
    src = make(
        tmp_path / "src",
        {
            ".cmemignore": b"!*\n!/keys/\n!/keys/private.pem\n!secret.md\n*.tmp\n",
            "notes/.cmemignore": b"!secret.md\n!*.pem\n",
            "notes/secret.md": b"x",
            "keys/private.pem": b"x",
            "keys/.cmemignore": b"[this is no rule, and is not read\n",
            "MEMORY.md": b"m",
            "a.tmp": b"x",
            "b.tmp": b"x",
        },
    )
    capture = read_folder(src, exclude=["keys/", "secret.md", "!b.tmp"])
    assert set(capture.documents) == {".cmemignore", "notes/.cmemignore", "MEMORY.md", "b.tmp"}
    assert capture.ignored == ("a.tmp", "keys/", "notes/secret.md")
    # The file itself goes where it is told to, and its rules hold.
    assert saved(src, "keys/", ".cmemignore", "secret.md") == {"MEMORY.md"}


def test_of_several_paths_the_names_that_are_saved_count(tmp_path):
    one, two = make(tmp_path / "a/notes", FILES), make(tmp_path / "b/notes", FILES)
    single = make(tmp_path, {"plan.md": b"x"}) / "plan.md"

    def names(*exclude):
        return set(split_documents(read_paths([one, two, single], exclude=exclude).documents)[0])

    everything = names()
    assert "a/notes/notes/a.log" in everything
    assert names("/a/notes/*.log") == everything - {"a/notes/a.log"}
    assert names("a") == names("/a/notes") == names("/a/") == {each for each in everything if each[0] != "a"}
    assert names("plan.md") == everything - {"notes/build/plan.md", "plan.md"} - {
        each for each in everything if each.endswith("/plan.md")
    }
    assert read_paths([one, two, single], exclude=["/a/", "/plan.md"]).ignored == ("a/notes/", "plan.md")


def test_where_all_is_excluded_that_is_said(tmp_path):
    src = make(tmp_path / "src", {"a.md": b"x", "b.md": b"x"})
    with pytest.raises(ValueError, match=r"nothing to back up: 'a.md' is excluded, and more$"):
        read_folder(src, exclude=["*"])
    with pytest.raises(ValueError, match=r"nothing to back up: 'a.md' is excluded$"):
        read_paths([src / "a.md"], exclude=["a.*"])


NO_RULES = [
    ["[abc"], ["a\\"], ["[[:x:]]"], ["[z-a]"], [""], ["/"], ["!"], [" "], ["a\0"], ["a" * 5000], "", [7], [b"x"],
]  # fmt: skip


@pytest.mark.parametrize("exclude", NO_RULES, ids=range(len(NO_RULES)))
def test_what_is_no_rule_is_refused(tmp_path, exclude):
    src = make(tmp_path / "src", {"a.md": b"x"})
    with pytest.raises(ValueError, match=r"is not a rule of gitignore|excludes nothing|must be"):
        read_folder(src, exclude=exclude)


needs_git = pytest.mark.skipif(os.name == "nt" or not shutil.which("git"), reason="needs git, and names of any bytes")
PIECES = [
    *"ab1/ -!^]}.#", "*", "**", "***", "?", "/**/", "**/", "/**", "\\", "\\*", "\\[", "[", "[ab]", "[!a]", "[^/]",
    "[]a]", "[a-]", "[--0]", "[a-c]", "[\\]]", "[a\\-c]", "[[:alpha:]]", "[[:digit:]b]", "[![:punct:]]",
    "[[:space:]]", "[[:x]]", "[[:]", "[[.a.]]", "[[=a=]]", "[[]", "[/]", "\u00e9", "\udce9", "\ufffd", "a.md",
]  # fmt: skip
NAMES = [
    " ", "a ", "a", "b", "ab", "1", "a.md", "-", "]", "[", "\\", "*", ".a", "#a", "!a", "^", "a-c", ":", "x]",
    "[a]", "\u00e9", "\udce9", "\ufffd", "a\u00e9b", "a/b", "a/a", "b/a", "a/b/a", "a/1/b", "a.md/b", "ab/a/b",
    "a/ab/1/b", "1/a.md", "b/a/a.md", "a/b/a/b/a",
]  # fmt: skip


def as_git(pattern, names):
    """The names that git excludes by this one rule; none of them is a directory."""
    where = Path(as_git_repository()) / "rules"
    where.write_bytes(pattern.encode("utf-8", "surrogateescape") + b"\n")
    command = ["git", "-C", str(where.parent), "-c", f"core.excludesFile={where}", "check-ignore", "-z", "--stdin"]
    text = b"".join(b"./" + name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {name[2:].decode("utf-8", "surrogateescape") for name in done.stdout.split(b"\0") if name}


@lru_cache(maxsize=1)
def as_git_repository():
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made, True)
    subprocess.run(["git", "init", "-q", made], check=True)
    return made


def as_here(pattern, names):
    """The same of ours, with what is below an excluded directory; None where it is refused."""
    rules = IgnoreRules()
    try:
        rules.add("", pattern.encode("utf-8", "surrogateescape"), where="rules")
    except ColonyMemoryError:
        return None

    def is_excluded(name):
        parts = name.split("/")
        above = ["/".join(parts[:number]) for number in range(1, len(parts))]
        return any(rules.exclude(each, is_directory=True) for each in above) or rules.exclude(name, is_directory=False)

    return {name for name in names if is_excluded(name)}


def check(pattern):
    ours = as_here(pattern, NAMES)
    gits = as_git(pattern, NAMES)
    if ours is None:
        # A rule that git takes, and that can match something, is taken here too.
        assert gits == set() or "[" in pattern or pattern.endswith("\\")
    else:
        assert ours == gits, pattern


@needs_git
@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join))
@example("a**/b")
@example("[[:digit:]]*.md")
@example("*[!a]/**/b")
@example("**/")
@example("a/**/**/b")
def test_any_pattern_is_read_as_git_reads_it(pattern):
    check(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        b"*a" * 60,
        b"*?" * 60,
        b"**/a/" * 60 + b"b",
        b"**/" * 900 + b"b",
        b"**/*a*b*/" * 100 + b"*a" * 500 + b"c",
        b"**/" + b"*/" * 1500 + b"c",
        b"[!b]*" * 60,
        b"a*/**/" * 60,
        b"*" * 4000 + b"b",
    ],
)
def test_time_grows_with_the_length_of_a_name_and_not_with_its_powers(pattern):
    """Each of them would take longer than anybody lives, were its parts tried at all places."""
    began, wildcard = time.process_time(), parse(pattern)
    for name in (b"a" * 4000, b"a/" * 2000, b"a" * 3999 + b"b", b"a/b/" * 1000):
        wildcard.matches(name)
    assert time.process_time() - began < 20
