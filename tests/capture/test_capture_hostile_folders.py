"""A stranger's folder: nothing outside of it is read, changed or waited for, and everything in it is told."""

import os
import random
import subprocess
import sys
from pathlib import Path

import hostile_folders
import pytest
from capture_faults import is_told
from capture_trees import posix

from colony_memory.capture import read_folder, sqlite
from colony_memory.capture._filenames import COMPANIONS
from colony_memory.capture._metadata import split_documents
from colony_memory.exceptions import ColonyMemoryError

pytestmark = posix
PROGRAM = Path(hostile_folders.__file__)


def state(folder):
    """Everything under a folder as it is; of what is read nothing may change, the times of change included."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, content)
    return found


def everything(folder):
    found = []
    for place, directories, names in os.walk(os.fsencode(folder)):
        inside = os.path.relpath(place, os.fsencode(folder))
        for name in [*names, *(each for each in directories if os.path.islink(os.path.join(place, each)))]:  # noqa: PTH114, PTH118
            found.append(os.path.normpath(os.path.join(inside, name)).decode("utf-8", "surrogateescape"))  # noqa: PTH118
    return found


def read(folder):
    try:
        return read_folder(folder, secrets="allow")
    except (ValueError, ColonyMemoryError):  # nothing to save, or rules that cannot be read
        return None


def holds_secret(capture):
    contents, _ = split_documents(capture.documents)
    secret = hostile_folders.SECRET
    return any(secret in (each if isinstance(each, bytes) else each.encode()) for each in contents.values())


def check_at_rest(folder, outside):
    before, beyond = state(folder), state(outside)
    capture = read(folder)
    assert state(folder) == before
    assert state(outside) == beyond
    if capture is None:
        return
    assert not holds_secret(capture)
    contents, metadata = split_documents(capture.documents)
    for name in everything(folder):
        database = next((name.removesuffix(each) for each in COMPANIONS if name.endswith(each)), "")
        in_repository = any(f"/{name}".startswith(f"/{each.name}/") or name == each.name for each in capture.notes)
        in_vault = any(
            each.name.endswith("cmem.*.json") and name.startswith(each.name.removesuffix("cmem.*.json"))
            for each in capture.left_out
        )
        assert (
            is_told(capture, name)
            or name in metadata.links
            or database in contents
            or in_repository
            or (in_vault and Path(name).name.startswith((".cmem", "cmem.")))
        ), name


def make_folders(where, seed, acts):
    draw = random.Random(seed)
    folder, outside = where / "folder", where / "outside"
    folder.mkdir()
    hostile_folders.make_outside(outside)
    for _ in range(acts):
        hostile_folders.act(os.fsencode(folder), os.fsencode(outside), draw)
    return folder, outside


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(12, 300))])
def test_a_folder_at_rest(tmp_path, seed):
    check_at_rest(*make_folders(tmp_path, seed, 120 if seed < 12 else 40 + seed))


def check_while_it_changes(folder, outside, seed, readings):
    before, saved = state(outside), 0
    with subprocess.Popen([sys.executable, PROGRAM, folder, outside, str(seed)]) as other:
        try:
            for _ in range(readings):
                capture = read(folder)
                if capture is not None:
                    saved += 1
                    assert not holds_secret(capture)
                assert state(outside) == before
            assert other.poll() is None
        finally:
            other.kill()
    assert state(outside) == before
    return saved


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))])
def test_a_folder_that_a_second_process_changes(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(sqlite, "_WAIT", 0.05)
    assert check_while_it_changes(*make_folders(tmp_path, seed, 60), seed, readings=4) or seed > 2
