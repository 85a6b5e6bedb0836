"""Folders for the tests of ``colony_memory.capture``: made, looked at, made to fail."""

import errno
import json
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from colony_memory._os.machine import state_directory
from colony_memory.capture._metadata import METADATA_NAME, split_documents

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that takes any bytes for a name")
PNG = b"\x89PNG\r\n\x1a\n\x00\xff"
root_only = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")


def make(root, files):
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def tree(root):
    """Everything under ``root``: path to mode and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = None
        if stat.S_ISLNK(mode):
            content = str(path.readlink())
        elif stat.S_ISREG(mode):
            content = path.read_bytes()
        found[path.relative_to(root).as_posix()] = (mode, content)
    return found


def without_staging(root):
    return {name: each for name, each in tree(root).items() if ".colony-memory-restoring-" not in name}


def no_links(*_, **__):
    """Stands for os.link where the file system gives a file no second name."""
    raise PermissionError(errno.EPERM, "Operation not permitted")


def files(root):
    return {name: content for name, (mode, content) in tree(root).items() if not stat.S_ISDIR(mode)}


def traces():
    """What is left in the state directory of restores that were cut off."""
    place = state_directory() / "restores"
    return sorted(path.name for path in place.glob("*.json"))


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def rows(path):
    """Those of a database that is whole."""
    with closing(sqlite3.connect(path)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return opened.execute("SELECT x FROM t").fetchall()


def metadata(**fields):
    return {METADATA_NAME: json.dumps({"format": "colony-memory/folder/1", **fields})}


_CRASH = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode=WAL").fetchall()
database.execute("PRAGMA wal_autocheckpoint=0").fetchall()
database.execute("CREATE TABLE t(x)")
database.executemany("INSERT INTO t VALUES (?)", [("x" * 900,)] * int(sys.argv[2]))
os._exit(0)
"""


def crash_log(path, *, rows):
    """A database whose content stands in its write-ahead log, as a crash leaves it."""
    subprocess.run([sys.executable, "-c", _CRASH, str(path), str(rows)], check=True)


@contextmanager
def running(code, *arguments, kill=False):
    """A program that says that it is ready, and goes on until it is told to end, or killed."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            if kill:
                process.kill()
            process.communicate("\n")


_HOLDER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in sys.argv[2:]:
    database.execute(statement).fetchall()
print("ready", flush=True)
sys.stdin.readline()
"""


def held(path, *statements, kill=False):
    """Another process that has the database open, having run these."""
    return running(_HOLDER, path, *statements, kill=kill)


def contents(capture):
    return split_documents(capture.documents)[0]
