"""Where the state of restores is kept, and who may."""

import os
import sys
from pathlib import Path

import pytest
from capture_trees import files, linux, make, names, posix, root_only, traces

from colony_memory._os.files import Files
from colony_memory._os.machine import state_directory
from colony_memory.capture import _journal, write_folder
from colony_memory.capture._journal import Record
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

pytestmark = posix


@linux
def test_it_has_a_place_with_a_strange_home_and_an_error_without_one(monkeypatch, tmp_path):
    import pwd

    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    for strange in ("", "relative", None):
        monkeypatch.setenv("HOME", strange) if strange is not None else monkeypatch.delenv("HOME")
        assert state_directory() == home / ".local/state/colony-memory"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert state_directory() == home / "Library/Application Support/colony-memory"

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(FileNotFoundError, match="no home directory"):
        state_directory()
    dst = make(tmp_path / "dst", {"a.md": b"a"})
    with pytest.raises(ColonyMemoryError, match=r"cannot be kept .*set XDG_STATE_HOME.*; nothing was changed"):
        write_folder({"a.md": "new"}, dst)
    write_folder({"a.md": "new"}, tmp_path / "new", delete=True)
    assert (names(tmp_path), files(dst), files(tmp_path / "new")) == (["dst", "new"], {"a.md": b"a"}, {"a.md": b"new"})
    assert not recover(dst)


@root_only
def test_what_root_makes_in_the_home_of_another_stays_that_ones(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 1000, 1001)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    write_folder({"a.md": "new"}, make(tmp_path / "dst", {"a.md": b"old"}))
    made = list(home.rglob("*"))
    assert len(made) == 5
    assert {(path.stat().st_uid, path.stat().st_gid) for path in made} == {(1000, 1001)}
    restores = home / ".local/state/colony-memory/restores"
    assert [oct(path.stat().st_mode & 0o777) for path in (restores, *restores.iterdir())] == ["0o700", "0o600"]
    monkeypatch.setattr(os, "chown", lambda *_, **__: (_ for _ in ()).throw(PermissionError(1, "no")))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "other"))
    write_folder({"a.md": "newer"}, tmp_path / "dst")


def test_a_state_that_cannot_be_removed_is_told_and_does_no_harm(tmp_path, monkeypatch, caplog):
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    real = Files.clear

    def clear(directory, name):
        if name.endswith((".json", ".lock")):
            raise PermissionError(13, "Permission denied")
        real(directory, name)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "clear", clear)
        write_folder({"a.md": "new"}, dst)
    assert "could not be removed" in caplog.text
    assert len(traces()) == 1
    assert not recover(dst)
    assert files(dst) == {"a.md": b"new"}
    assert traces() == []


def test_a_way_back_that_cannot_be_closed_stays_open(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    real, calls = Record.write, []

    def write(record, journal):
        calls.append(journal.phase)
        if journal.phase == "done":
            raise OSError(28, "No space left on device")
        real(record, journal)

    for removable in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(Record, "write", write)
            if not removable:
                patch.setattr(Record, "remove", lambda _: False)
            with pytest.raises(ColonyMemoryError, match=r"No space left on device.*nothing was changed"):
                write_folder({"a.md": "new"}, dst)
        assert (dst / "a.md").read_bytes() == b"old"
        assert len(traces()) == (0 if removable else 1)
    with pytest.warns(ColonyMemoryWarning, match="as they were before it"):
        assert recover(dst)
    assert files(dst) == {"a.md": b"old"}
    assert calls == ["preparing", "moving", "done", "done"] * 2


def test_the_lock_of_those_that_begin_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    real = _journal.locked_in
    with _journal.start_lock():
        monkeypatch.setattr(_journal, "locked_in", lambda directory, name: real(directory, name, patience=0))
        with pytest.raises(ColonyMemoryError, match="another restore is about to begin"):
            write_folder({"a.md": "new"}, dst)
    assert files(dst) == {"a.md": b"old"}
