"""The index of the site's search: a line for each section, small enough to be loaded when somebody begins to type."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from colony_memory import exceptions
from colony_memory.shell.words.errors import _kind

#: What is looked for by another word than the pages have. Each word leads to those behind it too.
SYNONYMS = {
    "acl iam permissions policy role roles": "smallest rights policy",
    "amnesia empty forgot forgotten lost vanished wiped": "woke empty nothing remembers",
    "archive dump": "export",
    "aws minio r2": "s3 object stores",
    "broken corrupted corruption damage invalid": "damaged corrupt",
    "compose container containers docker dockerfile podman": "docker container",
    "crewai autogen langchain llamaindex": "recipes stores",
    "cronjob timer": "schedule cron systemd",
    "erase expunge forget gdpr purge scrub": "rewrite secret saved",
    "hacked stolen theft thief": "thief secret key",
    "helm k8s": "kubernetes",
    "history undo revert rollback": "log restore back rolled",
    "leak leaked leaking password passwords": "secret saved",
    "limit limits quota": "room full limits",
    "migrate migration move sync transfer": "export import copy",
    "monitoring alert alerts healthcheck metrics": "status events told failure",
    "offline timeout unreachable outage": "no answer",
    "merge conflict concurrent race": "two writers conflict",
    "ransomware tampering": "threat model set back",
    "recover rescue": "recover restore",
    "rotate rotation": "replacing key retention",
    "unmounted missing": "no vault",
}
#: How much a page counts, and how much of it is in the index. First what helps, last what once was.
RANKS = {
    "recover": 1.6,
    "saved-secret": 1.5,
    "errors": 1.3,
    "reference-api": 0.55,
    "reference-commands": 0.7,
    "snapshot-format": 0.5,
}
RANKS |= {"changelog": 0.15, "upgrading": 0.4, "design": 0.4, "contributing": 0.4, "reference-secrets": 0.5}
_TITLES_ALONE = {"changelog", "reference-api", "snapshot-format", "reference-secrets"}
_COMMON = frozenset(
    re.findall(r"\w+", "a an and are as at be but by for from has have in is it of on or that the this to was")
)
_WORD = re.compile(r"\w+")


class _Sections(HTMLParser):
    """What a page has under each of its headings: anchor, title and text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str], list[str]]] = []
        self._in_title = self._in_link = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if re.fullmatch("h[1-4]", tag):
            self.found.append((named.get("id") or "", [], []))
            self._in_title = True
        self._in_link = tag == "a" and named.get("class") == "headerlink"

    def handle_endtag(self, tag: str) -> None:
        if re.fullmatch("h[1-4]", tag):
            self._in_title = False
        self._in_link = False

    def handle_data(self, data: str) -> None:
        if self.found and not self._in_link:
            self.found[-1][1 if self._in_title else 2].append(data)


def render(pages: dict[str, tuple[str, str]]) -> str:
    """The index as JSON.

    Args:
        pages: By address, the title that the menu has and the HTML.
    """
    sections: list[list[object]] = []
    for number, (address, (_, html)) in enumerate(pages.items()):
        name = address.removesuffix(".html")
        parser = _Sections()
        parser.feed(html)
        for place, (anchor, title, texts) in enumerate(parser.found):
            text = " ".join("".join(texts).split())
            told = _shortened(text, 60 if name in _TITLES_ALONE else 110)
            words = dict.fromkeys(_WORD.findall((told if name in _TITLES_ALONE else text).lower()))
            kept = " ".join(word for word in words if len(word) > 1 and word not in _COMMON and not word.isdigit())
            sections.append([number, anchor if place else "", "".join(title).strip(), told, kept])
    listed = [[address, title, RANKS.get(address.removesuffix(".html"), 1)] for address, (title, _) in pages.items()]
    synonyms = {word: leads.split() for words, leads in SYNONYMS.items() for word in words.split()}
    index = {"pages": listed, "sections": sections, "synonyms": synonyms, "named": _named()}
    return json.dumps(index, ensure_ascii=False, separators=(",", ":"))


def _named() -> dict[str, list[str]]:
    """The sections that help with an error, by its name: what Recover says of it, and the table of all."""
    found = {}
    for name, kind in vars(exceptions).items():
        if isinstance(kind, type) and issubclass(kind, Exception):
            recover = [f"recover.html#{part}" for part in _kind(kind)[1:] if part]
            found[name.lower()] = [*recover, "errors.html#what-each-one-means"]
    return found


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rpartition(" ")[0] + "…"
