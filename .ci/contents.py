"""What is in the source archive and in the wheel: all that git knows of, and nothing else.

    python contents.py SDIST WHEEL

Run in the checkout that both were made of.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

#: For work on the project itself, with a checkout of it.
NOT_SHIPPED = (".ci/", ".gitattributes", ".github/")
MADE = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def main() -> None:
    sdist, wheel = map(Path, sys.argv[1:])
    listed = subprocess.run(["git", "ls-files", "-z"], capture_output=True, encoding="utf-8", check=True)
    known = {name for name in listed.stdout.split("\0") if name and not name.startswith(NOT_SHIPPED)}
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    assert all(member.isfile() and not member.name.startswith(("/", "..")) for member in members)
    compare(sdist, {member.name.partition("/")[2] for member in members}, known | {"PKG-INFO"})
    package = {name for name in known if name.startswith("colony_memory/")}
    with zipfile.ZipFile(wheel) as archive:
        info = next(name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name)
        compare(wheel, set(archive.namelist()), package | {f"{info}/{name}" for name in MADE})
        check_metadata(archive.read(f"{info}/METADATA").decode("utf-8"))


def compare(archive: Path, has: set[str], wanted: set[str]) -> None:
    assert has == wanted, f"{archive.name} lacks {sorted(wanted - has)}, and has besides {sorted(has - wanted)}"


def check_metadata(text: str) -> None:
    """The page that the package index makes of it has no link that leads nowhere."""
    metadata = Parser().parsestr(text)
    page = metadata.get_payload()
    assert metadata["Description-Content-Type"] == "text/markdown"
    links = re.findall(r"\]\(([^)\s]*)\)", page)
    assert len(links) > 20
    astray = [link for link in links if not link.startswith(("https://", "#"))]
    assert not astray, f"on the page of the package these lead nowhere: {astray}"
    assert "\n<!-- mcp-name: " in page


if __name__ == "__main__":
    main()
