"""Files with holes are saved as what they hold, and come back with their holes."""

import os

import pytest
from capture_trees import posix

from colony_memory import ColonyMemory, open_vault, restore_folder, save_folder
from colony_memory.capture import read_folder, write_folder
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.capture._steady import HOLES, MAGIC, Sparse, read_sparse
from colony_memory.exceptions import ColonyMemoryError, SnapshotCorrupt
from colony_memory.shell.app.content import content_of

pytestmark = posix
SIZE = 1100 * 10**6
PARTS = {0: b"\x01\xff" * 3000, 900_000_001: b"tail", SIZE - 1: b"z"}


def write_sparse(path, size=SIZE, parts=PARTS):
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
    os.ftruncate(descriptor, size)
    for at, data in parts.items():
        os.pwrite(descriptor, data, at)
    os.close(descriptor)


def room(path):
    return path.stat().st_blocks * 512


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "memory"
    place.mkdir()
    (place / "a.md").write_text("a")
    write_sparse(place / "data.mdb")
    if room(place / "data.mdb") > HOLES:
        pytest.skip("files have no holes here")
    return place


def test_holes_are_no_size_and_come_back(folder, tmp_path):
    memory = ColonyMemory(backend=open_vault(str(tmp_path / "vault"), create=True))
    saved = save_folder(memory, folder)
    assert saved.left_out == ()
    assert saved.info.byte_size < 100_000
    restore_folder(memory, tmp_path / "out")
    out = tmp_path / "out" / "data.mdb"
    assert out.stat().st_size == SIZE
    assert room(out) < HOLES
    with out.open("rb") as file:
        for at, data in PARTS.items():
            file.seek(at)
            assert file.read(len(data)) == data
    assert restore_folder(memory, tmp_path / "out").written.unchanged == ("a.md", "data.mdb")
    # What is displaced is told to be saved by what it holds.
    with (folder / "data.mdb").open("r+b") as file:
        file.seek(500_000)
        file.write(b"more")
    save_folder(memory, folder)
    assert restore_folder(memory, tmp_path / "out").written.replaced == ("data.mdb",)
    assert read_folder(tmp_path / "out").documents == read_folder(folder).documents


def test_what_is_no_hole_counts(folder):
    (left,) = read_folder(folder, max_bytes=9000).left_out
    assert left.name == "data.mdb"
    assert "more than the 9.0 kB" in left.reason


def test_a_file_that_begins_like_one_comes_back_as_it_is(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.bin").write_bytes(MAGIC + b"9 0 9\n\xff")
    (tmp_path / "here" / "b.md").write_bytes(MAGIC + b"9 0 9\n")
    documents = read_folder(tmp_path / "here").documents
    write_folder(documents, tmp_path / "there")
    assert (tmp_path / "there" / "a.bin").read_bytes() == MAGIC + b"9 0 9\n\xff"
    assert (tmp_path / "there" / "b.md").read_bytes() == MAGIC + b"9 0 9\n"
    assert write_folder(documents, tmp_path / "there").unchanged == ("a.bin", "b.md")


def test_the_same_content_is_the_same_whatever_its_holes(tmp_path):
    write_sparse(tmp_path / "a", 4 * HOLES, {HOLES + 5: b"x"})
    (tmp_path / "b").write_bytes(bytes(HOLES + 5) + b"x" + bytes(3 * HOLES - 6))
    found = []
    for name in "ab":
        with (tmp_path / name).open("rb") as file:
            found.append(read_sparse(file.fileno()))
    assert found[0] == found[1]
    assert found[0].parts == ((HOLES, 4096),)
    assert found[0].whole() == (tmp_path / "b").read_bytes()


def test_where_the_system_tells_of_no_holes_all_is_read(tmp_path, monkeypatch):
    write_sparse(tmp_path / "a", 4 * HOLES, {HOLES + 5: b"x"})
    monkeypatch.delattr(os, "SEEK_DATA", raising=False)
    with (tmp_path / "a").open("rb") as file:
        assert read_sparse(file.fileno()).parts == ((HOLES, 4096),)


@pytest.mark.parametrize(
    "data",
    [b"", b"x", b"9", b"9 0\n", b"9 0 9\n", b"9 0 3 2 1\nabcd", b"9 0 0\n", b"2 0 3\nabc", b"-1\n", b"\xc2\xb2\n",
     b"9223372036854775808\n", b"9 0 3\nabcd", b"9" * 5000 + b"\n"],
)  # fmt: skip
def test_what_is_none_is_damage(data):
    with pytest.raises(ValueError):
        Sparse(MAGIC + data)
    with pytest.raises(SnapshotCorrupt, match=r"has 'a\.mdb' as"):
        split_documents({METADATA_NAME: dump_metadata(Metadata(files={"a.mdb": MAGIC + data}))})


def test_one_file_is_given_whole_where_there_is_room():
    info = ColonyMemory(backend=open_vault("memory:")).backup({"x": "y"})
    documents = {METADATA_NAME: dump_metadata(Metadata(files={"a": Sparse(MAGIC + b"5 1 2\nab")}))}
    assert content_of(info, documents, "a") == b"\0ab\0\0"
    huge = {METADATA_NAME: dump_metadata(Metadata(files={"a": Sparse(MAGIC + b"9000000000000 1 2\nab")}))}
    with pytest.raises(ColonyMemoryError, match="9000000000000 bytes, mostly holes: restore it"):
        content_of(info, huge, "a")
