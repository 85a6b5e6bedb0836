"""What all states of a git repository's texts take in format 2: ``python benchmarks/replay.py REPOSITORY [STATES]``."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from colony_memory._format.v2.build import build

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of larger files a git history has few, and they are no notes.
_LARGEST = 400_000


def texts(repository: str, most: int) -> Iterator[dict[str, str]]:
    """The texts of so many commits on the main line, the last one among them."""

    def git(*arguments: str) -> bytes:
        return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=True).stdout

    commits, known = git("rev-list", "--first-parent", "HEAD").decode().split(), dict[str, str | None]()
    for commit in commits[:: max(1, len(commits) // most)][:most][::-1]:
        documents = dict[str, str]()
        for line in git("ls-tree", "-r", "-z", commit).decode("utf-8", "replace").split("\0")[:-1]:
            said, name = line.split("\t", 1)
            _, kind, sha = said.split()
            if kind == "blob" and sha not in known:
                data = git("cat-file", "blob", sha)
                try:
                    known[sha] = data.decode() if len(data) < _LARGEST else None
                except UnicodeDecodeError:
                    known[sha] = None
            text = known.get(sha)
            if text is not None:
                documents[name] = text
        if documents:
            yield documents


def main(repository: str, most: int = 150) -> None:
    """Print what they take."""
    parent, stored, packs, bases, states, begin = None, 0, 0, 0, 0, time.process_time()
    for number, documents in enumerate(texts(repository, most)):
        own = f"20260101T{number // 3600:02}{number // 60 % 60:02}{number % 60:02}000000Z-000000"
        built = build(documents, label="default", snapshot_id=own, created_at="2026-01-01T00:00:00Z", parent=parent)
        parent, states = built.chain, number + 1
        links = () if parent is None else parent.links
        stored, packs, bases = (
            stored + sum(map(len, built.files.values())),
            packs + len(links),
            bases + (len(links) == 1),
        )
    spent = time.process_time() - begin
    print(f"{states} states: {stored} bytes, {bases} bases, {packs / max(1, states):.1f} packs each, {spent:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:3]))
