from __future__ import annotations

from pathlib import Path

import pytest
from capture_trees import contents, make, posix

from colony_memory.capture import folder, read_folder, read_paths
from colony_memory.capture._metadata import split_documents


def saved(*paths: str | Path) -> dict[str, str]:
    contents, _ = split_documents(read_paths(paths).documents)
    return {name: content if isinstance(content, str) else "" for name, content in contents.items()}


def test_one_path_gives_names_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {"one/a.md": b"a", "one/sub/b.md": b"b"})
    assert read_paths([tmp_path / "one"]) == read_folder(tmp_path / "one")
    assert read_paths(tmp_path / "one") == read_paths(str(tmp_path / "one")) == read_folder(tmp_path / "one")
    monkeypatch.chdir(tmp_path / "one")
    assert read_paths(["."]) == read_folder(tmp_path / "one")
    assert saved("a.md") == saved(".//sub/../a.md") == {"a.md": "a"}
    # Given twice, it is still one.
    assert read_paths([".", tmp_path / "one", "../one/"]) == read_folder(tmp_path / "one")
    assert saved("a.md", Path("a.md").absolute()) == {"a.md": "a"}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a/notes", "b/notes"], ["a/notes/x", "b/notes/x"]),
        (["a/notes", "b/notes", "c/log"], ["a/notes/x", "b/notes/x", "log/x"]),
        (["1/a/notes", "2/a/notes", "b/notes"], ["1/a/notes/x", "2/a/notes/x", "b/notes/x"]),
        (["a/M.md", "b/M.md"], ["a/M.md", "b/M.md"]),
        (["a/notes", "b/Notes"], ["a/notes/x", "b/Notes/x"]),
        (["a/caf\u00e9", "b/cafe\u0301"], ["a/caf\u00e9/x", "b/cafe\u0301/x"]),
        # a/ would take in what is under a/notes/.
        (["1/a/notes", "b/notes", "c/a"], ["a/notes/x", "b/notes/x", "c/a/x"]),
        (["memory", "memory/notes"], ["memory/notes/x", "memory/x", "notes/x"]),
    ],
)
def test_equal_names_are_told_apart_by_what_is_above(tmp_path: Path, paths: list[str], expected: list[str]) -> None:
    for path in paths:
        make(tmp_path, {path if path.endswith(".md") else f"{path}/x": b"x"})
    assert sorted(saved(*[tmp_path / path for path in paths])) == sorted(expected)


@posix
def test_paths_without_a_name_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="'/' would share its name with another path: back it up separately"):
        read_paths(["/", tmp_path])
    looked_at = {("a",): folder.Source(Path("/a"), True), ("a", "n"): folder.Source(Path("/a/n"), True)}
    looked_at[("b", "n")] = folder.Source(Path("/b/n"), True)
    with pytest.raises(ValueError, match="'/a' would share its name"):
        folder._tell_apart(looked_at)


@posix
def test_names_that_no_restore_would_take(tmp_path: Path) -> None:
    make(tmp_path, {"b\\c.md": b"x", "d\\e/x": b"x", "a.md": b"a"})
    capture = read_paths([tmp_path / "b\\c.md", tmp_path / "d\\e", tmp_path / "a.md"])
    assert contents(capture) == {"a.md": "a"}
    assert [entry.name for entry in capture.left_out] == ["b\\c.md", "d\\e/"]
    with pytest.raises(ValueError, match=r"nothing to back up: 'b\\\\c\.md' was left out .has a backslash"):
        read_paths([tmp_path / "b\\c.md"])


def test_a_file_that_goes_after_it_was_named_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {"a.md": b"a", "b.md": b"b"})

    def removing() -> list[object]:
        (tmp_path / "b.md").unlink(missing_ok=True)
        return []

    monkeypatch.setattr(folder, "list_records", removing)
    capture = read_paths([tmp_path / "a.md", tmp_path / "b.md"])
    assert [str(each) for each in capture.left_out] == ["b.md: vanished before it was read"]
    with pytest.raises(ValueError, match=r"b\.md' was left out"):
        make(tmp_path, {"b.md": b"b"})
        read_paths([tmp_path / "b.md"])
