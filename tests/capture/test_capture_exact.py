"""What a restore brings back beside the bytes, and what it leaves alone."""

import errno
import os
import stat
import tempfile
import warnings
from pathlib import Path

import pytest
from capture_trees import files, make, metadata, names, posix, root_only, tree
from forks import as_user

from colony_memory._os.directory import Directory
from colony_memory._os.files import Files
from colony_memory.capture import read_folder, write_folder
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

pytestmark = posix
AT = 1_700_000_000_123_456_789


def mode(path):
    return oct(stat.S_IMODE(path.lstat().st_mode))


@pytest.mark.parametrize("target", ["absent", "empty", "full"])
def test_links_permissions_and_times_come_back(tmp_path, target):
    dst = tmp_path / "dst"
    if target != "absent":
        dst.mkdir()
    if target == "full":
        make(dst, {"mine.md": b"mine"})
    documents = {
        "a.md": "a",
        "notes/b.md": "b",
        **metadata(
            empty_dirs=["logs"],
            links={"today.md": "notes/b.md", "notes/up": "../a.md", "notes/here": ".", "gone": "nowhere"},
            modes={"a.md": "640", "notes/b.md": "444", "notes/": "550", "logs/": "755"},
            times={"a.md": AT, "notes/b.md": AT + 1, "notes/": AT + 2, "today.md": AT + 3},
        ),
    }
    plan = write_folder(documents, dst, dry_run=True)
    done = write_folder(documents, dst)
    assert done == plan
    assert done.created == ("a.md", "gone", "notes/b.md", "notes/here", "notes/up", "today.md")
    assert (mode(dst / "a.md"), mode(dst / "notes/b.md")) == ("0o640", "0o444")
    assert (mode(dst / "notes"), mode(dst / "logs")) == ("0o550", "0o755")
    assert [(dst / name).lstat().st_mtime_ns - AT for name in ("a.md", "notes/b.md", "notes", "today.md")] == [
        0,
        1,
        2,
        3,
    ]
    assert str((dst / "today.md").readlink()) == "notes/b.md"
    assert (dst / "notes/up").read_text() == "a"
    again = write_folder(documents, dst)
    assert (again.created, again.replaced, again.permissions, len(again.unchanged)) == ((), (), (), 6)
    assert not [name for name in names(dst) if name.startswith(".colony")]


def test_permissions_alone_are_set_in_place(tmp_path):
    dst = make(tmp_path / "dst", {"a.md": b"a", "b.md": b"b"})
    os.link(dst / "a.md", dst / "other name")
    (dst / "a.md").chmod(0o600)
    documents = {"a.md": "a", "b.md": "b", **metadata(modes={"a.md": "644"})}
    done = write_folder(documents, dst)
    assert (done.permissions, done.unchanged, done.replaced) == (("a.md",), ("a.md", "b.md"), ())
    assert mode(dst / "a.md") == mode(dst / "other name") == "0o644"
    (dst / "a.md").chmod(0o4600)
    assert write_folder(documents, dst).permissions == ("a.md",)
    assert mode(dst / "a.md") == "0o4644"  # what is not the snapshot's business stays


@pytest.mark.parametrize("bits", ["4755", "0755", "75", "888", "-11", 493])
def test_permissions_of_a_snapshot_are_nine_bits(tmp_path, bits):
    with pytest.raises(ColonyMemoryError, match=r"modes|permissions"):
        write_folder({"a.md": "a", **metadata(modes={"a.md": bits})}, tmp_path / "dst")
    with pytest.raises(ColonyMemoryError, match="time"):
        write_folder({"a.md": "a", **metadata(times={"a.md": 2**63})}, tmp_path / "dst")
    assert names(tmp_path) == []


BAD_LINKS = {
    "absolute": {"x": "/etc/passwd"},
    "out": {"x": "../outside"},
    "out from below": {"a/b/x": "../../../outside"},
    "out and in again": {"x": "../dst/a.md"},
    "through another": {"a/b/up": "../..", "x": "a/b/up/.."},
    "through another, without dots": {"d": "a", "x": "d/b"},
    "through another in other letters": {"a/b/D": "../..", "x": "a/b/d/.."},
    "through itself": {"x": "x/../../outside"},
    "through one that is there": {"x": "there/.."},
    "empty": {"x": ""},
    "a backslash": {"x": "..\\outside"},
    "a drive": {"x": "C:/outside"},
    "NUL": {"x": "a\0b"},
    "too long": {"x": "a/" * 3000},
    "no name": {"x": "a\ud800b"},
}


@pytest.mark.parametrize("kind", BAD_LINKS)
@pytest.mark.parametrize("target", ["dst", "new"])
def test_a_link_that_leads_out_is_not_made(tmp_path, kind, target):
    make(tmp_path / "dst", {"a/b/c.md": b"c"})
    (tmp_path / "dst/there").symlink_to("a/b")
    if target == "new" and kind == "through one that is there":
        return
    before = tree(tmp_path)
    with pytest.raises(ColonyMemoryError, match=r"document .*'(x|a/b/x)' .*is a link .*nothing was written"):
        write_folder({"m.md": "m", **metadata(links=BAD_LINKS[kind])}, tmp_path / target, force=True)
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    ("there", "links", "refused"),
    [
        ({"on": "/etc/hostname"}, {"x": "on"}, "'x' is a link to 'on', which is a link that leads on out"),
        ({"on": "../outside"}, {"a/x": "../on"}, "'a/x' is a link to '../on', which"),
        ({"on": "one", "one": "../outside"}, {"x": "on"}, "'x' is a link to 'on', which"),
        ({"on": "m.md"}, {"x": "on"}, None),
        ({"on": "one", "one": "on"}, {"x": "on"}, None),
        ({"on": "/etc/hostname"}, {"x": "on", "on": "m.md"}, None),
        ({"on": "/etc/hostname", "x": "on"}, {"x": "on"}, None),
        ({}, {"x": "m.md/y"}, None),
    ],
)
def test_a_link_that_ends_at_one_that_is_there_stays_in_the_folder_too(tmp_path, there, links, refused):
    dst = make(tmp_path / "dst", {"m.md": b"m", "a/b.md": b"b"})
    for name, says in there.items():
        (dst / name).symlink_to(says)
    documents = {"m.md": "m", **metadata(links=links)}
    if refused is None:
        write_folder(documents, dst, force=True)
        assert {name: str((dst / name).readlink()) for name in links} == links
        return
    before = tree(tmp_path)
    with pytest.raises(ColonyMemoryError, match=refused):
        write_folder(documents, dst, force=True)
    assert tree(tmp_path) == before


def test_what_a_backup_takes_of_links_a_restore_takes_too(tmp_path):
    src = make(tmp_path / "src", {"m.md": b"m"})
    for name, says in {"out": "/etc/hostname", "on": "out", "fine": "m.md", "still": "fine"}.items():
        (src / name).symlink_to(says)
    capture = read_folder(src)
    assert [entry.name for entry in capture.left_out] == ["on", "out"]
    write_folder(capture.documents, src, force=True)
    write_folder(capture.documents, tmp_path / "dst")
    assert sorted(path.name for path in (tmp_path / "dst").iterdir()) == ["fine", "m.md", "still"]


def test_a_link_replaces_a_file_or_link_and_no_directory(tmp_path):
    dst = make(tmp_path / "dst", {"a.md": b"a", "file": b"text", "dir/x": b"x"})
    (dst / "link").symlink_to("file")
    documents = {"a.md": "a", **metadata(links={"file": "a.md", "link": "a.md"})}
    assert write_folder(documents, dst).replaced == ("file", "link")
    assert (str((dst / "file").readlink()), str((dst / "link").readlink())) == ("a.md", "a.md")
    with pytest.raises(ColonyMemoryError, match=r"'dir': .* is a directory"):
        write_folder(metadata(links={"dir": "a.md"}), dst, force=True)
    for clash in (
        {"x": "text", **metadata(links={"x": "a.md"})},
        metadata(links={"x": "a.md"}, files={"x": ""}),
        metadata(links={"x": "a.md"}, empty_dirs=["x"]),
        {"x/y": "text", **metadata(links={"x": "a.md"})},
    ):
        with pytest.raises(ColonyMemoryError, match=r"both in|of its own|is a file, and"):
            write_folder(clash, dst, force=True)


def test_masked_text_does_not_replace_the_real_one_unasked(tmp_path):
    dst = make(tmp_path / "dst", {"keys.md": b"token = real", "a.md": b"old"})
    documents = {"keys.md": "token = ****", "a.md": "new", "b.md": "b", **metadata(masked=["b.md", "keys.md"])}
    plan = write_folder(documents, dst, dry_run=True)
    done = write_folder(documents, dst)
    assert done == plan
    assert (done.left, done.masked, done.replaced) == (("keys.md",), ("b.md",), ("a.md",))
    assert files(dst) == {"keys.md": b"token = real", "a.md": b"new", "b.md": b"b"}
    done = write_folder(documents, dst, force=True)
    assert (done.left, done.masked, done.replaced) == ((), ("keys.md",), ("keys.md",))
    assert write_folder(documents, dst).left == ()


def test_other_names_of_a_file_are_told(tmp_path):
    dst = make(tmp_path / "dst", {"a.md": b"old"})
    os.link(dst / "a.md", tmp_path / "other")
    with pytest.warns(
        ColonyMemoryWarning, match=r"'a\.md' had other names \(hard links\), under which the old text stays"
    ):
        write_folder({"a.md": "new"}, dst)
    assert ((dst / "a.md").read_text(), (tmp_path / "other").read_text()) == ("new", "old")


@pytest.mark.parametrize("refused", [errno.EPERM, errno.ENOTSUP, errno.EACCES])
@pytest.mark.parametrize("target", ["new", "dst"])
def test_what_a_file_system_refuses_is_a_warning(tmp_path, monkeypatch, refused, target):
    make(tmp_path / "dst", {"a.md": b"old", "same.md": b"same"})
    documents = {
        **{f"{letter}.md": "new" for letter in "abcde"},
        "same.md": "same",
        "d/x.md": "x",
        **metadata(modes={"a.md": "640", "same.md": "640", "d/": "755"}, times={"b.md": AT}, links={"l": "a.md"}),
    }

    def refuse(*_, **__):
        raise OSError(refused, os.strerror(refused))

    for name in ("chmod", "fchmod", "chown", "utime"):
        monkeypatch.setattr(os, name, refuse)
    monkeypatch.setattr("colony_memory.capture._stage.is_root", lambda: True)
    monkeypatch.setattr(Directory, "status", other_owner(Directory.status))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        write_folder(documents, tmp_path / target)
    assert files(tmp_path / target)["a.md"] == b"new"
    said = sorted(str(each.message) for each in told)
    assert any(text.startswith("the permissions could not be kept of ") for text in said)
    assert "the time of change could not be kept of 'b.md'" in " ".join(said)
    assert len(said) <= 3  # one for each kind, however many files


def other_owner(real):
    def status(directory):
        if isinstance(directory, Files):  # in which the state is kept
            return real(directory)
        there = real(directory)
        return os.stat_result((*there[:4], 1234, 1234, *there[6:]))

    return status


@root_only
def test_what_root_makes_belongs_to_the_owner_of_the_folder(tmp_path):
    documents = {"notes/a.md": "a", "b.md": "b", **metadata(links={"l": "b.md"}, empty_dirs=["logs"])}
    there = make(tmp_path / "there", {"b.md": b"old", "theirs.md": b"old"})
    empty = tmp_path / "empty"
    empty.mkdir()
    home = tmp_path / "home"
    home.mkdir()
    for path in (there, there / "b.md", empty, home):
        os.chown(path, 1000, 1001)
    os.chown(there / "theirs.md", 1002, 1003)
    write_folder({**documents, "theirs.md": "new"}, there)
    write_folder(documents, empty)
    write_folder(documents, home / "agent/memory")
    for top in (there, empty, home):
        owners = {path.relative_to(top).as_posix(): path.lstat()[4:6] for path in top.rglob("*")}
        assert owners.pop("theirs.md", (1002, 1003)) == (1002, 1003)
        assert set(owners.values()) == {(1000, 1001)}, owners


@root_only
def test_a_file_of_another_user_is_replaced_and_that_is_said():
    with tempfile.TemporaryDirectory() as opened:  # the directory of a test is closed to other users
        top = Path(opened)
        dst, state = make(top / "dst", {"a.md": b"old"}), top / "state"
        state.mkdir()
        # All that is imported late is, before the other user cannot.
        write_folder({"a.md": "new"}, make(top / "first", {"a.md": b"old"}))
        os.chown(dst / "a.md", 1002, 1003)
        for path in (top, dst, state):
            os.chown(path, 1000, 1000)
        assert as_user(1000, lambda: replace_as_another(dst, state)) == 0
        assert (dst / "a.md").read_text() == "new"
        assert (dst / "a.md").stat().st_uid == 1000


def replace_as_another(dst, state):
    os.environ["XDG_STATE_HOME"] = str(state)
    with pytest.warns(ColonyMemoryWarning, match="belonged to another user, and now belongs to the one who restored"):
        write_folder({"a.md": "new"}, dst)
