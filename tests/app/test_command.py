"""A command that runs in the folder before it is read, and what becomes of a backup where it fails."""

import os
import shlex
import sys
import time

import pytest

from colony_memory import Retention, save_folder, save_paths
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.schedule.watch import mends_itself
from colony_memory.shell.app import options
from colony_memory.shell.app.options import BackupOptions


def python(code, *arguments):
    return shlex.join([sys.executable, "-c", code, *map(str, arguments)])


COPY = python("import os, shutil; shutil.copy('store.bin', 'copy.txt'); print(os.getcwd())")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "store.bin").write_text("committed")
    return tmp_path / "memory"


def test_it_runs_in_the_folder_before_that_is_read(memory, folder, capfd):
    saved = save_folder(memory, folder, before=COPY)
    assert saved.capture.contents.texts == ("copy.txt", "store.bin")
    assert capfd.readouterr() == ("", "")
    assert save_folder(memory, folder, before=COPY).info.reused


def test_of_a_file_it_runs_beside_it_and_of_several_in_the_first(memory, folder, tmp_path):
    save_paths(memory, [folder / "store.bin"], before=COPY)
    (folder / "copy.txt").unlink()
    (tmp_path / "other").mkdir()
    save_paths(memory, [folder, tmp_path / "other"], before=COPY)
    assert (folder / "copy.txt").read_text() == "committed"


@pytest.mark.parametrize(
    ("given", "why", "mends"),
    [
        (python("import sys; print('no room', file=sys.stderr); sys.exit(3)"), "exit code 3: no room", True),
        (python("import sys; sys.exit(1)"), "exit code 1; nothing", True),
        ("there-is-no-such-program", "there is no such program", False),
        ("/dev/null", "there is no such program", False),
        ("'~/bin/copy' a", "~ is not expanded here", False),
    ],
)
def test_where_it_fails_nothing_is_saved(memory, folder, given, why, mends):
    save_folder(memory, folder)
    (folder / "store.bin").write_text("changed")
    with pytest.raises(ColonyMemoryError, match=why) as failed:
        save_folder(memory, folder, before=given)
    assert mends_itself(failed.value) is mends
    assert len(memory.list_snapshots()) == 1


def test_one_that_takes_too_long_is_ended_with_what_it_has_started(memory, folder, monkeypatch):
    monkeypatch.setattr(options, "LONGEST", 0.5)
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    began = time.monotonic()
    with pytest.raises(ColonyMemoryError, match=r"took longer than 0\.5 s") as failed:
        save_folder(memory, folder, before=python(code))
    assert mends_itself(failed.value)
    assert time.monotonic() - began < 30


def test_what_lies_in_the_folder_is_not_run(memory, folder, monkeypatch):
    (folder / "checkpoint").write_text("#!/bin/sh\ntouch ran\n")
    (folder / "checkpoint").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", os.environ["PATH"]]))
    with pytest.raises(ColonyMemoryError, match="no such program"):
        save_folder(memory, folder, before="checkpoint")
    (folder / "~").mkdir()
    (folder / "checkpoint").rename(folder / "~" / "checkpoint")
    monkeypatch.chdir(folder)
    with pytest.raises(ColonyMemoryError, match="~ is not expanded here"):
        save_folder(memory, folder, before="'~/checkpoint'")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(("given", "why"), [("", "is empty"), ("''", "is empty"), ("copy 'x", "is not a command")])
def test_what_is_no_command_is_refused_at_once(given, why):
    with pytest.raises(ValueError, match=why):
        BackupOptions(before=given)


RULES = Retention(keep_last=2)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"label": "Not one!"}, "label"),
        ({"prune_keep": 1, "retention": RULES}, "not both"),
        ({"tags": "two words"}, "tag"),
        ({"exclude": ""}, "excludes nothing"),
        ({"allow_secrets": "a"}, "names no finding"),
    ],
)
def test_what_no_backup_could_use_is_refused_at_once(wrong, why):
    with pytest.raises(ValueError, match=why):
        BackupOptions(**wrong)
