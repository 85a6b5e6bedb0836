"""The page of every public name, from the signatures and docstrings."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from docstrings import code, fenced, first_paragraph, inline, to_markdown
from reference_groups import CONSTANTS, GROUPS, PACKAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = "reference-api.md"
_WIDTH = 88
_INTRODUCTION = """# API reference

For whoever writes Python: every public name with its signature and what its docstring says, made from the code. Names
of which no module is given are importable from `colony_memory`. [In Python](quickstart.md) is the guide.
"""
_ANYTHING = [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]
# ``See :meth:`ColonyMemory.backup`.``
_SEE = re.compile(r"See :meth:`([\w.]+)`\.")


@dataclass(frozen=True)
class Entry:
    """A name of the page.

    Attributes:
        name: The name, which is its anchor too.
        module: Where it is imported from.
        value: What it is.
    """

    name: str
    module: str
    value: Any


@dataclass
class Links:
    """What the page leads to: the anchors, by name."""

    anchors: set[str] = field(default_factory=set)

    def to(self, target: str, text: str, *, within: str = "") -> str:
        """The Markdown of a name that is written in the docstring of ``within``."""
        found = self._anchor(target.removesuffix("()"), within)
        return f"[{code(text)}](#{found})" if found and found != within else code(text)

    def _anchor(self, target: str, within: str) -> str | None:
        if not re.fullmatch(r"[\w.]+", target):
            return None
        parts = target.split(".")
        near = f"{within.partition('.')[0]}.{target}" if within else ""
        for name in (near, target, ".".join(parts[-2:]), parts[-1]):
            # A word alone is a name only where it can be nothing else.
            if name in self.anchors and ("." in name or len(parts) > 1 or not re.fullmatch("[a-z]+", name)):
                return name
        return None


def render() -> str:
    """The page as Markdown.

    Raises:
        LookupError: A public name is in no group, or in two.
    """
    groups = {group: list(_entries_of(group.names)) for group in GROUPS}
    entries = [entry for each in groups.values() for entry in each]
    names = [entry.name for entry in entries]
    missing = set(import_module(PACKAGE).__all__) - {*names, *CONSTANTS}
    twice = {name for name in names if names.count(name) > 1}
    if missing or twice:
        raise LookupError(f"reference_groups.py: in no group: {sorted(missing)}; in two: {sorted(twice)}")
    links = Links({*names, *(f"{each.name}.{name}" for each in entries for name in _members(each.value))})
    out = [_INTRODUCTION]
    for group, those in groups.items():
        out.append(f"## {group.title}")
        out.append(group.about)
        out.append(" ".join(f"[{code(entry.name)}](#{entry.name})" for entry in those))
        for entry in those:
            out += _told(entry, links)
    out.append("## Constants")
    package = import_module(PACKAGE)
    out.append(
        "\n".join(f"- {code(name)}: {about}: {code(repr(getattr(package, name)))}" for name, about in CONSTANTS.items())
    )
    return "\n\n".join(out) + "\n"


def _entries_of(names: dict[str, tuple[str, ...]]) -> Iterator[Entry]:
    for where, those in names.items():
        module = import_module(f"{PACKAGE}.{where}" if where else PACKAGE)
        for name in those or module.__all__:
            yield Entry(name, module.__name__, getattr(module, name))


def _told(entry: Entry, links: Links) -> Iterator[str]:
    """A heading, where it is from, the signature and the docstring."""
    value, name = entry.value, entry.name
    yield f"### {name} {{#{name}}}"
    yield fenced("python", _declared(value, name))
    about = [] if entry.module == PACKAGE else [f"From {code(entry.module)}."]
    if isinstance(value, type):
        bases = [each.__name__ for each in value.__bases__ if not _is_private(each)]
        bases = [each for each in bases if each not in ("object", "Protocol")]
        about += [f"A kind of {', '.join(links.to(base, base) for base in bases)}."] if bases else []
    types = _types(_signature(value), name, links)
    about += [f"See also {types}."] if types else []
    if about:
        yield " ".join(about)
    fields = _fields(value) if isinstance(value, type) else []
    yield to_markdown(
        f"{inspect.cleandoc(value.__doc__ or '')}{''.join(fields)}", functools.partial(links.to, within=name)
    )
    if isinstance(value, type):
        yield from _told_members(entry, links)


def _fields(value: type) -> list[str]:
    """The section of a class's fields, each with the comment ``#: …`` behind it or above it."""
    out, above = list[str](), list[str]()
    homes = [value, *(home for home in value.__bases__ if _is_private(home))]
    for line in (line.strip() for home in homes for line in inspect.getsource(home).splitlines()):
        if line.startswith("#: "):
            above.append(line[3:])
            continue
        found = re.match(r"(?:self\.)?(\w+)(?:: | = )", line)
        about = " ".join([*above, *line.partition("  #: ")[2:]]).strip()
        if about and found:
            out.append(f"\n    {found[1]}: {about}")
        above = []
    return ["\n\nAttributes:", *out] if out else []


def _told_members(entry: Entry, links: Links) -> Iterator[str]:
    """The members of a class; those that only refer to others, and tests, are a list."""
    listed: list[str] = []
    for member, (kind, value) in _members(entry.value).items():
        anchor = f"{entry.name}.{member}"
        link = functools.partial(links.to, within=anchor)
        docstring = value.__doc__ or ""
        if _SEE.fullmatch(docstring):
            awaited = "await " if inspect.iscoroutinefunction(value) else ""
            listed.append(f"- `{awaited}{member}(…)`{{#{anchor}}}: {inline(docstring, link)}")
        elif member.startswith("test_"):
            listed.append(f"- `{member}`{{#{anchor}}}: {first_paragraph(docstring, link)}")
        else:
            yield f"#### {member} {{#{anchor}}}"
            yield fenced("python", _declared(value, member, kind))
            yield to_markdown(docstring, link)
    if listed:
        yield "\n".join(listed)


def _members(value: Any) -> dict[str, tuple[str, Any]]:
    """Methods and properties that are public, each with its kind, in the order of the source."""
    if not isinstance(value, type):
        return {}
    found: dict[str, tuple[str, Any]] = {}
    # What an ancestor that is public has is told of there.
    told = {home for each in value.__mro__[1:] if not _is_private(each) for home in each.__mro__}
    for home in value.__mro__:
        if home in told:
            continue
        for name, member in vars(home).items():
            if name.startswith("_") or name in found:
                continue
            if isinstance(member, (property, functools.cached_property)):
                found[name] = ("property", member.fget if isinstance(member, property) else member.func)
            elif isinstance(member, (classmethod, staticmethod)):
                found[name] = (type(member).__name__, member.__func__)
            elif inspect.isfunction(member):
                found[name] = ("", member)
    return found


def _is_private(home: type) -> bool:
    module = home.__module__
    exported = getattr(sys.modules[module], "__all__", (home.__name__,))
    hidden = home.__name__.startswith("_") or home.__name__ not in exported or "._" in module
    return module.startswith(PACKAGE) and hidden


def _declared(value: Any, name: str, kind: str = "") -> str:
    """The signature, as it would be written."""
    signature = _signature(value)
    if kind == "property":
        return f"{name}: {_annotation(signature.return_annotation, value) if signature else 'Any'}"
    lead = f"@{kind}\n" if kind else ""
    if isinstance(value, type):
        if getattr(value, "_is_protocol", False):
            return f"class {name}(Protocol)"
        own = signature.replace(return_annotation=inspect.Signature.empty) if signature else None
        return f"class {name}{_arranged(own, value) if own and own.parameters else ''}"
    word = "async def" if inspect.iscoroutinefunction(value) else "def"
    if signature and kind != "staticmethod" and next(iter(signature.parameters), "") in ("self", "cls"):
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    room = _WIDTH - len(word) - len(name)
    return f"{lead}{word} {name}{_arranged(signature, value, width=room) if signature else '(…)'}"


def _signature(value: Any) -> inspect.Signature | None:
    if getattr(value, "_is_protocol", False):
        return None
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    if isinstance(value, type) and [each.kind for each in found.parameters.values()] == _ANYTHING:
        return _signature(value.__mro__[1])  # to which it hands on what it is given
    return found


def _arranged(signature: inspect.Signature, owner: Any, *, width: int = _WIDTH) -> str:
    """On one line where it fits, else a line for each parameter."""
    pieces: list[str] = []
    before: inspect.Parameter | None = None
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and (
            before is None or before.kind not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        ):
            pieces.append("*")
        pieces.append(_parameter(each, owner))
        before = each
    result = (
        ""
        if signature.return_annotation is signature.empty
        else f" -> {_annotation(signature.return_annotation, owner)}"
    )
    line = f"({', '.join(pieces)}){result}"
    if len(line) <= width or not pieces:
        return line
    return "".join(["(\n", *(f"    {each},\n" for each in pieces), f"){result}"])


def _parameter(each: inspect.Parameter, owner: Any) -> str:
    stars = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
    typed = each.annotation is not each.empty
    text = f"{stars}{each.name}" + (f": {_annotation(each.annotation, owner)}" if typed else "")
    if each.default is each.empty:
        return text
    return f"{text} = {_value(each.default)}" if typed else f"{text}={_value(each.default)}"


def _value(value: Any) -> str:
    """A default, as it would be written."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int) and value >= 2**20 and value % 2**20 == 0:
        return f"{value // 2**20} * 2**20"
    if inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    # What only marks that nothing was given says nothing to a reader.
    return "..." if repr(value).startswith("<") else repr(value)


def _annotation(annotation: Any, owner: Any) -> str:
    """As it is written, without names that are nobody else's."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    known = vars(sys.modules[owner.__module__])
    return re.sub(r"\b_(\w+)", lambda found: _spelled(known.get(found[0]), found[1]), text)


def _spelled(value: Any, name: str) -> str:
    return value if isinstance(value, str) else name


def _types(signature: inspect.Signature | None, within: str, links: Links) -> str:
    """The names of the page that a signature is made of, as links."""
    if signature is None:
        return ""
    told = [each.annotation for each in signature.parameters.values()] + [signature.return_annotation]
    words = dict.fromkeys(word for each in told if isinstance(each, str) for word in re.findall(r"[A-Z]\w+", each))
    return ", ".join(links.to(word, word) for word in words if word in links.anchors and word != within)
