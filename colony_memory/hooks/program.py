"""How this program is called from elsewhere: in any directory, whatever lies there and whatever is set.

Hosts run what is written into their settings in the directory that the agent works on, which may be anybody's. A Python
that imports from there (``-m``, or ``PYTHONPATH`` with an empty entry) runs the ``json.py`` that it finds.
"""

from __future__ import annotations

import functools
import os
import site
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import colony_memory
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["after_program", "in_a_cache", "program_words"]

_SCRIPT = "colony-memory"
_MODULE = "colony_memory"
_MAIN = "from colony_memory.__main__ import main; sys.exit(main())"
_SECONDS = 30


def program_words() -> list[str]:
    """The words that start this very program in any directory, without what lies there being run.

    Python's isolated mode (``-I``) takes nothing from the directory and from variables. Where the package is found only
    by a variable or in the user's own packages, the words say where it is. That they do it is tried.
    """
    python = os.path.abspath(sys.executable) if sys.executable else ""  # noqa: PTH100 - a link stays
    if python and getattr(sys, "frozen", False):
        return [python]  # one file with everything in it
    if python and _finds_us(python, ""):
        return [python, "-I", "-m", _MODULE]
    found = _where_found()
    if python and _finds_us(python, found):
        return [python, "-I", "-c", f"{found}{_MAIN}"]
    raise ColonyMemoryError(
        "there is no way to call this program that is safe in every directory: install it into a virtual environment, "
        "or with pipx"
    )


def after_program(words: Sequence[str]) -> Sequence[str]:
    """Pure: what stands behind the program in a command of this package, nothing where it is another's.

    >>> after_program(["/opt/bin/colony-memory", "hook", "/m"])
    ['hook', '/m']
    >>> after_program(["/usr/bin/python3", "-I", "-m", "colony_memory", "hook", "/m"])
    ['hook', '/m']
    >>> after_program(["/usr/bin/python3", "-m", "http.server"])
    []
    """
    if not words:
        return []
    if os.path.basename(words[0]).removesuffix(".exe") == _SCRIPT:  # noqa: PTH119 - a word
        return words[1:]
    at = next((n for n, word in enumerate(words) if n and word in ("-m", "-c")), len(words))
    named = words[at + 1] if at + 1 < len(words) else ""
    plain = all(word.startswith("-") for word in words[1:at])
    ours = named == _MODULE if words[at : at + 1] == ["-m"] else named.endswith(_MAIN)
    return words[at + 2 :] if plain and ours else []


def in_a_cache() -> bool:
    """Whether this Python lies in a cache, which may be emptied at any time: as of a tool that was run once."""
    return any((above / "CACHEDIR.TAG").is_file() for above in Path(sys.prefix).parents)


def _where_found() -> str:
    """Python code that makes it import what this process imports: what the isolated mode leaves out."""
    given = filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    places = [*dict.fromkeys([*given, os.path.dirname(_package())])]  # noqa: PTH120
    code = f"import site, sys; sys.path[:0] = {places!a}; "
    return f"{code}site.addsitedir({site.getusersitepackages()!a}); " if site.ENABLE_USER_SITE else code


@functools.cache
def _finds_us(python: str, code: str) -> bool:
    """Whether an isolated Python, after this code, finds this package here, with what its command line needs."""
    asked = f"{code}import colony_memory.cli.app as found; print(ascii(found.__file__))"
    try:
        done = subprocess.run(  # noqa: S603 - this Python
            [python, "-I", "-c", asked], capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return False
    here = os.path.join(_package(), "cli", "app.py")  # noqa: PTH118
    return done.returncode == 0 and done.stdout.strip() == ascii(here).encode()


def _package() -> str:
    return os.path.dirname(os.path.abspath(colony_memory.__file__))  # noqa: PTH100, PTH120
