"""Plain files by their paths: each read, made, replaced or removed as :mod:`colony_memory._os.directory` does it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from colony_memory._os.directory import (
    BY_DESCRIPTOR,
    DIRECTORY_FLAGS,
    NO_LINK,
    Contents,
    Directory,
    open_directory,
)
from colony_memory._os.disk import give

if TYPE_CHECKING:
    from pathlib import Path


def read_file(path: Path, limit: int, *, follow: bool = False) -> Contents | None:
    """A file's bytes and facts, or None where nothing has that name.

    Args:
        path: The file.
        limit: Most bytes that it may have.
        follow: Read what a link leads to. For names that a user gives.

    Raises:
        UnfitFile: What is there is no plain file, leads to none, or is larger.
    """
    # Read as it is named: to open its directory takes a right that a reader of the file may lack.
    return Directory(path.parent).read(path.name, limit=limit, follow=follow)


def create_file(path: Path, data: bytes) -> None:
    """Make a file, for its owner alone. Where the file system has no hard links it is empty for an instant.

    Raises:
        FileExistsError: Something of that name is there.
    """
    with open_directory(path.parent) as directory:
        directory.create(path.name, data)


def replace_file(path: Path, data: bytes, *, temp: str | None = None) -> None:
    """Put bytes in the place of a file, or where nothing is, for its owner alone.

    Args:
        path: The file.
        data: What it is to hold.
        temp: As :meth:`colony_memory._os.directory.Directory.replace` takes it.

    Raises:
        UnfitFile: What is there is no plain file.
    """
    with open_directory(path.parent) as directory:
        directory.replace(path.name, data, temp=temp)


def make_directory(path: Path, *, keep_owner: bool = False) -> None:
    """Make a directory for its owner alone, and those above it that are missing; they last when this returns.

    Args:
        path: The directory.
        keep_owner: What root makes belongs to the owner of the directory that it is made in.
    """
    if path.is_dir():
        return
    above = path.parents
    known = next((depth for depth, directory in enumerate(above) if directory.is_dir()), 0)
    owner = above[known].stat()
    for made in reversed((path, *above[:known])):
        made.mkdir(mode=0o700, exist_ok=True)
        if keep_owner and BY_DESCRIPTOR:
            descriptor = os.open(made, DIRECTORY_FLAGS | NO_LINK)
            try:
                give(descriptor, owner, above[known])
            finally:
                os.close(descriptor)
        # The new directory is an entry of the one above, and lasts only when that one is synced.
        Directory(made.parent).sync()
