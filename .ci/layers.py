"""Lay out, beside an environment that has everything, one that has only what a requirement declares.

    python layers.py FULL TARGET 'colony-memory[sign]'

What a distribution asks for is read from its metadata, as pip reads it, and taken from FULL by links: TARGET has what
the requirement leads to and nothing else, in a tenth of the time. The interpreter must be that of FULL; ``packaging``
is all that this needs. Prints the extras that TARGET has all of, whoever asked for it: mcp brings what signs, too.
"""

from __future__ import annotations

import sys
import venv
from collections import Counter
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def main() -> None:
    full, target, wanted = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
    found = {canonicalize_name(each.name): each for each in distributions(path=[str(site_of(full))])}
    asked = Requirement(wanted)
    chosen = closure(asked, found)
    venv.EnvBuilder(with_pip=False, symlinks=True).create(target)
    owners = Counter(top for each in found.values() for top in tops(each))
    for name in chosen:
        link(found[name], site_of(full), site_of(target), owners)
    extras = found[canonicalize_name(asked.name)].metadata.get_all("Provides-Extra") or ()
    there = [extra for extra in extras if closure(Requirement(f"{asked.name}[{extra}]"), found) <= chosen]
    if "all" in there and set(found) != chosen:
        raise SystemExit(f"nothing asks for {sorted(set(found) - chosen)}")
    print(" ".join(sorted(there)))


def site_of(environment: Path) -> Path:
    return environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def closure(wanted: Requirement, found: dict[str, Distribution]) -> set[str]:
    """Names of what the requirement leads to, itself included."""
    seen: dict[str, set[str]] = {}
    left = [wanted]
    while left:
        asked = left.pop()
        name = canonicalize_name(asked.name)
        if name not in found:
            raise SystemExit(f"{asked} is asked for, and not installed")
        if not asked.specifier.contains(found[name].version, prereleases=True):
            raise SystemExit(f"{asked} is asked for, and {found[name].version} is installed")
        known = seen.setdefault(name, set())
        fresh = {"", *asked.extras} - known
        known |= fresh
        for line in found[name].requires or ():
            needed = Requirement(line)
            if any(needed.marker is None or needed.marker.evaluate({"extra": extra}) for extra in fresh):
                left.append(needed)
    return set(seen)


def tops(distribution: Distribution) -> set[str]:
    """The first part of each of its files' names; scripts lie elsewhere, and belong to the full environment."""
    names = (PurePosixPath(str(file)).parts[0] for file in distribution.files or ())
    return {name for name in names if name not in {"..", "__pycache__"}}


def link(distribution: Distribution, source: Path, site: Path, owners: Counter[str]) -> None:
    for file in distribution.files or ():
        path = PurePosixPath(str(file))
        # A folder of one distribution alone is linked as it is, so that what is compiled once is compiled for all.
        whole = owners[path.parts[0]] == 1
        place = site / (path.parts[0] if whole else path)
        if path.parts[0] in {"..", "__pycache__"} or place.is_symlink():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(source / place.relative_to(site))


if __name__ == "__main__":
    main()
