"""Pure: JSON that is somebody else's, changed in one place with every other character left as it is.

To read it and write it anew would keep the values, but neither the indentation nor how a number or a letter was
spelled. So the text is read with the place of each value, and what is new is put in between.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Node", "drop", "insert", "read_json_text"]

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
