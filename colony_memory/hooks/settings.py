"""Pure: a host's settings with the hooks of this package in them, and without, with everything else as it was."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from colony_memory.hooks.json_text import drop, insert, read_json_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from colony_memory.hooks.hosts import Host
    from colony_memory.hooks.json_text import Node

__all__ = ["Handler", "other_folders", "own_folder", "with_hooks", "without_hooks"]

_PROGRAM = "colony-memory"
_MODULE = "colony_memory"


@dataclass(frozen=True)
class Handler:
    """What a host is to run.

    Attributes:
        words: The command, word by word; the last one is the folder.
        seconds: How long the host may let it run.
    """

    words: tuple[str, ...]
    seconds: int

    @property
    def folder(self) -> str:
        """What is saved."""
        return self.words[-1]

    def entry(self, host: Host) -> dict[str, Any]:
        """As the host has it in its settings."""
        return {"type": "command", "command": shlex.join(self.words), "timeout": self.seconds * host.second}


def with_hooks(text: str, host: Host, handler: Handler) -> str:
    """The settings with a hook for the folder at each of the host's events, in the place of those that were there.

    Args:
        text: The settings, empty where there are none yet.
        host: Whose they are.
        handler: What is to be run.

    Raises:
        ValueError: They are not JSON, or not of the form that hooks have.
    """
    events, entry = (*host.tells, *host.saves), handler.entry(host)
    text = text if text.strip() else "{}\n"
    if all(_entries(text, event, handler.folder) == [entry] for event in events):
        return text
    text = without_hooks(text, handler.folder) or "{}\n"
    for event in events:
        text = _add(text, event, {"hooks": [entry]})
    return text


def without_hooks(text: str, folder: str | None = None) -> str:
    """The settings without the hooks of this package, for one folder or for all; what they leave empty goes too.

    Raises:
        ValueError: They are not JSON, or not of the form that hooks have.
    """
    while (found := _first_own(text, folder)) is not None:
        text = found
    return text


def other_folders(text: str, handler: Handler) -> list[str]:
    """The other folders that the settings have saved under the same label of the same vault.

    Raises:
        ValueError: The settings are not JSON, or not of the form that hooks have.
    """
    if not text.strip():
        return []
    hooks = _require(read_json_text(text), dict, "the settings are").value.get("hooks")
    events = hooks if isinstance(hooks, dict) else ()
    commands = [str(each["command"]) for event in events for each in _entries(text, event, None)]
    same = [each for each in commands if _place_of(shlex.split(each)) == _place_of(handler.words)]
    return [each for each in dict.fromkeys(map(own_folder, same)) if each not in (None, handler.folder)]


def _place_of(words: Sequence[str]) -> list[str | None]:
    """The vault and the label that a command names."""
    return [next((value for name, value in pairwise(words) if name == flag), None) for flag in ("--vault", "--label")]


def own_folder(command: object) -> str | None:
    """The folder that a command saves, where it is a hook of this package.

    >>> own_folder("/home/ada/.local/bin/colony-memory hook --format codex '/home/ada/my memory'")
    '/home/ada/my memory'
    >>> own_folder("colony-memory backup /home/ada/memory") is None
    True
    """
    if not isinstance(command, str):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if len(words) > 3 and words[1:4] == ["-m", _MODULE, "hook"]:
        return words[-1]
    ours = len(words) > 2 and os.path.basename(words[0]).removesuffix(".exe") == _PROGRAM  # noqa: PTH119 - a word
    return words[-1] if ours and words[1] == "hook" else None


def _add(text: str, event: str, group: Mapping[str, Any]) -> str:
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.member("hooks")
    if hooks is None:
        return insert(text, root, {event: [group]}, name="hooks")
    listed = _require(hooks, dict, "what they call hooks is").member(event)
    if listed is None:
        return insert(text, hooks, [group], name=event)
    return insert(text, _require(listed, list, f"the hooks of {event} are"), group)


def _first_own(text: str, folder: str | None) -> str | None:
    """The text without the first hook of this package in it, None where there is none."""
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.member("hooks")
    if hooks is None:
        return None
    for at, (_, event, listed) in enumerate(_require(hooks, dict, "what they call hooks is").items):
        for group_at, (_, _, group) in enumerate(_require(listed, list, f"the hooks of {event} are").items):
            handlers = group.member("hooks")
            for handler_at, (_, _, handler) in enumerate(handlers.items if handlers is not None else ()):
                if not _is_own(handler.value, folder):
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


def _entries(text: str, event: str, folder: str | None) -> list[Any]:
    """What is there for a folder, or for any, at an event."""
    root = _require(read_json_text(text), dict, "the settings are")
    hooks = root.value.get("hooks")
    groups = hooks.get(event) if isinstance(hooks, dict) else None
    found: list[Any] = []
    for group in groups if isinstance(groups, list) else []:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        found += [each for each in handlers if _is_own(each, folder)] if isinstance(handlers, list) else []
    return found


def _is_own(handler: Any, folder: str | None) -> bool:
    own = own_folder(handler.get("command")) if isinstance(handler, dict) else None
    return own is not None and folder in (None, own)


def _require(node: Node, kind: type, what: str) -> Node:
    if not isinstance(node.value, kind):
        raise ValueError(f"{what} not {'a list' if kind is list else 'an object'}")  # noqa: TRY004 - it is a file
    return node
