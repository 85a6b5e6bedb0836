"""A git repository as a bundle: one file with all its commits, branches and tags, that git can clone from."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

GIT_NAME = ".git"
BUNDLE_NAME = ".git.bundle"

_SECONDS = 600
_LONGEST_REASON = 200
_OPTIONS = (
    "-c",
    "pack.threads=1",  # with several, the same repository gives other bytes each time
    "-c",
    "protocol.allow=never",  # a partial clone would fetch what it lacks
)


class NotBundled(Exception):
    """No bundle could be made; the text is the reason."""


def is_repository(path: Path) -> bool:
    """Whether a ``.git`` is git's: a directory of a repository, or a file that leads to one."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            return (path / "HEAD").exists() and (path / "objects").is_dir()
        if not stat.S_ISREG(mode):
            return False
        with path.open("rb") as file:
            return file.read(8) == b"gitdir: "
    except OSError:
        return False


def make_bundle(repository: Path) -> bytes | None:
    """Return a bundle of everything that HEAD and the refs reach, or None where there is no commit yet.

    Nothing is written. As long as git does not repack the repository, the same state gives the same bytes.

    Args:
        repository: The ``.git``.

    Raises:
        NotBundled: git is missing, or fails, or the repository is a shallow clone.
    """
    if _run(repository, "rev-parse", "--is-shallow-repository").strip() == b"true":
        raise NotBundled("a shallow clone, which no bundle can hold: run 'git fetch --unshallow' in it")
    if not _run(repository, "rev-list", "--all", "--max-count=1"):
        return None
    return _run(repository, "bundle", "create", "--quiet", "-", "--all")


def holds_bundle(repository: Path, bundle: Path) -> bool:
    """Whether all that is in a bundle is in the repository too, and is reachable there."""
    try:
        heads = _run(repository, "bundle", "list-heads", str(bundle.absolute())).split()[::2]
        if not heads:
            return False
        tips = [head.decode("ascii") for head in heads]
        return not _run(repository, "rev-list", "--max-count=1", *tips, "--not", "--all").strip()
    except NotBundled:
        return False


def _run(repository: Path, *arguments: str) -> bytes:
    # Variables of a git hook that this may run in lead to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", *_OPTIONS, f"--git-dir={repository.absolute()}", *arguments],  # noqa: S607 - wherever git is
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=_SECONDS,
            check=False,
        )
    except OSError as error:
        raise NotBundled(f"git cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise NotBundled(f"git took longer than {_SECONDS} seconds") from error
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").split("\n")
        reason = next((line for line in lines if line.startswith("fatal: ")), f"exit code {done.returncode}")
        raise NotBundled(f"git failed: {reason.removeprefix('fatal: ')[:_LONGEST_REASON]}")
    return done.stdout
