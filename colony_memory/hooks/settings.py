"""Pure: a host's settings with the hooks of this package in them, and without, with everything else as it was, and the
JSON that they are edited as: a text of which all but the change stays to the letter.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from colony_memory.hooks.install import after_program

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from colony_memory.hooks.hosts import Host

_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}:]+')
_COMMENT = re.compile(r"//|/\*")


@dataclass(frozen=True)
class Node:
    """A value, and where it stands.

    Attributes:
        items: Of an object or a list, each member: where its name or itself begins, its name or None, and its value.
    """

    value: Any
    start: int  # index of its first character
    end: int  # index after its last one
    items: tuple[tuple[int, str | None, Node], ...] = ()

    def member(self, name: str) -> Node | None:
        """The value of that name in an object."""
        return next((value for _, key, value in self.items if key == name), None)


def read_json_text(text: str) -> Node:
    """Read one JSON document."""
    try:
        json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse)
        node, _ = _read(text, _skip(text, 0))
    except json.JSONDecodeError as error:
        why = "it has a comment, which JSON does not allow" if _COMMENT.match(text, error.pos) else "it is not JSON"
        raise ValueError(f"{why}: line {error.lineno}, column {error.colno}") from error
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return node


def insert(text: str, into: Node, value: object, *, name: str | None = None) -> str:
    """The text with one member more at the end of an object or a list, in the manner of what is there.

    >>> text = '{"a": [1, 2]}'
    >>> insert(text, read_json_text(text).member("a"), 3)
    '{"a": [1, 2, 3]}'
    """
    head = "" if name is None else f"{json.dumps(name)}: "
    unit = _unit(text)
    if into.items:
        last_start, _, last = into.items[-1]
        own_line, indent = _indent(text, last_start)
        written = f"{head}{_written(value, indent if own_line else None, unit)}"
        between = f",\n{indent}" if own_line else ", "
        return f"{text[: last.end]}{_lines_as(text, between + written)}{text[last.end :]}"
    _, outer = _indent(text, into.start, of_line=True)
    opening, closing = text[into.start], text[into.end - 1]
    inner = outer + unit
    body = f"{opening}\n{inner}{head}{_written(value, inner, unit)}\n{outer}{closing}"
    return f"{text[: into.start]}{_lines_as(text, body)}{text[into.end :]}"


def drop(text: str, of: Node, index: int) -> str:
    """The text without one member of an object or a list, and without the comma that it needed.

    >>> text = '[1, 2, 3]'
    >>> drop(text, read_json_text(text), 1), drop(text, read_json_text(text), 2)
    ('[1, 3]', '[1, 2]')
    """
    start, _, node = of.items[index]
    if len(of.items) == 1:
        return f"{text[: of.start + 1]}{text[of.end - 1 :]}"
    if index + 1 < len(of.items):
        return text[:start] + text[of.items[index + 1][0] :]
    return text[: of.items[index - 1][2].end] + text[node.end :]


def _read(text: str, at: int) -> tuple[Node, int]:
    if text[at] not in "{[":
        found = _SCALAR.match(text, at)
        assert found is not None  # noqa: S101 - the whole was read before
        return Node(json.loads(found[0]), at, found.end()), found.end()
    is_object, start = text[at] == "{", at
    items: list[tuple[int, str | None, Node]] = []
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        begins, key = at, None
        if is_object:
            named, at = _read(text, at)
            key, at = str(named.value), _skip(text, _skip(text, at) + 1)  # beyond the colon
        node, at = _read(text, at)
        items.append((begins, key, node))
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    value: Any = {key: node.value for _, key, node in items} if is_object else [node.value for _, _, node in items]
    return Node(value, start, at + 1, tuple(items)), at + 1


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return at if found is None else found.end()


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # What one program takes from it is not what another does.
        raise ValueError("it has a name twice in one object")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"it is not JSON: {constant}")


def _indent(text: str, at: int, *, of_line: bool = False) -> tuple[bool, str]:
    """Whether nothing stands before this on its line, and the blanks that the line begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    blanks = line[: len(line) - len(line.lstrip(" \t"))]
    return (not line.strip() and "\n" in text[:at]), blanks if of_line or not line.strip() else ""


def _unit(text: str) -> str:
    """By how much the text indents: as its first indented line, else by two."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _lines_as(text: str, added: str) -> str:
    return added.replace("\n", "\r\n") if "\r\n" in text else added


def _written(value: object, indent: str | None, unit: str) -> str:
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=unit, ensure_ascii=False).splitlines()
    return f"\n{indent}".join(lines)


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
    text = text if text.strip() else "{}\n"
    is_same = lambda command: own_folder(command) is not None and _saves(shlex.split(command)) == handler.saves  # noqa: E731
    if all(_entries(text, event, is_same) == [entry] for event in events):
        return text
    text = _without(text, is_same) or "{}\n"
    for event in events:
        text = _add(text, event, {"hooks": [entry]})
    return text


def without_hooks(text: str, folder: str | None = None) -> str:
    """The settings without the hooks of this package, for one folder or for all; what they leave empty goes too."""
    return _without(text, lambda command: own_folder(command) is not None and folder in (None, own_folder(command)))


def other_folders(text: str, handler: Handler) -> list[str]:
    """The other folders that the settings have saved under the same label of the same vault."""
    others = [_saves(shlex.split(each)) for each in commands(text, lambda command: own_folder(command) is not None)]
    return [each.folder for each in others if each[1:] == handler.saves[1:] and each.folder != handler.folder]


def commands(text: str, is_meant: Callable[[Any], bool]) -> list[str]:
    """The commands of all hooks that are meant, each once."""
    if not text.strip():
        return []
    hooks = _require(read_json_text(text), dict, "the settings are").value.get("hooks")
    events = hooks if isinstance(hooks, dict) else ()
    return [*dict.fromkeys(each["command"] for event in events for each in _entries(text, event, is_meant))]


def _saves(words: Sequence[str]) -> _Saves:
    named = {flag: value for flag, value in pairwise(words) if flag in ("--vault", "--label")}
    return _Saves(words[-1], named.get("--vault"), named.get("--label"))


def _without(text: str, is_meant: Callable[[Any], bool]) -> str:
    while (found := _first_out(text, is_meant)) is not None:
        text = found
    return text


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


def _add(text: str, event: str, group: Mapping[str, Any]) -> str:
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.member("hooks")
    if hooks is None:
        return insert(text, root, {event: [group]}, name="hooks")
    listed = _require(hooks, dict, "what they call hooks is").member(event)
    if listed is None:
        return insert(text, hooks, [group], name=event)
    return insert(text, _require(listed, list, f"the hooks of {event} are"), group)


def _first_out(text: str, is_meant: Callable[[Any], bool]) -> str | None:
    """The text without the first hook that is meant in it, None where there is none."""
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.member("hooks")
    if hooks is None:
        return None
    for at, (_, event, listed) in enumerate(_require(hooks, dict, "what they call hooks is").items):
        for group_at, (_, _, group) in enumerate(_require(listed, list, f"the hooks of {event} are").items):
            handlers = group.member("hooks")
            for handler_at, (_, _, handler) in enumerate(handlers.items if handlers is not None else ()):
                if not _is_meant(handler.value, is_meant):
                    continue
                # The outermost that holds nothing else goes as a whole.
                chain = [(handlers, handler_at), (listed, group_at), (hooks, at), (root, _place(root, hooks))]
                return _drop_outermost(text, chain)
    return None


def _drop_outermost(text: str, chain: Sequence[tuple[Node | None, int]]) -> str:
    of, index = chain[0]
    for above, at in chain[1:]:
        if of is None or len(of.items) > 1:
            break
        of, index = above, at
    return text if of is None else drop(text, of, index)


def _place(root: Node, member: Node) -> int:
    return next(at for at, (_, _, node) in enumerate(root.items) if node is member)


def _entries(text: str, event: str, is_meant: Callable[[Any], bool]) -> list[Any]:
    """The hooks at an event whose commands are meant."""
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.value.get("hooks")
    groups = hooks.get(event) if isinstance(hooks, dict) else None
    found: list[Any] = []
    for group in groups if isinstance(groups, list) else []:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        found += [each for each in handlers if _is_meant(each, is_meant)] if isinstance(handlers, list) else []
    return found


def _is_meant(handler: Any, is_meant: Callable[[Any], bool]) -> bool:
    return isinstance(handler, dict) and is_meant(handler.get("command"))


def _require(node: Node, kind: type, what: str) -> Node:
    if not isinstance(node.value, kind):
        raise ValueError(f"{what} not {'a list' if kind is list else 'an object'}")  # noqa: TRY004 - it is a file
    return node
