"""Pure: a host's settings with the hooks of this package in them, and without, with every other setting as it was."""

from __future__ import annotations

import json
import math
import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from colony_memory._values import NamedTuple, dataclass
from colony_memory.hooks.install import after_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from colony_memory.hooks.hosts import Host

_COMMENT = re.compile(r"//|/\*")
# What a shell takes for the end of a command, or for where its output goes.
_OPERATORS = frozenset(";&|<>()\n")


class _Saves(NamedTuple):
    """What a hook is for; another command for the same takes its place."""

    folder: str
    vault: str | None  # the vault that the command names
    label: str | None  # the label that it names


@dataclass(frozen=True)
class Handler:
    """What a host is to run."""

    words: tuple[str, ...]  # the command, word by word; the last one is the folder
    seconds: int  # how long the host may let it run

    @property
    def folder(self) -> str:
        """What is saved."""
        return self.words[-1]

    @property
    def saves(self) -> _Saves:
        """What is saved where."""
        return _saves(self.words)

    def entry(self, host: Host) -> dict[str, Any]:
        """As the host has it in its settings."""
        return {"type": "command", "command": shlex.join(self.words), "timeout": self.seconds * host.second}


def with_hooks(text: str, host: Host, handler: Handler) -> str:
    """The settings with a hook at each event of the host, in place of those for the same folder, vault and label."""
    events, entry = (*host.tells, *host.saves), handler.entry(host)
    is_same = lambda command: own_folder(command) is not None and _saves(shlex.split(command)) == handler.saves  # noqa: E731
    settings = _read(text)
    if all([each for _, each in _handlers(settings, is_same, event)] == [entry] for event in events):
        return text
    _remove(settings, is_same)
    hooks = settings.setdefault("hooks", {})
    for event in events:
        hooks.setdefault(event, []).append({"hooks": [entry]})
    return _written(settings, text)


def without_hooks(text: str, folder: str | None = None) -> str:
    """The settings without the hooks of this package, for one folder or for all; what they leave empty goes too."""
    settings = _read(text)
    is_meant = lambda command: own_folder(command) is not None and folder in (None, own_folder(command))  # noqa: E731
    return _written(settings, text) if _remove(settings, is_meant) else text


def other_folders(text: str, handler: Handler) -> list[str]:
    """The other folders that the settings have saved under the same label of the same vault."""
    others = [_saves(shlex.split(each)) for each in commands(text, lambda command: own_folder(command) is not None)]
    return [each.folder for each in others if each[1:] == handler.saves[1:] and each.folder != handler.folder]


def commands(text: str, is_meant: Callable[[Any], bool]) -> list[str]:
    """The commands of all hooks that are meant, each once."""
    return [*dict.fromkeys(each["command"] for _, each in _handlers(_read(text), is_meant))]


def _saves(words: Sequence[str]) -> _Saves:
    named = {flag: value for flag, value in pairwise(words) if flag in ("--vault", "--label")}
    return _Saves(words[-1], named.get("--vault"), named.get("--label"))


def own_folder(command: object) -> str | None:
    """The folder that a command saves, where it is a hook of this package and nothing more.

    >>> own_folder("/home/ada/.local/bin/colony-memory hook --format codex '/home/ada/my memory'")
    '/home/ada/my memory'
    >>> own_folder("colony-memory backup /home/ada/memory") is None
    True
    >>> own_folder("colony-memory hook /home/ada/memory && say saved") is None
    True
    """
    words = _words(command)
    return words[-1] if words and not built_on(command) else None


def built_on(command: object) -> bool:
    """Whether a command is a hook of this package with something more that somebody has built on it."""
    if not _words(command):
        return False
    lexer = shlex.shlex(str(command), posix=True, punctuation_chars="".join(_OPERATORS))
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    return any(_OPERATORS.issuperset(word) for word in lexer if word)


def _words(command: object) -> Sequence[str]:
    """What stands behind ``hook`` in a command that begins as one of this package."""
    try:
        words = after_program(shlex.split(command)) if isinstance(command, str) else ()
    except ValueError:
        return ()
    return words[1:] if words[:1] == ["hook"] else ()


def _read(text: str) -> dict[str, Any]:
    try:
        text = text if text.strip() else "{}"
        found = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse, parse_float=_number)
    except json.JSONDecodeError as error:
        why = "it has a comment, which JSON does not allow" if _COMMENT.match(text, error.pos) else "it is not JSON"
        raise ValueError(f"{why}: line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    settings: dict[str, Any] = _require(found, dict, "the settings are")
    for event, groups in _require(settings.get("hooks", {}), dict, "what they call hooks is").items():
        _require(groups, list, f"the hooks of {event} are")
    return settings


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # What one program takes from it is not what another does.
        raise ValueError("it has a name twice in one object")
    return found


def _number(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("it has a number that would not come back")
    return number


def _refuse(constant: str) -> Any:
    raise ValueError(f"it is not JSON: {constant}")


def _require(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{what} not {'a list' if kind is list else 'an object'}")  # noqa: TRY004 - it is a file
    return value


def _written(settings: dict[str, Any], like: str) -> str:
    """JSON with the indent and the ends of lines of another text."""
    indented = re.search(r"\n([ \t]+)\S", like)
    in_ascii = like.isascii() or "\\ud" in like.lower()  # half of a surrogate pair has no other form
    text = json.dumps(settings, indent=indented[1] if indented else 2, ensure_ascii=in_ascii) + "\n"
    return text.replace("\n", "\r\n") if "\r\n" in like else text


def _handlers(
    settings: dict[str, Any], is_meant: Callable[[Any], bool], event: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """The hooks whose commands are meant, at one event or at all, each with the list that it is in."""
    for name, groups in settings.get("hooks", {}).items():
        for group in groups if event in (None, name) else ():
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for each in handlers if isinstance(handlers, list) else ():
                if isinstance(each, dict) and is_meant(each.get("command")):
                    yield handlers, each


def _remove(settings: dict[str, Any], is_meant: Callable[[Any], bool]) -> bool:
    """Take them out, with what holds nothing else; true where there were any."""
    found = list(_handlers(settings, is_meant))
    for handlers, each in found:
        handlers.remove(each)
    emptied = {id(handlers) for handlers, _ in found if not handlers}
    hooks = settings.get("hooks", {})
    for event, groups in list(hooks.items()):
        left = [each for each in groups if not (isinstance(each, dict) and id(each.get("hooks")) in emptied)]
        if len(left) < len(groups):
            hooks[event] = left
            if not left:
                del hooks[event]
    if found and not hooks:
        del settings["hooks"]
    return bool(found)
