import errno
import logging
import os
from pathlib import Path

import pytest
from capture_trees import files, linux, make, names, no_links, posix, traces, tree, without_staging
from forks import as_user

from colony_memory._os.directory import Directory
from colony_memory._os.files import Files
from colony_memory.capture import _stage, _write, write_folder
from colony_memory.capture._moves import Moves
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

OLD = {"a.md": b"old a", "b.sh": b"old b", "mine/c.md": b"old c", "mine/keep.md": b"keep"}
NEW = {"a.md": "new a", "b.sh": "new b", "mine/c.md": "new c", "mine/x/d.md": "new d", "e/f/g.md": "new g"}


@pytest.mark.parametrize("links", [True, False])
def test_what_cannot_be_put_back_is_kept_and_named(tmp_path, monkeypatch, links, caplog):
    dst = make(tmp_path / "dst", OLD)
    real, calls = Directory.move, []

    def fails_from_then_on(*args):
        if not isinstance(args[0], Files):  # in which the state is kept
            calls.append(args)
        if len(calls) > (1 if links else 2):
            raise OSError(errno.EIO, "Input/output error")
        real(*args)

    with monkeypatch.context() as patch:
        if not links:
            patch.setattr(os, "link", no_links)
        patch.setattr(Directory, "_rename", lambda *_: False)
        patch.setattr(Directory, "move", fails_from_then_on)
        with pytest.raises(ColonyMemoryError, match=r"putting back .*'a\.md'.*the originals are in") as caught:
            write_folder(NEW, dst)
    (staging,) = [path for path in dst.iterdir() if path.name.startswith(".colony")]
    assert str(staging / "kept") in str(caught.value)
    assert (staging / "kept/0").read_bytes() == b"old a"
    left = {name: content for name, content in files(dst).items() if not name.startswith(".colony")}
    assert {**left, "a.md": b"old a"} == OLD
    assert "could not be put back" in caplog.text
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(dst)
    assert files(dst) == OLD
    assert names(tmp_path) == ["dst"]
    assert traces() == []


@pytest.mark.parametrize("empty", [True, False])
def test_a_parent_that_is_not_ours_is_got_around(tmp_path, monkeypatch, empty):
    dst = make(tmp_path / "dst", {} if empty else OLD)
    real = Directory.make

    def closed(directory, name):
        if directory.path == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied")
        real(directory, name)

    monkeypatch.setattr(Directory, "make", closed)
    write_folder({"a.md": "new a"}, dst)
    assert (dst / "a.md").read_bytes() == b"new a"
    assert not [path for path in dst.iterdir() if path.name.startswith(".")]
    with pytest.raises(ColonyMemoryError, match=r"directory .* cannot be written"):
        write_folder({"a.md": "a"}, tmp_path / "absent")


@linux
@pytest.mark.parametrize("killed", [True, False])
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("name", ["a.md", "mine/keep.md"])
def test_what_a_rename_puts_there_at_the_last_moment_is_not_lost(tmp_path, monkeypatch, name, killed, exchanges):
    dst = make(tmp_path / "dst", OLD)
    exchange, move, moved = Directory.exchange, Directory.move, []

    def save():
        if not moved:
            moved.append(name)
            make(tmp_path, {"theirs": b"theirs"})
            (tmp_path / "theirs").rename(dst / name)

    def exchange_late(*args):
        if args[3] == name:
            save()
        done = exchange(*args)
        if moved and killed:
            os._exit(7)
        return done

    def move_late(*args):
        if args[1] == name.rpartition("/")[2] and (args[1] != name or not exchanges):
            save()
        move(*args)
        if moved and killed:
            os._exit(7)

    def restore():
        if exchanges:
            monkeypatch.setattr(Directory, "exchange", exchange_late)
        else:
            monkeypatch.setattr(Directory, "_rename", lambda *_: False)
        monkeypatch.setattr(Directory, "move", move_late)
        with pytest.raises(ColonyMemoryError, match="was changed in the meantime"):
            write_folder(NEW, dst, delete=True)

    if killed:
        assert as_user(os.geteuid(), restore) == 7
        with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
            assert recover(dst)
    else:
        restore()
        assert moved
    assert files(dst) == {**OLD, name: b"theirs"}
    assert traces() == []


@linux
@pytest.mark.parametrize("name", ["a.md", "e/f/g.md"])
def test_what_comes_to_be_there_at_the_last_moment_stays_where_a_file_has_no_second_name(tmp_path, monkeypatch, name):
    dst = make(tmp_path / "dst", OLD)
    real = Directory.move_to_free

    def late(*args):
        if not (dst / name).exists() and (dst / name).parent.exists():
            make(dst, {name: b"theirs"})
        return real(*args)

    monkeypatch.setattr(Directory, "exchange", lambda *_: False)
    monkeypatch.setattr(Directory, "move_to_free", late)
    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(ColonyMemoryError, match="was changed in the meantime"):
        write_folder(NEW, dst)
    assert {*files(dst).values()} == {*OLD.values(), b"theirs"}
    assert traces() == []


@linux
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_directory_that_comes_out_at_the_last_moment_goes_back_after_a_kill(tmp_path, monkeypatch, exchanges):
    dst = make(tmp_path / "dst", OLD)
    exchange, move = Directory.exchange, Directory.move

    def late(act):
        def acts(*args):
            if args[1 if act is move else 3] == "a.md":
                (dst / "a.md").unlink()
                make(dst / "a.md", {"theirs": b"theirs"})
                act(*args)
                os._exit(7)
            act(*args)

        return acts

    def restore():
        if exchanges:
            monkeypatch.setattr(Directory, "exchange", late(exchange))
        else:
            monkeypatch.setattr(Directory, "_rename", lambda *_: False)
        monkeypatch.setattr(Directory, "move", late(move))
        write_folder(NEW, dst)

    assert as_user(os.geteuid(), restore) == 7
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(dst)
    assert files(dst) == {**{name: data for name, data in OLD.items() if name != "a.md"}, "a.md/theirs": b"theirs"}
    assert traces() == []


@posix
def test_what_is_written_in_a_directory_that_makes_way_is_not_lost(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"l/m.md": b"old m"})
    real = Moves.sync
    with Directory.open(dst / "l") as inside:

        def late(*args):
            monkeypatch.setattr(Moves, "sync", real)
            os.close(inside.make_file("n.md"))
            real(*args)

        monkeypatch.setattr(Moves, "sync", late)
        with pytest.raises(ColonyMemoryError, match="was changed in the meantime; nothing was written"):
            write_folder({"l": "new l"}, dst, delete=True)
    assert files(dst) == {"l/m.md": b"old m", "l/n.md": b""}


@pytest.mark.parametrize("another", [True, False])
def test_a_folder_that_goes_after_it_was_looked_at_is_not_made_of_what_it_lacked(tmp_path, monkeypatch, another):
    dst = make(tmp_path / "dst", OLD)
    real = _write.make_plan

    def early(*args, **options):
        plan = real(*args, **options)
        dst.rename(tmp_path / "moved")
        if another:
            make(dst, {"other.md": b"other"})
        return plan

    monkeypatch.setattr(_write, "make_plan", early)
    with pytest.raises(ColonyMemoryError, match=r"nothing was (written|changed)"):
        write_folder({**{name: text.decode() for name, text in OLD.items()}, "new.md": "new"}, dst)
    assert files(tmp_path / "moved") == OLD
    assert names(tmp_path) == (["dst", "moved"] if another else ["moved"])
    assert not another or files(dst) == {"other.md": b"other"}
    assert traces() == []


def change(path):
    path.write_bytes(b"changed by another")


def make_link(path):
    path.symlink_to("mine")


@posix
@pytest.mark.parametrize(
    ("name", "act"), [("a.md", change), ("mine/x", make_link), ("e/f/g.md", change), ("mine/x/d.md", Path.mkdir)]
)
@pytest.mark.parametrize("links", [True, False])
def test_what_another_changes_in_the_meantime_stops_the_restore(tmp_path, monkeypatch, name, act, links):
    dst = make(tmp_path / "dst", OLD)
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    real = Moves.take

    def late(*args):
        (dst / name).parent.mkdir(parents=True, exist_ok=True)
        act(dst / name)
        expected.update(without_staging(dst))
        real(*args)

    expected = {}
    monkeypatch.setattr(Moves, "take", late)
    with pytest.raises(ColonyMemoryError, match=r"in the meantime|is a symbolic link"):
        write_folder(NEW, dst)
    assert tree(dst) == expected
    assert names(tmp_path) == ["dst"]


def test_what_cannot_be_synced_or_removed_is_told(tmp_path, monkeypatch, caplog):
    def fails(*_):
        raise OSError(errno.EIO, "Input/output error")

    caplog.set_level(logging.DEBUG)
    with monkeypatch.context() as patch:
        patch.setattr(Directory, "sync", fails)
        patch.setattr(_stage.Stage, "sync_directories", lambda *_: None)
        patch.setattr(_stage.Stage, "finish_directory", lambda *_: None)
        write_folder({"a.md": "a"}, tmp_path / "dst")
    assert "may not survive a power cut" in caplog.text
    monkeypatch.setattr(Directory, "remove_tree", fails)
    write_folder({"a.md": "a"}, tmp_path / "dst2")
    assert "could not be removed" in caplog.text
