"""A child of this very process, for what only a child can show."""

import os
import sys
import traceback
import warnings


def fork():
    """Fork, as ``os.fork()`` does.

    From Python 3.12 that warns where the system counts a second thread, and one that was joined may still be on its way
    out. The children of the tests do little, and take no lock that a thread may have held.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process.* is multi-threaded", DeprecationWarning)
        return os.fork()


def as_user(user, act):
    """Do something in a process of another user, where root runs the tests, else of the same; return its exit code.

    What is imported late must have been before: it may not find it.
    """
    child = fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            act()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended)
