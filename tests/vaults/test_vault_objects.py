"""A vault in an object store: what its keys and listings are, and what the verbs ask for of it."""

import pytest
from faces import with_zstd

pytest.importorskip("obstore")

import object_server
from object_server import error

from colony_memory import ColonyMemory
from colony_memory.exceptions import ColonyMemoryWarning, PruneIncomplete, VaultError, VaultUnavailable
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.objects import ObjectVault

running, server, vault = object_server.running, object_server.server, object_server.vault
NOTES = {"MEMORY.md": "two years of notes"}
LATEST = "cmem.default.latest.json"
MARKER = "agents/a/.cmem-vault.json"


def test_names_lie_in_a_folder_for_each_label(server, vault):
    for name in (LATEST, "cmem.a.b.json", "cmem.json", "é a.json"):
        vault.vault_upload_file(name, "x")
    assert set(server.objects) == {
        MARKER,
        "agents/a/default/cmem.default.latest.json",
        "agents/a/a/cmem.a.b.json",
        "agents/a/cmem.json",
        "agents/a/=C3=A9=20a.json",
    }


def test_a_folder_synced_down_is_a_local_vault(server, vault, tmp_path):
    """What is under a label's folder are the files of a local vault, so that no tool of ours is needed to get there."""
    ColonyMemory(backend=vault).backup(NOTES)
    for key, data in server.objects.items():
        if key != MARKER:
            (tmp_path / key.rpartition("/")[2]).write_bytes(data)
    assert ColonyMemory(backend=LocalVault(tmp_path)).restore() == NOTES


def test_a_listing_of_many_pages_is_whole(server, vault):
    server.page = 7
    names = [f"cmem.default.x.p{number}.json" for number in range(40)]
    for name in names:
        vault.vault_upload_file(name, "x")
    server.calls.clear()
    assert [item["filename"] for item in vault.vault_list_prefix("cmem.default.")["items"]] == sorted(names)
    assert server.calls == {"LIST": 6}


def test_a_listing_that_breaks_off_is_an_error(server, vault):
    server.page = 2
    for number in range(5):
        vault.vault_upload_file(f"cmem.default.x.p{number}.json", "x")
    asked = []
    server.fault = lambda verb, key: (
        error(500) if verb == "LIST" and asked.append(1) is None and len(asked) > 2 else None
    )
    with pytest.raises(VaultUnavailable, match="HTTP 500"):
        vault.vault_list_files()
    assert len(asked) == 3


FOREIGN = [
    "default/cmem.default.latest.json.bak/x",
    "deeper/default/cmem.default.latest.json",
    "other/cmem.default.latest.json",
    "cmem.default.latest.json",
    "default/notes.json",
    "default/cmem.default.=6Catest.json",
    "default/cmem.default.a=2fb.json",
    "default/cmem.default.a=2Fb.json",
    "default/cmem.default.=FF.json",
    "default/cmem.default.é.json",
    "default/cmem.default.a%20b.json",
    "photos/cat.jpg",
    ".hidden",
    "=2Ehidden",
]


@pytest.mark.filterwarnings("ignore:.*in places where none belong")
def test_what_is_foreign_is_neither_listed_nor_touched(server, vault):
    vault.vault_upload_file(LATEST, "x")
    foreign = {f"agents/a/{key}": b"theirs" for key in FOREIGN}
    server.objects.update(foreign)
    assert [item["filename"] for item in vault.vault_list_files()["items"]] == [LATEST]
    assert vault.vault_status()["file_count"] == 1
    memory = ColonyMemory(backend=vault)
    vault.vault_delete_file(LATEST)
    memory.backup(NOTES)
    memory.backup({"a.md": "b"})
    memory.prune(keep=1)
    assert foreign.items() <= server.objects.items()


def test_files_of_snapshots_in_the_wrong_place_are_told_of(server, vault):
    server.objects["agents/a/default/old/cmem.default.latest.json"] = b"x"
    with pytest.warns(ColonyMemoryWarning, match=r"where none belong, 1 of them.*default/old/cmem") as told:
        assert vault.vault_list_prefix("cmem.default.")["items"] == []
    assert len(told) == 1
    assert vault.vault_list_prefix("cmem.other.")["items"] == []


@pytest.mark.parametrize("key", ["agents/a/default//x", "agents/a/default/../x", "agents/a/default/a\x01b"])
def test_a_key_that_is_no_path_makes_no_listing_short(server, vault, key):
    vault.vault_upload_file(LATEST, "x")
    if "\x01" in key:
        key = key.replace("\x01", "&#127;")
        server.fault = lambda verb, _: (
            (200, f"<ListBucketResult><Contents><Key>{key}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00.000Z"
             "</LastModified><ETag>x</ETag></Contents></ListBucketResult>".encode()) if verb == "LIST" else None
        )  # fmt: skip
    else:
        server.objects[key] = b"x"
    for call in (vault.vault_list_files, lambda: vault.vault_list_prefix("cmem.default.")):
        with pytest.raises(VaultUnavailable, match="hides all others"):
            call()


def test_a_huge_object_is_refused_before_it_is_read(server):
    vault = ObjectVault(server.store(), create=True, max_file_bytes=1000)
    server.objects["agents/a/default/cmem.default.latest.json"] = b"x"
    server.fault = lambda verb, key: (
        (200, b"x", {"Content-Length": str(10**12), "ETag": '"x"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"})
        if key.endswith("latest.json") and verb == "GET"
        else None
    )
    with pytest.raises(VaultUnavailable, match="takes 1000000000000 bytes, and 1000 are read at most") as caught:
        vault.vault_get_file(LATEST)
    assert caught.value.code == "UNFIT_FILE"


def test_more_objects_than_anybody_reads_are_refused(server, vault, monkeypatch):
    monkeypatch.setattr("colony_memory.vaults.objects._MOST_OBJECTS", 5)
    for number in range(6):
        vault.vault_upload_file(f"cmem.default.x.p{number}.json", "x")
    with pytest.raises(VaultUnavailable, match="more than 5 objects"):
        vault.vault_list_files()


def test_an_etag_that_is_none(vault):
    for tag in ("", "a\nb", "é"):
        with pytest.raises(VaultError, match="not an etag"):
            vault.vault_upload_file_if(LATEST, "x", if_match=tag)


# --- what the verbs ask for


def test_calls_of_the_verbs(server, vault):
    counts = {}

    def count(what, call):
        server.calls.clear()
        call()
        counts[what] = dict(sorted(server.calls.items()))

    memory = ColonyMemory(backend=ObjectVault(server.store()), format=1)
    count("first", lambda: memory.backup(NOTES))
    count("second", lambda: memory.backup({"a.md": "1"}))
    count("unchanged", lambda: memory.backup({"a.md": "1"}))
    count("restore", lambda: ColonyMemory(backend=ObjectVault(server.store())).restore())
    count("list", memory.list_snapshots)
    count("status", memory.status)
    count("prune", lambda: memory.prune(keep=1))
    assert counts == {
        "first": {"GET": 4, "LIST": 1, "PUT": 3},
        "second": {"GET": 1, "PUT": 3},
        "unchanged": {"GET": 1, "LIST": 1},
        "restore": {"GET": 4},
        "list": {"GET": 1, "LIST": 1},
        "status": {"LIST": 1},
        "prune": {"DELETE": 2, "GET": 3, "HEAD": 2, "LIST": 2, "PUT": 1},
    }


@pytest.mark.parametrize("fault", [None, "bulk", "denied", "half"])
def test_many_files_are_deleted_with_one_request_where_the_store_can(server, vault, fault):
    memory = ColonyMemory(backend=vault, format=1)
    for number in range(6):
        memory.backup({"a.md": str(number)})
    server.bulk = fault != "bulk"
    denied = object_server.error(403, "AccessDenied")
    if fault in ("denied", "half"):
        server.fault = lambda verb, key: denied if verb == "DELETE" and (fault == "denied" or "p0" in key) else None
    server.calls.clear()
    if fault in ("denied", "half"):
        with pytest.raises(PruneIncomplete) as failed:
            memory.prune(keep=1)
        assert failed.value.deleted == (0 if fault == "denied" else 5)
    else:
        assert memory.prune(keep=1) == 5
        # One for the manifests, one for the parts; where the store has none for several, each is another.
        assert server.calls["DELETE"] == (2 if fault is None else 12)
        assert len([key for key in server.objects if "p0" in key or "manifest" in key]) == 2
    assert memory.restore() == {"a.md": "5"}


@with_zstd
def test_calls_of_the_verbs_in_format_2(server, vault):
    """A base is read back; a patch costs one listing; and the packs of a chain are read at once."""
    notes = "".join(f"{n * n} is the square of {n}\n" for n in range(300))
    counts = []
    memory = ColonyMemory(backend=ObjectVault(server.store()))
    for text in (notes, notes + "more\n", notes + "more\n"):
        server.calls.clear()
        memory.backup({"a.md": text})
        counts.append(dict(sorted(server.calls.items())))
    assert counts == [{"GET": 6, "LIST": 1, "PUT": 3}, {"GET": 1, "LIST": 1, "PUT": 3}, {"GET": 1, "LIST": 1}]


def test_no_verb_of_a_label_pays_for_its_neighbours(server, vault):
    memory = ColonyMemory(backend=vault)
    memory.backup(NOTES)
    server.objects.update({f"agents/a/other/cmem.other.x.p{number}.json": b"x" for number in range(30)})
    server.page = 10
    server.calls.clear()
    memory.backup({"a.md": "1"}, prune_keep=1)
    memory.restore()
    memory.latest()
    assert server.calls["LIST"] <= 2  # of everything, one listing alone would ask four times
