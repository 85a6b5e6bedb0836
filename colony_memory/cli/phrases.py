"""Pure: what the library says to Python, said to the command line.

The library's messages tell what to do next, in the terms of whoever calls it: ``prune() makes room``. Everything of the
kind that may reach a terminal has its counterpart here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Whole phrases first; what is left of calls and arguments follows the rule.
_PHRASES = (
    ("backend=LocalVault(path)", "--vault PATH"),
    ("prune() old snapshots, give backup() a retention, or", "delete old ones with 'colony-memory prune', or"),
    ("try write_folder(force=True)", "try --force"),
    ("on_event failed, and is called no more", "no more progress is shown"),
    (", or pass on_conflict='continue'", ""),
    ("open it with accept_legacy_pointer=True", "add --accept-legacy-pointer"),
    ("do it again with signer=", "do it again with --key-file"),
    ("which needs signer=", "which needs --key-file"),
    ("it needs signer= to make one", "it needs --key-file to make one"),
    ("give signer= to go on signing", "give --key-file to go on signing"),
    ("is not among trusted_issuers", "is not among those of --trust"),
    ("add it to trusted_issuers", "add it with --trust"),
    ("trusted_issuers: ", "--trust: "),
    ("trusted_issuers names nobody", "--trust names nobody"),
    ("once with require_signature=False", "once with --accept-unsigned"),
    ("no snapshot id: list_snapshots() gives them", "no snapshot id: 'colony-memory list' gives them"),
    ("look at list_snapshots()", "look at 'colony-memory list'"),
    ("delete_snapshot()", "'colony-memory delete'"),
    ("list_snapshots()", "'colony-memory list'"),
    ("prune()", "'colony-memory prune'"),
    ("status()", "'colony-memory status'"),
    ("verify()", "'colony-memory verify'"),
)
_PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"more than max_bytes=(\S+?)(?:: raise it to read this snapshot)?(?=[\s,;]|$)"),
        r"more than the \1 bytes that the command line takes",
    ),
    (re.compile(r"\b(secrets|symlinks)=(?=[a-z])"), r"--\1="),
)


def spoken(text: str) -> str:
    """The message with options and commands in the place of arguments and calls."""
    for phrase, said in _PHRASES:
        text = text.replace(phrase, said)
    for pattern, put in _PATTERNS:
        text = pattern.sub(put, text)
    return text
