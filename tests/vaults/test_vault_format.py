"""Which format snapshots are written in where nobody says one: what the vault's marker tells, within its bounds."""

import errno
import json
import os
import re
import warnings

import pytest
from faces import with_zstd
from no_zstd import lose_zstd

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, open_vault
from colony_memory._format.v2.zstd import WANTED
from colony_memory.testing import FakeVault
from colony_memory.vaults.local import LocalVault

MARKER = ".cmem-vault.json"
NOTES, MORE = {"MEMORY.md": "two years of notes"}, {"MEMORY.md": "two years of notes, and a day"}
ONE, TWO = "colony-memory/1", "colony-memory/2"


@pytest.fixture
def place(tmp_path):
    return tmp_path / "vault"


def told(place):
    return json.loads((place / MARKER).read_text())


def tell(place, **fields):
    place.mkdir(exist_ok=True)
    marker = {"format": "colony-memory/vault/1", "id": "0" * 32, **fields}
    (place / MARKER).write_text(json.dumps(marker))


def written(vault, documents=NOTES, **options):
    return ColonyMemory(backend=vault, **options).backup(documents).format


@with_zstd
@pytest.mark.parametrize(
    "opened", [lambda path: open_vault(str(path), create=True), lambda path: LocalVault(path, create=True)]
)
def test_a_new_vault_is_written_in_format_2(place, opened):
    made = opened(place)
    assert (made.snapshot_format, told(place)["snapshots"]) == (2, TWO)
    assert written(LocalVault(place)) == TWO
    assert written(LocalVault(place), MORE, format=1) == ONE
    assert ColonyMemory(backend=open_vault(str(place))).restore() == MORE


@pytest.mark.parametrize(
    "says", [{}, {"snapshots": ONE}, {"snapshots": "colony-memory/3"}, {"snapshots": 2}, {"snapshots": [TWO]}]
)
def test_whatever_else_a_marker_says_is_format_1(place, says):
    tell(place, **says)
    assert written(LocalVault(place)) == ONE
    before = (place / MARKER).read_bytes()
    assert LocalVault(place, create=True).snapshot_format == 1
    assert (place / MARKER).read_bytes() == before


@with_zstd
def test_what_held_snapshots_before_it_had_a_marker_stays_what_it_was(place):
    written(LocalVault(place, create=True), format=1)
    (place / MARKER).unlink()
    assert written(LocalVault(place), MORE) == ONE
    assert LocalVault(place, create=True).snapshot_format == 1
    assert told(place)["snapshots"] == ONE


@with_zstd
def test_a_vault_that_is_there_is_changed_at_its_user_s_word_alone(place):
    tell(place, id="f" * 32, more="x")
    vault = LocalVault(place)
    assert written(vault) == ONE
    LocalVault(place, create=True, format=2)
    assert told(place) == {"format": "colony-memory/vault/1", "id": "f" * 32, "more": "x", "snapshots": TWO}
    # Whoever has it open writes so from the next call on.
    assert written(vault, MORE) == TWO
    LocalVault(place, create=True, format=1)
    assert written(vault) == ONE
    assert ColonyMemory(backend=vault).verify()
    tell(place, more="x" * 3985)
    with pytest.raises(ValueError, match="too long to tell a format"):
        LocalVault(place, create=True, format=2)
    assert vault.exists()


@pytest.mark.parametrize("url", ["colony:", "memory:", "export:a.json"])
def test_not_every_vault_keeps_one(url, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_x")
    with pytest.raises(ValueError, match="keeps no format"):
        open_vault(url, create=True, format=1)


@pytest.mark.parametrize("wrong", [0, 3, True, "2", 1.5])
def test_what_is_no_format(place, wrong):
    with pytest.raises(ValueError, match="format must be 1 or 2"):
        LocalVault(place, create=True, format=wrong)
    with pytest.raises(ValueError, match="format must be 1 or 2"):
        ColonyMemory(backend=FakeVault(), format=wrong)
    assert not place.exists()
    with pytest.raises(ValueError, match="being made"):
        open_vault(str(place), format=1)


@with_zstd
def test_where_zstd_is_missing_a_backup_is_made_all_the_same(place, tmp_path):
    vault = LocalVault(place, create=True)
    assert written(vault) == TWO
    with lose_zstd():
        with pytest.warns(ColonyMemoryWarning, match=f"saving in format 1: .*{re.escape(WANTED)}"):
            assert written(vault, MORE) == ONE
        with pytest.raises(ColonyMemoryError, match=re.escape(WANTED)):
            written(vault, NOTES, format=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mem = ColonyMemory(backend=vault)
            assert mem.restore() == MORE
            assert mem.backup(MORE).reused  # nothing is written, so nothing is said
            # A vault that is made without it needs none.
            assert written(LocalVault(tmp_path / "other", create=True)) == ONE
        with pytest.raises(ColonyMemoryError, match=re.escape(WANTED)):
            LocalVault(tmp_path / "third", create=True, format=2)
        assert not (tmp_path / "third").exists()
    assert written(LocalVault(tmp_path / "other"), MORE) == ONE
    assert ColonyMemory(backend=vault).verify()
    assert written(vault, {"a": "b"}) == TWO


@with_zstd
def test_unchanged_memory_that_nobody_here_can_read_is_saved_in_a_way_that_all_can(place):
    vault = LocalVault(place, create=True)
    written(vault)
    with lose_zstd():
        with pytest.warns(ColonyMemoryWarning) as caught:
            info = ColonyMemory(backend=vault).backup(NOTES)
        assert [str(each.message).partition(":")[0] for each in caught] == ["saving in format 1"]
        assert (info.format, info.reused) == (ONE, False)
        assert ColonyMemory(backend=vault).restore() == NOTES


@with_zstd
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_change_that_fails_leaves_the_vault_as_it_was(place, monkeypatch, number):
    tell(place, id="e" * 32)
    before = (place / MARKER).read_bytes()

    def refuse(*args):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch, pytest.raises(ColonyMemoryError):
        patch.setattr(os, "fsync", refuse)
        LocalVault(place, create=True, format=2)
    assert (place / MARKER).read_bytes() == before
    assert written(LocalVault(place)) == ONE
