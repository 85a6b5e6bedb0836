"""One snapshot in one file: its form, what is refused, the vault that it makes, and how it is written to disk."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshot_files import CREATED, DOCUMENTS, ID, JSON_VALUES, LABEL, MANIFEST, MEMORY, TEXTS, built, unhurried

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    VaultDenied,
    open_vault,
    vaults,
)
from colony_memory.export import EXPORT_FORMAT, Export, read_export, write_export
from colony_memory.transfer import load_export, parse_export, save_export
from colony_memory.vaults.memory import ExportVault

FILES = built(MEMORY, part_chars=80).files
PART = f"cmem.{LABEL}.{ID}.p0.json"


def made(**changes):
    raw = {**json.loads(write_export(LABEL, ID, FILES)), **changes}
    return json.dumps({key: value for key, value in raw.items() if value is not None})


def opened(files=FILES):
    return ColonyMemory(backend=ExportVault(Export(LABEL, ID, files)))


# --- the text


def test_the_text_holds_every_file_as_it_is():
    text = write_export(LABEL, ID, FILES)
    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text) == {"format": EXPORT_FORMAT, "label": LABEL, "snapshot_id": ID, "files": FILES}
    assert read_export(text) == Export(LABEL, ID, FILES)


@unhurried
@given(DOCUMENTS)
def test_any_memory_comes_back(documents):
    exported = read_export(write_export(LABEL, ID, built(documents).files))
    assert ColonyMemory(backend=ExportVault(exported)).restore(label=LABEL) == documents


def test_what_the_manifest_says_is_told():
    info = Export(LABEL, ID, FILES).info
    assert (info.snapshot_id, info.label, info.created_at, info.part_count) == (ID, LABEL, CREATED, len(FILES) - 1)
    assert info.stored_bytes == sum(map(len, FILES.values()))
    with pytest.raises(SnapshotCorrupt):
        _ = Export(LABEL, ID, {MANIFEST: "{}"}).info


WRONG = {
    "nothing": ("", "not an exported snapshot"),
    "cut short": (write_export(LABEL, ID, FILES)[:-5], "not an exported snapshot"),
    "a list": ("[]", "not an exported snapshot"),
    "too deep": ("[" * 100_000, "not an exported snapshot"),
    "a key twice": ('{"format": "x", "format": "y"}', "a key is there twice"),
    "a file twice": (made().replace(PART, MANIFEST), "a key is there twice"),
    "a manifest": (FILES[MANIFEST], "its format is not"),
    "another format": (made(format="tar"), "its format is not"),
    "no format": (made(format=None), "its format is not"),
    "a format that is no text": (made(format=1), "its format is not"),
    "no files": (made(files=None), "no object of files"),
    "a list of files": (made(files=[PART]), "no object of files"),
    "no label": (made(label=None), "does not say which"),
    "a label to fold": (made(label="Work"), "does not say which"),
    "a label that is a path": (made(label="../x"), "does not say which"),
    "no id": (made(snapshot_id=None), "does not say which"),
    "an id that is a path": (made(snapshot_id="../x"), "does not say which"),
    "another label": (made(label="other"), "is not a file of snapshot"),
    "another id": (made(snapshot_id="other"), "is not a file of snapshot"),
    "a path": (made(files={**FILES, "../../etc/passwd": "x"}), "is not a file of snapshot"),
    "a pointer": (made(files={**FILES, f"cmem.{LABEL}.latest.json": "{}"}), "is not a file of snapshot"),
    "a file of another label": (made(files={**FILES, PART.replace(LABEL, "other"): "{}"}), "is not a file of snapshot"),
    "a number for a text": (made(files={**FILES, PART: 1}), "is not text"),
    "half a character": (made(files={**FILES, PART: "\ud800"}), "is not text"),
    "no manifest": (made(files={PART: FILES[PART]}), "is missing"),
    "no file at all": (made(files={}), "is missing"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
def test_what_is_no_export_is_corrupt(case):
    text, said = WRONG[case]
    with pytest.raises(SnapshotCorrupt, match=said) as caught:
        read_export(text)
    assert not isinstance(caught.value, UnsupportedFormat)


def test_a_newer_format_is_told_apart():
    with pytest.raises(UnsupportedFormat, match="newer colony-memory"):
        read_export(made(format="colony-memory/export/2"))


def test_nothing_wrong_is_written():
    for label, snapshot_id, files, said in (
        ("Work", ID, FILES, "label"),
        ("../x", ID, FILES, "label"),
        (LABEL, "../x", FILES, "snapshot id"),
        (LABEL, ID, {PART: FILES[PART]}, "is missing"),
    ):
        with pytest.raises(ValueError, match=said):
            write_export(label, snapshot_id, files)


@unhurried
@given(
    st.dictionaries(
        st.sampled_from(["format", "label", "snapshot_id", "files", "other"]),
        JSON_VALUES | st.sampled_from([EXPORT_FORMAT, LABEL, ID]) | st.dictionaries(st.just(MANIFEST), TEXTS),
    )
)
def test_any_object_is_read_or_corrupt(raw):
    try:
        exported = read_export(json.dumps(raw))
    except SnapshotCorrupt:
        return
    assert (exported.label, exported.snapshot_id) == (raw["label"], raw["snapshot_id"])
    assert MANIFEST in exported.files


# --- the vault


def test_the_vault_restores_verifies_and_lists():
    memory = opened()
    assert memory.restore(label=LABEL) == memory.restore(label=LABEL, snapshot_id=ID) == MEMORY
    report = memory.verify(label=LABEL, snapshot_id=ID)
    assert report
    assert memory.verify(label=LABEL).snapshots == report.snapshots
    (info,) = memory.list_snapshots()
    assert (info.snapshot_id, info.label, info.created_at, bool(info.head)) == (ID, LABEL, CREATED, False)
    assert memory.latest(label=LABEL) is not None
    assert memory.inspect()
    with pytest.raises(SnapshotNotFound):
        memory.restore()


def test_nothing_is_written_to_it():
    memory = opened()
    before = dict(memory._session.vault.backend.files)
    with pytest.raises(VaultDenied, match="can only be read; import it"):
        memory.backup({"a": "b"}, label=LABEL)
    with pytest.raises(VaultDenied, match="can only be read"):
        memory._session.vault.backend.vault_delete_file(PART)
    with pytest.raises(VaultDenied, match="can only be read"):
        memory._session.vault.backend.vault_upload_file_if(PART, "x", if_match="x")
    assert memory._session.vault.backend.files == before


# --- the file

EXPORTED = Export(LABEL, ID, FILES)


def names(directory):
    return sorted(each.name for each in directory.iterdir())


def test_a_file_opens_as_a_vault(tmp_path):
    save_export(EXPORTED, tmp_path / "work.json")
    assert ColonyMemory(backend=open_vault(f"export:{tmp_path / 'work.json'}")).restore(label=LABEL) == MEMORY
    with pytest.raises(ColonyMemoryError, match="cannot be read"):
        open_vault(f"export:{tmp_path / 'missing.json'}")
    with pytest.raises(ValueError, match="an empty path"):
        open_vault("export:")


def test_a_file_is_not_overwritten_unless_asked(tmp_path):
    place = tmp_path / "work.json"
    place.write_text("precious")
    with pytest.raises(ColonyMemoryError, match="already exists"):
        save_export(EXPORTED, place)
    assert place.read_text() == "precious"
    save_export(EXPORTED, place, overwrite=True)
    assert load_export(place) == EXPORTED
    assert names(tmp_path) == ["work.json"]


def test_what_comes_in_between_stays(tmp_path, monkeypatch):
    place = tmp_path / "work.json"

    sync = os.fsync

    def synced(descriptor):
        place.write_text("precious")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    with pytest.raises(ColonyMemoryError, match="already exists"):
        save_export(EXPORTED, place)
    assert place.read_text() == "precious"
    assert names(tmp_path) == ["work.json"]


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ColonyMemoryError, match=r"missing.json cannot be read: No such file"):
        load_export(tmp_path / "missing.json")
    with pytest.raises(ColonyMemoryError, match="a directory, not a plain file"):
        load_export(tmp_path)
    for path in ("", "a\0b", b"bytes"):
        with pytest.raises(ValueError, match="path must be"):
            load_export(path)
        with pytest.raises(ValueError, match="path must be"):
            save_export(EXPORTED, path)


def test_a_file_of_anothers_making_is_bounded(tmp_path, monkeypatch):
    place = tmp_path / "work.json"
    save_export(EXPORTED, place)
    monkeypatch.setattr(vaults.memory, "MAX_EXPORT_BYTES", place.stat().st_size)
    assert load_export(place) == EXPORTED
    monkeypatch.setattr(vaults.memory, "MAX_EXPORT_BYTES", place.stat().st_size - 1)
    with pytest.raises(ColonyMemoryError, match="larger than"):
        load_export(place)


def test_errors_of_the_content_name_the_file(tmp_path):
    place = tmp_path / "work.json"
    place.write_bytes(b"\xff\xfe")
    with pytest.raises(SnapshotCorrupt, match=r"work.json: .*not UTF-8"):
        load_export(place)
    place.write_text(made(files={**FILES, "x": "y"}))
    with pytest.raises(SnapshotCorrupt, match=r"work.json: 'x' is not a file") as caught:
        load_export(place)
    assert caught.value.file == "x"
    with pytest.raises(UnsupportedFormat, match="the export: unsupported"):
        parse_export(made(format="colony-memory/export/2").encode())
