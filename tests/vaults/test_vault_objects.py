"""A vault in an object store: its keys and listings, what the verbs ask for of it, and how it is made and opened."""

import json
import sys

import pytest
from faces import with_zstd

pytest.importorskip("obstore")

import object_server
from object_server import BUCKET, error
from obstore.store import MemoryStore

from colony_memory import ColonyMemory, open_vault
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    PruneIncomplete,
    VaultError,
    VaultUnavailable,
)
from colony_memory.vaults import ConditionalUpload
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


# --- made once, and opened by its URL


@pytest.mark.parametrize("conditions", ["ignored", "refused"])
def test_a_store_that_does_not_write_on_condition_is_found_out(server, conditions, monkeypatch):
    server.conditions = conditions
    with pytest.raises(VaultError, match="AWS_CONDITIONAL_PUT=disabled") as caught:
        ObjectVault(server.store(), create=True)
    assert (caught.value.status, caught.value.code) == (501, "NOT_SUPPORTED")
    assert server.objects == {}
    for name, value in {**server.environment(), "AWS_CONDITIONAL_PUT": "disabled"}.items():
        monkeypatch.setenv(name, value)
    with pytest.warns(ColonyMemoryWarning, match="let one program at a time save there"):
        vault = open_vault(f"s3://{BUCKET}/agents/a", create=True)
    assert not isinstance(vault, ConditionalUpload)
    ColonyMemory(backend=vault).backup(NOTES)
    assert ColonyMemory(backend=open_vault(f"s3://{BUCKET}/agents/a")).restore() == NOTES


def test_conditions_that_a_store_only_half_keeps_are_found_out(server):
    """One that looks whether something is there, and does not look at what."""
    server.conditions = "ignored"
    server.fault = lambda verb, key: error(412) if verb == "PUT" and server.calls["PUT"] == 2 else None
    with pytest.raises(VaultError, match="has no conditional writes"):
        ObjectVault(server.store(), create=True)
    assert server.objects == {}


def test_a_store_that_deletes_one_by_one_is_a_vault_like_any_other(server):
    server.bulk = False
    vault = ObjectVault(server.store(), create=True)
    assert isinstance(vault, ConditionalUpload)
    assert list(server.objects) == [MARKER]
    memory = ColonyMemory(backend=vault)
    memory.backup(NOTES)
    memory.delete_snapshot(label="default", snapshot_id=memory.latest().snapshot_id)
    assert memory.list_snapshots() == []


@pytest.mark.parametrize("status", [501, 500])
def test_a_store_that_does_not_delete_is_called_that(server, status):
    server.fault = lambda verb, key: error(status) if verb == "DELETE" else None
    with pytest.raises(VaultError) as caught:
        ObjectVault(server.store(), create=True)
    assert ("has to be able to delete its files" in str(caught.value)) is (status == 501)
    assert "on condition" not in str(caught.value)
    assert MARKER not in server.objects


def test_what_a_probe_that_was_cut_short_left_is_removed(server):
    server.fault = lambda verb, key: error(500) if verb == "GET" and ".cmem-probe" in key else None
    with pytest.raises(VaultUnavailable):
        ObjectVault(server.store(), create=True)
    assert server.objects == {}


def test_it_is_made_once(server):
    ObjectVault(server.store(), create=True)
    assert server.calls == {"GET": 2, "PUT": 5, "DELETE": 1, "LIST": 1}
    before = dict(server.objects)
    assert set(json.loads(before[MARKER])) == {"format", "id", "snapshots"}
    server.calls.clear()
    ObjectVault(server.store(), create=True)
    assert server.calls == {"GET": 1}
    assert server.objects == before


@with_zstd
@pytest.mark.parametrize("applied", [False, True])
def test_a_change_that_gets_no_good_answer_is_none_or_whole(server, applied):
    ObjectVault(server.store(), create=True, format=1)
    before, answer = server.objects[MARKER], error(403)
    server.fault = lambda verb, key: (
        (("applied", answer) if applied else answer) if verb == "PUT" and key.endswith(MARKER) else None
    )
    with pytest.raises(VaultError):
        ObjectVault(server.store(), create=True, format=2)
    server.fault = lambda verb, key: None
    assert (server.objects[MARKER] != before) is applied
    assert ObjectVault(server.store(), create=True).snapshot_format == (2 if applied else 1)


def test_what_does_not_write_on_condition_is_written_in_format_1(server):
    with pytest.raises(ValueError, match="with conditional writes, and this one has none"):
        ObjectVault(server.store(), create=True, conditional=False, format=2)
    assert not server.objects
    with pytest.warns(ColonyMemoryWarning, match="has no conditional writes"):
        vault = ObjectVault(server.store(), create=True, conditional=False)
    assert vault.snapshot_format == 1
    # Nor where the marker says otherwise.
    server.objects[MARKER] = server.objects[MARKER].replace(b"memory/1", b"memory/2")
    assert ColonyMemory(backend=ObjectVault(server.store(), conditional=False)).backup(NOTES).format.endswith("/1")
    with pytest.raises(ValueError, match="being made"):
        ObjectVault(server.store(), format=1)


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3://bucket?region=secret",
        "s3://key:secret@bucket/prefix",
        "s3://bucket:443/x",
        "s3://$BUCKET/secret",
        "s3://bucket/$HOME/secret",
        "s3://bucket/a%20secret",
        "s3://bucket/../secret",
        "s3://bucket//secret",
        "s3://bucket/secrét",
        "s3://bucket/" + "secret/" * 80,
    ],
)
def test_a_url_that_is_more_or_less_than_a_place_is_refused(url):
    for create in (False, True):
        with pytest.raises(ValueError, match=r"takes .*bucket/prefix of letters") as caught:
            open_vault(url, create=create)
        assert "secret" not in str(caught.value)


def test_urls_of_each_kind(server, monkeypatch):
    for name, value in {
        **server.environment(),
        "AZURE_STORAGE_ACCOUNT_NAME": "me",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
        "GOOGLE_SKIP_SIGNATURE": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for url in ("s3://bucket/agents/a", "gs://bucket", "az://container/x=1"):
        vault = open_vault(url)
        assert repr(vault) == f"ObjectVault('{url}')"
        assert vault.url == url
    assert open_vault("S3://bucket/agents/a/").url == "s3://bucket/agents/a"
    ColonyMemory(backend=open_vault("s3://bucket/agents/a", create=True)).backup(NOTES)
    assert ColonyMemory(backend=open_vault("s3://bucket/agents/a")).restore() == NOTES
    assert {key.partition("/")[0] for key in server.objects} == {"agents"}


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("s3://bucket", {"AWS_TIMEOUT": "the-secret"}),
        ("az://container", {"AZURE_STORAGE_ACCOUNT_NAME": "me", "AZURE_STORAGE_ACCOUNT_KEY": "the-secret!"}),
        ("gs://bucket", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"the-secret": 1}'}),
    ],
)
def test_settings_that_are_wrong_are_told_of_without_them(monkeypatch, url, settings):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ColonyMemoryError, match=r"cannot be opened with the settings of the environment: .") as caught:
        open_vault(url)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_store_that_has_no_address_is_named_by_its_class():
    assert repr(ObjectVault(MemoryStore())) == "ObjectVault('MemoryStore')"


def test_without_obstore_it_is_said_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ColonyMemoryError, match=r"pip install 'colony-memory\[objects\]'"):
        open_vault("s3://bucket")
