"""Restores that are cut off: at the n-th change to the disk, in a process of their own."""

import os
import signal
import sys

from forks import fork

from colony_memory._os import directory as disk

_CHANGES = {
    *("os.link", "os.symlink", "os.rename", "os.mkdir", "os.rmdir", "os.remove"),
    *("os.chmod", "os.chown", "os.utime", "os.truncate"),
}
_WRITING = os.O_WRONLY | os.O_RDWR


def cut_off(act, *, at, by=None):
    """Do ``act`` in a child that is killed right before its ``at``-th change to the disk.

    Args:
        act: What to do.
        at: Number of the change, from 1.
        by: What to do in place of a kill, once; it may raise.

    Returns:
        ``killed``, ``done`` where it had fewer changes to make, or the name of the exception that it ended with.
    """
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        os.close(reading)
        ended = "done"
        try:
            # What takes the time, and matters to a power cut alone.
            os.fsync = disk.sync_file_system = lambda _: None
            sys.addaudithook(_Counter(at, by or _kill))
            act()
        except BaseException as error:
            ended = type(error).__name__
        finally:
            os.write(writing, ended.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        ended = told.read()
    os.waitpid(child, 0)
    return ended or "killed"


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


class _Counter:
    def __init__(self, at, act):
        self.left = at
        self.act = act

    def __call__(self, event, args):
        if event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING):
            self.left -= 1
            if self.left == 0:
                self.act()
