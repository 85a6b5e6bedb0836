"""What a restore with ``delete`` takes away, and what never goes."""

import errno
import os

import pytest
from capture_trees import files, make, metadata, posix, traces, tree

from colony_memory._os.directory import Directory
from colony_memory.capture import _walk, write_folder
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError

pytest.importorskip("pathspec")
pytestmark = posix


def test_what_no_backup_would_save_stays(tmp_path):
    kept = {
        ".git/config": b"[core]",
        "sub/.GIT/x": b"x",
        "ignored.log": b"x",
        "cache/x": b"x",
        "sub/.cmemignore": b"*.tmp\n",
        "sub/y.tmp": b"y",
        ".cmemignore": b"*.log\ncache/\n",
        ".notes.md.icloud": b"elsewhere",
        "back\\slash": b"x",
        "vault/cmem.default.latest.json": b"{}",
        "vault/.cmem-vault.json": b"{}",
        ".colony-memory-restoring-here/kept/x": b"x",
    }
    dst = make(tmp_path / "dst", {**kept, "a.md": b"a", "gone.md": b"g", "sub/gone.md": b"g"})
    (dst / "link").symlink_to("a.md")
    (dst / "out").symlink_to("/etc")
    os.mkfifo(dst / "pipe")
    documents = {"a.md": "a", ".cmemignore": "*.log\ncache/\n", "sub/.cmemignore": "*.tmp\n"}
    assert write_folder(documents, dst, delete=True).removed == ("gone.md", "sub/gone.md")
    assert files(dst) == {**kept, "a.md": b"a", "link": "a.md", "out": "/etc", "pipe": None}


def test_rules_that_cannot_be_read_stop_it(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"a", "x": b"x"})
    (dst / ".cmemignore").mkdir()
    with pytest.raises(ColonyMemoryError, match="so its rules could not be applied"):
        write_folder({"a.md": "a"}, dst, delete=True)
    (dst / ".cmemignore").rmdir()
    (dst / ".cmemignore").write_bytes(b"#" * 20)
    monkeypatch.setattr(_walk, "LARGEST", 10)
    with pytest.raises(ColonyMemoryError, match="too large, 20 bytes, so its rules"):
        write_folder({"a.md": "a"}, dst, delete=True)
    assert (dst / "x").exists()


def test_a_directory_that_cannot_be_looked_into_stops_it(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"a", "x": b"x", "closed/inner/y": b"y"})
    real = os.scandir

    def closed(at):
        if os.path.samestat(os.stat(at), (dst / "closed/inner").stat()):  # noqa: PTH116 - of a descriptor
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(at)

    monkeypatch.setattr(os, "scandir", closed)
    before = tree(dst)
    with pytest.raises(ColonyMemoryError, match=r"the files to delete in .* are not known .*'?closed/inner/.*denied"):
        write_folder({"a.md": "a"}, dst, delete=True)
    assert tree(dst) == before
    known = metadata(left_out={"closed/inner/": "not readable: permission denied"})
    assert write_folder({"a.md": "a", **known}, dst, delete=True).removed == ("x",)


def test_a_directory_that_is_not_removed_at_once_goes_later(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"a", "b.md": b"b", "old/c.md": b"c"})

    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "remove_directory", fails)
        assert write_folder({"a.md": "new", "d.md": "d"}, dst, delete=True).removed == ("b.md", "old/", "old/c.md")
    assert files(dst) == {"a.md": b"new", "d.md": b"d"}
    assert (dst / "old").is_dir()
    assert not recover(dst)
    assert set(tree(dst)) == {"a.md", "d.md"}
    assert traces() == []


@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.parametrize("when", ["changed", "added"])
def test_what_comes_to_be_there_meanwhile_is_not_taken_away(tmp_path, when, kind):
    dst = make(tmp_path / "dst", {"a.md": b"a", "old/b.md": b"b"})
    late = {"old/b.md": b"changed"} if when == "changed" else {"old/in/new.md": b"new"}
    documents = {"a.md": "new", **({"old": "a file"} if kind == "file" else {})}

    def meanwhile(done, total, name):
        make(dst, late)

    if (when, kind) == ("added", "directory"):
        write_folder(documents, dst, delete=True, on_progress=meanwhile)
        assert files(dst) == {"a.md": b"new", **late}
    else:
        with pytest.raises(ColonyMemoryError, match="in the meantime"):
            write_folder(documents, dst, delete=True, on_progress=meanwhile)
        assert files(dst) == {"a.md": b"a", "old/b.md": b"b", **late}
    assert traces() == []


def test_what_changed_its_kind_makes_way(tmp_path):
    documents = {"a": "now a file", "b/c.md": "in a directory", **metadata(empty_dirs=["d"])}
    dst = make(tmp_path / "dst", {"a/x.md": b"x", "a/y/z.md": b"z", "b": b"a file", "d": b"another"})
    for options in ({}, {"delete": False, "force": True}):
        with pytest.raises(ColonyMemoryError, match=r"'a'.* is a directory; nothing was written"):
            write_folder(documents, dst, **options)
    before = tree(dst)
    planned = write_folder(documents, dst, delete=True, dry_run=True)
    assert tree(dst) == before
    done = write_folder(documents, dst, delete=True)
    assert (done.created, done.directories) == (("a", "b/c.md"), ("d",)) == (planned.created, planned.directories)
    assert done.removed == ("a/", "a/x.md", "a/y/", "a/y/z.md", "b", "d") == planned.removed
    assert files(dst) == {"a": b"now a file", "b/c.md": b"in a directory"}
    assert (dst / "d").is_dir()


@pytest.mark.parametrize("kept", ["a/.git/HEAD", "a/x.log", "a/link"])
def test_what_no_backup_saves_is_no_way_to_make(tmp_path, kept):
    dst = make(tmp_path / "dst", {"a/x.md": b"x", "b.md": b"old", ".cmemignore": b"*.log\n"})
    if kept == "a/link":
        (dst / kept).symlink_to("x.md")
    else:
        make(dst, {kept: b"mine"})
    before = tree(dst)
    with pytest.raises(ColonyMemoryError, match=r"'a'.* is a directory, with something in it that no backup saves"):
        write_folder({"a": "a file", "b.md": "new"}, dst, delete=True)
    assert tree(dst) == before


def test_a_pipe_or_a_link_makes_no_way(tmp_path):
    dst = make(tmp_path / "dst", {"x.md": b"x"})
    os.mkfifo(dst / "a")
    with pytest.raises(ColonyMemoryError, match=r"'a/b.md'.*'.*a' is not a directory; nothing"):
        write_folder({"a/b.md": "new"}, dst, delete=True)
    (dst / "a").unlink()
    (dst / "a").symlink_to("x.md")
    with pytest.raises(ColonyMemoryError, match=r"'a/b.md'.*'.*a' is a symbolic link"):
        write_folder({"a/b.md": "new"}, dst, delete=True)
