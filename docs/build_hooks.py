"""What the site has beyond the pages in this folder, as hooks of mkdocs.

Documents that lie elsewhere in the repository are pages too, so that each stands in one place only, and the references
are made from the code. Each page is there as Markdown as well, with a list of them all in ``llms.txt``, for readers
that are programs.
"""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import posixpath
import re
import shutil
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reference_api
import reference_commands
import reference_secrets
import search
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/TheColonyCC/colony-memory/blob/main"
#: Where the site is, for links to pages that are nowhere but there.
SITE = "https://memory.thecolony.cc"
#: A file that a line of a page leads to, and nothing else in that line: it is shown there.
SHOWN = re.compile(r"^\[`((?:examples/recipes|integrations)/[\w./-]+)`\]\(\.\./\1\)$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".js": "javascript", ".yaml": "yaml", ".json": "json", ".md": "markdown"}
LINK = re.compile(rf"(?<=\]\()({re.escape(SITE)}/[\w-]+\.html|(?!\w+:|#)[^)\s#]+)")
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_TEXTS: dict[str, tuple[str, str]] = {}
_HTML: dict[str, tuple[str, str]] = {}
#: Where messages lead: these pages are also found without ``.html``, whatever serves the site.
SHORT = ("recover",)
#: Pages by where they lie in the repository.
PAGES = {
    "SNAPSHOT-FORMAT.md": "snapshot-format.md",
    "CHANGELOG.md": "changelog.md",
    "skill.md": "skill.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_HOMES = {uri: source for source, uri in PAGES.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    for reference in (reference_api, reference_commands, reference_secrets):
        files.append(File.generated(config, reference.PAGE, content=reference.render()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Put recipes where their links are, and have all links lead to the site, where pages stand side by side."""
    # Such a file stands in one place, and is read on the page that leads to it.
    markdown = SHOWN.sub(lambda found: shown(ROOT / found[1]), markdown)
    uri = page.file.src_uri
    markdown = LINK.sub(lambda found: address(found[1], home=_HOMES.get(uri, f"docs/{uri}")), markdown)
    _TEXTS[uri] = (str(page.title), markdown)
    return markdown


def shown(path: Path) -> str:
    """A file as a block."""
    return f"```{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8').rstrip()}\n```"


def address(link: str, *, home: str) -> str:
    """Where a link leads on the site, or in the repository's source where the site does not have it.

    Args:
        link: As it is written, for the repository.
        home: The file that it is in, below the repository's root.
    """
    if link.startswith(f"{SITE}/"):
        return link.removeprefix(f"{SITE}/").removesuffix(".html") + ".md"
    target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link))
    if target in PAGES:
        return PAGES[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    # What is not there is for mkdocs to tell of.
    return f"{SOURCE}/{target}" if (ROOT / target).exists() else link


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Let each table scroll by itself where it is wider than the window."""
    html = _TABLE.sub(lambda found: f'<div class="wide" tabindex="0">{found[0]}</div>', html)
    _HTML[page.file.url] = (unescape(str(page.title)), html)
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages as Markdown, ``llms.txt`` (https://llmstxt.org), the index of the search, and short addresses."""
    site = Path(config.site_dir)
    order = sorted(_TEXTS, key=lambda uri: uri != "recover.md")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for uri in order:
        title, text = _TEXTS[uri]
        (site / uri).write_text(text, encoding="utf-8")
        lines.append(f"- [{title}]({uri}): {about(text)}")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    # What commands of the pages fetch.
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "integrations", site / "integrations", ignore=ignored, dirs_exist_ok=True)
    (site / "search.json").write_text(search.render(_HTML), encoding="utf-8")
    for name in SHORT:
        # In a folder of its own, which each host serves, with all links as on the page beside it. Without a script, so
        # that the part of the page is found that an address names.
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        (site / name).mkdir(exist_ok=True)
        told = text.replace("<head>", f'<head>\n  <base href="../{name}.html">', 1)
        (site / name / "index.html").write_text(told, encoding="utf-8")
    # For hosts that take rules: the address without its end is the page itself.
    rules = [f"/{name} /{name}.html 200" for name in SHORT]
    (site / "_redirects").write_text("\n".join([*rules, ""]), encoding="utf-8")
    _TEXTS.clear()
    _HTML.clear()


def about(text: str) -> str:
    """The first sentence of a page, without markup."""
    prose = re.sub(r"^(```.*?^```|#.*?$)", "", text, flags=re.MULTILINE | re.DOTALL)
    first = next((each for each in prose.split("\n\n") if re.match(r"[\w*`\[]", each.strip())), "").strip()
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(first.split())).replace("`", "").replace("*", "")
    return re.match(r".*?\.(?= |$)|.*", first)[0].rstrip(":")  # type: ignore[index]
