"""Faults of the operating system for the tests of reading, and whether what they meet is told."""

import os
from pathlib import Path

from colony_memory.capture._metadata import split_documents


def fail_at(monkeypatch, function, name, error):
    """Let a function of ``os`` fail for what has this name."""
    real = getattr(os, function)

    def failing(path, *args, **more):
        if isinstance(path, (str, bytes, os.PathLike)) and Path(os.fsdecode(path)).name == name:
            raise error
        return real(path, *args, **more)

    monkeypatch.setattr(os, function, failing)


def is_told(capture, name):
    """Whether a file is saved, or is named as left out or as ignored, or a directory above it is."""
    named = [each.name for each in capture.left_out] + list(capture.ignored)
    return name in split_documents(capture.documents)[0] or any(
        f"{name}/".startswith(f"{each.rstrip('/')}/") for each in named
    )
