"""What the project's page on the package index shows: the README, with links that work there too."""

from __future__ import annotations

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

# In a link, a path of this repository: neither an address nor an anchor of the page itself.
_PATH = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?=[^)\s])")


class Readme(MetadataHookInterface):
    """Gives the README, in which a path leads to that file of the release."""

    def update(self, metadata: dict) -> None:
        """Set ``readme``."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        base = f"{metadata['urls']['Repository']}/blob/v{metadata['version']}/"
        metadata["readme"] = {"content-type": "text/markdown", "text": _PATH.sub(base, text)}
