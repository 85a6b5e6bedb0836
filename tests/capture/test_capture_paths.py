from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from capture_trees import PNG, contents, files, make, posix

from colony_memory.capture import _sources, folder, read_folder, read_paths, write_folder
from colony_memory.capture._metadata import METADATA_NAME, split_documents


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


def test_several_paths_go_under_their_names(tmp_path: Path) -> None:
    make(tmp_path, {"one/a.md": b"a", "one/sub/b.md": b"b", "two/sub/c.md": b"c", "SOUL.md": b"s", "img": PNG})
    (tmp_path / "two/logs").mkdir()
    (tmp_path / "one/sub/logs").mkdir()
    (tmp_path / "empty").mkdir()
    paths = [tmp_path / name for name in ("one", "two", "SOUL.md", "img", "empty")]
    capture = read_paths(paths)
    assert {name for name in capture.documents if name != METADATA_NAME} == {
        "SOUL.md",
        "one/a.md",
        "one/sub/b.md",
        "two/sub/c.md",
    }
    described = json.loads(capture.documents[METADATA_NAME])
    assert described["empty_dirs"] == ["empty", "one/sub/logs", "two/logs"]
    assert set(described["files"]) == {"img"}
    write_folder(capture.documents, tmp_path / "dst")
    assert files(tmp_path / "dst") == {
        name: each for name, each in files(tmp_path).items() if not name.startswith("dst")
    }
    assert read_paths(reversed(paths)) == capture


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
    looked_at = {("a",): _sources.Source(Path("/a"), True), ("a", "n"): _sources.Source(Path("/a/n"), True)}
    looked_at[("b", "n")] = _sources.Source(Path("/b/n"), True)
    with pytest.raises(ValueError, match="'/a' would share its name"):
        _sources._tell_apart(looked_at)


@posix
def test_links_count_by_the_name_that_was_given(tmp_path: Path) -> None:
    make(tmp_path, {"real/a.md": b"a", "other/a.md": b"b"})
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "file-link.md").symlink_to("real/a.md")
    assert saved(tmp_path / "link", tmp_path / "file-link.md") == {"file-link.md": "a", "link/a.md": "a"}
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=r"loop' cannot be read: "):
        read_paths([tmp_path / "loop"])
    (tmp_path / "real/loop").symlink_to(".")
    capture = read_folder(tmp_path / "real")
    assert capture.left_out == ()
    assert json.loads(capture.documents[METADATA_NAME])["links"] == {"loop": "."}


@posix
def test_names_that_no_restore_would_take(tmp_path: Path) -> None:
    make(tmp_path, {"b\\c.md": b"x", "d\\e/x": b"x", "a.md": b"a"})
    capture = read_paths([tmp_path / "b\\c.md", tmp_path / "d\\e", tmp_path / "a.md"])
    assert contents(capture) == {"a.md": "a"}
    assert [entry.name for entry in capture.left_out] == ["b\\c.md", "d\\e/"]
    with pytest.raises(ValueError, match=r"nothing to back up: 'b\\\\c\.md' was left out .has a backslash"):
        read_paths([tmp_path / "b\\c.md"])


def test_what_is_left_out_is_named_as_it_would_be_saved(tmp_path: Path) -> None:
    make(tmp_path, {"one/.colony-memory-restoring-x/a": b"a", "one/b": b"b", "two": b"2"})
    capture = read_paths([tmp_path / "one", tmp_path / "two"])
    assert [entry.name for entry in capture.left_out] == ["one/.colony-memory-restoring-x/"]


def test_progress_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    src = make(tmp_path / "src", {"a.md": "\u00e9".encode(), "b.png": PNG, "c/d": b"123"})
    seen: list[tuple[int, int, str]] = []
    monkeypatch.setattr("colony_memory.capture._reading._SECONDS_BETWEEN_REPORTS", 0)
    read_folder(src, on_progress=lambda *told: seen.append(told))
    total = 5 + len(PNG)
    assert seen == [(1, 2, "a.md"), (2, total - 3, "b.png"), (3, total, "c/d"), (3, total, "c/d")]
    seen.clear()
    monkeypatch.setattr("colony_memory.capture._reading._SECONDS_BETWEEN_REPORTS", 3600)
    read_paths([src, tmp_path / "src/a.md"], on_progress=lambda *told: seen.append(told))
    assert seen[-1] == (4, total + 2, "a.md")
    assert len(seen) <= 2

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = src.stat().st_mtime_ns
    with pytest.raises(KeyboardInterrupt):
        read_folder(src, on_progress=stop)
    assert src.stat().st_mtime_ns == before


def peak_of_reading(folder: Path) -> int:
    tracemalloc.start()
    try:
        read_folder(folder)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_files_are_in_memory_no_more_often_than_need_be(tmp_path: Path) -> None:
    make(tmp_path / "texts", {f"{number}.md": f"{number:09}\n".encode() * 10_000 for number in range(40)})
    assert peak_of_reading(tmp_path / "texts") < 1.3 * 4_000_000
    # What is not text grows by a third, and stands there twice beside its bytes while it is put together.
    make(tmp_path / "pictures", {f"{number}.png": PNG * 10_000 for number in range(40)})
    assert peak_of_reading(tmp_path / "pictures") < 4 * 400_000 * len(PNG)


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
