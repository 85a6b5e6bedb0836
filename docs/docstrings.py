"""Docstrings as Markdown: their prose, their examples, and the sections that Google's style guide describes."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import re
from inspect import cleandoc
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    #: What is named in a docstring, with the text that is there to read, as a link where there is something to lead to.
    Link = Callable[[str, str], str]

TITLES = {
    "Args": "Arguments",
    "Attributes": "Attributes",
    "Raises": "Raises",
    "Returns": "Returns",
    "Warns": "Warns",
    "Yields": "Yields",
}
_INLINE = re.compile(r":[a-z]+:`(?P<role>[^`]+)`|``(?P<code>.+?)``(?!`)")
_SECTION = re.compile(rf"({'|'.join(TITLES)}):")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \w+)*): +(.*)", re.DOTALL)


def to_markdown(docstring: str, link: Link) -> str:
    """A docstring as Markdown.

    Args:
        docstring: As it stands in the source.
        link: Makes the Markdown of a name.
    """
    out: list[str] = []
    for title, lines in _sections(cleandoc(docstring).split("\n")):
        if title is None:
            out += _body(lines, link)
        else:
            out += [f"**{TITLES[title]}**", _entries(title, lines, link)]
    return "\n\n".join(out)


def first_paragraph(docstring: str, link: Link) -> str:
    """Its first paragraph, on one line."""
    return inline(" ".join(cleandoc(docstring).partition("\n\n")[0].split()), link)


def inline(text: str, link: Link) -> str:
    """A piece of prose: what is code in it, and what leads somewhere."""
    out: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        out.append(_escaped(text[end : found.start()]))
        named = found["role"]
        if named is None:
            out.append(link(found["code"], found["code"]))
        else:  # with a tilde, the last part of a dotted name is what is read
            target = named.lstrip("~")
            out.append(link(target, target.rpartition(".")[2] if named.startswith("~") else target))
        end = found.end()
    return "".join([*out, _escaped(text[end:])])


def code(text: str) -> str:
    """As code, whatever backticks are in it."""
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{blank}{text}{blank}{fence}"


def fenced(language: str, text: str) -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```"


def _sections(lines: list[str]) -> Iterator[tuple[str | None, list[str]]]:
    """What stands before the first section, and each section without its indent."""
    title: str | None = None
    held: list[str] = []
    for line in lines:
        found = _SECTION.fullmatch(line)
        if found:
            yield title, held
            title, held = found[1], []
        elif title is not None and line[:1].strip():  # prose goes on after a section
            yield title, held
            title, held = None, [line]
        else:
            held.append(line if title is None else line[4:])
    yield title, held


def _body(lines: list[str], link: Link) -> Iterator[str]:
    """Paragraphs, lists, examples and what is to be read as it stands."""
    literal = False
    for block in re.split(r"\n{2,}(?! )|\n{2,}(?=    )", "\n".join(lines).strip("\n")):
        if not block.strip():
            continue
        if literal and block.startswith(" "):
            yield fenced("python" if re.match(r" *(with|class|from) ", block) else "text", dedent(block))
        elif block.startswith(">>> "):
            yield fenced("pycon", block)
        elif block.strip() != "::":
            yield inline(block.removesuffix(":") if block.endswith("::") else block, link)
        literal = block.endswith("::") or (literal and block.startswith(" "))


def _entries(title: str, lines: list[str], link: Link) -> str:
    """A section: a list where its entries have names, else prose."""
    entries: list[str] = []
    for line in filter(str.strip, lines):
        if line.startswith(" ") and entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    if title in ("Returns", "Yields"):
        return inline(" ".join(entries), link)
    out = []
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        if found is None:
            out.append(f"- {inline(entry, link)}")
            continue
        names = ", ".join(
            link(name, name) if title in ("Raises", "Warns") else code(name) for name in found[1].split(", ")
        )
        out.append(f"- {names}: {inline(found[2], link)}")
    return "\n".join(out)


def _escaped(text: str) -> str:
    """Prose in which nothing but emphasis is markup."""
    return re.sub(r"([\[\]<`])", r"\\\1", text)
