"""The page of the kinds of secrets, from the table that a backup is searched by."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

from docstrings import code

from colony_memory.capture._secret_kinds import KINDS

PAGE = "reference-secrets.md"
_INTRODUCTION = """# Kinds of secrets

For whom a backup of a [folder](folders.md#secrets) has named a likely secret: what it takes for one. A kind is found
by a text that is the same in each, which is listed here, and by the form of what follows or surrounds it. How random
a word looks is asked only where a name before it says that it is a key (`MISTRAL_API_KEY=`, `Authorization: Bearer`,
`"refresh_token":`), so that hashes, UUIDs and pictures in base64 never stop a backup, and a password in a sentence is
not found.

What is only a placeholder is left alone: `your_api_key`, `xxxx`, the keys that services print in their manuals,
`pass` and `secret` in an address, a `$VARIABLE`, a path, what repeats itself.

A file is searched as it is, and once more for each layer of escapes in it: of JSON, also in JSON, of percent signs,
of HTML, colours of a terminal, characters that show nothing. So is text in UTF-16. Names of files and directories,
what links lead to, notes and tags are searched too. What is compressed, encrypted or in base64 is not.

A kind is written in `--allow-secret` in small letters with dashes: `notes/keys.md:github-token`."""
_END = """A file of 32 bytes whose name ends in `key` or `seed` is taken for a `raw private key`."""


def render() -> str:
    """The page as Markdown."""
    kinds: dict[str, dict[str, None]] = {}
    for kind in KINDS:
        kinds.setdefault(kind.name, {}).update(dict.fromkeys(hint.decode("ascii") for hint in kind.hints))
    rows = [f"| {name} | {', '.join(map(code, kinds[name]))} |" for name in sorted(kinds, key=str.lower)]
    return "\n".join([_INTRODUCTION, "", "| Kind | Holds |", "|---|---|", *rows, "", _END, ""])
