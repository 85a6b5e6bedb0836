"""Descriptors of files that this very process may have open elsewhere: the locks that it has on them must stay.

POSIX drops every lock that a process has on a file as soon as the process closes any descriptor of it
(https://www.sqlite.org/howtocorrupt.html, section 2.2). So what was read is closed only where nobody else in this
process has the file open. Otherwise the descriptor is kept, one for each such file, and used again by the next
reading; it goes when the other one has gone.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import field
from typing import TYPE_CHECKING

from colony_memory._os.kinds import Identity, is_file
from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_LISTINGS = ("/proc/self/fd", "/dev/fd")  # the second knows three descriptors only on some systems
_TRIED_WITHOUT_LISTING = 1024
_CLOSED_TOGETHER = 32  # the look at all descriptors of the process is shared by so many
_DROPS_LOCKS = os.name == "posix"


@dataclass
class _Held:
    """What we have open of one file.

    Attributes:
        descriptors: For reading; mostly one, more where several threads opened it at once.
        users: How many are reading now.
    """

    descriptors: list[int] = field(default_factory=list)
    users: int = 0


_held: dict[Identity, _Held] = {}
_guard = threading.Lock()


@contextlib.contextmanager
def held(expected: Identity, opener: Callable[[], int]) -> Iterator[int]:
    """A descriptor of a file, for the length of a ``with``. Its position is not to be relied on.

    Args:
        expected: Device and inode of the file.
        opener: Opens it. What it opens counts, should that be another file meanwhile.
    """
    identity, descriptor = _take(expected, opener)
    try:
        yield descriptor
    finally:
        _give_back(identity)


def is_open_elsewhere(identity: Identity) -> bool:
    """Whether this process has the file open by another descriptor than ours."""
    with _guard:
        return identity in _foreign()


@contextlib.contextmanager
def settling() -> Iterator[None]:
    """Call settle() when the block, or the function that bears this as a decorator, has ended."""
    try:
        yield
    finally:
        settle()


def settle() -> None:
    """Close what nobody reads any more and nobody else in this process has open."""
    with _guard:
        _settle()


def _take(expected: Identity, opener: Callable[[], int]) -> tuple[Identity, int]:
    with _guard:
        one = _held.get(expected)
        # One that is being read from may be locked through, which is no business of another reading.
        if one is not None and not one.users and _identity(one.descriptors[0]) == expected:
            one.users += 1
            return expected, one.descriptors[0]
    descriptor = opener()
    try:
        identity = Identity.of(os.fstat(descriptor))
    except OSError:  # a network file system may have lost it
        os.close(descriptor)
        raise
    with _guard:
        one = _held.setdefault(identity, _Held())
        one.descriptors.append(descriptor)
        one.users += 1
    return identity, descriptor


def _give_back(identity: Identity) -> None:
    with _guard:
        _held[identity].users -= 1
        if not _DROPS_LOCKS or (len(_held) >= _CLOSED_TOGETHER and _idle() >= _CLOSED_TOGETHER):
            _settle()


def _idle() -> int:
    return sum(not one.users for one in _held.values())


def _settle() -> None:
    foreign = _foreign() if _DROPS_LOCKS else set()
    for identity, one in list(_held.items()):
        if not one.users and identity not in foreign:
            del _held[identity]
            for descriptor in one.descriptors:
                # A program that closes what it did not open may have given the number to something else.
                if not _DROPS_LOCKS or _identity(descriptor) == identity:
                    os.close(descriptor)


def _foreign() -> set[Identity]:
    """The plain files that this process has open by descriptors other than ours."""
    own = {descriptor for one in _held.values() for descriptor in one.descriptors}
    found = (_identity(descriptor) for descriptor in _descriptors() if descriptor not in own)
    return {identity for identity in found if identity is not None}


def _descriptors() -> list[int]:
    for listing in _LISTINGS:
        with contextlib.suppress(OSError):
            listed = [int(name) for name in os.listdir(listing) if name.isdigit()]
            if len(listed) > 3:
                return listed
    return list(range(_TRIED_WITHOUT_LISTING))


def _identity(descriptor: int) -> Identity | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return Identity.of(status) if is_file(status) else None
