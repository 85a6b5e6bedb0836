"""Print the one command that is fenced under a heading of a Markdown file.

python readme_command.py README.md 'Test it'
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def fenced_command(text: str, heading: str) -> str:
    """The single line in the first fenced block of the section; a ValueError if it is not there or not single."""
    found = re.search(rf"^## {re.escape(heading)}\s*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"no section '## {heading}'")
    block = re.search(r"^```[^\n`]*\n(.*?)^```\s*?$", found[1], re.MULTILINE | re.DOTALL)
    if block is None:
        raise ValueError(f"no fenced block under '## {heading}'")
    lines = [line for line in block[1].splitlines() if line.strip()]
    if len(lines) != 1:
        raise ValueError(f"{len(lines)} lines are fenced under '## {heading}', one is wanted")
    return lines[0].strip().removeprefix("$ ")


def main() -> None:
    path, heading = sys.argv[1:]
    try:
        print(fenced_command(Path(path).read_text(encoding="utf-8"), heading))
    except ValueError as error:
        raise SystemExit(f"{path}: {error}") from error


if __name__ == "__main__":
    main()
