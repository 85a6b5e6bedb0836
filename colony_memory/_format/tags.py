"""Pure: what a writer says of a snapshot: tags, by which lists are narrowed, a note, and what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_TAGS = 20
#: Characters of a note.
MAX_NOTE = 1000
# As stored: half of a pair of surrogates is spelled in six.
_LONGEST_NOTE = 6 * MAX_NOTE
# Characters of all lines that say what is missing: what whoever holds the vault wrote there is shown in every face.
_MOST_LACKING = 2**20
# In ASCII, so that no two look alike, and without what a shell or a list of them would have to quote.
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,63}")


def check_tags(tags: str | Iterable[str]) -> tuple[str, ...]:
    """The tags that a snapshot is to have, sorted, each once.

    >>> check_tags(["release", "2.0", "release"])
    ('2.0', 'release')
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


def read_note(value: object) -> str | None:
    """The note that a file of a vault gives, as far as a writer may write one; None where it is none."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= _LONGEST_NOTE else f"{value[:MAX_NOTE]}…"


def read_word(value: str) -> str:
    """A time, or who signed, as a file of a vault gives it: beyond what either takes it says nothing."""
    return value[:MAX_NOTE]


def read_lacking(lines: Iterable[str]) -> tuple[str, ...]:
    """The lines that say what is missing, each and all together within a bound.

    >>> read_lacking(["a.sock: is a socket"])
    ('a.sock: is a socket',)
    """
    out, room = list[str](), _MOST_LACKING
    lines = tuple(lines)
    for line in lines:
        room -= len(line)
        if room < 0:
            return (*out, f"and {len(lines) - len(out)} more")
        out.append(line)
    return tuple(out)


def is_tag(value: object) -> bool:
    """Whether it is of the form of a tag."""
    return isinstance(value, str) and _TAG.fullmatch(value) is not None
