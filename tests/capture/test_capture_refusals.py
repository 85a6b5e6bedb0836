"""The system refuses one call after another: a folder is as it was or as it is to be, and nothing is lost unsaid."""

import errno
import os
import shutil
import sqlite3
import warnings
from contextlib import closing

import pytest
from capture_trees import make, names, posix, traces, tree

from colony_memory._os import open_files
from colony_memory.capture import _steady, read_folder, write_folder
from colony_memory.capture._metadata import METADATA_NAME
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError

pytestmark = posix

# What looks, what opens, what reads and what changes.
_FUNCTIONS = (
    *("stat", "lstat", "fstat", "scandir", "listdir", "readlink", "open", "read", "pread", "write", "fsync"),
    *("mkdir", "replace", "unlink", "rmdir", "link", "symlink", "chmod", "chown", "fchmod", "utime"),
)


class Refusing:
    """Lets the n-th call of a function of the system fail."""

    def __init__(self, number, error):
        self.left = number
        self.error = error

    def act(self, function, act):
        """Do it, and return what it raised."""
        real = getattr(os, function)

        def refuse(*args, **more):
            self.left -= 1
            if self.left == 0:
                raise OSError(self.error, os.strerror(self.error))
            return real(*args, **more)

        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what could not be kept
            patch.setattr(os, function, refuse)
            if function == "pread":
                patch.setattr(_steady, "_read_at", refuse)
            try:
                act()
            except Exception as error:
                return error
        return None


@pytest.fixture
def scene(tmp_path):
    """What is restored, with every kind of change in it, and a folder to restore into."""
    old = {
        "a.md": b"old",
        "mine/c.md": b"c",
        "gone/x.md": b"x",
        "k/.cmemignore": b"*.log\n",
        "k/y.log": b"y",
        "run": b"#",
    }
    new = {"a.md": b"new", "mine/c.md": b"c2", "k/.cmemignore": b"*.log\n", "run": b"#", "e/f.md": b"f"}
    for root, content in ((make(tmp_path / "old", old), "a.md"), (make(tmp_path / "new", new), "e/f.md")):
        (root / "link").symlink_to(content)
        with closing(sqlite3.connect(root / "m.db", isolation_level=None)) as database:
            database.execute("CREATE TABLE t(x)")
            database.execute("INSERT INTO t VALUES (?)", [content])
    (tmp_path / "new/run").chmod(0o755)
    return read_folder(tmp_path / "new", attributes=True).documents, tmp_path / "old"


def descriptors():
    """What is open, without the one by which that is listed, which has any number that is free."""
    return {each for each in map(int, os.listdir("/dev/fd")) if is_open(each)}  # noqa: PTH208 - the names alone


def is_open(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def try_out(function, error, number, act):
    """Do it with that call refused; return whether it ended well, and whether there was such a call."""
    before = descriptors()
    refusing = Refusing(number, error)
    raised = refusing.act(function, act)
    assert raised is None or isinstance(raised, (ColonyMemoryError, ValueError)), (function, number, raised)
    if function == "fstat":  # by which it is told whose a descriptor is, before it is closed
        for left in descriptors() - before:
            os.close(left)
        open_files.close_unused()
    assert descriptors() == before, (function, number)
    return raised is None, refusing.left <= 0


def check_restores(scene, where, function, error, *, step):
    documents, old = scene
    shutil.copytree(old, where / "done", symlinks=True)
    write_folder(documents, where / "done", delete=True)
    before, after = tree(old), tree(where / "done")
    refused, number = True, 1
    while refused:
        dst = where / "dst"
        shutil.copytree(old, dst, symlinks=True)
        done, refused = try_out(function, error, number, lambda: write_folder(documents, where / "dst", delete=True))
        assert not recover(dst)
        if done:  # but for a directory that it emptied and could not remove, of which it warns
            left = without_modes(dst)
            assert left.pop("gone", None) is None
            assert left == without_modes(where / "done"), number
        else:
            assert tree(dst) in (before, after), number
        assert traces() == [], (function, number)
        assert names(where) == ["done", "dst"]
        shutil.rmtree(dst)
        number += step


def check_reads(old, function, error, *, step):
    full = read_folder(old).documents
    refused, number = True, 1
    while refused:
        got = []
        done, refused = try_out(function, error, number, lambda: got.append(read_folder(old)))  # noqa: B023
        if done:
            (capture,) = got
            told = [each.name for each in capture.left_out]
            lost = full.keys() - capture.documents.keys() - {METADATA_NAME}
            assert all(any(name == each or name.startswith(each) for each in told) for name in lost), (function, number)
        number += step


def without_modes(root):
    """A mode that the system refuses is warned of, and no reason to fail."""
    return {name: content for name, (_, content) in tree(root).items()}


@pytest.mark.parametrize("function", _FUNCTIONS)
@pytest.mark.parametrize(
    ("error", "step"),
    [
        (errno.EIO, 47),
        *(pytest.param(error, 3, marks=pytest.mark.exhaustive) for error in (errno.ENOSPC, errno.EPERM)),
        *(
            pytest.param(error, 1, marks=[pytest.mark.exhaustive, pytest.mark.long])
            for error in (errno.ENOSPC, errno.EPERM, errno.EIO, errno.ELOOP)
        ),
    ],
)
def test_one_call_after_another_is_refused(scene, tmp_path, function, error, step):
    check_restores(scene, tmp_path / "runs", function, error, step=step)
    check_reads(scene[1], function, error, step=step)
