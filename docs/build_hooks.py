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
SOURCE = "https://github.com/TheColonyCC/colony-memory/blob/main"
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
    return markdown.replace("](docs/", "](").replace("](../integrations/", f"]({SOURCE}/integrations/")
