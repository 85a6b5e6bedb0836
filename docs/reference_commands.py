"""The page of every verb of the command, from the commands themselves."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from docstrings import code, fenced

from colony_memory.shell.cli.app import SECTIONS, VERBS, CommonOptions, examples_of
from colony_memory.shell.cli.program import program, verb_of
from colony_memory.shell.words.errors import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "reference-commands.md"
_INTRODUCTION = """# Command reference

Every verb with its options, made from the commands: what `--help` of each says. [Command line](command-line.md) is the
guide.
"""
_COMMON = """A verb that does not take all of these says which it takes. Options come before variables, and those before
[the file](configuration.md)."""
# What stands behind an option's text: its variable, its default, its least value.
_FACTS = re.compile(r"\s*\[([^\[\]]+)\]$")
# What somebody types: words in quotes, options, names of variables.
_TYPED = re.compile(r"(?<!\w)'(?P<quoted>[^']+)'(?!\w)|(?<![\w`-])--[a-z][a-z-]*|\bCOLONY_\w+")
_WORDS = {"env var": "Variable", "default": "Default"}


def render() -> str:
    """The page as Markdown."""
    out = [_INTRODUCTION]
    with program.make_context(PROGRAM, [], resilient_parsing=True) as root:
        for title, names in SECTIONS.items():
            out.append(f"**{title}**: " + " ".join(f"[{code(name)}](#{name})" for name in names))
        for names in SECTIONS.values():
            for name in names:
                out += _told(verb_of(name), name, root)
        out += ["## Common options {#common}", _COMMON]
        # Each stands in every verb that has them, in the same words.
        out.append(_options(verb_of("restore"), "common", root, common=True))
        out += ["## Without a verb {#program}", _options(program, "program", root, common=False)]
    codes, environment = (program.epilog or "").split("\n\n")
    out += [
        "## Exit codes {#exit-codes}",
        _codes(codes),
        "## Environment {#environment}",
        _prose(environment.removeprefix("Environment: ")),
    ]
    return "\n\n".join(out) + "\n"


def _told(command: Any, name: str, root: Any) -> Iterator[str]:
    """A verb: its usage, what its help says, options and examples."""
    with command.make_context(name, [], parent=root, resilient_parsing=True) as context:
        usage = " ".join([PROGRAM, name, *command.collect_usage_pieces(context)])
    yield f"## {name} {{#{name}}}"
    yield fenced("text", usage)
    for paragraph in command.help.split("\n\n"):
        yield _prose(paragraph)
    own = _options(command, name, root, common=False)
    if own:
        yield own
    shared = [each.name for each in command.params if each.name in _common()]
    if len(shared) == len(_common()):
        yield "And the [common options](#common)."
    else:
        names = [_flag(each) for each in command.params if each.name in shared]
        yield "Of the common options: " + ", ".join(f"[{code(flag)}](#common{flag})" for flag in names) + "."
    examples = examples_of(name)
    yield "**Examples**" if len(examples) > 1 else "**Example**"
    yield fenced("sh", "\n".join(examples))


def _common() -> tuple[str, ...]:
    return tuple(field.name for field in fields(CommonOptions))


def _flag(parameter: Any) -> str:
    flag: str = max(parameter.opts, key=len)
    return flag


def _options(command: Any, anchor: str, root: Any, *, common: bool) -> str:
    """A list of the options that are, or are not, those that every verb has."""
    out = []
    with command.make_context(command.name, [], parent=root, resilient_parsing=True) as context:
        for each in command.params:
            record = each.get_help_record(context)
            if record is None or (each.name in _common()) is not common:
                continue
            written, told = record
            found = _FACTS.search(told)
            text = _prose(told[: found.start()] if found else told)
            facts = [_fact(fact) for fact in found[1].split("; ")] if found else []
            out.append(f"- {code(written)}{{#{anchor}{_flag(each)}}}: {' '.join([text, *facts])}")
    return "\n".join(out)


def _fact(fact: str) -> str:
    name, colon, value = fact.partition(": ")
    if colon and name in _WORDS:
        return f"{_WORDS[name]}: {code(value)}."
    if fact.startswith("x>="):
        return f"At least {fact.removeprefix('x>=')}."
    return f"{fact.capitalize()}."


def _prose(text: str) -> str:
    """Text of a help, in which a verb in quotes leads to it and what is typed is code."""
    out: list[str] = []
    end = 0
    text = " ".join(text.split())
    for found in _TYPED.finditer(text):
        words = found["quoted"] or found[0]
        verb = words.partition(" ")[0]
        out += [_escaped(text[end : found.start()]), f"[{code(words)}](#{verb})" if verb in VERBS else code(words)]
        end = found.end()
    return "".join([*out, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([<*_\[\]`])", r"\\\1", text)


def _codes(text: str) -> str:
    """``Exit codes: 0 done, 1 failed …`` as a list."""
    pieces = re.split(r", (?=\d )", text.removeprefix("Exit codes: ").removesuffix("."))
    told = "\n".join(f"- {code(each.partition(' ')[0])}: {each.partition(' ')[2]}" for each in pieces)
    return f"{told}\n\n[Errors](errors.md#exit-codes) has which error has which."
