"""A folder of a stranger's: made at random, and changed at random by a second process while it is read.

Run as a program it goes on changing the folder until it is ended::

    python hostile_folders.py FOLDER OUTSIDE SEED
"""

import contextlib
import os
import random
import shutil
import socket
import sqlite3
import sys
from pathlib import Path

SECRET = b"what is outside of the folder"
TEXTS = [b"", b"text\n", b"\xff\xfe", b"x" * 70_000, b"line\n" * 20_000, b"SQLite format 3\0" + b"\1" * 984]
PLANT = b'{"format": "colony-memory/restore-journal/1", "target": "../outside", "directories": [], "steps": []}'
NAMES = [
    b"a.md", b"b.md", b"sub", b"sub", b"deep", b"m.db", b"m.db-wal", b"m.db-journal", b"m.db-shm", b".git", b"HEAD",
    b"objects", b"caf\xe9", b"C:x", b"back\\slash", b".cmem-vault.json", b"cmem.default.latest.json", b".x.icloud",
    b".colony-memory-restoring-here", b"journal.json", b"kept", b"-rf", b" ", b"\n", b"new\x1b[2J", b"CON", b"\xff",
]  # fmt: skip
RULES = [b"*.log\n", b"b.md\n", b"sub/\n", b"m.db\n", b"**/deep\n", b"[[:digit:]]*\n!b.md\n"]


def make_outside(outside):
    """What a stranger would like to see in a snapshot, or changed."""
    outside.mkdir()
    for name in ("a.md", "b.md", "m.db-wal", "HEAD"):
        (outside / name).write_bytes(SECRET)
    with contextlib.closing(sqlite3.connect(outside / "m.db")) as database:
        database.execute("CREATE TABLE t(x)")
        database.execute("INSERT INTO t VALUES (?)", (SECRET.decode(),))
        database.commit()


def journal_naming(victim):
    """A journal to be rolled back, whose end names a file that SQLite would then delete."""
    magic = bytes.fromhex("d9d505f920a163d7")
    start = (magic + b"\0\0\0\0" + b"\0\0\4\xd2" + b"\0\0\0\2" + b"\0\0\2\0" + b"\0\0\20\0").ljust(512, b"\0")
    number = sum(each - 256 if each > 127 else each for each in victim) & 0xFFFFFFFF
    numbers = (0x40000000 // 4096 + 1).to_bytes(4, "big"), len(victim).to_bytes(4, "big"), number.to_bytes(4, "big")
    return start + numbers[0] + victim + numbers[1] + numbers[2] + magic


def act(folder, outside, draw):
    """Make, change, replace or remove something in the folder; whatever fails has failed."""
    place = draw.choice(_directories(folder))
    path = os.path.join(place, draw.choice(NAMES))  # noqa: PTH118 - of bytes
    with contextlib.suppress(OSError, sqlite3.Error):
        draw.choices(_ACTS, _WEIGHTS)[0](path, outside, draw)


def _directories(folder):
    return [folder, *[place for place, _, _ in os.walk(folder)][:20]]


def _write(path, outside, draw):
    _put(path, draw.choice([*TEXTS, PLANT, journal_naming(os.path.join(outside, b"a.md"))]))  # noqa: PTH118


def _put(path, data):
    # Never through a link: what is outside is to be as it was.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)


def _append(path, outside, draw):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "ab") as file:
        file.write(b"more\nand half")


def _directory(path, outside, draw):
    os.mkdir(path)  # noqa: PTH102 - of bytes


def _link(path, outside, draw):
    out = os.path.basename(outside)  # noqa: PTH119
    targets = [
        outside,
        outside + b"/a.md",
        b"../" + out,
        b"../../" + out,
        b"..",
        b".",
        b"a.md",
        b"sub/../../" + out,
        b"m.db",
    ]
    temp = path + b"~"
    os.symlink(draw.choice(targets), temp)  # noqa: PTH211
    os.replace(temp, path)  # noqa: PTH105


def _pipe(path, outside, draw):
    os.mkfifo(path)


def _socket(path, outside, draw):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


def _rename(path, outside, draw):
    os.rename(path, os.path.join(os.path.dirname(path), draw.choice(NAMES)))  # noqa: PTH104, PTH118, PTH120


def _swap(path, outside, draw):
    if not os.path.isdir(path) or os.path.islink(path):  # noqa: PTH112, PTH114
        return
    away = path + b".away"
    for _ in range(draw.randint(1, 50)):
        os.rename(path, away)  # noqa: PTH104
        os.symlink(outside, path)  # noqa: PTH211
        os.unlink(path)  # noqa: PTH108
        os.rename(away, path)  # noqa: PTH104


def _remove(path, outside, draw):
    if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
        shutil.rmtree(path)
    else:
        os.unlink(path)  # noqa: PTH108


def _database(path, outside, draw):
    name = os.fsdecode(os.path.dirname(path)) + "/m.db"  # noqa: PTH120
    if not all(_is_mine(name + suffix) for suffix in ("", "-wal", "-shm", "-journal")):
        return
    with contextlib.closing(sqlite3.connect(name, isolation_level=None, timeout=0)) as database:
        database.execute(f"PRAGMA journal_mode={draw.choice(['WAL', 'DELETE', 'PERSIST', 'MEMORY'])}").fetchall()
        database.execute("CREATE TABLE IF NOT EXISTS t(x)")
        database.execute("INSERT INTO t VALUES (hex(randomblob(?)))", (draw.randint(1, 9000),))


def _is_mine(name):
    # This program must not be the one that SQLite leads out of the folder.
    return not os.path.lexists(name) or (Path(name).is_file() and not Path(name).is_symlink() and _is_plain(name))


def _is_plain(name):
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return not name.endswith("-journal") or not file.read().endswith(bytes.fromhex("d9d505f920a163d7"))


def _rules(path, outside, draw):
    _put(os.path.join(os.path.dirname(path), b".cmemignore"), draw.choice(RULES))  # noqa: PTH118, PTH120


_ACTS = [_write, _append, _directory, _link, _pipe, _socket, _rename, _swap, _remove, _database, _rules]
_WEIGHTS = [12, 8, 8, 6, 2, 1, 5, 6, 6, 3, 1]


if __name__ == "__main__":
    chance = random.Random(int(sys.argv[3]))
    while True:
        act(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), chance)
