"""A snapshot before something dangerous, without a command line."""

import os

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, QuotaExceeded, SecretsFound, guard, save_folder
from colony_memory.testing import FakeVault


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    path.mkdir()
    (path / "MEMORY.md").write_text("two years")
    return path


def test_the_way_back(memory, folder):
    with (
        pytest.raises(RuntimeError, match="it went wrong"),
        guard(memory, folder, note="before the clean-up") as before,
    ):
        (folder / "MEMORY.md").write_text("spoilt")
        (folder / "new.md").write_text("new")
        raise RuntimeError("it went wrong")
    assert (folder / "MEMORY.md").read_text() == "spoilt"
    assert before.restore()
    assert sorted(each.name for each in folder.iterdir()) == ["MEMORY.md", "new.md"]
    assert (folder / "MEMORY.md").read_text() == "two years"
    before.restore(delete=True)
    assert [each.name for each in folder.iterdir()] == ["MEMORY.md"]
    (info,) = memory.list_snapshots()
    assert (info.note, info.pinned, info.snapshot_id) == ("before the clean-up", True, before.info.snapshot_id)


def test_one_snapshot_is_the_way_back_to_unchanged_memory(memory, folder):
    seen = []
    for text in ("two years", "two years", "and a day", "and a day", "two years"):
        (folder / "MEMORY.md").write_text(text)
        for n in range(3):
            with guard(memory, folder, note=f"command {n}") as before:
                seen.append(before.info.snapshot_id)
    infos = memory.list_snapshots()
    assert [info.snapshot_id for info in infos] == list(dict.fromkeys(seen))[::-1]
    assert len(infos) == 3
    assert all(info.pinned_until and info.note == "command 0" for info in infos)


def test_what_somebody_pinned_stays_so_and_what_nobody_did_gets_the_note(memory, folder):
    saved = save_folder(memory, folder)
    with guard(memory, folder, note="first") as before:
        assert (before.info.snapshot_id != saved.info.snapshot_id, before.info.note) == (True, "first")
    memory.pin(snapshot_id=before.info.snapshot_id)
    with guard(memory, folder, note="second") as again:
        assert again.info.snapshot_id == before.info.snapshot_id
    assert memory.list_snapshots()[0].pinned_until is None


def test_no_retention_takes_the_way_back_away(memory, folder):
    with guard(memory, folder, label="notes") as before:
        pass
    for text in ("a", "b", "c"):
        memory.backup({"MEMORY.md": text * 100}, label="notes", prune_keep=1)
    assert memory.prune(label="notes", keep=1) == 0
    assert memory.restore(label="notes", snapshot_id=before.info.snapshot_id)["MEMORY.md"] == "two years"
    assert "_memory" not in repr(before)


def test_where_it_cannot_be_saved_the_block_is_not_entered(memory, folder, tmp_path):
    (folder / "key.md").write_text("ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5")
    with pytest.raises(SecretsFound), guard(memory, folder, secrets="stop"):
        raise AssertionError
    full = ColonyMemory(backend=FakeVault(quota_bytes=1000))
    (folder / "key.md").write_bytes(os.urandom(5000))
    with pytest.raises(QuotaExceeded), guard(full, folder):
        raise AssertionError
    with pytest.raises(ValueError, match="no such file"), guard(memory, tmp_path / "nowhere"):
        raise AssertionError
    assert memory.list_snapshots() == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX")
def test_what_is_left_out_has_no_way_back(memory, folder):
    for name in "abcde":
        (folder / name).symlink_to("/etc/hostname")
    why = r"there would be no way back for .*, a: is a link .* and 2 more: exclude"
    with pytest.raises(ColonyMemoryError, match=why), guard(memory, folder):
        raise AssertionError
    assert not memory.latest().pinned
    with guard(memory, folder, exclude=list("abcde")) as before:
        pass
    assert before.info.incomplete == ()
