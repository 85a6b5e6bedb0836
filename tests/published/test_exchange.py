"""What either of the two packages writes, the other restores, verifies, lists and prunes."""

import inspect
import json
import warnings
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest

from colony_memory import ColonyMemory, ColonyMemoryWarning, UntrustedSnapshot, snapshot
from published.peer_client import PeerError
from published.strict_vault import StrictVault

pytest.importorskip("cryptography")
pytestmark = pytest.mark.network

SEED = bytes(range(32))
DID_KEY = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
SMALL_PART = 64
SHARED_FIELDS = [
    "snapshot_id",
    "label",
    "created_at",
    "doc_names",
    "part_count",
    "byte_size",
    "plaintext_sha256",
    "signed",
    "issuer",
]
DOCUMENTS = {
    "MEMORY.md": "# Ich bin Ada\nline 2\r\nline 3\n" + "".join(f"fact {n}: {n * n}\n" for n in range(200)),
    "日記/十一月.md": "今日は晴れ。🌤 e\u0301 is not é\n",
    "e\u0301.md": "decomposed name",
    "é.md": "composed name",
    "заметки.txt": "ёлка\u2028линия\x00NUL \ufeffBOM",
    "empty.json": "",
}

both_signatures = pytest.mark.parametrize("seed", [None, SEED], ids=["unsigned", "signed"])
both_sizes = pytest.mark.parametrize("part_chars", [None, SMALL_PART], ids=["one-part", "many-parts"])


@contextmanager
def warnings_allowed():
    """A client may warn of what an older one left out; other warnings stay errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        yield


def our_client(files, seed=None):
    """Our client over these files; with a seed, one that signs and lives with an older client beside it."""
    vault = StrictVault(files)
    options = {}
    if seed is not None:
        from colony_memory import Ed25519Signer

        options["signer"] = Ed25519Signer(seed)
        if "accept_legacy_pointer" in inspect.signature(ColonyMemory.__init__).parameters:
            options["accept_legacy_pointer"] = True
    return ColonyMemory(backend=vault, **options), vault


def published_fields(info):
    return {name: getattr(info, name) for name in SHARED_FIELDS}


def with_part_chars(monkeypatch, part_chars):
    if part_chars is not None:
        monkeypatch.setattr(snapshot, "PART_CHARS", part_chars)


def names_of(files, snapshot_id):
    return {name for name in files if snapshot_id in name}


def test_peer_is_the_published_release(peer):
    import colony_memory

    hello = peer.hello()
    assert hello["version"] == "0.1.1"
    assert hello["module"] != colony_memory.__file__
    assert ".cache" in hello["module"]


@both_signatures
@both_sizes
def test_ours_reads_theirs(peer, seed, part_chars):
    written = peer.call("backup", {}, documents=DOCUMENTS, label="home", signer_seed=seed, part_chars=part_chars)
    ours, vault = our_client(written.files)
    assert ours.restore(label="home") == DOCUMENTS
    assert ours.restore(label="home", snapshot_id=written.result["snapshot_id"]) == DOCUMENTS
    [listed] = ours.list_snapshots(label="home")
    assert published_fields(listed) == written.result
    assert published_fields(ours.latest(label="home")) == written.result
    report = ours.verify(label="home")
    assert report, report
    assert [check.signature for check in report.snapshots] == ["ok" if seed else "missing"]
    assert written.result["issuer"] == (DID_KEY if seed else None)
    assert (written.result["part_count"] > 10) is (part_chars is not None)
    assert vault.files == written.files


@both_signatures
@both_sizes
def test_theirs_reads_ours(peer, seed, part_chars, monkeypatch):
    with_part_chars(monkeypatch, part_chars)
    ours, vault = our_client({}, seed)
    ours.backup({"MEMORY.md": "first"}, label="home")
    info = ours.backup(DOCUMENTS, label="home")
    assert peer.call("restore", vault.files, label="home").result == DOCUMENTS
    by_id = peer.call("restore", vault.files, label="home", snapshot_id=info.snapshot_id)
    assert by_id.result == DOCUMENTS
    listed = peer.call("list", vault.files, label="home").result
    assert [entry["snapshot_id"] for entry in listed] == [s.snapshot_id for s in ours.list_snapshots()]
    assert listed[0] == published_fields(info)
    assert peer.call("latest", vault.files, label="home").result == published_fields(info)
    assert info.issuer == (DID_KEY if seed else None)
    assert (info.part_count > 10) is (part_chars is not None)


@both_signatures
def test_what_ours_adds_does_not_disturb_theirs(peer, seed, monkeypatch):
    """Our files have every published field, of the same type, and more; theirs reads them all the same."""
    theirs = peer.call("backup", {}, documents={"a": "1"}, label="home", signer_seed=seed).files
    ours, vault = our_client({}, seed)
    first = ours.backup({"a": "1"}, label="home")
    second = ours.backup({"a": "2"}, label="home", note="before the move", incomplete=["b: a pipe"], tags=["release"])

    def fields(files, suffix):
        [content] = [text for name, text in files.items() if name.endswith(suffix)]
        return {key: type(value) for key, value in json.loads(content).items()}

    newest = {name: vault.files[name] for name in names_of(vault.files, second.snapshot_id)}
    for suffix in (".manifest.json", ".p0.json"):
        expected = fields(theirs, suffix)
        assert {key: fields(newest, suffix)[key] for key in expected} == expected
    pointer = fields(vault.files, "latest.json")
    assert {key: pointer[key] for key in fields(theirs, "latest.json")} == fields(theirs, "latest.json")
    manifest = json.loads(vault.files[snapshot.manifest_filename("home", second.snapshot_id)])
    assert manifest["previous"]["snapshot_id"] == first.snapshot_id
    assert len(pointer) > len(fields(theirs, "latest.json"))
    assert peer.call("restore", vault.files, label="home").result == {"a": "2"}
    older = peer.call("restore", vault.files, label="home", snapshot_id=first.snapshot_id)
    assert older.result == {"a": "1"}


def test_theirs_reads_a_lone_surrogate_that_only_ours_can_write(peer):
    documents = {"log.txt": "cut in half: \ud83d"}
    with pytest.raises(PeerError, match="UnicodeEncodeError"):
        peer.call("backup", {}, documents=documents)
    ours, vault = our_client({})
    ours.backup(documents)
    assert peer.call("restore", vault.files).result == documents


@both_signatures
@both_sizes
def test_ours_prunes_theirs(peer, seed, part_chars):
    files = {}
    ids = []
    for number in range(4):
        documents = {**DOCUMENTS, "n": str(number)}
        reply = peer.call("backup", files, documents=documents, label="home", signer_seed=seed, part_chars=part_chars)
        files = reply.files
        ids.append(reply.result["snapshot_id"])
    ours, vault = our_client(files)
    assert ours.prune(label="home", keep=2) == 2
    for removed in ids[:2]:
        assert names_of(vault.files, removed) == set()
    left = peer.call("list", vault.files, label="home").result
    assert [entry["snapshot_id"] for entry in left] == [ids[3], ids[2]]
    assert peer.call("restore", vault.files, label="home").result["n"] == "3"
    assert peer.call("restore", vault.files, label="home", snapshot_id=ids[2]).result["n"] == "2"


@both_signatures
@both_sizes
def test_theirs_prunes_ours(peer, seed, part_chars, monkeypatch):
    with_part_chars(monkeypatch, part_chars)
    ours, vault = our_client({}, seed)
    ids = [ours.backup({**DOCUMENTS, "n": str(n)}, label="home").snapshot_id for n in range(4)]
    reply = peer.call("prune", vault.files, label="home", keep=2)
    assert reply.result == 2
    for removed in ids[:2]:
        assert names_of(reply.files, removed) == set()
    after, vault = our_client(reply.files, seed)
    with warnings_allowed():
        assert [info.snapshot_id for info in after.list_snapshots(label="home")] == [ids[3], ids[2]]
        assert after.restore(label="home")["n"] == "3"
        assert after.restore(label="home", snapshot_id=ids[2])["n"] == "2"
        assert after.backup({**DOCUMENTS, "n": "4"}, label="home").snapshot_id > ids[3]
    assert peer.call("restore", vault.files, label="home").result["n"] == "4"


@both_signatures
def test_deleting_what_the_other_wrote(peer, seed):
    first = peer.call("backup", {}, documents={"n": "1"}, signer_seed=seed)
    second = peer.call("backup", first.files, documents={"n": "2"}, signer_seed=seed)
    ours, vault = our_client(second.files, seed)
    with warnings_allowed():
        ours.delete_snapshot(label="default", snapshot_id=second.result["snapshot_id"])
    assert names_of(vault.files, second.result["snapshot_id"]) == set()
    assert peer.call("restore", vault.files).result == {"n": "1"}

    with warnings_allowed():
        third = ours.backup({"n": "3"})
    reply = peer.call("delete", vault.files, label="default", snapshot_id=first.result["snapshot_id"])
    after, _ = our_client(reply.files, seed)
    with warnings_allowed():
        assert [info.snapshot_id for info in after.list_snapshots()] == [third.snapshot_id]
        assert after.restore() == {"n": "3"}


@both_signatures
def test_labels_stay_apart(peer, seed):
    files = {}
    expected = {}
    for round_number in range(2):
        for label in ("default", "home", "home-2", "work_log"):
            for writer in ("theirs", "ours"):
                documents = {"MEMORY.md": f"{label} {writer} {round_number}"}
                if writer == "theirs":
                    reply = peer.call("backup", files, documents=documents, label=label, signer_seed=seed)
                    files = reply.files
                else:
                    ours, vault = our_client(files, seed)
                    with warnings_allowed():
                        ours.backup(documents, label=label)
                    files = vault.files
                expected[label] = documents
    ours, vault = our_client(files, seed)
    with warnings_allowed():
        assert ours.prune(label="home", keep=1) == 3
    files = peer.call("prune", vault.files, label="work_log", keep=1).files
    ours, _ = our_client(files, seed)
    for label, documents in expected.items():
        count = 1 if label in ("home", "work_log") else 4
        assert len(peer.call("list", files, label=label).result) == count
        assert peer.call("restore", files, label=label).result == documents
        with warnings_allowed():
            assert len(ours.list_snapshots(label=label)) == count
            assert ours.restore(label=label) == documents
    with warnings_allowed():
        assert len(ours.list_snapshots()) == len(peer.call("list", files).result) == 10


def test_label_that_both_fold(peer):
    files = peer.call("backup", {}, documents={"n": "1"}, label=" Home ").files
    ours, vault = our_client(files)
    assert ours.restore(label=" HOME") == {"n": "1"}
    ours.backup({"n": "2"}, label="hOME ")
    assert peer.call("restore", vault.files, label="home").result == {"n": "2"}


@both_signatures
def test_ten_rounds_of_alternating_writers(peer, seed):
    files = {}
    written = []
    for number in range(10):
        documents = {**DOCUMENTS, "n": str(number)}
        if number % 2:
            ours, vault = our_client(files, seed)
            with warnings_allowed():
                info = ours.backup(documents, label="home", prune_keep=3)
            files, snapshot_id = vault.files, info.snapshot_id
        else:
            reply = peer.call("backup", files, documents=documents, label="home", prune_keep=3, signer_seed=seed)
            files, snapshot_id = reply.files, reply.result["snapshot_id"]
        written.append((snapshot_id, documents))
        kept = dict(written[-3:])
        assert list(kept) == sorted(kept)
        ours, _ = our_client(files, seed)
        with warnings_allowed():
            assert ours.restore(label="home") == documents
            assert [info.snapshot_id for info in ours.list_snapshots()] == sorted(kept, reverse=True)
        assert peer.call("restore", files, label="home").result == documents
        listed = peer.call("list", files, label="home").result
        assert [entry["snapshot_id"] for entry in listed] == sorted(kept, reverse=True)
        for each, content in kept.items():
            assert peer.call("restore", files, label="home", snapshot_id=each).result == content
            with warnings_allowed():
                assert ours.restore(label="home", snapshot_id=each) == content


def test_a_signature_covers_what_either_wrote(peer):
    def alter(files):
        [name] = [name for name in files if name.endswith(".manifest.json")]
        manifest = json.loads(files[name])
        manifest["created_at"] = "2020-01-01T00:00:00Z"
        return {**files, name: json.dumps(manifest)}

    theirs = peer.call("backup", {}, documents=DOCUMENTS, signer_seed=SEED).files
    with pytest.raises(UntrustedSnapshot):
        our_client(alter(theirs))[0].restore()
    ours, vault = our_client({}, SEED)
    ours.backup(DOCUMENTS)
    with pytest.raises(PeerError, match="signature does not verify"):
        peer.call("restore", alter(vault.files))


def test_peer_lives_at_the_time_it_is_told(peer):
    moment = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    reply = peer.call("backup", {}, documents={"n": "1"}, now=moment)
    assert reply.result["created_at"] == "2030-01-02T03:04:05Z"
    assert reply.result["snapshot_id"].startswith("20300102T030405678901Z-")
    again = peer.call("backup", {}, documents={"n": "1"})
    assert not again.result["snapshot_id"].startswith("2030")


@pytest.mark.parametrize("applied", [False, True])
def test_peer_loses_its_vault_when_told(peer, applied):
    """A backup that dies in its manifest upload, the third call; ours finds nothing or reads it back."""
    with pytest.raises(PeerError, match="does not answer") as died:
        peer.call("backup", {}, documents={"n": "1"}, stop_at=2, applied=applied)
    assert died.value.kind == "ConnectionError"
    assert [call[0] for call in died.value.calls] == ["status", "put", "put"]
    assert len(died.value.files) == 1 + applied
    ours, _ = our_client(died.value.files)
    with warnings_allowed():
        assert len(ours.list_snapshots()) == applied


def test_theirs_lists_and_prunes_beside_chains(peer):
    """It restores none of format 2, says so, and deletes nothing of what its own prune keeps."""
    pytest.importorskip("needs_zstd")
    from colony_memory.testing import FakeVault

    def opened(files):
        vault = FakeVault(operations_per_hour=None)
        vault.files.update(files)
        return ColonyMemory(backend=vault, format=2), vault

    ours, vault = opened({})
    ids = [ours.backup({**DOCUMENTS, "n": str(n)}, label="home").snapshot_id for n in range(3)]
    for each in (None, *ids):
        with pytest.raises(PeerError, match="unsupported snapshot format"):
            peer.call("restore", vault.files, label="home", **({} if each is None else {"snapshot_id": each}))
    listed = peer.call("list", vault.files, label="home").result
    assert [entry["snapshot_id"] for entry in listed] == ids[::-1]
    theirs = peer.call("backup", vault.files, documents={"n": "theirs"}, label="home")
    files = peer.call("prune", theirs.files, label="home", keep=2).files
    assert {name for name in files if ".k" in name} == {name for name in vault.files if ".k" in name}
    assert peer.call("restore", files, label="home").result == {"n": "theirs"}

    after, vault = opened(files)
    with warnings_allowed():
        assert [info.snapshot_id for info in after.list_snapshots()] == [theirs.result["snapshot_id"], ids[2]]
        assert after.restore(label="home", snapshot_id=ids[2])["n"] == "2"
        assert after.restore(label="home") == {"n": "theirs"}
        info = after.backup({**DOCUMENTS, "n": "3"}, label="home", on_conflict="continue")
        assert after.verify(label="home")
    files = peer.call("delete", vault.files, label="home", snapshot_id=ids[2]).files
    after, _ = opened(files)
    with warnings_allowed():
        assert after.restore(label="home", snapshot_id=info.snapshot_id)["n"] == "3"
        assert after.prune(label="home", keep=1) == 1
        assert after.restore(label="home")["n"] == "3"
        assert after.verify(label="home")
