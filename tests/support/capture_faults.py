"""Faults of the operating system for the tests of reading, and whether what they meet is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import split_documents

if TYPE_CHECKING:
    import pytest

    from colony_memory.capture import Capture


def fail_at(monkeypatch: pytest.MonkeyPatch, function: str, name: str, error: BaseException) -> None:
    """Let a function of ``os`` fail for what has this name."""
    real = getattr(os, function)

    def failing(path: object, *args: object, **more: object) -> object:
        if isinstance(path, (str, bytes, os.PathLike)) and Path(os.fsdecode(path)).name == name:
            raise error
        return real(path, *args, **more)

    monkeypatch.setattr(os, function, failing)


def is_told(capture: Capture, name: str) -> bool:
    """Whether a file is saved, or is named as left out or as ignored, or a directory above it is."""
    named = [each.name for each in capture.left_out] + list(capture.ignored)
    return name in split_documents(capture.documents)[0] or any(
        f"{name}/".startswith(f"{each.rstrip('/')}/") for each in named
    )
