"""A child of this very process, for what only a child can show."""

from __future__ import annotations

import os
import warnings


def fork() -> int:
    """Fork, as ``os.fork()`` does.

    From Python 3.12 that warns where the system counts a second thread, and one that was joined may still be on its way
    out. The children of the tests do little, and take no lock that a thread may have held.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This process.* is multi-threaded", DeprecationWarning)
        return os.fork()
