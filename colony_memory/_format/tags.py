"""Pure: the tags of a snapshot, by which lists are narrowed."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_TAGS = 20
# In ASCII, so that no two look alike, and without what a shell or a list of them would have to quote.
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,63}")


def check_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """The tags that a snapshot is to have, sorted, each once.

    >>> check_tags(["release", "2.0", "release"])
    ('2.0', 'release')

    Raises:
        ValueError: One is none, or there are too many.
    """
    if not isinstance(tags, Iterable):
        msg = f"tags must be strings, not {tags!r}"
        raise ValueError(msg)  # noqa: TRY004 - one type for bad arguments
    found = set()
    for tag in [tags] if isinstance(tags, str) else tags:
        if not is_tag(tag):
            msg = (
                f"{tag!r} is not a tag: it must have 1 to 64 letters, digits or any of ._:/@+=- of ASCII, and begin "
                "with a letter or a digit"
            )
            raise ValueError(msg)
        found.add(tag)
    if len(found) > MAX_TAGS:
        raise ValueError(f"a snapshot has at most {MAX_TAGS} tags, not {len(found)}")
    return tuple(sorted(found))


def read_tags(value: object) -> tuple[str, ...]:
    """The tags that a file of a vault gives; what is none is passed over."""
    listed = value if isinstance(value, list) else []
    return tuple(sorted({tag for tag in listed[:MAX_TAGS] if is_tag(tag)}))


def is_tag(value: object) -> bool:
    """Whether it is of the form of a tag."""
    return isinstance(value, str) and _TAG.fullmatch(value) is not None
