"""Documents of the repository's root as pages of the site, so that each stands in one place only."""  # noqa: INP001 - a script for mkdocs

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
RECIPE = re.compile(r"^\[`(examples/recipes/\w+\.py)`\]\(\.\./\1\)$", re.MULTILINE)
PAGES = {"SNAPSHOT-FORMAT.md": "snapshot-format.md", "CHANGELOG.md": "changelog.md", "skill.md": "skill.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for source, uri in PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links are written for the repository: on the site all pages stand side by side."""
    for source, uri in PAGES.items():
        markdown = re.sub(rf"\]\((\.\./)?{re.escape(source)}", f"]({uri}", markdown)
    # A recipe stands in one place, and is read on the page that leads to it.
    markdown = RECIPE.sub(lambda found: f"```python\n{(ROOT / found[1]).read_text(encoding='utf-8')}```", markdown)
    return markdown.replace("](docs/", "](")
