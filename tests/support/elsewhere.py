"""Windows as far as it can be played here: run with a command's arguments, a line each, and what each is given to read.

No fcntl, no directory descriptors, no flags, links, owners, forks or signals of POSIX. What of the standard library and
of other packages chooses by the platform is imported before that.
"""

import asyncio  # noqa: F401
import errno
import json
import multiprocessing.connection  # noqa: F401
import os
import pathlib
import shutil
import signal
import sqlite3  # noqa: F401
import subprocess
import sys
import tempfile  # noqa: F401
import types
import urllib.request  # noqa: F401

import click  # noqa: F401

held = set()


def locking(descriptor, mode, _count):
    key = os.fstat(descriptor).st_ino
    if mode == "unlock":
        held.discard(key)
    elif key in held:
        raise OSError(errno.EACCES, "held")
    else:
        held.add(key)


def which(program, mode=os.X_OK, path=None):
    """Which shutil finds by another platform's rules."""
    places = ["", *(path or os.environ["PATH"]).split(":")]
    return next((found for each in places if os.access(found := os.fspath(pathlib.Path(each, program)), mode)), None)


MODULES = ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "syslog")
FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_DIRECTORY", "O_PATH", "SEEK_DATA", "SEEK_HOLE")
OWNERS = ("geteuid", "getuid", "getegid", "getgid", "getgroups", "getresuid", "chown", "fchown", "lchown", "umask_")
FILES = ("link", "fchmod", "mkfifo", "mknod", "pathconf", "fpathconf", "statvfs", "fstatvfs", "pread", "pwrite", "sync")
FILES += ("posix_fadvise", "sendfile", "fdatasync", "copy_file_range", "getxattr", "listxattr", "setxattr")
PROCESSES = ("fork", "forkpty", "setsid", "killpg", "getpgid", "getpgrp", "setpgid", "tcgetpgrp", "tcsetpgrp", "getsid")
PROCESSES += (
    "wait",
    "wait3",
    "wait4",
    "waitid",
    "register_at_fork",
    "getloadavg",
    "nice",
    "sysconf",
    "uname",
    "pidfd_open",
)
SIGNALS = ("pthread_sigmask", "sigwait", "sigtimedwait", "sigwaitinfo", "setitimer", "siginterrupt", "alarm", "pause")


def go_there():
    for name in MODULES:
        sys.modules[name] = None
    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK="lock", LK_UNLCK="unlock")
    kill, measure = signal.SIGKILL, os.statvfs

    def disk_usage(path):
        found = measure(path)
        return types.SimpleNamespace(free=found.f_bavail * found.f_frsize)

    shutil.disk_usage = disk_usage
    for name in (*FLAGS, *OWNERS, *FILES, *PROCESSES):
        if hasattr(os, name):
            delattr(os, name)
    subprocess.Popen.kill = lambda self: self.send_signal(kill)
    known = {name: getattr(signal, name) for name in ("SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM")}
    for name in dir(signal):
        if name.startswith("SIG") and "_" not in name and name not in known and name != "Signals":
            delattr(signal, name)
    for name in SIGNALS:
        delattr(signal, name)
    signal.SIGBREAK = signal.SIGINT
    signal.valid_signals = lambda: set(known.values())
    os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks = set(), set(), set()
    shutil.which = which
    for place in filter(None, map(sys.modules.get, ("pathlib", "pathlib._local"))):  # where 3.13 chooses
        place.WindowsPath = pathlib.PosixPath
    sys.platform, os.name = "win32", "nt"


if __name__ == "__main__":
    go_there()
    from colony_memory.__main__ import main

    answers = []
    for words, given in json.load(sys.stdin):
        read, write = os.pipe()
        os.write(write, given.encode())
        os.close(write)
        os.dup2(read, 0)
        sys.argv = ["colony-memory", *words]
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        print(json.dumps([words[0], code]), file=sys.__stdout__, flush=True)
