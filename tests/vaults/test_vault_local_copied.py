"""A directory as a vault after clocks that were wrong, copies that were put over it, and sync services."""

from __future__ import annotations

import os
import time
import warnings
from contextlib import contextmanager

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory, ColonyMemoryWarning
from colony_memory.app.protection import check_protection
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.vaults.local import LocalVault

_DAYS = 2 * 86_400
_POINTER = "cmem.default.latest.json"


def _save(vault, number, **options):
    text = "".join(f"line {n} of it, {n * 7919 % 1000}\n" for n in range(200 + number))
    return ColonyMemory(backend=vault).backup({"MEMORY.md": text, "number": str(number)}, **options).snapshot_id


def _ids(vault):
    return [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots(label="default")]


@contextmanager
def _unheard():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        yield


@pytest.mark.parametrize("wire", FORMATS)
def test_a_file_of_a_time_to_come_makes_no_upload_of_this_minute_old(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    _save(vault, 0)
    for path in tmp_path.iterdir():  # written while the clock was two days ahead
        os.utime(path, (time.time() + _DAYS,) * 2)
    slow = FaultyVault(vault)
    slow.hook("upload", lambda: ColonyMemory(backend=vault).prune(keep=5), match=".manifest.json")
    saved = _save(slow, 1)
    assert ColonyMemory(backend=vault).restore()["number"] == "1"
    assert ColonyMemory(backend=vault).verify(snapshot_id=saved)


@pytest.mark.parametrize("wire", FORMATS)
def test_an_older_pointer_put_over_the_vault_costs_no_snapshot(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    ids = [_save(vault, 0)]
    older = (tmp_path / _POINTER).read_text()
    ids += [_save(vault, number) for number in range(1, 5)]
    (tmp_path / _POINTER).write_text(older)
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        os.utime(path, (time.time() - _DAYS + number,) * 2)
    with _unheard():
        ids.append(_save(vault, 5, prune_keep=20))
        assert _ids(vault) == ids[::-1]
        assert _save(vault, 6, prune_keep=20)
        assert _ids(vault)[1:] == ids[::-1]
        assert ColonyMemory(backend=vault).verify()


@pytest.mark.parametrize("wire", FORMATS)
def test_what_a_restore_does_not_give_is_not_called_protected(tmp_path, wire):
    vault = LocalVault(tmp_path, create=True, format=wire)
    older = [(_save(vault, number), (tmp_path / _POINTER).read_text())[1] for number in range(4)]
    mem = ColonyMemory(backend=vault)
    assert check_protection(mem).verdict.state == "protected"
    (tmp_path / _POINTER).write_text(older[1])
    assert mem.restore()["number"] == "1"
    verdict = check_protection(mem).verdict
    assert verdict.state == "at risk"
    assert "the pointer of label 'default' is an older one" in verdict.problems[0].what
    # The next backup is the latest again.
    with _unheard():
        _save(vault, 5)
    assert check_protection(mem).verdict.state == "protected"


@pytest.mark.parametrize("wire", FORMATS)
def test_a_copy_that_did_not_finish_leaves_what_was_there_and_goes_on(tmp_path, wire):
    here = LocalVault(tmp_path / "here", create=True, format=wire)
    there = LocalVault(tmp_path / "there", create=True, format=wire)
    mem = ColonyMemory(backend=here)
    _save(here, 0)
    mem.copy_to(ColonyMemory(backend=there))
    for number in range(1, 4):
        _save(here, number)
    dying = FaultyVault(there)
    dying.fail("upload", ProcessDied(0), match=_POINTER)
    dying.fail("delete", ProcessDied(0))
    with pytest.raises(ProcessDied):
        mem.copy_to(ColonyMemory(backend=dying))
    copied = ColonyMemory(backend=there)
    assert check_protection(copied).verdict.problems == ()
    assert copied.restore()["number"] == "0"
    for path in (tmp_path / "there").iterdir():  # hours later, as what is not listed yet may be on its way out
        os.utime(path, (path.stat().st_mtime - 7200,) * 2)
    assert mem.copy_to(copied)
    assert check_protection(copied).verdict.state == "protected"
    assert copied.restore()["number"] == "3"
