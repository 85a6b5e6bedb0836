"""Names in a message: the first ones, and how many more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(texts: Sequence[str], *, most: int, joint: str = ", ") -> str:
    """As ``a, b and 3 more``, or with ``"; "`` between them as ``a; b; and 3 more``."""
    more = len(texts) - most
    return joint.join(texts[:most]) + (f"{joint.rstrip(', ')} and {more} more" if more > 0 else "")


def quoted(names: Sequence[str], *, most: int = 5) -> str:
    """The same of names, in quotes."""
    return listed([repr(name) for name in names], most=most)
