"""Errors, warnings and hints in the words of the command line, for a model that has tools in the place of commands.

What nobody but the owner of this host needs to know, paths outside the folder and addresses, is left out of them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from colony_memory._format.names import id_time
from colony_memory.exceptions import ColonyMemoryError, Hint, bad_argument, message_of
from colony_memory.words.commands import OPTIONS, SETTINGS
from colony_memory.words.errors import cut
from colony_memory.words.text import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from colony_memory.app.protection import Problem

#: The tool that does what a verb of the library does.
_TOOLS = {each: each for each in ("backup", "restore", "verify", "status")}
_TOOLS |= {"list_snapshots": "list", "inspect": "status"}
#: Options of the server that a person may start it with.
_FLAGS = frozenset((
    "--accept-legacy-pointer", "--accept-unsigned", "--allow-secret", "--keep", "--key-file", "--on-conflict",
    "--secrets", "--trust", "--vault", "--witness",
))  # fmt: skip
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\",;()]+", re.IGNORECASE)
_QUOTED = re.compile(r"(['\"])(?:~?/|[A-Za-z]:[\\/])[^'\"\n]*\1")
_BARE = re.compile(r"(?<![\w./:\\-])(?:~?/|[A-Za-z]:[\\/])[^\s'\",;:()]+")


def is_foreseen(error: BaseException) -> bool:
    """Whether the error was worded for whoever called."""
    # Other kinds of ValueError come from elsewhere, and may repeat what they were given.
    ours = type(error) is ValueError or type(error).__module__ == bad_argument.__module__
    return isinstance(error, ColonyMemoryError) or (isinstance(error, ValueError) and ours)


class Words:
    """How one server says things."""

    def __init__(
        self, root: Path, tools: Collection[str], *, makes_vault: bool = False, hidden: Iterable[str] = ()
    ) -> None:
        spelled = re.escape(str(root)) if len(str(root)) > 1 else "(?!)"
        self._root = re.compile(rf"{spelled}({re.escape(os.sep)}|(?![\w.-]))")
        # The name of a directory alone is a word like any other.
        self._hidden = sorted((each for each in hidden if re.search(r"[\\/].", each)), key=len, reverse=True)
        self._tools = tools
        self._makes_vault = makes_vault

    def error(self, error: BaseException) -> str:
        """What went wrong, and what to do next; one line."""
        text = message_of(error) if is_foreseen(error) else ""
        if not text:  # what it says may be about anything
            kind = type(error).__name__
            text = f"it failed unexpectedly ({kind}); the log of the server has more"
        return self._sentence(text, getattr(error, "hint", None))

    def warning(self, warning: Warning) -> str:
        """What was worked around, and what to do next; one line."""
        return self._sentence(message_of(warning), getattr(warning, "hint", None))

    def _sentence(self, text: str, hint: object) -> str:
        text = shown(cut(self.clean(text)))
        advice = self._advice(hint) if isinstance(hint, Hint) else None
        return text if advice is None else f"{text}; try: {advice}"

    def clean(self, text: str) -> str:
        """The text without addresses, and without any path that is not one inside the folder."""
        for each in self._hidden:
            text = text.replace(each, "…")
        text = self._root.sub(lambda found: "" if found[1] else "the folder", text)
        for pattern, instead in ((_ADDRESS, "…"), (_QUOTED, r"\1…\1"), (_BARE, "…")):
            text = pattern.sub(instead, text)
        return text

    def mending(self, problem: Problem) -> str:
        """What mends something that ``status`` has found."""
        named = problem.snapshot_id if problem.snapshot_id and id_time(problem.snapshot_id) else None
        if problem.mending in ("backup", "replace", "sign"):
            return "call backup"
        if problem.mending in ("merge", "join"):
            return f"ask the person to merge {named}" if named else "ask the person to merge"
        if problem.mending == "judge":
            return f"call verify{self._with(named)}"
        if problem.mending == "delete":
            return f"call verify{self._with(named)}, and let the person decide whether to delete it"
        if problem.mending == "accept":
            return f"ask the person whether to call restore{self._with(named)} and then backup"
        if problem.mending == "forget":
            return "tell the person, who may prune the leftovers to forget it"
        if problem.mending == "prune":
            return "ask the person to prune old snapshots, or to start this server with --keep N"
        return "call status again later"

    def _advice(self, hint: Hint) -> str | None:
        """What the hint is here; None where there is no such thing.

        A value that came out of the vault is repeated only where it is an id: it could be "latest", or a sentence.
        """
        key = (hint.action, hint.option or "")
        if key in SETTINGS:
            return f"ask the person to {SETTINGS[key]}"
        flag, word = OPTIONS.get(key, ("", ""))
        if flag in _FLAGS:
            if key == ("open", "require_signature") and hint.value is not False:
                return None
            value = hint.value if isinstance(hint.value, str) and hint.action != "open" else word
            return f"ask the person to start this server with {' '.join(filter(None, (flag, value)))}"
        if hint.action == "init":
            return (
                "backup, which makes it"
                if self._makes_vault
                else "ask the person to make the vault with: colony-memory init URL"
            )
        return self._call(hint)

    def _call(self, hint: Hint) -> str | None:
        named = hint.value if hint.option == "snapshot_id" and isinstance(hint.value, str) else None
        if named is not None and id_time(named) is None:
            return None
        tool = _TOOLS.get(hint.action)
        if tool == "restore" and tool not in self._tools:
            return f"ask the person to restore {f'snapshot {named}' if named else 'an older snapshot'}"
        if tool is None:
            asked = {"delete_snapshot": f"delete snapshot {named}" if named else None, "prune": "prune old snapshots"}
            return f"ask the person to {asked[hint.action]}" if asked.get(hint.action) else None
        if hint.option == "fallback":
            return f"{tool} with fallback true"
        if hint.option not in (None, "snapshot_id") or (hint.option and not named):
            return None
        return f"{tool}{self._with(named)}"

    def _with(self, named: str | None) -> str:
        return f" with snapshot {named}" if named else ""
