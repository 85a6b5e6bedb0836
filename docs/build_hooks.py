"""What the site has beyond the pages in this folder, as hooks of mkdocs.

Documents of the repository's root are pages too, so that each stands in one place only. Each page is there as
Markdown as well, with a list of them all in ``llms.txt``, for readers that are programs.
"""

# ruff: noqa: INP001 - a script

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
SOURCE = "https://github.com/TheColonyCC/colony-memory/blob/main"
RECIPE = re.compile(r"^\[`(examples/recipes/\w+\.py)`\]\(\.\./\1\)$", re.MULTILINE)
_TEXTS: dict[str, tuple[str, str]] = {}
PAGES = {
    "SNAPSHOT-FORMAT.md": "snapshot-format.md",
    "CHANGELOG.md": "changelog.md",
    "skill.md": "skill.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links are written for the repository: on the site all pages stand side by side."""
    for source, uri in PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)?{re.escape(source)}", f"]({uri}", markdown)
    # A recipe stands in one place, and is read on the page that leads to it.
    markdown = RECIPE.sub(lambda found: f"```python\n{(ROOT / found[1]).read_text(encoding='utf-8')}```", markdown)
    markdown = markdown.replace("](docs/", "](").replace("](../integrations/", f"]({SOURCE}/integrations/")
    _TEXTS[page.file.src_uri] = (str(page.title), markdown)
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages as Markdown, and ``llms.txt``, which the convention of that name describes: https://llmstxt.org."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for uri, (title, text) in _TEXTS.items():
        (site / uri).write_text(text, encoding="utf-8")
        lines.append(f"- [{title}]({uri})")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    _TEXTS.clear()
