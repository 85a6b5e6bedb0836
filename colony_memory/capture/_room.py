"""How large files are, and how many of them a snapshot may hold."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from colony_memory._os.directory import open_below
from colony_memory.capture._patience import TookTooLong
from colony_memory.capture._steady import whole_of
from colony_memory.capture._walk import SECONDS

if TYPE_CHECKING:
    from colony_memory.capture._patience import Deadline, Patience
    from colony_memory.capture._tree import Entry

_LOOKS = 20
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


class Room:
    """What a snapshot may hold, and what is taken of it.

    Args:
        size: Bytes in all.

    Attributes:
        size: As it was given.
        used: Bytes that are taken.
    """

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self._costs: dict[str, int] = {}

    @property
    def exceeded(self) -> str:
        """What to say of what is larger."""
        return f"more than the {shown_size(self.size)} that a snapshot may hold; exclude what is not memory"

    def has(self, cost: int) -> bool:
        """Whether there is as much left."""
        return self.used + cost <= self.size

    def charge(self, name: str, cost: int) -> None:
        """Let a file take so much, in place of what it took."""
        self.used += cost - self._costs.pop(name, 0)
        if cost:
            self._costs[name] = cost

    def choose(self, files: list[Entry]) -> tuple[list[Entry], list[tuple[list[Entry], str]]]:
        """The files that fit, and what does not, with the reason.

        Where not all do, it is the largest that are left out: what is short is read most.
        """
        total = sum(entry.size for entry in files)
        if total <= self.size:
            return files, []
        names = {entry.name for entry in files}
        units: dict[str, list[Entry]] = {}
        for entry in files:
            units.setdefault(_belongs_to(entry.name, names), []).append(entry)
        left: list[tuple[list[Entry], str]] = []
        dropped: set[str] = set()
        for unit, entries in sorted(units.items(), key=lambda each: sum(one.size for one in each[1]), reverse=True):
            if total <= self.size:
                break
            size = sum(entry.size for entry in entries)
            why = self.exceeded if size > self.size else f"and all files together are {self.exceeded}"
            left.append((entries, f"{shown_size(size)}, {why}"))
            total -= size
            dropped.add(unit)
        return [entry for entry in files if _belongs_to(entry.name, names) not in dropped], left


def measure(entries: list[Entry], patience: Patience) -> dict[str, int]:
    """The sizes that files have at one instant, as far as that can be seen: two looks, with nothing in between."""

    def look(_: Deadline) -> dict[str, int]:
        found = dict[str, int]()
        with ExitStack() as stack:
            places = {where: stack.enter_context(open_below(*where)) for where in {(e.root, e.inside) for e in entries}}
            for _try in range(_LOOKS):
                before, found = found, {}
                for entry in entries:
                    status = places[entry.root, entry.inside].look(entry.own)
                    if status is not None:
                        found[entry.name] = status.st_size
                if found == before:
                    break
        return found

    try:
        return patience.run(look, seconds=SECONDS) if entries else {}
    except (OSError, TookTooLong):
        return {}


def length_of(content: str | bytes) -> int:
    """Its bytes."""
    return len(content) if isinstance(content, bytes) or content.isascii() else len(content.encode("utf-8"))


def cost_of(content: str | bytes) -> int:
    """Bytes that it takes in a snapshot."""
    return encoded_size(len(content)) if isinstance(content, bytes) else length_of(content)


def encoded_size(size: int) -> int:
    """Bytes that so many take where they are no text."""
    return (size + 2) // 3 * 4  # base64


def _belongs_to(name: str, names: set[str]) -> str:
    """The file that it would be a part of, were that a database; else itself."""
    whole = whole_of(name)
    return whole if whole in names else name


def shown_size(size: int) -> str:
    """Bytes for people, as the command line shows them."""
    scaled, unit = float(size), 0
    while round(scaled, 1) >= 1000 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1000, unit + 1
    return f"{size} B" if not unit else f"{scaled:.1f} {_UNITS[unit]}"
