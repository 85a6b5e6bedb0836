"""Where a configuration file is looked for, and whom it is believed from."""

from __future__ import annotations

import os
import sys

import pytest

if sys.version_info < (3, 11):
    pytest.importorskip("tomli")

from colony_memory.app.config import load_config

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "colony-memory").mkdir(parents=True)
    return tmp_path / "config" / "colony-memory" / "config.toml"


def test_the_null_device_is_none(place, monkeypatch):
    place.write_text("valut = 1\n")
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", os.devnull)
    assert not load_config().exists


def test_neither_the_working_directory_nor_a_relative_variable_counts(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("config.toml", ".colony-memory.toml", "colony-memory.toml"):
        (tmp_path / name).write_text("vault = '/stranger'")
    assert not load_config().exists
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", "config.toml")
    with pytest.raises(ValueError, match="COLONY_MEMORY_CONFIG: must be an absolute path"):
        load_config()


@posix
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_what_others_can_write_is_not_believed(place, mode):
    place.write_text("vault = '/v'\n")
    place.chmod(mode)
    with pytest.raises(ValueError, match=rf"can be written by others \(mode {mode:04o}\).*chmod go-w {place}"):
        load_config()
    place.chmod(mode & ~0o022)
    assert load_config().exists


@posix
def test_what_another_user_owns_is_not_believed(place, monkeypatch):
    place.write_text("vault = '/v'\n")
    owner = place.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert load_config().exists  # root's own files are believed
        os.chown(place, 12345, -1)
        owner = 12345
    with pytest.raises(ValueError, match=rf"belongs to another user \({owner}\), and is not believed"):
        load_config()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"vault = x\n", r"it is not TOML: .*line 1"),
        (b"a = 1\nb = [\n", r"it is not TOML: "),
        (b"a = 1\n# \xff\n", "line 2 is not UTF-8"),
        (b"a = " + b"[" * 100_000, "it is not TOML"),
        (b"x" * ((1 << 20) + 1), "larger than 1048576 bytes"),
        (b"valut = 1", "valut is not known; did you mean vault"),
    ],
)
def test_what_is_wrong_is_told_with_the_file(place, data, message):
    place.write_bytes(data)
    with pytest.raises(ValueError, match=f"^configuration file {place}: {message}"):
        load_config()


@posix
def test_what_is_no_file_is_not_waited_for(place):
    os.mkfifo(place)
    with pytest.raises(ValueError, match="not a plain file"):
        load_config()
    place.unlink()
    place.mkdir()
    with pytest.raises(ValueError, match="not a plain file"):
        load_config()
