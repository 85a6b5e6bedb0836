import base64
import errno
import json
import os
import socket
import stat
import sys
import tempfile
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from capture_faults import fail_at, is_told
from capture_trees import PNG, contents, files, make, names, posix, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory._os.directory import Directory
from colony_memory.capture import LeftOut, Note, _filenames, _ignore, read_folder, read_paths, recover, write_folder
from colony_memory.capture import folder as reading
from colony_memory.capture._metadata import METADATA_NAME, split_documents
from colony_memory.exceptions import ColonyMemoryError


def test_utf8_files_are_text_to_the_last_byte(tmp_path):
    contents = {
        "MEMORY.md": b"plain\n",
        "crlf.md": b"a\r\nb\r\n",
        "cr.txt": b"a\rb",
        "bom.md": b"\xef\xbb\xbfhi\r\n",
        "empty": b"",
        "nul.log": b"a\0b",
        ".hidden": b"h",
        "notes/2026/\u65e5\u8a18.md": "\U0001f469\u200d\U0001f680 n\n".encode(),
    }
    capture = read_folder(make(tmp_path / "src", contents))
    assert {name: text.encode() for name, text in capture.documents.items()} == contents
    assert capture.left_out == ()
    assert list(capture.documents) == sorted(contents)
    with pytest.raises(FrozenInstanceError):
        capture.left_out = ()


@posix
def test_what_text_cannot_carry_is_in_one_canonical_document(tmp_path):
    src = make(tmp_path / "src", {"a.md": b"a", "bin/run.sh": b"#!/bin/sh\n", "face.png": PNG, "caf.md": b"caf\xe9"})
    (src / "bin/run.sh").chmod(0o755)
    (src / "logs/old").mkdir(parents=True)
    capture = read_folder(src)
    assert sorted(capture.documents) == [METADATA_NAME, "a.md", "bin/run.sh"]
    assert capture.documents[METADATA_NAME] == (
        '{"empty_dirs":["logs/old"],"executable":["bin/run.sh"],"files":{"caf.md":"Y2Fm6Q==","face.png":"'
        + base64.b64encode(PNG).decode()
        + '"},"format":"colony-memory/folder/1"}'
    )
    write_folder(capture.documents, tmp_path / "dst")
    assert files(tmp_path / "dst") == files(src)
    assert (tmp_path / "dst/logs/old").is_dir()
    assert (tmp_path / "dst/bin/run.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "dst/a.md").stat().st_mode & stat.S_IXUSR


@posix
def test_links_and_special_files_are_named_and_not_followed(tmp_path):
    outside = make(tmp_path / "outside", {"secret.md": b"secret"})
    src = make(tmp_path / "src", {"a.md": b"a"})
    (src / "file-link.md").symlink_to(outside / "secret.md")
    (src / "dir-link").symlink_to(outside)
    (src / "dangling").symlink_to("nowhere")
    os.mkfifo(src / "pipe")
    (src / "only-links").mkdir()
    (src / "only-links/up").symlink_to("..")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(src / "sock"))
        capture = read_folder(src)
    assert capture.documents["a.md"] == "a"
    described = json.loads(capture.documents[METADATA_NAME])
    assert described["empty_dirs"] == []
    assert described["links"] == {"dangling": "nowhere", "only-links/up": ".."}
    assert [(entry.name, entry.reason.rpartition(", ")[2]) for entry in capture.left_out] == [
        ("dir-link", "which is not a path from its own place on; it is not followed"),
        ("file-link.md", "which is not a path from its own place on; it is not followed"),
        ("pipe", "named pipe"),
        ("sock", "socket"),
    ]
    assert "secret" not in contents(capture).values()
    assert _ignore.why_unsaved("x", "x", os.stat_result((stat.S_IFCHR, *[0] * 9))) == "device"


def test_names_that_no_restore_would_take_are_named_at_backup(tmp_path):
    src = make(tmp_path / "src", {"a.md": b"a"})
    if os.name != "nt":
        make(src, {"b\\c.md": b"x", "C:d.md": b"x"})
        (src / "e\\").mkdir()
    make(src, {".colony-memory-restoring-abc/kept/a.md": b"original"})
    capture = read_folder(src)
    names = {entry.name: entry.reason for entry in capture.left_out}
    assert "original" in names.pop(".colony-memory-restoring-abc/")
    if os.name != "nt":
        assert set(names) == {"b\\c.md", "C:d.md", "e\\/"}
        assert "backslash" in names["b\\c.md"]
        assert "drive" in names["C:d.md"]
    write_folder(capture.documents, tmp_path / "dst")


def test_arguments_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    file = make(tmp_path, {"file.md": b"x"}) / "file.md"
    for call in (read_folder, lambda path: read_paths([path])):
        with pytest.raises(ValueError, match=r"missing.*no such file"):
            call(tmp_path / "missing")
        with pytest.raises(ValueError, match=r"'a\\x00b'"):
            call("a\0b")
    with pytest.raises(ValueError, match=r"file\.md' is not a directory"):
        read_folder(file)
    with pytest.raises(ValueError, match="no path was given"):
        read_paths([])
    for name in ("empty", "empty/inner"):
        (tmp_path / name).mkdir()
        with pytest.raises(ValueError, match=r"empty': nothing to back up$"):
            read_folder(tmp_path / "empty")
    if os.name != "nt":
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="neither a file nor a directory"):
            read_paths([tmp_path / "pipe"])

    def closed(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(ValueError, match="cannot be read: not readable: permission denied"):
        read_folder(tmp_path)


def test_what_is_not_there_for_an_instant_is_saved(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a", "b.md": b"b", "sub/c.md": b"c"})
    look, absent = Directory.look, {"b.md", "sub"}

    def looked(place, name, **options):
        if name in absent:  # a writer makes it anew
            absent.remove(name)
            return None
        return look(place, name, **options)

    monkeypatch.setattr(Directory, "look", looked)
    capture = read_folder(tmp_path)
    assert not absent
    assert contents(capture) == {"a.md": "a", "b.md": "b", "sub/c.md": "c"}
    assert not capture.left_out


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    src = make(tmp_path / "src", {"a.md": b"a", "closed.md": b"x", "gone.md": b"x", "bad.md": b"x", "sub/b": b"b"})
    make(src, {"odd.md": b"x"})
    if os.name != "nt":
        (src / "link").symlink_to("a.md")
        fail_at(monkeypatch, "readlink", "link", OSError(errno.EIO, "Input/output error"))
    fail_at(monkeypatch, "open", "closed.md", PermissionError(errno.EACCES, "Permission denied"))
    fail_at(monkeypatch, "open", "gone.md", FileNotFoundError(errno.ENOENT, "No such file or directory"))
    fail_at(monkeypatch, "open", "bad.md", OSError(errno.EIO, "Input/output error"))
    fail_at(monkeypatch, "open", "sub", PermissionError(errno.EACCES, "Permission denied"))
    fail_at(monkeypatch, "stat", "odd.md", FileNotFoundError(errno.ENOENT, "No such file or directory"))
    capture = read_folder(src)
    assert contents(capture) == {"a.md": "a"}
    assert capture.left_out == (
        LeftOut("bad.md", "Input/output error"),
        LeftOut("closed.md", "not readable: permission denied"),
        LeftOut("gone.md", "vanished before it was read"),
        *([LeftOut("link", "Input/output error")] if os.name != "nt" else []),
        LeftOut("odd.md", "vanished before it was read"),
        LeftOut("sub/", "not readable: permission denied"),
    )
    (src / "a.md").unlink()
    with pytest.raises(ValueError, match=r"nothing to back up: 'bad\.md' was left out \(Input/output error\)"):
        read_folder(src)


@posix
def test_a_file_that_becomes_something_else_is_not_read(tmp_path, monkeypatch):
    outside = make(tmp_path / "outside", {"secret.md": b"secret"})
    src = make(tmp_path / "src", {"a.md": b"a", "l.md": b"x", "p.md": b"x"})
    real = os.open

    def swapping(path, *args, **more):
        name = Path(os.fsdecode(path)).name
        if name == "l.md":
            (src / name).unlink()
            (src / name).symlink_to(outside / "secret.md")
        if name == "p.md":
            (src / name).unlink()
            os.mkfifo(src / name)
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", swapping)
    capture = read_folder(src)
    assert contents(capture) == {"a.md": "a"}
    assert [entry.name for entry in capture.left_out] == ["l.md", "p.md"]
    assert capture.left_out[1].reason == "named pipe"  # as the second look finds it


@posix
def test_a_link_in_the_place_of_a_directory_is_not_followed(tmp_path, monkeypatch):
    outside = make(tmp_path / "outside", {"b.md": b"secret", "deep/c.md": b"secret"})
    src = make(tmp_path / "src", {"a.md": b"a", "sub/b.md": b"b", "sub/deep/c.md": b"c"})
    real, asked = os.open, []

    def swapping(path, *args, **more):
        if os.fsdecode(path) == "sub":
            asked.append(path)
            if len(asked) == swapped_at:
                (src / "sub").rename(tmp_path / f"away-{swapped_at}")
                (src / "sub").symlink_to(outside)
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", swapping)
    for swapped_at in (1, 2, 3, 4):  # when it is listed, when what is in it is, and when files are read
        asked.clear()
        capture = read_folder(src)
        assert "secret" not in str(capture.documents)
        assert all(is_told(capture, name) for name in ("a.md", "sub/b.md", "sub/deep/c.md"))
        assert len(asked) >= swapped_at
        (src / "sub").unlink()
        (tmp_path / f"away-{swapped_at}").rename(src / "sub")


@posix
def test_what_gets_another_name_while_it_is_looked_at_is_found(tmp_path, monkeypatch):
    src = make(tmp_path / "src", {"a.md": b"a", "b.md": b"b"})
    real = os.stat

    def renaming(path, **more):
        if path == b"b.md" and (src / "b.md").exists():
            (src / "b.md").rename(src / "0.md")
        return real(path, **more)

    monkeypatch.setattr(os, "stat", renaming)
    capture = read_folder(src)
    assert contents(capture) == {"a.md": "a", "0.md": "b"}
    assert capture.left_out == ()


if sys.platform == "linux":
    components = st.binary(min_size=1, max_size=12).map(lambda raw: os.fsdecode(raw.translate(None, b"/\0\\")))
else:
    components = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)


components = components.filter(lambda name: name not in ("", ".", "..") and _filenames.name_problem(name) is None)
paths = st.lists(components, min_size=1, max_size=3).map("/".join)
texts = st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode))


@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(
    planned=st.dictionaries(paths, texts, min_size=1, max_size=6),
    directories=st.lists(paths, max_size=3),
    executable=st.sets(st.integers(0, 5)),
    there=st.dictionaries(paths, texts, max_size=3),
)
def test_any_folder_round_trips(planned, directories, executable, there):
    with tempfile.TemporaryDirectory() as where:
        src, dst = Path(where, "src"), Path(where, "dst")
        src.mkdir()
        for position, (name, data) in enumerate(planned.items()):
            try:
                make(src, {name: data})
            except OSError:  # a file and a directory of one name were drawn
                continue
            (src / name).chmod(0o700 if position in executable else 0o600)
        for name in directories:
            try:
                (src / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:
                continue
        for path in src.rglob("*"):
            if path.is_dir():
                path.chmod(0o700)
        if not files(src):
            return
        capture = read_folder(src)
        assert capture.left_out == ()
        wire = json.loads(json.dumps(capture.documents))  # names and texts are plain strings
        write_folder(wire, dst)
        assert tree(dst) == tree(src)
        assert read_folder(dst) == capture
        assert len(write_folder(wire, dst).unchanged) == len(files(src))

        other = Path(where, "other")
        other.mkdir()
        for name, data in there.items():
            try:
                make(other, {name: data})
            except OSError:
                continue
        before = tree(other)
        try:
            write_folder(wire, other)
        except ColonyMemoryError:
            assert tree(other) == before
        else:
            assert files(other) == {**files(other), **files(src)}
        assert set(names(Path(where))) == {"src", "dst", "other"}


@pytest.mark.parametrize(
    "act",
    [
        read_folder,
        lambda path: read_paths([path]),
        lambda path: read_paths(["there", path]),
        lambda path: write_folder({"a.md": "a"}, path),
        lambda path: write_folder({"a.md": "a"}, path, dry_run=True),
        recover,
    ],
)
def test_an_empty_path_is_not_the_working_directory(tmp_path, monkeypatch, act):
    make(tmp_path, {"there/b.md": b"b"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="an empty path"):
        act("")
    assert not (tmp_path / "a.md").exists()


def test_where_no_thread_can_be_started_it_is_read_all_the_same(tmp_path, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    (tmp_path / "a.md").write_text("x")
    monkeypatch.setattr("threading.Thread.start", refuse)
    assert read_folder(tmp_path).documents["a.md"] == "x"


def saved(*paths):
    contents, _ = split_documents(read_paths(paths).documents)
    return {name: content if isinstance(content, str) else "" for name, content in contents.items()}


def test_one_path_gives_names_of_its_own(tmp_path, monkeypatch):
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
def test_equal_names_are_told_apart_by_what_is_above(tmp_path, paths, expected):
    for path in paths:
        make(tmp_path, {path if path.endswith(".md") else f"{path}/x": b"x"})
    assert sorted(saved(*[tmp_path / path for path in paths])) == sorted(expected)


@posix
def test_paths_without_a_name_of_their_own(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'/' would share its name with another path: back it up separately"):
        read_paths(["/", tmp_path])
    looked_at = {("a",): reading.Source(Path("/a"), True), ("a", "n"): reading.Source(Path("/a/n"), True)}
    looked_at[("b", "n")] = reading.Source(Path("/b/n"), True)
    with pytest.raises(ValueError, match="'/a' would share its name"):
        reading._tell_apart(looked_at)


@posix
def test_names_that_no_restore_would_take(tmp_path):
    make(tmp_path, {"b\\c.md": b"x", "d\\e/x": b"x", "a.md": b"a"})
    capture = read_paths([tmp_path / "b\\c.md", tmp_path / "d\\e", tmp_path / "a.md"])
    assert contents(capture) == {"a.md": "a"}
    assert [entry.name for entry in capture.left_out] == ["b\\c.md", "d\\e/"]
    with pytest.raises(ValueError, match=r"nothing to back up: 'b\\\\c\.md' was left out .has a backslash"):
        read_paths([tmp_path / "b\\c.md"])


def test_a_file_that_goes_after_it_was_named_is_left_out(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a", "b.md": b"b"})

    def removing():
        (tmp_path / "b.md").unlink(missing_ok=True)
        return []

    monkeypatch.setattr(reading, "list_records", removing)
    capture = read_paths([tmp_path / "a.md", tmp_path / "b.md"])
    assert [str(each) for each in capture.left_out] == ["b.md: vanished before it was read"]
    with pytest.raises(ValueError, match=r"b\.md' was left out"):
        make(tmp_path, {"b.md": b"b"})
        read_paths([tmp_path / "b.md"])


@posix
def test_a_repository_is_noted_and_what_only_bears_its_name_is_left_out(tmp_path):
    make(tmp_path, {f"{name}/a.md": b"a" for name in ("repo", "tree", "link", "odd", "file")})
    make(tmp_path, {"repo/.git/HEAD": b"ref: x\n", "repo/.git/objects/x": b"x", "odd/.git/x": b"x"})
    make(tmp_path, {"tree/.git": b"gitdir: ../repo/.git/worktrees/tree\n", "file/.git": b"mine\n"})
    (tmp_path / "link/.git").symlink_to("../repo/.git")
    capture = read_folder(tmp_path)
    assert set(contents(capture)) == {f"{name}/a.md" for name in ("repo", "tree", "link", "odd", "file")}
    assert capture.notes == tuple(Note(f"{name}/.git", "git repository, not saved") for name in ("repo", "tree"))
    unfit = "has the path component '.git' in its name, in which git looks for programs to run; rename it"
    assert [(each.name, each.reason) for each in capture.left_out] == [
        ("file/.git", unfit),
        ("link/.git", "a link in the place of a git repository, which is not followed"),
        ("odd/.git/", unfit),
    ]
