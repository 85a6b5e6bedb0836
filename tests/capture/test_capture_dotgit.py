from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from capture_trees import make, metadata, tree

from colony_memory.capture import write_folder
from colony_memory.capture._filenames import is_dotgit
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    from pathlib import Path

SPELLINGS = [
    ".git",
    ".GIT",
    ".gIt",
    ".git ",
    ".git.",
    ".git . .",
    ".g\u200cit",
    "\ufeff.git",
    ".git\u2060",
    ".gi\u00adt",
    ".g\U000e0001it",
    ".git::$INDEX_ALLOCATION",
    ".git:stream",
    ".git :x",
    ".\uff47\uff49\uff54",
    "\u2024git",
    ".g\u0131t",
    ".G\u0130T",
    "git~1",
    "GIT~1",
    "git~12",
    "gi9c4e~1",
    "git~1 .",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_nothing_is_written_into_what_a_file_system_takes_for_a_repository(tmp_path: Path, spelling: str) -> None:
    assert is_dotgit(spelling)
    dst = make(tmp_path / "dst", {"a.md": b"a", ".git/config": b"mine"})
    before = tree(tmp_path)
    for documents in (
        {spelling: "gitdir: elsewhere"},
        {f"{spelling}/config": "[core]\n"},
        {f"notes/{spelling}/hooks/pre-commit": "#!/bin/sh\n"},
        metadata(files={f"{spelling}/x": "AA=="}),
        metadata(empty_dirs=[f"notes/{spelling}"]),
        metadata(links={spelling: "a.md"}),
    ):
        for target in (dst, tmp_path / "new"):
            with pytest.raises(ColonyMemoryError, match=r"in which git looks for programs.*nothing was written"):
                write_folder({"b.md": "b", **documents}, target, force=True)
    assert tree(tmp_path) == before
