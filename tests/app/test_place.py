"""Which vault."""

from __future__ import annotations

import os

import pytest

from colony_memory import ColonyMemory
from colony_memory.app.open import choose_place, open_memory, refuse_vault_inside
from colony_memory.app.values import read_setting
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in [each for each in os.environ if each.startswith("COLONY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def test_a_user_without_a_home_is_told(monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(ValueError, match="no home directory: set XDG_DATA_HOME"):
        choose_place()


@pytest.mark.parametrize("name", ["COLONY_API_KEY", "COLONY_MEMORY_VAULT"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_not_one_that_is_not_set(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} is empty"):
        choose_place()
    monkeypatch.delenv(name)
    assert read_setting(name) is None


@pytest.mark.parametrize(
    ("url", "says"), [("memory:", "would be gone"), ("colony:", "needs a key"), ("ftp://x", "not a kind of vault")]
)
def test_what_cannot_be_opened(url, says):
    with pytest.raises(ValueError, match=says):
        choose_place(url)


def test_a_path_that_holds_the_vault_is_refused(tmp_path):
    vault = LocalVault(tmp_path / "memory" / "vault", create=True)
    (tmp_path / "link").symlink_to(tmp_path / "memory", target_is_directory=True)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    memory = ColonyMemory(backend=vault)
    for path in (tmp_path, "memory", tmp_path / "link", vault.path, "."):
        with pytest.raises(ValueError, match="is inside"):
            refuse_vault_inside(memory, ["elsewhere", path])
    refuse_vault_inside(memory, ["elsewhere", tmp_path / "loop", tmp_path / "memory" / "vault2"])
    refuse_vault_inside(ColonyMemory(backend=MemoryVault()), [tmp_path])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('"/w/witness.json"', "within quotes"),
        ("'/w/witness.json'", "within quotes"),
        ("/w/witness.json\r", "with a line end"),
        ("/w/witness.json\n", "with a line end"),
        ("/w/wit\x1bness.json", "another control character"),
        ("\ufeff/w/witness.json", "with a byte order mark"),
    ],
)
def test_what_another_reader_of_settings_would_take_off_is_refused_by_name(monkeypatch, value, why):
    for name in ("COLONY_MEMORY_WITNESS", "COLONY_MEMORY_VAULT", "COLONY_API_KEY"):
        monkeypatch.setenv(name, value)
        if name == "COLONY_API_KEY" and value.strip() == "/w/witness.json":
            assert read_setting(name) == value  # which is taken without it
            continue
        with pytest.raises(ValueError, match=f"{name} is given .*{why}") as caught:
            read_setting(name)
        assert "witness.json" not in str(caught.value)
    monkeypatch.setenv("COLONY_MEMORY_ENCRYPT_TO", "age1x\nage1y\t'age1z'")
    assert read_setting("COLONY_MEMORY_ENCRYPT_TO")


@pytest.mark.parametrize("value", ['"/w/witness.json"', "/w/witness.json\r", "\ufeff/w/witness.json"])
def test_no_witness_is_made_under_a_name_that_nobody_meant(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="a path is given"):
        open_memory("memory:", witness=value)
    assert not list(tmp_path.iterdir())
