"""A folder at a glance: what has changed shows, and what was seen counts for an hour."""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone

import pytest

from colony_memory.hooks.seen import FRESH, is_as_saved, look_at, note_saved

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
NOW = datetime(2026, 11, 28, 8, tzinfo=timezone.utc)
# Later than any run of these tests ends.
LATER = time.time() + 86_400


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes" / "old").mkdir(parents=True)
    (path / "MEMORY.md").write_text("two years")
    (path / "notes" / "a.md").write_text("a")
    return path


def digest(folder, saved_by=None):
    return look_at(folder, saved_by, now=LATER).digest


def rewrite(path):
    before = path.stat()
    path.write_text("TWO YEARS")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES = {
    "new file": lambda folder: (folder / "new.md").write_text(""),
    "new file below": lambda folder: (folder / "notes" / "old" / "b.md").write_text(""),
    "new folder": lambda folder: (folder / "empty").mkdir(),
    "gone": lambda folder: (folder / "notes" / "a.md").unlink(),
    "grown": lambda folder: (folder / "MEMORY.md").write_text("two years and a day"),
    "as long, with the time put back": lambda folder: rewrite(folder / "MEMORY.md"),
    "renamed": lambda folder: (folder / "notes" / "a.md").rename(folder / "notes" / "b.md"),
    "moved": lambda folder: (folder / "notes" / "a.md").rename(folder / "a.md"),
    "other time": lambda folder: os.utime(folder / "MEMORY.md", (1, 1)),
    "ignored file": lambda folder: (folder / ".cmemignore").write_text("*"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_shows(folder, change):
    before = digest(folder)
    assert digest(folder) == before
    CHANGES[change](folder)
    assert digest(folder) != before


@POSIX
def test_a_changed_mode_or_link_shows(folder):
    before = digest(folder)
    (folder / "MEMORY.md").chmod(0o700)
    assert digest(folder) != before
    before = digest(folder)
    (folder / "link").symlink_to("a")
    after = digest(folder)
    assert after != before
    (folder / "link").unlink()
    (folder / "link").symlink_to("b")
    assert digest(folder) not in (before, after)


def test_other_options_or_another_folder_show(folder, tmp_path):
    assert digest(folder) != digest(folder, {"exclude": ["*.log"]})
    before = digest(folder)
    folder.rename(tmp_path / "moved")
    assert digest(tmp_path / "moved") != before


@POSIX
def test_no_link_is_followed(folder, tmp_path):
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    before = digest(folder)
    (tmp_path / "outside" / "x").write_text("")
    assert digest(folder) == before


@POSIX
def test_pipes_are_not_opened(folder):
    os.mkfifo(folder / "pipe")
    assert digest(folder)


def test_what_cannot_be_looked_at_is_not_known(folder):
    assert look_at(folder / "missing", None, now=LATER) is None
    assert look_at(folder / "MEMORY.md", None, now=LATER) is None


def test_what_is_new_is_not_settled(folder):
    assert look_at(folder, None, now=LATER).settled
    assert not look_at(folder, None, now=time.time()).settled
    for path in (folder / "MEMORY.md", folder / "notes" / "a.md"):
        os.utime(path, (1, 1))  # what the clock of the system says of it is new all the same
    if os.name != "nt":
        assert not look_at(folder, None, now=time.time()).settled


def test_it_counts_for_an_hour(folder, tmp_path):
    place, look = tmp_path / "seen", look_at(folder, None, now=LATER)
    assert not is_as_saved(place, look, 1, now=NOW)
    note_saved(place, look, 1, now=NOW)
    assert is_as_saved(place, look, 1, now=NOW)
    assert not is_as_saved(place, look, 2, now=NOW)  # another vault, or the same after another's backup
    assert is_as_saved(place, look, 1, now=NOW + FRESH)
    assert not is_as_saved(place, look, 1, now=NOW + FRESH + timedelta(seconds=1))
    assert not is_as_saved(place, look, 1, now=NOW - timedelta(seconds=1))  # the clock was set back
    (folder / "MEMORY.md").write_text("more")
    assert not is_as_saved(place, look_at(folder, None, now=LATER), 1, now=NOW)


def test_what_is_not_settled_is_not_noted(folder, tmp_path):
    note_saved(tmp_path / "seen", look_at(folder, None, now=time.time()), 1, now=NOW)
    note_saved(tmp_path / "seen", None, 1, now=NOW)
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"digest": "DIGEST"}', '{"digest": "DIGEST", "when": 3}'])
def test_a_note_that_is_none_counts_for_nothing(folder, tmp_path, text):
    look = look_at(folder, None, now=LATER)
    (tmp_path / "seen").write_text(text.replace("DIGEST", look.digest))
    assert not is_as_saved(tmp_path / "seen", look, None, now=NOW)
