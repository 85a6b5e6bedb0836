"""A vault that is made once, on purpose, in a directory or an object store: its marker, and what it says of formats."""

import errno
import json
import os
import re
import stat
import subprocess
import sys
import warnings

import pytest
from faces import with_zstd
from no_zstd import lose_zstd

from colony_memory import ColonyMemory, open_vault
from colony_memory._format.v2.zstd import WANTED
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    Hint,
    QuotaExceeded,
    VaultDenied,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.testing import FakeVault
from colony_memory.vaults.local import LocalVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX links, pipes and owners")
as_root = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="needs root")

MARKER, LATEST = ".cmem-vault.json", "cmem.default.latest.json"
NOTES, MORE = {"MEMORY.md": "two years of notes"}, {"MEMORY.md": "two years of notes, and a day"}
ONE, TWO = "colony-memory/1", "colony-memory/2"


class Folder:
    """What a vault's disk holds."""

    layout = "colony-memory/vault/1"

    def __init__(self, path):
        self.path = path

    def open(self, **options):
        return LocalVault(self.path, **options)

    def put(self, name, data):
        self.path.mkdir(exist_ok=True)
        (self.path / name).write_bytes(data)

    def remove(self, name):
        (self.path / name).unlink()

    def files(self):
        found = self.path.iterdir() if self.path.exists() else ()
        return {path.name: path.read_bytes() for path in found if path.is_file() and path.name != ".lock"}


class Bucket:
    """What a vault's object store holds."""

    layout = "colony-memory/vault/objects/1"

    def __init__(self, _path):
        from obstore.store import MemoryStore

        self.store = MemoryStore()

    def open(self, **options):
        from colony_memory.vaults.objects import ObjectVault

        return ObjectVault(self.store, **options)

    def _key(self, name):
        from colony_memory.vaults.objects import key_of

        return key_of(name)

    def put(self, name, data):
        self.store.put(self._key(name), data)

    def remove(self, name):
        self.store.delete(self._key(name))

    def files(self):
        keys = [meta["path"] for meta in self.store.list().collect()]
        return {key.rpartition("/")[2]: bytes(self.store.get(key).bytes()) for key in keys}


@pytest.fixture(params=[Folder, Bucket])
def place(request, tmp_path):
    if request.param is Bucket:
        pytest.importorskip("obstore")
    return request.param(tmp_path / "vault")


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "vault")


def told(place):
    return json.loads(place.files()[MARKER])


def tell(place, **fields):
    place.put(MARKER, json.dumps({"format": place.layout, "id": "0" * 32, **fields}).encode())


def written(vault, documents=NOTES, **options):
    return ColonyMemory(backend=vault, **options).backup(documents).format


def every_call(vault):
    return (
        vault.vault_status,
        vault.vault_list_files,
        lambda: vault.vault_list_prefix("cmem."),
        lambda: vault.vault_get_file(LATEST),
        lambda: vault.vault_upload_file(LATEST, "y"),
        lambda: vault.vault_upload_file_if(LATEST, "y", if_none_match="*"),
        lambda: vault.vault_delete_file(LATEST),
    )


def every_verb(memory):
    return (
        memory.restore,
        lambda: memory.restore(default={}),
        lambda: memory.restore(fallback=True),
        lambda: memory.backup(NOTES),
        memory.list_snapshots,
        memory.latest,
        memory.verify,
        memory.inspect,
        memory.status,
        lambda: memory.prune(label="default"),
        lambda: memory.plan_prune(label="default"),
        lambda: memory.diff(None),
        lambda: memory.delete_snapshot(label="default", snapshot_id="20260101T000000000000Z-abcdef"),
    )


# --- its files

NO_NAMES = ["", ".", "..", "../x.json", "a/b.json", "/x.json", "a\\b.json", "a\0b.json", ".hidden", ".lock"]
NO_NAMES += ["n" * 256, "é" * 128, "\ud800.json"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_are_no_plain_names_are_refused(place, tmp_path, name):
    vault = place.open(create=True)
    (tmp_path / "x.json").write_text("outside")
    for call in (
        lambda: vault.vault_get_file(name),
        lambda: vault.vault_delete_file(name),
        lambda: vault.vault_upload_file(name, "x"),
        lambda: vault.vault_upload_file_if(name, "x", if_none_match="*"),
    ):
        with pytest.raises(VaultError) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (400, "INVALID_INPUT")
    assert not isinstance(place, Folder) or vault.vault_look_up_files([name])["items"] == []
    assert set(place.files()) == {MARKER}
    assert (tmp_path / "x.json").read_text() == "outside"


def test_a_damaged_file_is_seen_as_damaged_and_not_as_an_outage(place):
    vault = place.open(create=True)
    place.put("x.json", b'{"b64": "A\xff\xfeA"}')
    found = vault.vault_get_file("x.json")
    assert found["content"] == '{"b64": "A\ufffd\ufffdA"}'
    vault.vault_upload_file_if("x.json", "mended", if_match=found["etag"])
    assert vault.vault_get_file("x.json")["content"] == "mended"


def test_a_file_over_the_cap(place):
    place.open(create=True)
    vault = place.open(max_file_bytes=4)
    vault.vault_upload_file("x.json", "éé")
    with pytest.raises(VaultError, match=r"x\.json takes 6 bytes; .* may take 4") as caught:
        vault.vault_upload_file("x.json", "ééé")
    assert (caught.value.status, caught.value.code) == (400, "QUOTA_EXCEEDED")
    assert vault.vault_get_file("x.json")["content"] == "éé"
    with pytest.raises(ValueError, match="max_file_bytes"):
        place.open(max_file_bytes=0)


def test_conditions(place):
    vault = place.open(create=True)
    vault.vault_upload_file("x.json", "x")
    etag = vault.vault_get_file("x.json")["etag"]
    for name in ("x.json", "y.json"):
        with pytest.raises(VaultError) as caught:
            vault.vault_upload_file_if(name, "new", if_match=etag, if_none_match="*")
        assert (caught.value.status, caught.value.code) == (412, "PRECONDITION_FAILED")
    with pytest.raises(ValueError, match="if_none_match"):
        vault.vault_upload_file_if("x.json", "new", if_none_match="abc")
    assert {name: data for name, data in place.files().items() if name != MARKER} == {"x.json": b"x"}
    vault.vault_upload_file_if("x.json", "new")
    assert vault.vault_get_file("x.json")["content"] == "new"


# --- made


def test_what_is_made_says_what_it_is_and_is_no_file_of_the_vault(place):
    vault = place.open(create=True)
    marker = told(place)
    assert (marker["format"], set(marker)) == (place.layout, {"format", "id", "snapshots"})
    assert re.fullmatch(r"[0-9a-f]{32}", marker["id"])
    assert vault.vault_list_files()["items"] == []
    assert vault.vault_status()["file_count"] == 0
    for call in (vault.vault_get_file, vault.vault_delete_file, lambda name: vault.vault_upload_file(name, "x")):
        with pytest.raises(VaultError) as caught:
            call(MARKER)
        assert caught.value.status == 400
    tell(place, note="of a later version")
    assert place.open().exists()


@on_posix
def test_what_is_made_is_its_owners(tmp_path):
    LocalVault(tmp_path / "a" / "b", create=True)
    for path, mode in ((tmp_path / "a", 0o700), (tmp_path / "a" / "b", 0o700), (tmp_path / "a" / "b" / MARKER, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


# --- not made


@pytest.mark.parametrize("what", ["nothing", "an empty directory", "other things"])
def test_where_none_was_made_every_call_says_so_and_makes_none(place, what):
    if what != "nothing" and isinstance(place, Folder):
        place.path.mkdir()
        (place.path / "lost+found").mkdir()
        (place.path / "cmem.d").mkdir()
    if what == "other things":
        place.put("notes.md", b"mine")
        place.put(".lock", b"")
    before, vault = place.files(), place.open()
    assert not vault.exists()
    for call in (*every_call(vault), *every_verb(ColonyMemory(backend=vault))):
        with pytest.raises(VaultMissing, match=r"not mounted|bucket does not exist") as caught:
            call()
        assert caught.value.hint == Hint("init", "create", value=True)
        assert "open_vault(create=True)" in str(caught.value)
    assert place.files() == before
    assert not isinstance(place, Folder) or place.path.exists() is (what != "nothing")


@on_posix
def test_a_link_to_a_disk_that_is_away_is_no_vault(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "vault")
    vault = LocalVault(tmp_path / "link")
    with pytest.raises(VaultMissing):
        vault.vault_list_files()
    with pytest.raises(VaultUnavailable, match="is a link to nothing"):
        LocalVault(vault.path, create=True)
    assert not (tmp_path / "disk").exists()
    LocalVault(tmp_path / "disk" / "vault", create=True).vault_upload_file("x.json", "x")
    assert vault.vault_get_file("x.json")["content"] == "x"


def test_a_disk_that_goes_away_and_comes_back(tmp_path, folder):
    memory = ColonyMemory(backend=folder.open(create=True))
    memory.backup(NOTES)
    folder.path.rename(tmp_path / "away")
    folder.path.mkdir()
    for call in (memory.restore, lambda: memory.backup({"MEMORY.md": "new here"})):
        with pytest.raises(VaultMissing):
            call()
    assert list(folder.path.iterdir()) == []
    folder.path.rmdir()
    (tmp_path / "away").rename(folder.path)
    assert memory.restore() == NOTES


# --- markers that are none


GARBAGE = [b"", b"\x00" * 60, b"{", b"[]", b'{"format": 7, "id": "x"}', b'{"format": "tar"}', b"\xff\xfe", b"x" * 5000]
GARBAGE += [b'{"format": "LAYOUT"}', b'{"format": "LAYOUT", "id": 7}', b"[" * 4000]


@pytest.mark.parametrize("content", GARBAGE)
def test_a_damaged_marker_hides_no_snapshot_and_proves_no_vault(place, content):
    content = content.replace(b"LAYOUT", place.layout.encode())
    place.open(create=True)
    place.put(MARKER, content)
    for call in every_call(place.open()):
        with pytest.raises(VaultUnavailable, match=rf"it is not known whether .*{re.escape(MARKER)}") as caught:
            call()
        assert not isinstance(caught.value, VaultMissing)
    place.remove(MARKER)
    ColonyMemory(backend=place.open(create=True)).backup(NOTES)
    place.put(MARKER, content)
    with pytest.warns(ColonyMemoryWarning, match=r"vault\.json: .*; the snapshots beside it are read without it"):
        assert ColonyMemory(backend=place.open()).restore() == NOTES
    place.open(create=True)  # mends it
    assert ColonyMemory(backend=place.open()).restore() == NOTES


@on_posix
@pytest.mark.parametrize("kind", ["a link", "a named pipe", "a directory"])
@pytest.mark.parametrize("name", [MARKER, ".lock"])
def test_what_is_no_plain_file_is_no_marker_and_no_lock_and_is_not_followed(tmp_path, folder, name, kind):
    memory = ColonyMemory(backend=folder.open(create=True))
    memory.backup(NOTES)
    (tmp_path / "elsewhere").write_bytes((folder.path / name).read_bytes())
    folder.remove(name)
    if kind == "a link":
        (folder.path / name).symlink_to(tmp_path / "elsewhere")
    else:
        {"a named pipe": os.mkfifo, "a directory": os.mkdir}[kind](folder.path / name)
    if name == ".lock":
        vault = folder.open()
        for call in (lambda: vault.vault_upload_file("x.json", "y"), lambda: vault.vault_delete_file("x.json")):
            with pytest.raises(VaultUnavailable, match=rf"\.lock: {kind}, not a plain file"):
                call()
        assert memory.restore() == NOTES
        return
    with pytest.warns(ColonyMemoryWarning, match=f"{kind}, not a plain file"):
        assert memory.restore() == NOTES
    with pytest.raises(VaultUnavailable, match=rf"\.cmem-vault\.json: {kind}, not a plain file"):
        folder.open(create=True)
    for path in folder.path.glob("cmem.*"):
        path.unlink()
    with pytest.raises(VaultUnavailable, match="it is not known whether"):
        memory.restore(default={})


@pytest.mark.parametrize("snapshots", [True, False])
@pytest.mark.parametrize("layout", ["colony-memory/vault/2", "the other's"])
def test_a_vault_of_another_kind_or_a_later_version_is_left_alone(place, snapshots, layout):
    vault = place.open(create=True)
    if snapshots:
        ColonyMemory(backend=vault).backup(NOTES)
    layout = (Bucket if isinstance(place, Folder) else Folder).layout if layout == "the other's" else layout
    place.put(MARKER, json.dumps({"format": layout, "id": [1], "more": "x"}).encode())
    before, vault = place.files(), place.open()
    for call in (*every_call(vault), *every_verb(ColonyMemory(backend=vault)), lambda: place.open(create=True)):
        with pytest.raises(VaultUnavailable, match=f"{layout}, which .* vault of another kind was put there file by"):
            call()
    assert place.files() == before


# --- disks and users that refuse


@with_zstd
@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, QuotaExceeded), (errno.EROFS, VaultDenied), (errno.EIO, VaultUnavailable)]
)
@pytest.mark.parametrize("there", [False, True])
def test_a_marker_that_cannot_be_written_leaves_all_as_it_was(folder, monkeypatch, number, kind, there):
    def refuse(*args):
        raise OSError(number, os.strerror(number))

    folder.path.mkdir()
    if there:
        tell(folder, id="e" * 32)
    before = folder.files()
    with monkeypatch.context() as patch, pytest.raises(kind, match=re.escape(os.strerror(number))) as caught:
        patch.setattr(os, "fsync", refuse)
        folder.open(create=True, format=2)
    assert str(folder.path) in str(caught.value)
    assert folder.files() == before
    assert folder.open().exists() is there
    assert folder.open(create=True).snapshot_format == (1 if there else 2)


@on_posix
def test_a_vault_that_can_only_be_read_is_read_and_is_one_already(folder, monkeypatch):
    ColonyMemory(backend=folder.open(create=True)).backup(NOTES)
    real = os.open

    def read_only(path, flags, *args, **kwargs):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", read_only)
    memory = ColonyMemory(backend=folder.open(create=True))
    assert memory.restore() == NOTES
    with pytest.raises(VaultDenied, match="Read-only"):
        memory.backup(MORE)


MAKER = """
import sys
from colony_memory import open_vault

sys.stdin.readline()
vault = open_vault(sys.argv[1], create=True)
vault.vault_upload_file(f"cmem.{sys.argv[2]}.latest.json", "x")
print(open(f"{sys.argv[1]}/.cmem-vault.json").read(), end="")
"""


def test_of_several_processes_that_make_one_vault_one_makes_it(tmp_path):
    folder = Folder(tmp_path / "a" / "vault")
    words, pipe = [sys.executable, "-c", MAKER, str(folder.path)], subprocess.PIPE
    makers = [subprocess.Popen([*words, f"m{number}"], stdin=pipe, stdout=pipe, text=True) for number in range(4)]
    for maker in makers:
        maker.stdin.write("go\n")
        maker.stdin.flush()
    markers = [maker.communicate(timeout=60)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0] * 4
    assert [json.loads(marker) for marker in markers] == [told(folder)] * 4
    assert set(folder.files()) == {MARKER, *(f"cmem.m{number}.latest.json" for number in range(4))}


# --- root


@as_root
def test_what_root_writes_belongs_to_the_vaults_owner(tmp_path, folder):
    folder.open(create=True, format=1)
    for path in (folder.path, *folder.path.iterdir()):
        os.chown(path, 1234, 1235)
    (folder.path / ".lock").unlink()
    memory = ColonyMemory(backend=folder.open())
    memory.backup(NOTES)
    memory.backup(MORE, prune_keep=1)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in folder.path.iterdir()} == {(1234, 1235)}
    os.chown(tmp_path, 1234, 1235)
    LocalVault(tmp_path / "a" / "vault", create=True)
    assert {path.stat().st_uid for path in tmp_path.rglob("*")} == {1234}


# --- in which format snapshots are written where nobody says one


@with_zstd
def test_a_new_vault_is_written_in_format_2(place):
    assert place.open(create=True).snapshot_format == 2
    assert told(place)["snapshots"] == TWO
    assert written(place.open()) == TWO
    assert written(place.open(), MORE, format=1) == ONE
    assert ColonyMemory(backend=place.open()).restore() == MORE


@pytest.mark.parametrize(
    "says", [{}, {"snapshots": ONE}, {"snapshots": "colony-memory/3"}, {"snapshots": 2}, {"snapshots": [TWO]}]
)
def test_whatever_else_a_marker_says_is_format_1(place, says):
    tell(place, **says)
    before = place.files()[MARKER]
    assert written(place.open()) == ONE
    assert place.open(create=True).snapshot_format == 1
    assert place.files()[MARKER] == before


@with_zstd
def test_what_held_snapshots_before_it_had_a_marker_stays_what_it_was(place):
    written(place.open(create=True), format=1)
    place.remove(MARKER)
    assert place.open().exists()
    assert written(place.open(), MORE) == ONE
    assert place.open(create=True).snapshot_format == 1
    assert told(place)["snapshots"] == ONE


@with_zstd
def test_a_vault_that_is_there_is_changed_at_its_user_s_word_alone(place):
    tell(place, id="f" * 32, more="x")
    vault = place.open()
    assert written(vault) == ONE
    place.open(create=True, format=2)
    assert told(place) == {"format": place.layout, "id": "f" * 32, "more": "x", "snapshots": TWO}
    # Whoever has a directory open writes so from the next call on.
    assert written(vault if isinstance(place, Folder) else place.open(), MORE) == TWO
    place.open(create=True, format=1)
    assert written(place.open()) == ONE
    assert ColonyMemory(backend=place.open()).verify()
    tell(place, more="x" * (4025 - len(place.layout)))
    with pytest.raises(ValueError, match="too long to tell a format"):
        place.open(create=True, format=2)
    assert place.open().exists()


@pytest.mark.parametrize("url", ["colony:", "memory:", "export:a.json"])
def test_not_every_vault_keeps_one(url, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_x")
    with pytest.raises(ValueError, match="keeps no format"):
        open_vault(url, create=True, format=1)


@pytest.mark.parametrize("wrong", [0, 3, True, "2", 1.5])
def test_what_is_no_format(place, wrong):
    for call in (
        lambda: place.open(create=True, format=wrong),
        lambda: ColonyMemory(backend=FakeVault(), format=wrong),
    ):
        with pytest.raises(ValueError, match="format must be 1 or 2"):
            call()
    assert place.files() == {}
    with pytest.raises(ValueError, match="being made"):
        place.open(format=1)


@with_zstd
def test_where_zstd_is_missing_a_backup_is_made_all_the_same(tmp_path, folder):
    vault = folder.open(create=True)
    assert written(vault) == TWO
    with lose_zstd():
        # What nobody here can read is saved in a way that all can, changed or not.
        for documents in (NOTES, MORE):
            with pytest.warns(ColonyMemoryWarning, match=f"saving in format 1: .*{re.escape(WANTED)}"):
                assert written(vault, documents) == ONE
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
