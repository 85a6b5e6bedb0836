"""The hooks in a host's settings, and how this program is called from there: in any directory, whatever lies there.

Hosts run what is written into their settings in the directory that the agent works on, which may be anybody's. A Python
that imports from there (``-m``, or ``PYTHONPATH`` with an empty entry) runs the ``json.py`` that it finds.
"""

from __future__ import annotations

import functools
import os
import re
import site
import subprocess
import sys
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

import colony_memory
from colony_memory._os.files import create_file, make_directory, read_file, replace_file
from colony_memory._os.paths import real_path
from colony_memory._values import dataclass
from colony_memory.app.values import settled_path
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.hooks.hosts import Host

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


_MOST_BYTES = 2**20


@dataclass(frozen=True)
class Change:
    """A change of a settings file; true where it changes anything."""

    path: Path
    before: str  # its text, empty where it is not there
    after: str  # what that becomes
    facts: os.stat_result | None  # the file's facts, None where it is not there

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def difference(self) -> str:
        """Line by line, as ``patch`` takes it; empty where nothing changes."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = unified_diff(before, after, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def make(self) -> None:
        """Write it, whole or not at all. A file that is there keeps its owner and its mode."""
        if not self:
            return
        data = self.after.encode()
        try:
            if self.facts is None:
                make_directory(self.path.parent)
                create_file(self.path, data)
            else:
                replace_file(self.path, data, like=self.facts)
        except FileExistsError as error:
            raise ColonyMemoryError(f"{self.path} was changed meanwhile; nothing was written, try again") from error
        except OSError as error:
            raise ColonyMemoryError(f"{self.path} cannot be written: {error.strerror}") from error


def settings_path(host: Host) -> Path:
    """The user's own settings file of a host."""
    if not host.file:
        raise ValueError(f"{host.title} has no settings for hooks: {host.afterwards}")
    chosen = os.environ.get(host.variable, "") if host.variable else ""
    folder = Path(settled_path(host.variable, chosen)) if chosen.strip() else Path.home() / host.directory
    return folder / host.file


def switched_off(path: Path, host: Host) -> str | None:
    """The file beside a settings file that switches the hooks of its host off, where one does."""
    name, pattern = host.switch
    place = path.with_name(name)
    try:
        found = read_file(real_path(place), _MOST_BYTES)
    except OSError:
        return None
    text = "" if found is None else found.data.decode("utf-8", "replace")
    return str(place) if re.search(pattern, text) else None


def change_settings(path: Path, edit: Callable[[str], str]) -> Change:
    """What an edit would make of a settings file. Where a link leads to it, the file that it leads to is meant."""
    real = real_path(path)
    try:
        found = read_file(real, _MOST_BYTES)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    try:
        before = "" if found is None else found.data.decode("utf-8")
        return Change(real, before, edit(before), None if found is None else found.facts)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is left as it is: it is not UTF-8 text") from error
    except ValueError as error:
        raise ValueError(f"{path} is left as it is: {error}") from error
