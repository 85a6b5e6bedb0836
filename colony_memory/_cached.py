"""A property that is worked out once, without a lock.

Before Python 3.12 that of :mod:`functools` has one lock for all instances. A process that is forked while a thread
holds it, such as that of an autobackup, waits for it for ever.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - takes the place of the one with this name
        """Worked out twice at most where two threads are first at once."""

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """What was worked out lies where it is found before this is asked."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


__all__ = ["cached_property"]
