"""A vault in an object store is made once, and opened by its URL."""

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
    VaultError,
    VaultUnavailable,
)
from colony_memory.vaults import ConditionalUpload
from colony_memory.vaults.objects import ObjectVault

running, server, vault = object_server.running, object_server.server, object_server.vault
NOTES = {"MEMORY.md": "two years of notes"}
LATEST = "cmem.default.latest.json"
MARKER = "agents/a/.cmem-vault.json"


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
