import errno
import os
import sys
from pathlib import Path

import pytest
from capture_trees import files, linux, make, metadata, names, tree

from colony_memory.capture import _filenames, write_folder
from colony_memory.capture._filenames import is_dotgit
from colony_memory.exceptions import ColonyMemoryError, Hint


@pytest.mark.parametrize(
    "name", ["/abs.md", "../up.md", "a/../../up.md", "./a", "a/.", "a//b", "", "a\\b", "C:x", "a\0b", "a/"]
)
@pytest.mark.parametrize("via", ["document", "file", "empty_dir"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name, via):
    if via == "document":
        documents = {"MEMORY.md": "fine", name: "evil"}
    elif via == "file":
        documents = {"MEMORY.md": "fine", **metadata(files={name: ""})}
    else:
        documents = {"MEMORY.md": "fine", **metadata(empty_dirs=[name])}
    with pytest.raises(ColonyMemoryError, match="nothing was written") as caught:
        write_folder(documents, tmp_path / "dst", force=True)
    assert f"document {name!r}" in str(caught.value)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("documents", "joins"),
    [
        ({"Memory.md": "1", "memory.md": "2"}, (True, True)),
        ({"caf\u00e9.md": "1", "cafe\u0301.md": "2"}, (False, True)),
        ({"STRASSE": "1", "stra\u00dfe/x": "2"}, (True, False)),
    ],
)
def test_twins_are_refused_where_the_file_system_has_one_file_for_them(tmp_path, monkeypatch, documents, joins):
    monkeypatch.setattr(_filenames, "_joins_names", lambda directory, **_: joins)
    with pytest.raises(ColonyMemoryError, match="are one file on this file system; nothing was written"):
        write_folder(documents, tmp_path / "dst")
    assert names(tmp_path) == []


def test_case_twins_are_told_by_what_is_there(tmp_path, monkeypatch):
    twins = {"Memory.md": "1", "memory.md": "2"}
    for target in (make(tmp_path / "empty", {}), make(tmp_path / "dst", {"1": b"", "note": b""})):
        assert _filenames._joins_names(target, dry_run=True) == (False, sys.platform == "darwin")
        with monkeypatch.context() as patch:
            patch.setattr(os.path, "lexists", lambda _: True)
            patch.setattr(os.path, "samestat", lambda *_: True)
            patch.setattr(Path, "lstat", lambda _: tmp_path.stat())
            assert _filenames._joins_names(target, dry_run=True) == (True, True)
        assert write_folder(twins, target).created == ("Memory.md", "memory.md")
    monkeypatch.setattr(Path, "iterdir", lambda _: (_ for _ in ()).throw(PermissionError(errno.EACCES, "denied")))
    with pytest.raises(ColonyMemoryError, match="cannot be looked at"):
        write_folder(twins, tmp_path)


def test_case_twins_are_tried_out_where_nothing_tells(tmp_path, monkeypatch):
    near = make(tmp_path / "usb", {})
    real = Path.lstat

    def here(path):
        there = [entry for entry in near.iterdir() if path.parent == near and entry.name.lower() == path.name.lower()]
        return there[0] if there else path

    monkeypatch.setattr(os.path, "lexists", lambda path: here(Path(path)).exists())
    monkeypatch.setattr(Path, "lstat", lambda path: real(here(path)))
    assert _filenames._joins_names(near, dry_run=False) == (True, True)
    for target in (near, near / "new"):
        with pytest.raises(ColonyMemoryError, match="are one file on this file system; nothing was written"):
            write_folder({"Memory.md": "1", "memory.md": "2"}, target)
    assert names(near) == []


@pytest.mark.parametrize(
    "name", ["CON", "aux.md", "x/lpt9.txt", "com\u00b9", "a:b", "q?.md", "dot.", "blank /x", "a\x1f"]
)
def test_windows_refuses_what_it_cannot_hold(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_filenames, "_WINDOWS", True)
    with pytest.raises(ColonyMemoryError, match="nothing was written") as caught:
        write_folder({name: "x"}, tmp_path / "dst")
    assert repr(name) in str(caught.value)
    write_folder({"console.md": "x", "com10": "x", "auxiliary": "x"}, tmp_path / "dst")


@pytest.mark.parametrize("counts_characters", [False, True])
def test_overlong_names_are_refused(tmp_path, monkeypatch, counts_characters):
    monkeypatch.setattr(_filenames, "_COUNTS_CHARACTERS", counts_characters)
    dst = make(tmp_path / "dst", {"A.md": b"old A", "Z.md": b"old Z"})
    for name in ("M" * 300 + ".md", "\u3042" * (256 if counts_characters else 86)):
        for dry_run in (True, False):
            with pytest.raises(ColonyMemoryError, match=r"longer than 255.*nothing was written") as caught:
                write_folder({"A.md": "new", name: "long", "Z.md": "new"}, dst, force=True, dry_run=dry_run)
            assert repr(name) in str(caught.value)
    assert files(dst) == {"A.md": b"old A", "Z.md": b"old Z"}


@linux
def test_names_that_the_system_cannot_take_are_refused(tmp_path):
    with pytest.raises(ColonyMemoryError, match="cannot encode; nothing was written"):
        write_folder({"half\ud83d.md": "x"}, tmp_path / "dst")
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    deep = "/".join(["d" * 200] * 25)
    with pytest.raises(ColonyMemoryError, match=r"ddd.*nothing was (changed|written)"):
        write_folder({"a.md": "new", deep: "x"}, dst)
    assert tree(tmp_path).keys() == {"dst", "dst/a.md"}
    assert files(dst) == {"a.md": b"old"}


def test_all_that_cannot_be_held_is_named_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(_filenames, "_WINDOWS", True)
    documents = {"ok.md": "x", "CON": "x", "a:b": "x", "M" * 300: "x", "f": "file", "f/below": "x"}
    with pytest.raises(ColonyMemoryError) as caught:
        write_folder(documents, tmp_path / "dst")
    message = caught.value.message
    assert message.startswith("documents ")
    assert all(repr(name) in message for name in documents if name != "ok.md")
    assert message.endswith("nothing was written; choose the others to restore them without")
    assert caught.value.hint == Hint("restore", "names")
    with pytest.raises(ColonyMemoryError, match=r"'CON' .*; and 4 more; nothing was written") as caught:
        write_folder({"CON": "x"} | {f"a:{number:02}": "x" for number in range(13)}, tmp_path / "dst")
    assert "'a:08'" in str(caught.value)
    assert "'a:09'" not in str(caught.value)
    assert names(tmp_path) == []


def test_a_snapshot_cannot_pass_for_a_restore_that_was_cut_off(tmp_path):
    for name in (".colony-memory-restoring-here/journal.json", "a/.COLONY-memory-restoring-here.lock"):
        with pytest.raises(ColonyMemoryError, match="a restore's own use; nothing was written"):
            write_folder({name: "{}"}, tmp_path / "dst")


@linux
def test_a_path_that_is_too_long_as_a_whole_is_refused(tmp_path, monkeypatch):
    dst = tmp_path / "dst"
    room = 4095 - len(os.fsencode(dst)) - _filenames._STAGED_LONGER
    fits = "/".join(["d" * 200] * 30)[:room].rstrip("/")
    with pytest.raises(ColonyMemoryError, match=r"too long for this system; nothing was written"):
        write_folder({fits + "x" * (room + 1 - len(fits)): "x"}, dst)
    write_folder({fits: "x", "a.md": "a"}, dst)
    make(dst, {fits: b"mine"})
    assert write_folder({fits: "y"}, dst).replaced
    assert (dst / fits).read_bytes() == b"y"
    for unknown in (OSError(errno.EINVAL, "Invalid argument"), ValueError("unrecognized name")):
        monkeypatch.setattr(os, "pathconf", lambda *_, error=unknown: (_ for _ in ()).throw(error))
        write_folder({"b.md": "b"}, dst)
    monkeypatch.delattr(os, "pathconf")
    write_folder({"c.md": "c"}, dst)


SPELLINGS = [
    ".git",
    ".GIT",
    ".git ",
    ".git.",
    ".g\u200cit",
    "\ufeff.git",
    ".git\u2060",
    ".gi\u00adt",
    ".g\U000e0001it",
    ".git::$INDEX_ALLOCATION",
    ".git :x",
    ".\uff47\uff49\uff54",
    "\u2024git",
    ".g\u0131t",
    ".G\u0130T",
    "git~1",
    "git~12",
    "gi9c4e~1",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_nothing_is_written_into_what_a_file_system_takes_for_a_repository(tmp_path, spelling):
    assert is_dotgit(spelling)
    dst = make(tmp_path / "dst", {"a.md": b"a", ".git/config": b"mine"})
    before = tree(tmp_path)
    for documents in (
        {spelling: "gitdir: elsewhere"},
        {f"{spelling}/config": "[core]\n"},
        {f"notes/{spelling}/hooks/pre-commit": "#!/bin/sh\n"},
        metadata(files={f"{spelling}/x": "AA=="}),
        metadata(empty_dirs=[f"notes/{spelling}"]),
        metadata(links={spelling: "a.md"}),
    ):
        for target in (dst, tmp_path / "new"):
            with pytest.raises(ColonyMemoryError, match=r"in which git looks for programs.*nothing was written"):
                write_folder({"b.md": "b", **documents}, target, force=True)
    assert tree(tmp_path) == before
