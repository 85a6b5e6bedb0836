"""Plain files: what is read, made, replaced and removed, what is refused, and what a swap in between can do."""

import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from colony_memory._os import directory as module
from colony_memory._os.files import Files as Directory
from colony_memory._os.files import make_directory, read_file
from colony_memory._os.files import open_files as open_directory
from colony_memory._os.paths import UnfitFile
from colony_memory.exceptions import ColonyMemoryWarning

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX links, pipes and owners")
as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=["by descriptor", "by path"])
def directory(request, tmp_path):
    """An open directory, on a platform with directory descriptors and on one without."""
    if request.param == "by path":
        yield Directory(tmp_path)
        return
    if not module.BY_DESCRIPTOR:
        pytest.skip("needs directory descriptors")
    with open_directory(tmp_path) as opened:
        yield opened


@pytest.fixture
def short():
    """A directory whose path is short enough for a socket's."""
    place = Path(tempfile.mkdtemp())
    yield place
    shutil.rmtree(place)


def names(place):
    return sorted(path.name for path in place.iterdir())


def plant(place, kind):
    """Something that is no plain file."""
    if kind == "directory":
        place.mkdir()
    elif kind == "link":
        (place.parent / "target").write_text("elsewhere")
        place.symlink_to("target")
    elif kind == "link to nothing":
        place.symlink_to("gone")
    elif kind == "named pipe":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(place))


STRAYS = ["directory", "link", "link to nothing", "named pipe", "socket"]


# --- what is read


def test_what_is_larger_is_refused_before_it_is_taken_in(directory, tmp_path):
    with (tmp_path / "a").open("wb") as stream:
        stream.truncate(10**12)
    with pytest.raises(UnfitFile, match="larger than 4 bytes") as caught:
        directory.read("a", limit=4)
    assert caught.value.filename == str(tmp_path / "a")


def test_what_grows_while_it_is_read_is_refused_too(directory, tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"12345")
    monkeypatch.setattr(module.os, "fstat", lambda _: SimpleNamespace(st_mode=stat.S_IFREG, st_size=1))
    assert directory.read("a", limit=5).data == b"12345"
    with pytest.raises(UnfitFile, match="larger"):
        directory.read("a", limit=4)


@on_posix
@pytest.mark.parametrize("kind", STRAYS)
def test_nothing_but_a_plain_file_is_opened_made_or_taken_away(short, kind):
    with open_directory(short) as directory:
        plant(short / "a", kind)
        before = names(short)
        said = kind.removesuffix(" to nothing")
        for call in (
            lambda: directory.read("a", limit=10),
            lambda: directory.replace("a", b"x"),
            lambda: directory.remove("a"),
            lambda: directory.open_or_make("a"),
        ):
            with pytest.raises(UnfitFile) as caught:
                call()
            assert caught.value.strerror == f"a {said}, not a plain file"
        with pytest.raises(FileExistsError):
            directory.create("a", b"x")
        assert names(short) == before
        assert not (short / "target").exists() or (short / "target").read_text() == "elsewhere"


@on_posix
def test_a_link_is_followed_where_the_name_is_a_users(tmp_path):
    plant(tmp_path / "a", "link")
    plant(tmp_path / "b", "link to nothing")
    plant(tmp_path / "c", "named pipe")
    (tmp_path / "d").symlink_to("c")
    assert read_file(tmp_path / "a", 10, follow=True).data == b"elsewhere"
    with pytest.raises(UnfitFile, match="a link to nothing"):
        read_file(tmp_path / "b", 10, follow=True)
    with pytest.raises(UnfitFile, match="a named pipe, not a plain file"):
        read_file(tmp_path / "d", 10, follow=True)
    assert read_file(tmp_path / "e", 10, follow=True) is None
    with pytest.raises(NotADirectoryError):
        read_file(tmp_path / "target" / "below", 10)


@on_posix
def test_a_device_is_not_even_opened(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("opened")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnfitFile, match="a device, not a plain file"):
        read_file(Path("/dev/zero"), 10)


@on_posix
@pytest.mark.parametrize("kind", STRAYS)
def test_what_is_swapped_in_between_look_and_opening_is_not_followed_and_blocks_nobody(short, monkeypatch, kind):
    (short / "a").write_text("mine")
    look = os.stat

    def swap(name, **options):
        found = look(name, **options)
        if name in (b"a", short / "a") and not swapped:
            swapped.append(True)
            (short / "a").unlink()
            plant(short / "a", kind)
        return found

    monkeypatch.setattr(module.os, "stat", swap)
    for directory in (Directory(short), open_directory(short)):
        swapped = []
        with directory if hasattr(directory, "__enter__") else open_directory(short) as opened:
            with pytest.raises(OSError) as caught:
                opened.read("a", limit=10)
            # A socket cannot be opened at all.
            assert isinstance(caught.value, UnfitFile) or (kind == "socket" and caught.value.errno == errno.ENXIO)
        if kind == "directory":
            (short / "a").rmdir()
        else:
            (short / "a").unlink()
        (short / "a").write_text("mine")
        (short / "target").unlink(missing_ok=True)


@on_posix
def test_where_links_cannot_be_declined_the_name_is_looked_at_again(tmp_path, monkeypatch):
    plant(tmp_path / "a", "link")
    look = os.stat
    looks = []

    def first_look_sees_a_file(name, **options):
        looks.append(name)
        return look(tmp_path / "target") if len(looks) == 1 else look(name, **options)

    monkeypatch.setattr(module, "NO_LINK", 0)
    monkeypatch.setattr(module.os, "stat", first_look_sees_a_file)
    with pytest.raises(UnfitFile, match="a link"):
        Directory(tmp_path).read("a", limit=10)
    assert Directory(tmp_path).read("target", limit=10).data == b"elsewhere"


def test_what_is_removed_while_a_directory_is_read_is_left_out(directory, tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_text("mine")
    (gone,) = [entry for entry in os.scandir(tmp_path) if entry.name == "a"]
    (tmp_path / "a").unlink()
    monkeypatch.setattr(module.os, "scandir", lambda _, scan=os.scandir: nullcontext([gone, *scan(tmp_path)]))
    assert [name for name, _ in directory.entries()] == ["b"]


# --- the directory


@on_posix
def test_what_is_done_in_a_directory_is_done_there_whatever_takes_its_name(tmp_path):
    place = tmp_path / "vault"
    place.mkdir()
    (tmp_path / "other").mkdir()
    with open_directory(place) as directory:
        place.rename(tmp_path / "moved")
        place.symlink_to("other")
        directory.replace("a", b"x")
        directory.create("b", b"y")
        assert {name for name, _ in directory.entries()} == {"a", "b"}
        directory.remove("a")
    assert names(tmp_path / "moved") == ["b"]
    assert names(tmp_path / "other") == []


def test_a_directory_that_was_closed_is_not_looked_up_again(tmp_path):
    (tmp_path / "a").write_text("12")
    directory = Directory.open(tmp_path)
    directory.close()
    directory.close()
    for act in (
        lambda: directory.look("a"),
        lambda: directory.read("a", limit=9),
        directory.names,
        directory.status,
        directory.sync,
        lambda: directory.make("b"),
        lambda: directory.enter("a"),
        lambda: directory.move("a", directory, "b"),
    ):
        with pytest.raises(OSError, match="Bad file descriptor"):
            act()
    assert names(tmp_path) == ["a"]


# --- what is written


@on_posix
def test_what_is_made_is_its_owners_alone_whatever_the_umask(directory, tmp_path):
    before = os.umask(0)
    try:
        directory.create("a", b"x")
        directory.replace("b", b"x")
        os.close(directory.open_or_make("c"))
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "abc"} == {0o600}
    assert names(tmp_path) == ["a", "b", "c"]


def no_links(*args, **kwargs):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_without_hard_links_a_file_is_made_all_the_same(directory, tmp_path, monkeypatch):
    monkeypatch.setattr(module.os, "link", no_links)
    directory.create("a", b"mine")
    with pytest.raises(FileExistsError):
        directory.create("a", b"other")
    assert (tmp_path / "a").read_bytes() == b"mine"

    def refuse(*args, **kwargs):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module.os, "replace", refuse)
    with pytest.raises(OSError, match="Input/output"):
        directory.create("b", b"mine")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["fsync", "replace", "fdopen"])
def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(directory, tmp_path, monkeypatch, step):
    (tmp_path / "a").write_bytes(b"old")

    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, step, refuse)
    with pytest.raises(OSError, match="No space left"):
        directory.replace("a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@on_posix
def test_a_link_under_the_temporary_name_is_not_written_through(directory, tmp_path):
    plant(tmp_path / "t", "link")
    directory.replace("a", b"whole", temp="t")
    assert (tmp_path / "target").read_text() == "elsewhere"
    assert names(tmp_path) == ["a", "target"]


@on_posix
@pytest.mark.parametrize(("number", "matters"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_directory_that_cannot_be_synced(directory, tmp_path, monkeypatch, number, matters):
    sync = os.fsync

    def refuse(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(module.os, "fsync", refuse)
    if matters:
        with pytest.raises(OSError):
            directory.replace("a", b"x")
    else:
        directory.replace("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


@on_posix
@pytest.mark.parametrize("works", [True, False])
def test_on_a_mac_the_disks_own_cache_is_emptied_too(tmp_path, monkeypatch, works):
    import fcntl

    done = []

    def control(descriptor, command):
        if not works:
            raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        done.append(command)

    monkeypatch.setattr(module.sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: done.append("fsync"))
    with (tmp_path / "a").open("wb") as stream:
        module.sync_bytes(stream.fileno())
    assert done == ([51] if works else ["fsync"])


# --- directories that are made, and owners


@as_root
def test_what_root_makes_belongs_to_the_owner_of_the_place(tmp_path):
    os.chown(tmp_path, 1234, 1235)
    make_directory(tmp_path / "a" / "b", keep_owner=True)
    make_directory(tmp_path / "roots")
    with open_directory(tmp_path / "a" / "b", keep_owner=True) as directory:
        directory.create("made", b"x")
        directory.replace("replaced", b"x")
        os.close(directory.open_or_make("opened"))
    for path in (tmp_path / "a", *(tmp_path / "a").rglob("*")):
        assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235), path
    assert (tmp_path / "roots").stat().st_uid == 0


@as_root
def test_an_owner_that_cannot_be_given_is_a_warning(tmp_path, monkeypatch):
    os.chown(tmp_path, 1234, 1235)

    def refuse(*args):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(module.os, "fchown", refuse)
    with (
        open_directory(tmp_path, keep_owner=True) as directory,
        pytest.warns(ColonyMemoryWarning, match="could not be given to user 1234"),
    ):
        directory.replace("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


# --- somebody swaps names all the while

SWAPPER = """
import os, sys

os.chdir(sys.argv[1])
target = sys.argv[2]
print("ready", flush=True)
while True:
    for make in (lambda: os.symlink(target, "x"), lambda: os.mkfifo("x"), lambda: os.mkdir("x"),
                 lambda: os.symlink("nowhere", "x")):
        for step in (make, lambda: os.unlink("x"), lambda: os.rmdir("x")):
            try:
                step()
            except OSError:
                pass
"""


@on_posix
def test_no_swap_leads_out_of_the_directory_or_hangs(tmp_path):
    place, outside = tmp_path / "vault", tmp_path / "secret"
    place.mkdir()
    outside.write_text("secret of another")
    with subprocess.Popen(
        [sys.executable, "-c", SWAPPER, str(place), str(outside)], stdout=subprocess.PIPE, text=True
    ) as swapper:
        try:
            assert swapper.stdout.readline() == "ready\n"
            seen = set()
            with open_directory(place) as directory:
                for turn in range(20_000):
                    if turn > 300 and any(each.endswith("not a plain file") for each in seen):
                        break
                    for call in (
                        lambda: directory.read("x", limit=100),
                        lambda: directory.replace("x", b"mine"),
                        lambda: os.close(directory.open_or_make("x")),
                        lambda: directory.remove("x"),
                    ):
                        try:
                            call()
                        except UnfitFile as error:
                            seen.add(error.strerror)
                        except OSError as error:
                            seen.add(errno.errorcode[error.errno])
            assert outside.read_text() == "secret of another"
            assert any(each.endswith("not a plain file") for each in seen), seen
        finally:
            swapper.send_signal(signal.SIGKILL)
