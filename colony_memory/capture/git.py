"""A git repository as a bundle: one file with all its commits, branches and tags, that git can clone from."""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from colony_memory._os.paths import is_directory, is_file
from colony_memory._values import pattern
from colony_memory.capture._steady import read_start

if TYPE_CHECKING:
    from pathlib import Path

    from colony_memory._os.directory import Directory

GIT_NAME = ".git"
BUNDLE_NAME = ".git.bundle"

_SECONDS = 600
_LONGEST_REASON = 200
_LONGEST_PATH = 4096
_LEADS = b"gitdir: "
_OBJECT_ID = pattern(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_READ_BY_GIT = frozenset({"HEAD", "config", "packed-refs", "shallow", "commondir", "objects", "refs"})
_SETTINGS = (
    "pack.threads=1",  # with several, the same repository gives other bytes each time
    "protocol.allow=never",  # a partial clone would fetch what it lacks
    "core.fsmonitor=false",  # this and what follows would run programs that the repository names
    "core.alternateRefsCommand=",
    f"core.hooksPath={os.devnull}",
)


class NotBundled(Exception):
    """No bundle could be made; the text is the reason."""


def is_repository(place: Directory) -> bool:
    """The ``.git`` in a directory is git's: a directory of a repository, or a file that leads to one."""
    try:
        if is_file(place.look(GIT_NAME)):
            with place.file(GIT_NAME) as (descriptor, _):
                return read_start(descriptor, len(_LEADS)) == _LEADS
        with place.enter(GIT_NAME) as inner:
            return is_file(inner.look("HEAD")) and is_directory(inner.look("objects"))
    except OSError:
        return False


def make_bundle(repository: Path, *, within: Path, limit: int) -> bytes | None:
    """A bundle of everything that HEAD and the refs reach, or None where there is no commit yet.

    Nothing gets in from outside of ``within``. Until git repacks the repository, the same state gives the same bytes.
    """
    _require_alone(repository, within, limit)
    if _run(repository, "rev-parse", "--is-shallow-repository").strip() == b"true":
        raise NotBundled("a shallow clone, which no bundle can hold: run 'git fetch --unshallow' in it")
    if not _run(repository, "rev-list", "--all", "--max-count=1"):
        return None
    bundle = _run(repository, "bundle", "create", "--quiet", "-", "--all")
    _require_alone(repository, within, limit)  # git has followed what was there meanwhile
    return bundle


def holds_bundle(repository: Path, bundle: bytes) -> bool:
    """All tips of a bundle (https://git-scm.com/docs/gitformat-bundle) are reachable in the repository too."""
    heading, end, _ = bundle.partition(b"\n\n")
    kind, *refs = heading.split(b"\n")
    tips = [ref.partition(b" ")[0] for ref in refs if ref[:1] not in b"-@"]
    if not (end and tips and re.fullmatch(rb"# v[23] git bundle", kind) and all(map(_OBJECT_ID.fullmatch, tips))):
        return False
    try:
        tips_there = [tip.decode("ascii") for tip in tips]
        return not _run(repository, "rev-list", "--max-count=1", *tips_there, "--not", "--all").strip()
    except NotBundled:
        return False


def _require_alone(repository: Path, within: Path, limit: int) -> None:
    """Refuse a repository that has something outside of the folder: git would follow what a stranger chose.

    What is no part of the history may be anything: a socket of its watcher, a link among the hooks.
    """
    try:
        top = _led(repository, _LEADS) if stat.S_ISREG(repository.lstat().st_mode) else repository
        tops = [_inside(top, within)]
        if os.path.lexists(shared := tops[0] / "commondir"):
            tops.append(_inside(_led(shared, b""), within))
        if any(os.path.lexists(top / "objects/info/alternates") for top in tops):
            raise NotBundled("borrows objects from another repository: run 'git repack -a -d' in it")
        size, pending = 0, [(top, top) for top in tops]
        while pending:
            top, place = pending.pop()
            for path in place.iterdir():
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    size += status.st_size
                elif place != top or path.name in _READ_BY_GIT:
                    if not stat.S_ISDIR(status.st_mode):
                        raise NotBundled(f"{str(path.relative_to(top))!r} in it is not a plain file")
                    pending.append((top, path))
        if size > limit:
            raise NotBundled(f"its {size} bytes are more than a snapshot has room for")
    except OSError as error:
        raise NotBundled(f"cannot be read: {error.strerror}") from error


def _led(file: Path, start: bytes) -> Path:
    if not stat.S_ISREG(file.lstat().st_mode):
        raise NotBundled(f"{file.name!r} in it is not a plain file")
    with file.open("rb") as stream:
        said = stream.read(_LONGEST_PATH)
    return file.parent / os.fsdecode(said.removeprefix(start).rstrip(b"\n"))


def _inside(directory: Path, within: Path) -> Path:
    real = directory.resolve()
    if not real.is_relative_to(within.resolve()):
        raise NotBundled(f"leads out of the folder, to {str(real)!r}")
    return real


def _run(repository: Path, *arguments: str) -> bytes:
    # Variables of a git hook that this may run in lead to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    import subprocess

    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", *settings, f"--git-dir={repository.absolute()}", *arguments],  # noqa: S607 - wherever git is
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
