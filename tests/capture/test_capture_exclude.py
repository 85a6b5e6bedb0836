from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from capture_trees import make

from colony_memory.capture import read_folder, read_paths
from colony_memory.capture._metadata import split_documents

if TYPE_CHECKING:
    from pathlib import Path

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


def saved(path: Path, *exclude: str) -> set[str]:
    capture = read_folder(path, exclude=exclude)
    assert capture.left_out == ()
    return set(split_documents(capture.documents)[0])


def test_a_file_in_the_folder_cannot_bring_back_what_the_caller_excludes(tmp_path: Path) -> None:
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


def test_of_several_paths_the_names_that_are_saved_count(tmp_path: Path) -> None:
    one, two = make(tmp_path / "a/notes", FILES), make(tmp_path / "b/notes", FILES)
    single = make(tmp_path, {"plan.md": b"x"}) / "plan.md"

    def names(*exclude: str) -> set[str]:
        return set(split_documents(read_paths([one, two, single], exclude=exclude).documents)[0])

    everything = names()
    assert "a/notes/notes/a.log" in everything
    assert names("/a/notes/*.log") == everything - {"a/notes/a.log"}
    assert names("a") == names("/a/notes") == names("/a/") == {each for each in everything if each[0] != "a"}
    assert names("plan.md") == everything - {"notes/build/plan.md", "plan.md"} - {
        each for each in everything if each.endswith("/plan.md")
    }
    assert read_paths([one, two, single], exclude=["/a/", "/plan.md"]).ignored == ("a/notes/", "plan.md")


def test_where_all_is_excluded_that_is_said(tmp_path: Path) -> None:
    src = make(tmp_path / "src", {"a.md": b"x", "b.md": b"x"})
    with pytest.raises(ValueError, match=r"nothing to back up: 'a.md' is excluded, and more$"):
        read_folder(src, exclude=["*"])
    with pytest.raises(ValueError, match=r"nothing to back up: 'a.md' is excluded$"):
        read_paths([src / "a.md"], exclude=["a.*"])


NO_RULES: list[Any] = [
    ["[abc"], ["a\\"], ["[[:x:]]"], ["[z-a]"], [""], ["/"], ["!"], [" "], ["a\0"], ["a" * 5000], "", [7], [b"x"],
]  # fmt: skip


@pytest.mark.parametrize("exclude", NO_RULES, ids=range(len(NO_RULES)))
def test_what_is_no_rule_is_refused(tmp_path: Path, exclude: list[str]) -> None:
    src = make(tmp_path / "src", {"a.md": b"x"})
    with pytest.raises(ValueError, match=r"is not a rule of gitignore|excludes nothing|must be"):
        read_folder(src, exclude=exclude)
    with pytest.raises(ValueError, match=r"is not a rule of gitignore|excludes nothing|must be"):
        read_paths([src], exclude=exclude)


@pytest.mark.once
def test_a_directory_of_many_names_takes_no_longer_for_each(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        src = tmp_path / str(count)
        src.mkdir()
        for number in range(count):
            (src / f"{number}.log").touch()
        (src / "MEMORY.md").write_text("m")
        start = time.thread_time()
        capture = read_folder(src, exclude=["*.log"])
        assert len(capture.ignored) == count
        return time.thread_time() - start

    # Sixty times the names take sixty times the time, and not thousands of times.
    assert seconds(60_000) < 150 * seconds(1_000) + 0.05
