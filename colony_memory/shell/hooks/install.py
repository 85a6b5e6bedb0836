"""The hooks in a host's settings, with a command for this program that is safe to run in any directory.

Hosts run the commands in their settings in the directory that the agent works on, which may be anybody's. A Python that
imports from there (``-m``, or ``PYTHONPATH`` with an empty entry) would run a ``json.py`` that it finds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import site
import sys
from difflib import unified_diff
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import colony_memory
from colony_memory._os.files import create_file, make_directory, read_file, replace_file
from colony_memory._os.paths import real_path
from colony_memory._values import Value
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.shell.app.config import at_key, path_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.shell.hooks.hosts import Host

_SCRIPT = "colony-memory"
_MODULE = "colony_memory"
_MAIN = "from colony_memory.__main__ import main; sys.exit(main())"


def program_words() -> list[str]:
    """The words of a command that starts this program in any directory without running code from there.

    Python's isolated mode (``-I``) ignores the directory and environment variables. If the package is not in the
    interpreter's own ``site-packages``, but found by a variable or in the user's, the words say where it is.
    """
    if not sys.executable:
        raise ColonyMemoryError(
            "there is no way to call this program that is safe in every directory: install it into a virtual "
            "environment, or with pipx"
        )
    python = os.path.abspath(sys.executable)  # noqa: PTH100 - keep a link
    if getattr(sys, "frozen", False):
        return [python]  # a single-file executable
    root = str(Path(os.path.abspath(colony_memory.__file__)).parents[1])  # noqa: PTH100
    if root in map(os.path.abspath, site.getsitepackages()):
        return [python, "-I", "-m", _MODULE]
    entries = filter(os.path.isabs, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    code = f"import site, sys; sys.path[:0] = {[*dict.fromkeys([*entries, root])]!a}; "
    code += f"site.addsitedir({site.getusersitepackages()!a}); " if site.ENABLE_USER_SITE else ""
    return [python, "-I", "-c", f"{code}{_MAIN}"]


def in_a_cache() -> bool:
    """True if the Python in use may vanish at any time, like that of a tool run once."""
    return any((above / "CACHEDIR.TAG").is_file() for above in Path(sys.prefix).parents)


_MOST_BYTES = 2**20
_COMMENT = re.compile(r"//|/\*")
# Characters by which a shell ends a command or redirects its output.
_OPERATORS = frozenset(";&|<>()\n")


def with_hooks(text: str, host: Host, words: Sequence[str], seconds: int) -> str:
    """The settings with this command at each event of the host, instead of any for the same folder, vault and label.

    The last of the words is the folder; ``seconds`` is the command's time limit. Refuses another folder of that label.
    """
    settings, target = _read(text), _target(words)
    for hook in map(_target, map(_own_words, _commands(settings))):
        if hook[0] not in (None, target[0]) and hook[1:] == target[1:]:
            # The two would take turns at being the latest, and a restore would return either.
            raise ValueError(f"{hook[0]!r} is saved under label {target[2]} there already: give another label")
    entry = {"type": "command", "command": shlex.join(words), "timeout": seconds * host.second}
    edited = _without(settings, lambda command: _target(_own_words(command)) == target)
    hooks = edited["hooks"] = dict(edited.get("hooks", {}))
    for event in (*host.tells, *host.saves):
        hooks[event] = [*hooks.get(event, []), {"hooks": [entry]}]
    return _written(edited, settings, text)


def without_hooks(text: str, folder: str | None = None) -> str:
    """The settings without the hooks of this package, for one folder or all, and without entries that become empty."""
    settings = _read(text)
    edited = _without(
        settings, lambda command: (own := _target(_own_words(command))[0]) is not None and folder in (None, own)
    )
    return _written(edited, settings, text)


def commands_built_on(text: str) -> list[str]:
    """The commands that extend a hook of this package, without repeats."""
    return [*dict.fromkeys(filter(built_on, _commands(_read(text))))]


def _target(words: Sequence[str]) -> tuple[str | None, ...]:
    """The folder, vault and label of a hook; another command for the same takes its place."""
    named = {flag: value for flag, value in pairwise(words) if flag in ("--vault", "--label")}
    return words[-1] if words else None, named.get("--vault"), named.get("--label")


def _own_words(command: object) -> Sequence[str]:
    return () if built_on(command) else _words(command)


def built_on(command: object) -> bool:
    """True if a command is a hook of this package that somebody has extended, as by a pipe."""
    if not _words(command):
        return False
    lexer = shlex.shlex(str(command), posix=True, punctuation_chars="".join(_OPERATORS))
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    return any(_OPERATORS.issuperset(word) for word in lexer if word)


def _words(command: object) -> Sequence[str]:
    """The words after ``hook`` in a command that begins as one of this package."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
        at = words.index("hook")
    except ValueError:
        return ()
    program, *options = words[:at] or [""]
    if os.path.basename(program).removesuffix(".exe") == _SCRIPT:  # noqa: PTH119 - a word
        return () if options else words[at + 1 :]
    ours = options[-2:] == ["-m", _MODULE] or (options[-2:-1] == ["-c"] and options[-1].endswith(_MAIN))
    return words[at + 1 :] if ours and all(word.startswith("-") for word in options[:-1]) else ()


def _read(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text if text.strip() else "{}", object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        why = "it has a comment, which JSON does not allow" if _COMMENT.match(text, error.pos) else "it is not JSON"
        raise ValueError(f"{why}: line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    settings: dict[str, Any] = _require(parsed, dict, "the settings are")
    for event, groups in _require(settings.get("hooks", {}), dict, "their 'hooks' is").items():
        _require(groups, list, f"the hooks of {event} are")
    return settings


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        # Programs differ in which of the two they take.
        raise ValueError("one of its objects has the same key twice")
    return values


def _require(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{what} not {'a list' if kind is list else 'an object'}")  # noqa: TRY004 - it is a file
    return value


def _written(settings: dict[str, Any], before: dict[str, Any], text: str) -> str:
    """JSON with the indent and line endings of the original text; the text itself if nothing has changed."""
    if settings == before:
        return text
    indented = re.search(r"\n([ \t]+)\S", text)
    in_ascii = text.isascii() or "\\ud" in text.lower()  # half of a surrogate pair has no other form
    # NaN and infinity, which JSON lacks, are refused.
    indent = indented[1] if indented else 2
    output = json.dumps(settings, indent=indent, ensure_ascii=in_ascii, allow_nan=False) + "\n"
    return output.replace("\n", "\r\n") if "\r\n" in text else output


def _handlers(group: Any) -> list[Any]:
    handlers = group.get("hooks") if isinstance(group, dict) else None
    return handlers if isinstance(handlers, list) else []


def _command(handler: Any) -> Any:
    return handler.get("command") if isinstance(handler, dict) else None


def _commands(settings: dict[str, Any]) -> list[Any]:
    groups = chain.from_iterable(settings.get("hooks", {}).values())
    return [_command(handler) for group in groups for handler in _handlers(group)]


def _without(settings: dict[str, Any], matches: Callable[[Any], bool]) -> dict[str, Any]:
    """The settings without the hooks whose commands match, and without groups and events that become empty."""
    hooks: dict[str, Any] = {}
    for event, groups in settings.get("hooks", {}).items():
        remaining = []
        for group in groups:
            kept = [handler for handler in _handlers(group) if not matches(_command(handler))]
            if len(kept) == len(_handlers(group)):
                remaining.append(group)
            elif kept:
                remaining.append({**group, "hooks": kept})
        if remaining or not groups:
            hooks[event] = remaining
    if hooks == settings.get("hooks", {}):
        return dict(settings)
    return {name: hooks if name == "hooks" else value for name, value in settings.items() if name != "hooks" or hooks}


class Change(Value):
    """An edit of a settings file; true if it changes anything."""

    path: Path
    before: str  # its text, empty if the file is missing
    after: str  # its text after the edit
    facts: os.stat_result | None  # the file's facts, None if it is missing

    def __bool__(self) -> bool:
        return self.before != self.after

    @property
    def difference(self) -> str:
        """A unified diff for ``patch``; empty if nothing changes."""
        before, after = self.before.splitlines(keepends=True), self.after.splitlines(keepends=True)
        lines = unified_diff(before, after, str(self.path), str(self.path))
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)

    def make(self) -> None:
        """Write it, all or nothing. An existing file keeps its owner and mode."""
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
    if not host.file:
        raise ValueError(f"{host.title} has no settings for hooks: {host.afterwards}")
    chosen = os.environ.get(host.variable, "") if host.variable else ""
    folder = Path(at_key(host.variable, path_of, chosen)) if chosen.strip() else Path.home() / host.directory
    return folder / host.file


def switched_off(path: Path, host: Host) -> str | None:
    """The file next to a settings file that switches the hooks of its host off, None if none does."""
    name, pattern = host.switch
    switch = path.with_name(name)
    try:
        found = read_file(real_path(switch), _MOST_BYTES)
    except OSError:
        return None
    text = "" if found is None else found.data.decode("utf-8", "replace")
    return str(switch) if re.search(pattern, text) else None


def change_settings(path: Path, edit: Callable[[str], str]) -> Change:
    """The result of an edit of a settings file; a link is followed to the real file."""
    real = real_path(path)
    try:
        found = read_file(real, _MOST_BYTES)
        before = "" if found is None else found.data.decode("utf-8")
        return Change(real, before, edit(before), None if found is None else found.facts)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(f"{path} is left as it is: {why}") from error
