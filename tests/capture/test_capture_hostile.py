"""A folder whose contents are a stranger's, and a stranger who writes in it while it is restored into."""

import contextlib
import os
import sys

import pytest
from capture_trees import files, linux, make, metadata, posix, traces, tree

from colony_memory._os import directory as _directory
from colony_memory._os import directory as disk
from colony_memory._os.directory import Directory, Reach
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import Identity
from colony_memory.capture import read_folder, write_folder
from colony_memory.capture._journal import MOVING, Journal, Step, Version, dump_journal
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

pytestmark = posix

OLD = {"a.md": b"old a", "mine/c.md": b"old c"}
NEW = {"a.md": "new a", "mine/c.md": "new c", "mine/d.md": "new d", "e/f.md": "new f"}
PLANTED = [".colony-memory-restoring-here", ".colony-memory-restoring-0123456789abcdef"]


def plant(place, name, folder):
    """What looks like a restore that was cut off."""
    kept = make(place / name / "kept", {"0": b"a stranger's", ".bashrc": b"a stranger's"})
    steps = (
        Step(".bashrc", Version(1, 1, 1), Version.of(kept.joinpath("0").stat()), "0"),
        Step("precious.txt", Version.of((folder / "precious.txt").stat()), None, "1"),
    )
    identity = Identity.of(folder.stat())
    journal = Journal(str(folder), str(folder), identity, name, boot="", phase=MOVING, steps=steps)
    for file in ("journal.json", "state.json"):
        (place / name / file).write_bytes(dump_journal(journal))


@pytest.mark.parametrize("name", PLANTED)
def test_what_lies_in_a_folder_or_beside_it_is_never_obeyed(tmp_path, name):
    home = make(tmp_path / "home", {".bashrc": b"mine", "precious.txt": b"mine", "work/evil/README.md": b"hi"})
    evil = home / "work/evil"
    (evil / "up").symlink_to("../..")
    for place in (evil, evil.parent, evil / "sub"):
        place.mkdir(exist_ok=True)
        plant(place, name, home)
    before = tree(home)
    assert not recover(evil)
    read_folder(evil)
    assert tree(home) == before
    write_folder({"README.md": "saved", "sub/x.md": "x"}, evil, delete=True)
    after = tree(home)
    after.pop("work/evil/sub/x.md")
    assert after.pop("work/evil/README.md")[1] == b"saved"
    before.pop("work/evil/README.md")
    assert after == before


def test_a_snapshot_cannot_write_state_that_is_believed_later(tmp_path, monkeypatch):
    home = make(tmp_path / "home", {"a.md": b"a"})
    inside = ".local/state/colony-memory"
    monkeypatch.setenv("XDG_STATE_HOME", str(home / ".local/state"))
    for documents in (
        {f"{inside}/restores/0.json": "{}"},
        {".LOCAL/State/colony-memory/x": "x"},
        metadata(empty_dirs=[f"{inside}/restores"]),
        metadata(links={".local": "elsewhere"}),
        {"elsewhere/state/colony-memory/restores/0.json": "{}", **metadata(links={".local/state": "../elsewhere"})},
        {".local/state": "a file"},
    ):
        with pytest.raises(ColonyMemoryError, match="is where the state of restores is kept; nothing was written"):
            write_folder(documents, home, force=True)
    with pytest.raises(ColonyMemoryError, match="names must not be written in"):
        write_folder({"x": "{}"}, home / inside / "restores", force=True)
    assert files(home) == {"a.md": b"a"}
    write_folder({".local/state/other": "x", ".local/share/y": "y"}, home)
    assert write_folder({"a.md": "a"}, home, delete=True).removed == (
        ".local/share/",
        ".local/share/y",
        ".local/state/other",
    )
    assert state_directory().is_dir()


@pytest.mark.parametrize("links", [True, False])
def test_a_link_in_the_place_of_a_directory_at_any_step_leads_nowhere(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(Directory, "_rename", lambda *_: False)
        monkeypatch.setattr(Directory, "share", lambda *_: (_ for _ in ()).throw(PermissionError(1, "no")))
    real = Directory.enter
    calls = []
    said = set()
    at = 0

    def enter(directory, name):
        calls.append(name)
        if len(calls) == at and (dst / "mine").is_dir() and not (dst / "mine").is_symlink():
            (dst / "mine").rename(dst / "moved")
            (dst / "mine").symlink_to(outside)
        return real(directory, name)

    monkeypatch.setattr(Directory, "enter", enter)
    while True:
        at += 1
        calls.clear()
        dst = make(tmp_path / str(at) / "dst", OLD)
        outside = make(tmp_path / str(at) / "outside", {"c.md": b"outside"})
        try:
            write_folder(NEW, dst)
        except ColonyMemoryError as error:
            said.add(str(error))
        assert files(outside) == {"c.md": b"outside"}, at
        if len(calls) < at:
            break
        if (dst / "moved").exists():
            (dst / "mine").unlink()
            (dst / "moved").rename(dst / "mine")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Directory, "enter", real)
                with contextlib.suppress(ColonyMemoryWarning):
                    recover(dst)
            new = {name: text.encode() for name, text in NEW.items()}
            found = files(dst)
            # Where the link was in the way back, the original is beside it.
            beside = [name for name in found if name.startswith("c.md.local-")]
            assert found in (OLD, new) or {**found, "mine/c.md": found[beside[0]]}.items() >= OLD.items(), at
    assert at > 5
    assert any("symbolic link" in each for each in said)
    assert traces() == []


@pytest.fixture
def by_path(monkeypatch):
    """A system without directory descriptors."""
    monkeypatch.setattr(_directory, "BY_DESCRIPTOR", False)
    monkeypatch.setattr(os, "supports_dir_fd", set())


@pytest.mark.usefixtures("by_path")
def test_without_descriptors_it_is_done_by_path(tmp_path, monkeypatch):
    documents = {**NEW, **metadata(links={"l": "a.md"}, empty_dirs=["logs"])}
    new = {name: text.encode() for name, text in NEW.items()} | {"l": "a.md"}
    for target in ("new", "empty", "dst"):
        make(tmp_path / "empty", {}), make(tmp_path / "dst", {**OLD, "gone/x.md": b"x"})
        write_folder(documents, tmp_path / target, delete=True)
        assert files(tmp_path / target) == new
        assert write_folder(documents, tmp_path / target, dry_run=True).replaced == ()
    dst = make(tmp_path / "dst", OLD)
    (dst / "mine").rename(dst / "moved")
    (dst / "mine").symlink_to("moved")
    with pytest.raises(ColonyMemoryError, match="symbolic link"):
        write_folder(documents, dst)
    (dst / "e/f.md").write_text("changed")
    with monkeypatch.context() as patch:
        patch.setattr(Reach, "sync", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "no")))
        before = tree(dst)
        with pytest.raises(ColonyMemoryError, match="nothing was changed"):
            write_folder({"e/f.md": "again"}, dst)
    assert tree(dst) == before
    with pytest.raises(NotADirectoryError):
        Directory.open(dst / "a.md")


@linux
@pytest.mark.parametrize("together", [True, False])
def test_many_files_are_synced_by_one_call_or_each(tmp_path, monkeypatch, together):
    synced = []
    calls = []
    monkeypatch.setattr(os, "fsync", synced.append)
    monkeypatch.setattr(disk, "sync_file_system", calls.append)
    if not together:
        monkeypatch.setattr(disk, "_native", lambda *_: None)
    for target in (tmp_path / "new", make(tmp_path / "dst", OLD)):
        synced.clear()
        write_folder({f"{number}.md": "x" for number in range(100)}, target)
        assert (len(synced) < 30) is together, len(synced)
        assert (len(synced) > 100) is not together
    assert len(calls) == (3 if together else 0)


@linux
def test_an_error_of_that_call_is_the_systems(monkeypatch):
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.sync_file_system(10_000)
    disk._native.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    try:
        assert not disk.syncs_together(10_000)
        with pytest.raises(NotImplementedError):
            disk.sync_file_system(0)
    finally:
        disk._native.cache_clear()
