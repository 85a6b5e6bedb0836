"""How much memory this process may still take, where that can be told."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
#: Names, in the second version of control groups and in the first, of a limit, of what is in use, and of what of that
#: is only files read, which the system takes back.
_NAMES = (("memory.max", "memory.current", ""), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"))


def free_memory() -> int | None:
    """Bytes that can be had: of the machine, of the control groups of this process, and of its own limits.

    What cannot be told does not count; None where nothing can.
    """
    return min((found for found in (_of_process(), _of_machine(), *_of_groups()) if found is not None), default=None)


def _of_process() -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft = [resource.getrlimit(each)[0] for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limits = [each for each in soft if each != resource.RLIM_INFINITY]
    if not limits:
        return None
    used = 0
    with contextlib.suppress(OSError, ValueError):
        used = int((_PROC / "self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, min(limits) - used)


def _of_machine() -> int | None:
    found = _numbers(_PROC / "meminfo")
    there = found.get("MemAvailable:")
    return None if there is None else (there + found.get("SwapFree:", 0)) * 1024


def _of_groups() -> list[int]:
    out = []
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds not in ("", "memory"):
                continue
            root = _GROUPS / kinds
            place = root / path.lstrip("/")
            out += [_of_group(each) for each in (place, *place.parents) if each == root or root in each.parents]
    return [each for each in out if each is not None]


def _of_group(place: Path) -> int | None:
    for limit, current, total in _NAMES:
        with contextlib.suppress(OSError, ValueError):
            most, used = (int((place / name).read_text()) for name in (limit, current))
            files = _numbers(place / "memory.stat")
            return max(0, most - used + sum(files.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive")))
    return None


def _numbers(path: Path) -> dict[str, int]:
    """Of each line of a file that is a word and a number, the number."""
    with contextlib.suppress(OSError):
        lines = [line.split() for line in path.read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
    return {}
