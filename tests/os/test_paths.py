"""Where a path leads while links come and go."""

from __future__ import annotations

import os

import pytest

from colony_memory._os.paths import real_path
from colony_memory.capture import read_folder


def fail_first(monkeypatch, times, error):
    """Have that many looks at a path fail, as where a link is swapped between a look at it and the reading of it."""
    real, left = os.path.realpath, [times]

    def realpath(path, **options):
        if left[0]:
            left[0] -= 1
            raise error
        return real(path, **options)

    monkeypatch.setattr(os.path, "realpath", realpath)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file or directory"), OSError(22, "Invalid argument")])
def test_a_link_that_is_swapped_is_looked_at_again(tmp_path, monkeypatch, error):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.md").write_text("text")
    (tmp_path / "link").symlink_to("there")
    fail_first(monkeypatch, 3, error)
    assert real_path(tmp_path / "link") == tmp_path.resolve() / "there"
    fail_first(monkeypatch, 1, error)
    assert "a.md" in read_folder(tmp_path / "there").documents


def test_a_path_that_changes_all_the_time_is_told(tmp_path, monkeypatch):
    fail_first(monkeypatch, 1000, FileNotFoundError(2, "No such file or directory"))
    with pytest.raises(FileNotFoundError):
        real_path(tmp_path)
