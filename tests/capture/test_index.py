"""The index of a folder: what is kept of it, for whom, and what becomes of it when anything is not as it was."""

import json
import os
import subprocess
import sys
import threading

import pytest

from colony_memory._engine.basis import Basis, pending, saved
from colony_memory._os.machine import state_directory
from colony_memory.capture.index import Row, disprove, end_others, kept_of, open_index, peek_index

BASIS = saved(
    Basis(origin="0f" * 8), "20260101T000000.000000Z-abcdef", stream="ab" * 8, tree="sha256:1", listed=["a", "b"]
)
ROWS = {"a.md": Row(1, 2, 3, 4, 5, "sha256:aa", "rules"), "b.bin": Row(1, 2, 3, 4, 5, "sha256:bb", is_text=False)}
PROVEN = ("20260101T000000Z-abcdef", "2026-01-01T00:00:00+00:00")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "home" / "notes"
    made.mkdir(parents=True)
    (made / "a.md").write_text("a")
    return made


def filled(folder, *, vault="v", label="default"):
    with open_index([folder], vault=vault, label=label) as index:
        index.write(BASIS)
        index.update(rows=ROWS, described="is", options={"exclude": []}, proven=PROVEN)


def kept():
    return sorted((state_directory() / "folders").glob("*.json"))


def test_what_is_kept_comes_back_whole(folder):
    filled(folder)
    with open_index([folder], vault="v", label="default") as opened:
        for found in (opened, peek_index([folder], vault="v", label="default")):
            assert (found.read(), dict(found.rows), found.described) == (BASIS, ROWS, "is")
            assert (found.options, found.proven) == ({"exclude": []}, PROVEN)
            assert found.problem is None
    assert all(each.stat().st_mode & 0o777 == 0o600 for each in (state_directory() / "folders").iterdir())
    assert (state_directory() / "folders").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("vault", "label"), [("other", "default"), ("v", "other")])
def test_each_vault_and_label_has_its_own(folder, vault, label):
    filled(folder)
    assert peek_index([folder], vault=vault, label=label).read() == Basis()
    filled(folder, vault=vault, label=label)
    with open_index([folder], vault="v", label="default") as index:
        end_others(folder, index)
        assert index.read() == BASIS
    with open_index([folder], vault=vault, label=label) as index:
        assert (index.read(), dict(index.rows)) == (Basis(), ROWS)  # what the files are is true all the same
    assert peek_index([folder], vault="v", label="default").read() == BASIS


@pytest.mark.parametrize("at", [".", "..", "below"])
def test_another_restore_ends_also_what_is_above_and_below(folder, at):
    (folder / "below").mkdir()
    filled(folder)
    with open_index([folder / at], vault="w", label="default") as index:
        end_others(folder / at, index)
    assert peek_index([folder], vault="v", label="default").read() == Basis()


def test_one_that_is_open_ends_with_its_next_opening(folder):
    with open_index([folder], vault="v", label="default") as index:
        index.write(BASIS)
        with open_index([folder], vault="w", label="default") as other:
            end_others(folder, other)
        index.write(pending(index.read(), "mine"))
        before = {each.name: each.read_bytes() for each in (state_directory() / "folders").iterdir()}
        assert peek_index([folder], vault="v", label="default").read() == Basis()  # and whoever looks changes nothing
        assert {each.name: each.read_bytes() for each in (state_directory() / "folders").iterdir()} == before
    with open_index([folder], vault="v", label="default") as index:
        assert index.read() == Basis()
        index.write(BASIS)
    assert peek_index([folder], vault="v", label="default").read() == BASIS


def test_a_second_one_waits_and_then_names_the_first(folder):
    with open_index([folder], vault="v", label="default"):
        code = (
            "import sys; from colony_memory.capture.index import open_index\n"
            "with open_index([sys.argv[1]], vault='v', label='default', patience=0.1): pass"
        )
        ran = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=False)
        assert f"is being saved or restored by process {os.getpid()}: waited 0 s" in ran.stderr
        with open_index([folder], vault="v", label="other", patience=0.1):
            pass
        waits = threading.Thread(target=filled, args=(folder,))
        waits.start()
    waits.join()
    assert peek_index([folder], vault="v", label="default").read() == BASIS


def no_directory():
    place = state_directory()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("")


@pytest.mark.parametrize("why", ["no vault", "no directory", "full"])
def test_where_nothing_can_be_kept_it_ends_with_the_block(folder, why, monkeypatch):
    if why == "no directory":
        no_directory()
    vault = None if why == "no vault" else "v"
    if why == "full":
        monkeypatch.setattr("colony_memory._os.files.sync_bytes", _full)
    with open_index([folder], vault=vault, label="default") as index:
        index.write(BASIS)
        index.update(rows=ROWS)
        assert (index.read(), dict(index.rows)) == (BASIS, ROWS)
        assert index.problem
    assert peek_index([folder], vault=vault, label="default").read() == Basis()


def _full(*_):
    raise OSError(28, "No space left on device")


BAD = {
    "cut": lambda text: text[: len(text) // 2],
    "empty": lambda _: "",
    "a list": lambda _: "[]",
    "deep": lambda _: "[" * 100_000,
    "of another form": lambda text: text.replace("/1", "/9"),
    "without fields": lambda text: json.dumps({"format": json.loads(text)["format"]}),
    "wrong types": lambda text: text.replace('"', "1", 40),
    "numbers for names": lambda text: text.replace('["a","b"]', "[1]").replace('"sha256:aa"', "1"),
    "an object for a list": lambda text: text.replace('["a","b"]', '{"a":[]}').replace('"sha256:aa"', "[]"),
    "rows as a list": lambda text: text.replace('"rows":{', '"rows":[],"r":{').replace('"basis":{', '"basis":[],"b":{'),
}


@pytest.mark.parametrize("suffix", [".json", ".rows"])
@pytest.mark.parametrize("damage", BAD.values(), ids=BAD)
def test_a_damaged_one_is_passed_over(folder, damage, suffix):
    filled(folder)
    (path,) = kept()
    path = path.with_suffix(suffix)
    path.write_text(damage(path.read_text()))
    with open_index([folder], vault="v", label="default") as index:
        assert dict(index.rows) == {}
        assert index.read() == (Basis() if suffix == ".json" else BASIS)
        index.write(BASIS)
        index.update(rows=ROWS)
    assert dict(peek_index([folder], vault="v", label="default").rows) == ROWS


@pytest.mark.parametrize("plant", ["link", "mode", "second name", "directory"])
@pytest.mark.skipif(os.name == "nt", reason="links and modes")
def test_what_may_be_anothers_is_not_believed(folder, plant, tmp_path):
    filled(folder)
    (path,) = kept()
    if plant == "mode":
        path.chmod(0o666)
    elif plant == "second name":
        (tmp_path / "second").hardlink_to(path)
    else:
        path.rename(tmp_path / "planted")
        path.mkdir() if plant == "directory" else path.symlink_to(tmp_path / "planted")
    with open_index([folder], vault="v", label="default") as index:
        assert (index.read(), dict(index.rows)) == (Basis(), {})


def test_a_state_directory_that_others_may_write_to_is_none(folder):
    filled(folder)
    (state_directory() / "folders").chmod(0o777)
    with open_index([folder], vault="v", label="default") as index:
        assert "others can write to it" in str(index.problem)


def test_who_only_looks_sees_what_is_kept_of_a_vault(folder, caplog):
    assert kept_of("v") == []
    filled(folder)
    filled(folder, label="other")
    filled(folder, vault="w")
    seen = [(label, [str(folder)], BASIS) for label in ("default", "other")]
    assert sorted((label, list(paths), basis) for label, paths, basis in kept_of("v")) == seen
    disprove("v", "default")
    assert peek_index([folder], vault="v", label="default").proven is None
    assert peek_index([folder], vault="v", label="other").proven == PROVEN
    disprove("v", "default")  # there is nothing more to forget
    with open_index([folder], vault="v", label="other"):
        disprove("v", "other")  # whoever has it goes on
    assert "not noted that label 'other' is damaged" in caplog.text
    kept()[0].write_text("{")
    assert len(kept_of("v")) + len(kept_of("w")) == 2
    assert "is passed over" in caplog.text
