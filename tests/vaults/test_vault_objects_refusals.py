"""What an object store says no with, and what is said of it: never that there is nothing."""

import os
import threading

import pytest

pytest.importorskip("obstore")

import object_server
from object_server import SECRET, ObjectServer, error
from obstore.store import MemoryStore
from test_vault_marked import every_call

from colony_memory import ColonyMemory
from colony_memory.exceptions import (
    ColonyMemoryError,
    ColonyMemoryWarning,
    QuotaExceeded,
    RateLimited,
    SnapshotCorrupt,
    VaultDenied,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.vaults.objects import ObjectVault

running, server, vault = object_server.running, object_server.server, object_server.vault
NOTES = {"MEMORY.md": "two years of notes"}
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
LATEST = "cmem.default.latest.json"


@pytest.mark.parametrize(
    ("answer", "kind", "status"),
    [
        (error(401, "Unauthorized"), VaultDenied, 401),
        (error(403, "AccessDenied"), VaultDenied, 403),
        (error(403, "InvalidAccessKeyId"), VaultDenied, 403),
        (error(400, "ExpiredToken"), VaultDenied, 401),
        (error(400, "InvalidRequest"), VaultError, 400),
        (error(429, "TooManyRequests"), RateLimited, 429),
        (error(503, "SlowDown"), RateLimited, 429),
        (error(500, "InternalError"), VaultUnavailable, 500),
        (error(503), VaultUnavailable, 503),
        (error(507, "StorageFull"), VaultError, 507),
        (error(301, "PermanentRedirect"), VaultUnavailable, None),
    ],
)
def test_no_failure_is_absence(server, vault, answer, kind, status):
    """On a vault in use, and on one that is only being opened: no verb takes it for a first start."""
    vault.vault_upload_file(LATEST, "x")
    server.fault = lambda verb, key: answer
    for opened in (vault, ObjectVault(server.store())):
        *calls, delete = every_call(opened)
        for call in (*calls, opened._look_again if opened is vault else opened.require):
            with pytest.raises(ColonyMemoryError) as caught:
                call()
            assert type(caught.value) is kind
            assert getattr(caught.value, "status", None) == status
            assert SECRET not in str(caught.value)
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__
        for call in (delete, opened.exists) if opened is not vault else (delete,):
            with pytest.raises(ColonyMemoryError) as caught:
                call()
            # An answer to HEAD has no body, and so no code.
            assert getattr(caught.value, "status", None) not in {404, 412}
        for verb in (lambda memory: memory.restore(default={}), lambda memory: memory.backup(NOTES)):
            with pytest.raises(QuotaExceeded if status == 507 else kind):
                verb(ColonyMemory(backend=opened))
    with pytest.raises(kind):
        ObjectVault(server.store(), create=True)
    server.fault = lambda verb, key: None
    assert vault.vault_get_file(LATEST)["content"] == "x"


def test_no_connection_and_no_answer(server, vault, monkeypatch):
    vault.vault_upload_file(LATEST, "x")
    with ObjectServer() as gone:
        nowhere = gone.url
    hung = []
    server.fault = lambda verb, key: hung.append(verb) or (stop.wait(5) and None)
    stop = threading.Event()
    try:
        for store, word in (
            (server.store(endpoint=nowhere), "no connection"),
            (server.store(timeout="500ms"), "no answer in time"),
        ):
            with pytest.raises(VaultUnavailable, match=word) as caught:
                ColonyMemory(backend=ObjectVault(store)).restore(default={})
            assert type(caught.value) is VaultUnavailable
            assert "127.0.0.1" not in str(caught.value)
    finally:
        stop.set()
    assert hung


def test_a_bucket_that_went_away_holds_nothing_and_proves_nothing(server, vault):
    vault.vault_upload_file(LATEST, "x")
    server.fault = lambda verb, key: error(404, "NoSuchBucket")
    for call in every_call(vault):
        with pytest.raises(ColonyMemoryError) as caught:
            call()
        assert isinstance(caught.value, VaultMissing) or caught.value.status == 412
    with pytest.raises(VaultMissing):
        ColonyMemory(backend=vault).restore(default={})
    with pytest.raises(VaultMissing):
        ColonyMemory(backend=vault).backup(NOTES)
    with pytest.raises(VaultMissing, match="make that first"):
        ObjectVault(server.store(), create=True)


def test_whoever_answers_in_the_stores_place_proves_nothing(server, vault):
    """Obstore follows a redirect of a read, such as that of a portal; there no marker is, and so no absence."""
    vault.vault_upload_file(LATEST, "x")
    with ObjectServer() as elsewhere:
        away = {"Location": f"{elsewhere.url}/another/x"}
        for page in (error(404), (200, b"<html>log in</html>", {"ETag": '"x"', "Last-Modified": DATE})):
            elsewhere.fault = lambda verb, key, page=page: page
            server.fault = lambda verb, key: (302, b"", away)
            for opened in (vault, ObjectVault(server.store())):
                for verb in (lambda memory: memory.restore(default={}), lambda memory: memory.backup(NOTES)):
                    with pytest.raises((VaultUnavailable, SnapshotCorrupt)):
                        verb(ColonyMemory(backend=opened))
        assert elsewhere.objects == {}
    server.fault = lambda verb, key: None
    assert vault.vault_get_file(LATEST)["content"] == "x"


def test_a_place_that_takes_no_upload_is_unavailable(server, vault):
    server.fault = lambda verb, key: error(404, "NoSuchUpload") if verb == "PUT" else None
    with pytest.raises(VaultUnavailable, match="does not find the place") as caught:
        vault.vault_upload_file(LATEST, "x")
    assert not isinstance(caught.value, VaultMissing)


def test_a_torn_object_is_no_content(server, vault):
    vault.vault_upload_file(LATEST, "x")

    def cut(verb, key):
        if verb != "GET" or not key.endswith("latest.json"):
            return None
        facts = {"Content-Length": "9", "ETag": '"x"', "Last-Modified": DATE}
        return 200, b"x", {**facts, "Connection": "close"}

    server.fault = cut
    with pytest.raises(VaultUnavailable):
        vault.vault_get_file(LATEST)


class Untagged(MemoryStore):
    """A store that gives no tags, and reads less than it says."""

    short = False

    def put(self, path, file, **options):
        super().put(path, file, **options)
        return {"e_tag": None, "version": None}

    def get(self, path, **options):
        found = object_server.Found(super().get(path, **options))
        found.meta["e_tag"] = found.meta["version"] = None
        if self.short and path.endswith("latest.json"):
            found.meta["size"] += 1
        return found


def test_without_a_tag_an_upload_is_read_back(monkeypatch):
    store = Untagged()
    with pytest.raises(VaultError, match="has no conditional writes, so two writers") as caught:
        ObjectVault(store, create=True)
    assert caught.value.code == "NOT_SUPPORTED"
    assert store.list().collect() == []
    with pytest.warns(ColonyMemoryWarning, match="let one program at a time"):
        vault = ObjectVault(store, create=True, conditional=False)
    assert vault.vault_upload_file(LATEST, "x") == {"filename": LATEST}
    assert vault.vault_get_file(LATEST)["etag"] is None
    ColonyMemory(backend=vault).backup(NOTES)
    assert ColonyMemory(backend=vault).restore() == NOTES
    monkeypatch.setattr(Untagged, "short", True)
    with pytest.raises(VaultUnavailable, match="bytes came of"):
        vault.vault_get_file(LATEST)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_in_a_fork_nothing_waits_for_ever(vault):
    """Obstore's threads stay behind. A vault that is opened there anew would wait for them just so."""
    from forks import fork

    vault.vault_list_files()
    child = fork()
    if not child:
        code = 1
        try:
            ObjectVault(MemoryStore()).vault_list_files()
        except VaultUnavailable:
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
