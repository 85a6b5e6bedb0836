"""Patches, by what git and patch make of them."""

import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory._diff import EXECUTABLE, LINK, File, Matcher, Steps, file_patch, patch, split_lines

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
NUMBERS = [f"{number}\n" for number in range(40)]
TEXTS = [
    ("", "a\n"),
    ("a\n", ""),
    ("", "a"),
    ("a", "a\n"),
    ("a\n", "a"),
    ("a", "b"),
    ("a\nb\nc\n", "a\nc\n"),
    ("a\r\nb\r\n", "a\r\nB\r\n"),
    ("a\rb\u2028c\x0cd\n", "a\rb\u2028C\x0cd\n"),
    ("--- a\n+++ b\n@@ -1 +1 @@\n", "--- b\n+++ a\n@@ -1 +1 @@\n"),
    ("\\ No newline at end of file\n", "x\n\\ No newline at end of file"),
    ("\n\n\n", "\n\n"),
    ("".join(NUMBERS), "".join([*NUMBERS[:3], "x\n", *NUMBERS[4:20], *NUMBERS[21:], "end"])),
    ("".join(NUMBERS), "".join(NUMBERS[1:])),
    ("".join(NUMBERS), "first\n" + "".join(NUMBERS)),
    ("".join(NUMBERS), "".join(reversed(NUMBERS))),
    ("tab\there \x1b[2J\n", "tab\tthere \x1b[2J\n"),
]
NAMES = [
    "a.md",
    "with blanks/a b.md",
    "caf\u00e9/\u65e5\u672c.md",
    'quo"te\\.md',
    "line\nfeed\tand tab.md",
    "\u202ertl.md",
    *(["caf\udce9/\udcff\u00e9 \udced\udcb3.md"] if sys.platform == "linux" else []),
]


def write(files, root):
    root.mkdir()
    for name, file in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == LINK:
            path.symlink_to(str(file.content))
            continue
        path.write_bytes(file.content if isinstance(file.content, bytes) else file.content.encode())
        path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def read(root):
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = File(str(path.readlink()), LINK)
        elif path.is_file():
            mode = EXECUTABLE if path.stat().st_mode & 0o100 else "100644"
            found[name] = File(path.read_bytes().decode(), mode)
    return found


def applied(before, text, root, command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    write(before, root)
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        command, cwd=root, input=text.encode(), capture_output=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr, text)
    return read(root)


@POSIX
@pytest.mark.parametrize(
    "command", [["git", "apply", "-"], ["patch", "-p1", "--no-backup-if-mismatch"]], ids=["git", "patch"]
)
@pytest.mark.parametrize("turned", [False, True])
def test_what_is_printed_applies(tmp_path, command, turned):
    before, after = ({f"{number}.md": File(pair[side]) for number, pair in enumerate(TEXTS)} for side in (0, 1))
    before |= {name: File("old\n") for name in NAMES} | {f"gone {name}": File("x\ny") for name in NAMES}
    after |= {name: File("old\nnew") for name in NAMES} | {f"new {name}": File("x\ny\n") for name in NAMES}
    before["stays.md"] = after["stays.md"] = File("same")
    if not turned or command[0] == "git":  # patch does not delete what is empty, with git's own patches neither
        after["empty.md"] = File("")
    if turned:
        before, after = after, before
    assert applied(before, patch(before, after), tmp_path / "root", command) == after


@POSIX
def test_links_and_what_may_be_executed_are_those_of_git(tmp_path):
    before = {"run.sh": File("x\n"), "both.sh": File("x\n"), "today": File("monday.md", LINK), "turns": File("text\n")}
    after = {
        "run.sh": File("x\n", EXECUTABLE),
        "both.sh": File("y\n", EXECUTABLE),
        "today": File("tuesday.md", LINK),
        "turns": File("run.sh", LINK),
        "new.sh": File("z\n", EXECUTABLE),
    }
    for number, (old, new) in enumerate(((before, after), (after, before))):
        assert applied(old, patch(old, new), tmp_path / str(number), ["git", "apply", "-"]) == new


@POSIX
def test_what_is_no_text_is_said_and_keeps_nothing_else_from_applying(tmp_path):
    before = {"a": File("1\n"), "m.png": File(b"\x89PNG"), "n": File("nul\0"), "z": File("1\n")}
    after = {
        "a": File("2\n"),
        "m.png": File(b"\x89PMG"),
        "n": File("NUL\0"),
        "new.png": File(b"\xff"),
        "z": File("2\n"),
    }
    text = patch(before, after)
    for line in ("a/m.png and b/m.png", "a/n and b/n", "/dev/null and b/new.png"):
        assert f"Binary files {line} differ\n" in text
    texts = {name: File("1\n") for name in "az"}
    assert applied(texts, text, tmp_path / "root", ["git", "apply", "-"]) == {name: File("2\n") for name in "az"}
    line = "Binary files a/l and b/l differ\n"  # the target's byte would become another in the text of a patch
    for link, file in (("\udcff", "\udcff"), ("\udcff", "text"), ("there", b"\xff")):
        assert file_patch("l", File(link, LINK), File(file)) == file_patch("l", File(file), File(link, LINK)) == line
    assert file_patch("m", File(b"\xff"), None) == "Binary files a/m and /dev/null differ\n"
    assert file_patch("m", File(b"\xff"), File(b"\xff", EXECUTABLE)).endswith("new mode 100755\n")
    assert file_patch("m", File(b"\xff"), File(b"\xff")) == ""


def test_nothing_that_is_in_a_text_or_name_is_taken_for_more_than_a_line():
    text = file_patch("a\n+++ b/../../evil", None, File("x"))
    assert text.splitlines()[:5] == [
        r'diff --git "a/a\n+++ b/../../evil" "b/a\n+++ b/../../evil"',
        "new file mode 100644",
        "--- /dev/null",
        r'+++ "b/a\n+++ b/../../evil"',
        "@@ -0,0 +1 @@",
    ]
    assert file_patch("\udce9\u202e", None, File("")).startswith(r'diff --git "a/\351\342\200\256"')
    assert file_patch("\ud83d", None, File("")).startswith(r'diff --git "a/\355\240\275"')


def test_what_would_take_too_long_is_replaced_and_said_to_be():
    before, after = "a\n" + "x\n" * 9000, "x\n" * 9001 + "b\n"
    text = file_patch("a.md", File(before), File(after), Steps(1000))
    first, *_ = text.splitlines()
    assert first == "Too much differs in b/a.md: some unchanged lines may be shown as replaced"
    assert text.count("\n-") - 1 == 9001
    assert text.count("\n+") - 1 == 9002


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "d"]), max_size=14).map("\n".join)


@settings(deadline=None)
@given(LINES, LINES, st.integers(0, 60))
def test_what_is_common_is_common(before, after, left):
    old, new = split_lines(before), split_lines(after)
    assert "".join(old) == before
    at, to = 0, 0
    blocks = Matcher(old, new, Steps(left)).get_matching_blocks()
    for block in blocks[:-1]:
        assert block.size > 0
        assert block.a >= at
        assert block.b >= to
        assert old[block.a : block.a + block.size] == new[block.b : block.b + block.size]
        at, to = block.a + block.size, block.b + block.size
    assert at <= len(old)
    assert to <= len(new)
    whole = Matcher(old, new, Steps())
    assert sum(block.size for block in whole.get_matching_blocks()) == len(old) or before != after
    assert whole.exact


def test_no_document_takes_the_steps_of_all():
    steps = Steps(40_000)
    hostile = ["a\n", *["x\n"] * 5000], [*["x\n"] * 5001, "b\n"]

    def exact(old, new):
        matcher = Matcher(old, new, steps)
        matcher.get_opcodes()
        return matcher.exact

    assert not exact(*hostile)
    assert steps.left >= 30_000
    assert exact(["a\n", "b\n"], ["b\n", "c\n"])
    for _ in range(40):
        exact(*hostile)
    assert steps.left >= 0
