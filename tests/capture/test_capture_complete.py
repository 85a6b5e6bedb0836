"""Everything in a folder is saved, or named with its reason: what is too large, what is elsewhere, what is a vault."""

import os
import stat
import subprocess
import sys
import tracemalloc

import pytest
from capture_trees import PNG, contents, crash_log, make, posix

from colony_memory import ColonyMemory
from colony_memory._os import directory
from colony_memory._os.directory import open_below
from colony_memory.capture import LeftOut, _ignore, _reading, differ_in_times_only, read_folder, read_paths
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents, view_files
from colony_memory.vaults.memory import MemoryVault


def reasons(folder, **more):
    return {each.name: each.reason for each in read_folder(folder, **more).left_out}


def test_a_file_that_no_snapshot_holds_is_named_before_any_memory_is_spent(tmp_path):
    make(tmp_path, {"a.md": b"a", "debug.log": b"line of a log\n" * 3_000_000})
    tracemalloc.start()
    try:
        capture = read_folder(tmp_path, max_bytes=20_000_000)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert contents(capture) == {"a.md": "a"}
    assert capture.left_out == (
        LeftOut("debug.log", "42.0 MB, more than the 20.0 MB that a snapshot may hold; exclude what is not memory"),
    )


def test_what_is_not_text_takes_more_room(tmp_path):
    make(tmp_path, {"a.png": PNG * 100, "b.png": PNG * 100, "c.md": b"c"})
    assert reasons(tmp_path, max_bytes=2_700) == {}
    found = reasons(tmp_path, max_bytes=2_100)
    assert set(found) == {"b.png"}
    assert "together with all files before it is more than" in found["b.png"]


def test_what_there_is_no_room_or_memory_for_when_it_is_read_is_named(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a", "b.md": b"b", "log": b"x"})
    real = _reading.read_contents

    def growing(place, name, **more):
        (tmp_path / "log").write_bytes(b"x" * 2000)
        if name == "b.md":
            raise MemoryError
        return real(place, name, **more)

    monkeypatch.setattr(_reading, "read_contents", growing)
    found = reasons(tmp_path, max_bytes=1000)
    assert found.pop("b.md") == "1 B, for which there is not enough memory"
    assert found.pop("log").startswith("2.0 kB, which together with all files before it is more than the 1.0 kB")
    assert found == {}


def test_placeholders_of_sync_services_are_no_files(tmp_path):
    make(tmp_path, {"a.md": b"a", ".MEMORY.md.icloud": b"bplist00", "notes.md.nextcloud": b" ", "b.owncloud": b""})
    make(tmp_path, {".icloud": b"mine", "long.nextcloud": b"a text of mine"})
    found = reasons(tmp_path)
    assert set(found) == {".MEMORY.md.icloud", "notes.md.nextcloud", "b.owncloud"}
    assert found[".MEMORY.md.icloud"] == "a placeholder: iCloud keeps 'MEMORY.md' elsewhere; download it first"


@pytest.mark.parametrize("mark", [{"st_flags": 0x40000000}, {"st_file_attributes": 0x400000}])
def test_files_whose_bytes_are_elsewhere_are_not_opened(mark):
    class Status:
        st_mode = stat.S_IFREG
        st_size = 7

        def __init__(self):
            vars(self).update(mark)

    assert "elsewhere" in _ignore.why_unsaved("a.md", "a.md", Status())


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="needs directories deeper than a path can name")
def test_a_tree_that_is_deeper_than_any_path_ends(tmp_path):
    make(tmp_path, {"a.md": b"a"})
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=here)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    descriptor = os.open("deep.md", os.O_CREAT | os.O_WRONLY, dir_fd=here)
    os.close(descriptor)
    os.close(here)
    capture = read_folder(tmp_path)
    assert capture.documents["a.md"] == "a"
    ((name, reason),) = ((each.name, each.reason) for each in capture.left_out)
    assert reason == "has a path longer than 3000 bytes"
    assert 3000 < len(name) < 3200
    # shutil.rmtree() gives up on it.
    subprocess.run(["rm", "-rf", str(tmp_path / ("d" * 100))], check=True)


def test_a_vault_in_the_folder_is_left_out(tmp_path):
    make(tmp_path, {"MEMORY.md": b"two years of notes"})
    first = read_folder(tmp_path).documents
    backend = MemoryVault()
    client = ColonyMemory(backend=backend)
    for _ in range(3):
        capture = read_folder(tmp_path, secrets="allow")
        client.backup(capture.documents, skip_unchanged=False)
        for each in backend.vault_list_files()["items"]:  # as a local vault has them
            text = backend.vault_get_file(each["filename"])["content"]
            make(tmp_path / "vault", {each["filename"]: text.encode(), ".lock": b""})
    assert capture.documents == first  # so that there is nothing new to save
    ((name, reason),) = ((each.name, each.reason) for each in capture.left_out)
    assert name == "vault/"
    assert reason.startswith("a vault: each backup would hold all the ones before")
    assert contents(capture) == {"MEMORY.md": "two years of notes"}
    with pytest.raises(ValueError, match=r"nothing to back up: '\./' was left out \(a vault"):
        read_folder(tmp_path / "vault")


def test_of_a_vault_among_other_files_its_files_are_left_out(tmp_path):
    make(
        tmp_path, {"v/MEMORY.md": b"m", "v/cmem.default.latest.json": b"{}", "v/.cmem-vault.json": b"{}", "a.md": b"a"}
    )
    capture = read_folder(tmp_path)
    assert set(contents(capture)) == {"a.md", "v/MEMORY.md"}
    assert [each.name for each in capture.left_out] == ["v/cmem.*.json"]
    make(tmp_path, {"w/.cmem-vault.json": b"{}", "w/.lock": b""})
    assert "w/" in reasons(tmp_path)


NAMES = ["Gr\u00fc\u00dfe.md", "\u65e5\u8a18.md", "caf\udce9.md", "plain.md"]
READ = """
import json, os, sys
from colony_memory.capture import read_folder, write_folder
capture = read_folder(sys.argv[1])
for _ in range(2):
    write_folder(capture.documents, sys.argv[2], delete=True, force=True)
sys.stdout.write(json.dumps([capture.documents, [str(each) for each in capture.left_out], capture.ignored]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs names of any bytes")
@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {"PYTHONIOENCODING": "latin-1"}])
@pytest.mark.parametrize("mode", ["0", "1"])
def test_names_are_their_bytes_whatever_the_locale(tmp_path, locale, mode):
    src, dst = make(tmp_path / "src", {".cmemignore": "Gr\u00fc*\n".encode()}), tmp_path / "dst"
    for name in NAMES:
        (src / os.fsdecode(name.encode("utf-8", "surrogateescape"))).write_text("x")
    (src / "link").symlink_to(os.fsdecode(NAMES[1].encode()))
    environment = {**os.environ, **locale, "PYTHONUTF8": mode, "PYTHONCOERCECLOCALE": "0"}
    code = "import json, sys; print(json.dumps(sys.getfilesystemencoding()))"
    encoding = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True).stdout
    done = subprocess.run(
        [sys.executable, "-c", READ, str(src), str(dst)], env=environment, capture_output=True, check=True, text=True
    )
    import json

    documents, left_out, ignored = json.loads(done.stdout)
    assert ({*documents} - {METADATA_NAME, ".cmemignore"}) == set(NAMES[1:]), encoding
    assert json.loads(documents[METADATA_NAME])["links"] == {"link": NAMES[1]}
    assert (left_out, ignored) == ([], [NAMES[0]])
    assert sorted(os.listdir(dst)) == sorted(name for name in os.listdir(src) if name != NAMES[0])  # noqa: PTH208


@posix
def test_systems_without_directory_descriptors_are_read_by_paths(tmp_path, monkeypatch):
    """As Windows is. What is there is the same, links and what is no directory included."""
    monkeypatch.setattr(directory, "BY_DESCRIPTOR", False)
    make(tmp_path / "src", {"a.md": b"a", "sub/deep/b.png": PNG, ".cmemignore": b"*.log\n", "x.log": b"x"})
    crash_log(tmp_path / "src/memory.db", rows=3)
    (tmp_path / "src/sub/link").symlink_to("deep")
    (tmp_path / "src/out").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "src/pipe")
    capture = read_folder(tmp_path / "src")
    contents, metadata = split_documents(capture.documents)
    assert set(contents) == {"a.md", "sub/deep/b.png", ".cmemignore", "memory.db"}
    assert metadata.links == {"sub/link": "deep"}
    assert [each.name for each in capture.left_out] == ["out", "pipe"]
    for way in (("a.md",), ("sub", "link"), ("missing",)):
        with pytest.raises(OSError), open_below(tmp_path / "src", way):
            raise AssertionError(way)
    with pytest.raises(OSError), open_below(tmp_path / "src/a.md"):
        raise AssertionError


@posix
def test_permissions_and_times_are_recorded_where_they_are_asked_for(tmp_path):
    make(tmp_path, {"a.md": b"a", "sub/b.png": PNG})
    (tmp_path / "a.md").chmod(0o4640)
    (tmp_path / "sub").chmod(0o750)
    os.utime(tmp_path / "a.md", ns=(1, 1_234_567_890_123_456_789))
    before = read_folder(tmp_path, attributes=True).documents
    _, metadata = split_documents(before)
    assert (metadata.modes["a.md"], metadata.modes["sub/"]) == (0o640, 0o750)
    assert set(metadata.modes) == set(metadata.times) == {"a.md", "sub/", "sub/b.png"}
    assert metadata.times["a.md"] == 1_234_567_890_123_456_789
    assert read_folder(tmp_path).documents == read_paths([tmp_path]).documents != before
    os.utime(tmp_path / "a.md", ns=(2, 2))
    after = read_folder(tmp_path, attributes=True).documents
    assert before != after
    assert differ_in_times_only(before, after)
    (tmp_path / "a.md").chmod(0o600)
    assert not differ_in_times_only(before, read_folder(tmp_path, attributes=True).documents)
    assert not differ_in_times_only(before, {**before, "a.md": "other"})


def test_links_are_seen_in_a_comparison():
    documents = {METADATA_NAME: dump_metadata(Metadata(links={"today.md": "notes/monday.md"}))}
    assert view_files(documents) == {"today.md (link)": "notes/monday.md"}
