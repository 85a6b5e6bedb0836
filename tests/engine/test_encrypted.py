"""Encrypted snapshots: who reads them, what they go on from, and what is in the clear."""

import base64
import json
import re
import warnings

import age_keys as keys
import pytest
from age_files import quick_passphrases
from chains import growing
from faces import FACES, PlainVault

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    DecryptionError,
    Passphrase,
    SnapshotCorrupt,
)
from colony_memory._engine.restore import restore
from colony_memory._format.names import manifest_filename, pack_filename
from colony_memory._format.payload import sha256
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2.build import LEFT_OUT
from colony_memory.snapshot import read_manifest
from colony_memory.testing import FakeVault

__all__ = ["quick_passphrases"]

HISTORY = growing(12)
OURS = {"encrypt_to": keys.RECIPIENT, "identities": keys.SECRET}


@pytest.fixture
def vault():
    return FakeVault(operations_per_hour=None)


def client(vault, **options):
    return ColonyMemory(backend=vault, **{**OURS, **options})


def blind(vault, **options):
    """Who encrypts, and cannot read what it wrote."""
    return ColonyMemory(backend=vault, encrypt_to=keys.RECIPIENT, **options)


def manifest_of(vault, info):
    text = vault.files[manifest_filename(info.label, info.snapshot_id)]
    return read_manifest(text, label=info.label, snapshot_id=info.snapshot_id)


@pytest.mark.parametrize("face", sorted(FACES))
def test_every_state_of_a_history(face, monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 4)
    vault = FakeVault(operations_per_hour=None)
    mem = FACES[face](vault, **OURS)
    states = HISTORY[:6]
    infos = [mem.backup(documents, note=f"state {n}") for n, documents in enumerate(states)]
    assert all(info.encrypted and info.format == "colony-memory/2" for info in infos)
    assert [len(manifest_of(vault, info).packs) for info in infos][:4] == [1, 2, 3, 4]
    for info, documents in zip(infos, states, strict=True):
        assert FACES[face](vault, identities=keys.SECRET).restore(snapshot_id=info.snapshot_id) == documents
    assert FACES[face](vault, identities=keys.SECRET).verify()
    again = mem.backup(states[-1])
    assert (again.reused, again.note, again.byte_size) == (True, "state 5", infos[-1].byte_size)


def test_nothing_that_it_says_is_in_the_clear(vault):
    """Every byte that was ever uploaded, decoded wherever it decodes."""
    # Far larger than what is stored of it, whose size changes from run to run and may be any number.
    secrets = {f"name-{n}-of-ada": f"text-{n}-of-ada " * 2000 for n in range(4)}
    mem = client(vault)
    infos = []
    for n in range(4):
        secrets[f"name-{n}-of-ada"] += "and more of ada"
        infos.append(mem.backup(secrets, note="note-of-ada", incomplete=["sock-of-ada: is a socket"], tags=["a-tag"]))
    stored = "".join(vault.files.values())
    decoded = b"".join(base64.b64decode(each) for each in re.findall(r'"data":"([^"]+)', stored))
    catalogue = chains_of_pointer(vault)
    for haystack in (stored.encode(), decoded, catalogue.encode()):
        assert b"of-ada" not in haystack
        for info in infos:
            assert info.plaintext_sha256.removeprefix("sha256:").encode() not in haystack
    told = [json.loads(text) for text in vault.files.values()] + [json.loads(catalogue)]
    sizes = {info.byte_size for info in infos} | {sum(map(len, secrets.values())), len(secrets)}
    assert min(info.byte_size for info in infos) > 100_000 > max(map(len, vault.files.values()))
    assert not {number for number in numbers_in(told) if number > 1000} & sizes
    assert '"doc_count"' not in stored
    # What is in the clear is what a listing without a key tells.
    listed = ColonyMemory(backend=vault).list_snapshots()[0]
    assert (listed.note, listed.byte_size, listed.plaintext_sha256, listed.doc_names) == (None, 0, "", [])
    assert (listed.incomplete, listed.tags, listed.encrypted) == ((LEFT_OUT,), ("a-tag",), True)


def chains_of_pointer(vault):
    from colony_memory._format.payload import unpack

    (page,) = json.loads(vault.files["cmem.default.latest.json"])["catalog"]
    size, _, data = page.split(":")
    return unpack([data], size=int(size)).decode()


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {number for each in value for number in numbers_in(each)}
    return {value} if type(value) is int else set()


def test_what_is_missing_and_noted_is_told_to_who_opens_it(vault):
    client(vault).backup(HISTORY[0], note="a note", incomplete=["a: is a socket", "b: is a socket"])
    restored = client(vault)._run(restore, label="default")
    assert restored.info.note == "a note"
    assert restored.info.incomplete == ("a: is a socket", "b: is a socket")
    assert client(vault).latest().note == "a note"
    assert ColonyMemory(backend=vault).latest().note is None
    assert client(vault).backup(HISTORY[0], incomplete=["a: is a socket", "b: is a socket"]).reused
    assert not client(vault).backup(HISTORY[0], incomplete=["a: is a socket"]).reused


def test_who_cannot_read_writes_bases_and_knows_what_it_wrote_itself(vault):
    mem = blind(vault)
    infos = [mem.backup(documents) for documents in HISTORY[:3]]
    assert [len(manifest_of(vault, info).packs) for info in infos] == [1, 1, 1]
    assert mem.backup(HISTORY[2]).reused
    assert not blind(vault).backup(HISTORY[2]).reused
    assert not mem._session.parents
    with pytest.raises(DecryptionError):
        mem.restore()
    assert client(vault).restore() == HISTORY[2]
    assert len(manifest_of(vault, client(vault).backup(HISTORY[3])).packs) == 2


def test_other_recipients_begin_a_chain_that_they_can_read(vault):
    client(vault).backup(HISTORY[0])
    more = client(vault, encrypt_to=[keys.RECIPIENT, keys.SSH_RECIPIENT + " me@host"])
    same = more.backup(HISTORY[0])
    assert not same.reused
    info = more.backup(HISTORY[1])
    assert manifest_of(vault, info).packs == (same.snapshot_id, info.snapshot_id)
    assert ColonyMemory(backend=vault, identities=keys.SSH_SECRET).restore() == HISTORY[1]
    assert client(vault).backup(HISTORY[1]).reused is False


def test_a_client_that_does_not_encrypt_says_what_it_does(vault):
    client(vault).backup(HISTORY[0])
    with pytest.warns(ColonyMemoryWarning, match="encrypted until now, and this snapshot is not"):
        info = ColonyMemory(backend=vault, identities=keys.SECRET, format=2).backup(HISTORY[1])
    assert manifest_of(vault, info).packs == (info.snapshot_id,)
    assert client(vault).restore() == HISTORY[1]


def test_formats_and_keys_take_turns_in_one_label(vault):
    kinds = [lambda: client(vault), lambda: ColonyMemory(backend=vault), lambda: ColonyMemory(backend=vault, format=2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        ids = [kinds[n % 3]().backup(documents).snapshot_id for n, documents in enumerate(HISTORY[:9])]
    listed = ColonyMemory(backend=vault).list_snapshots()[::-1]
    assert [info.encrypted for info in listed] == [True, False, False] * 3
    assert [len(manifest_of(vault, info).packs) for info in listed] == [1, 0, 1, 2, 0, 2, 3, 0, 3]
    for snapshot_id, documents in zip(ids, HISTORY, strict=False):
        assert client(vault).restore(snapshot_id=snapshot_id) == documents
    assert client(vault).verify()
    assert {change.kind for change in client(vault).history("MEMORY.md")} <= {"added", "changed"}


OLD, NEW = Passphrase("old leaked horse"), Passphrase("new fresh staple")


@pytest.mark.usefixtures("quick_passphrases")
@pytest.mark.parametrize(
    ("before", "after", "identities", "leaked"),
    [
        (OLD, NEW, [OLD, NEW], OLD),
        (OLD, NEW, [NEW, OLD], OLD),
        (OLD, NEW, OLD, OLD),
        ([OLD, keys.RECIPIENT], [NEW, keys.RECIPIENT], [keys.SECRET, OLD], OLD),
        (OLD, keys.RECIPIENT, [OLD, keys.SECRET], OLD),
        (keys.RECIPIENT, NEW, [keys.SECRET, NEW], keys.SECRET),
        ([keys.RECIPIENT, keys.OTHER_RECIPIENT], keys.OTHER_RECIPIENT, [keys.SECRET, keys.OTHER_SECRET], keys.SECRET),
        ([NEW, keys.RECIPIENT], NEW, [keys.SECRET, NEW], keys.SECRET),
    ],
    ids=str,
)
def test_what_was_taken_away_opens_nothing_that_is_saved_from_then_on(vault, before, after, identities, leaked):
    ColonyMemory(backend=vault, encrypt_to=before).backup(HISTORY[0])
    own = ColonyMemory(backend=vault, encrypt_to=after, identities=identities)
    assert own.restore() == HISTORY[0]
    for documents in (HISTORY[0], HISTORY[0], HISTORY[1]):
        info = own.backup(documents)
        with pytest.raises(DecryptionError):
            ColonyMemory(backend=vault, identities=leaked).restore(snapshot_id=info.snapshot_id)
        assert own.restore(snapshot_id=info.snapshot_id) == documents
    # Only the first of these is whole: those who are left go on from what they have saved themselves.
    assert len(manifest_of(vault, info).packs) == 2


@pytest.mark.usefixtures("quick_passphrases")
def test_a_passphrase_for_writing_and_reading(vault):
    words = Passphrase(" correct horse \n")
    for documents in HISTORY[:3]:
        info = ColonyMemory(backend=vault, encrypt_to=words).backup(documents)
    assert len(manifest_of(vault, info).packs) == 3
    assert ColonyMemory(backend=vault, encrypt_to=words).backup(HISTORY[2]).reused
    assert ColonyMemory(backend=vault, identities=[keys.SECRET, words]).restore() == HISTORY[2]
    with pytest.raises(
        DecryptionError, match=r"none of what is given opens it \(identities: 0, passphrases: 1\).*its passphrase"
    ):
        ColonyMemory(backend=vault, identities=Passphrase("wrong")).restore()
    # Who has another passphrase begins anew, and never writes what the first one does not open.
    other = ColonyMemory(backend=vault, encrypt_to=[Passphrase("other"), keys.RECIPIENT]).backup(HISTORY[3])
    assert manifest_of(vault, other).packs == (other.snapshot_id,)
    assert ColonyMemory(backend=vault, identities=keys.SECRET).restore() == HISTORY[3]
    assert ColonyMemory(backend=vault, identities=Passphrase("other")).restore() == HISTORY[3]


@pytest.mark.parametrize(
    ("identities", "why"),
    [
        (None, "no identity is given"),
        (keys.OTHER_SECRET, r"none of what is given opens it \(identities: 1, passphrases: 0\)"),
    ],
)
def test_without_a_key_that_fits(vault, identities, why):
    ColonyMemory(backend=vault).backup(HISTORY[0])
    info = client(vault).backup(HISTORY[1])
    mem = ColonyMemory(backend=vault, identities=identities)
    for ask in (
        lambda: mem.restore(fallback=True),
        lambda: mem.restore(snapshot_id=info.snapshot_id, fallback=True),
        lambda: mem.restore(default={}),
        lambda: mem.diff(info.snapshot_id, HISTORY[0]),
    ):
        with pytest.raises(DecryptionError, match=why) as raised:
            ask()
        assert info.snapshot_id in str(raised.value)
        assert not isinstance(raised.value, ValueError)
        assert raised.value.hint.option == "identities"
    report = mem.verify()
    newest = report.snapshots[0]
    assert not report
    assert report.sealed
    assert (newest.manifest, newest.parts, newest.digest, newest.problem) == ("ok", "ok", "unchecked", None)
    assert re.search(why, newest.closed)
    with pytest.warns(ColonyMemoryWarning, match="is passed over"):
        assert [change.kind for change in mem.history("MEMORY.md")] == ["added"]
    assert mem.latest().snapshot_id == info.snapshot_id
    assert mem.inspect()


def test_what_is_damaged_is_no_want_of_a_key(vault):
    info = client(vault).backup(HISTORY[0])
    name = pack_filename("default", info.snapshot_id, 0)
    whole = vault.files[name]
    for text in (whole.replace('"data":"YWdl', '"data":"YWdm'), whole[:-10], None):
        vault.files[name] = text
        if text is None:
            del vault.files[name]
        for mem in (client(vault), ColonyMemory(backend=vault)):
            with pytest.raises(SnapshotCorrupt):
                mem.restore()
            assert not mem.verify().sealed


def resealed(vault, info, data, **changes):
    """Put other bytes into the pack, and every digest right, as who holds a vault that nobody signs."""
    name, manifest = pack_filename("default", info.snapshot_id, 0), manifest_filename("default", info.snapshot_id)
    text = json.dumps({**json.loads(vault.files[name]), "data": base64.b64encode(data).decode()})
    raw = json.loads(vault.files[manifest])
    raw |= {"pack_bytes": [[len(text)]], "pack_sha256": sha256(text.encode())} | changes
    vault.files |= {name: text, manifest: json.dumps(raw)}
    del vault.files["cmem.default.latest.json"]


@pytest.mark.parametrize("kind", ["altered", "flood", "facts of another"])
def test_a_hostile_vault(vault, kind):
    """What is forged is built on by nobody, and is no reason not to save. Whether it is read the vectors tell."""
    other = client(vault, encrypt_to=keys.RECIPIENT).backup(HISTORY[2], label="other")
    info = client(vault).backup(HISTORY[0])
    sealed, changes = (
        base64.b64decode(json.loads(vault.files[pack_filename("default", info.snapshot_id, 0)])["data"]),
        {},
    )
    if kind == "altered":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif kind == "flood":
        sealed = b"age-encryption.org/v1\n" + b"-> X25519 AAAA\nAAAA\n" * 2000 + b"--- x\n"
    else:
        changes["sealed"] = json.loads(vault.files[manifest_filename("other", other.snapshot_id)])["sealed"]
    resealed(vault, info, sealed, **changes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        with pytest.raises(SnapshotCorrupt, match=r"decrypt|encrypted|unpack"):
            client(vault, max_bytes=2**20).restore(snapshot_id=info.snapshot_id)
        assert not client(vault, max_bytes=2**20).verify()
        saved = client(vault, max_bytes=2**20).backup(HISTORY[0])
    assert manifest_of(vault, saved).packs == (saved.snapshot_id,)
    assert client(vault).restore(snapshot_id=saved.snapshot_id) == HISTORY[0]


def test_a_signature_covers_what_is_encrypted(vault):
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer, UntrustedSnapshot

    signer = Ed25519Signer(bytes(range(32)))
    info = client(vault, signer=signer).backup(HISTORY[0])
    reader = ColonyMemory(backend=vault, trusted_issuers=signer.did_key)
    report = reader.verify()
    assert report.sealed
    assert (report.snapshots[0].signature, report.snapshots[0].trust, report.pointer) == ("ok", "ok", "ok")
    name = manifest_filename("default", info.snapshot_id)
    raw = json.loads(vault.files[name])
    vault.files[name] = json.dumps({**raw, "sealed": raw["sealed"][:-4] + "AAAA"})
    with pytest.raises(UntrustedSnapshot):
        client(vault, trusted_issuers=signer.did_key).restore()


def test_a_prune_and_a_delete_need_no_key(vault):
    mem = client(vault)
    infos = [mem.backup(documents) for documents in HISTORY[:5]]
    anyone = ColonyMemory(backend=vault)
    assert anyone.prune(keep=3) == 2
    anyone.delete_snapshot(label="default", snapshot_id=infos[4].snapshot_id)
    assert client(vault).restore() == HISTORY[3]
    anyone.pin(snapshot_id=infos[2].snapshot_id)
    # What stays as the newest is read in full, as far as anybody without a key can.
    newest = pack_filename("default", infos[3].snapshot_id, 0)
    vault.files[newest] = vault.files[newest][:-2] + " }"
    anyone.prune(keep=1)
    assert client(vault).restore(snapshot_id=infos[2].snapshot_id) == HISTORY[2]


def test_what_cannot_be_read_is_not_merged_and_stays_the_latest(vault):
    clear = ColonyMemory(backend=vault)
    clear.backup(HISTORY[0])
    with_key = client(vault).backup(HISTORY[1])
    with pytest.warns(ColonyMemoryWarning), pytest.raises(ConflictDetected) as raised:
        clear.backup(HISTORY[2], on_conflict="merge")
    assert raised.value.theirs == with_key.snapshot_id
    assert client(vault).restore() == HISTORY[1]
    assert client(vault).restore(snapshot_id=raised.value.snapshot_id) == HISTORY[2]


def test_an_export_needs_no_key_and_opens_with_one(vault):
    from colony_memory.vaults.memory import ExportVault

    info = client(vault).backup(HISTORY[0])
    exported = ColonyMemory(backend=vault).export_snapshot()
    assert exported.files == {name: vault.files[name] for name in exported.files}
    assert ColonyMemory(backend=ExportVault(exported), identities=keys.SECRET).restore() == HISTORY[0]
    assert exported.info.encrypted
    assert exported.snapshot_id == info.snapshot_id


def test_nothing_is_brought_in_the_clear_by_who_encrypts(vault):
    here = ColonyMemory(backend=vault)
    here.backup(HISTORY[0])
    there = FakeVault(operations_per_hour=None)
    with pytest.raises(ConflictDetected, match="writes nothing in the clear"):
        client(there).import_snapshot(here.export_snapshot())
    report = here.copy_to(client(there))
    assert "writes nothing in the clear" in next(iter(report.left_out.values()))
    assert not any("manifest" in name or ".p0." in name for name in there.files)
    assert here.copy_to(ColonyMemory(backend=there))


def test_a_vault_that_does_not_write_on_condition_gets_nothing(vault):
    with pytest.raises(ColonyMemoryError, match="conditional writes"):
        ColonyMemory(backend=PlainVault(vault), **OURS).backup(HISTORY[0])
    assert not vault.files


def test_identities_that_do_not_open_what_is_written_are_told_of(vault):
    with pytest.warns(ColonyMemoryWarning, match="none of the identities of this client opens what it writes"):
        client(vault, identities=keys.OTHER_SECRET).backup(HISTORY[0])
    assert client(vault).restore() == HISTORY[0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"encrypt_to": keys.RECIPIENT, "format": 1}, "format 1 cannot be encrypted"),
        ({"encrypt_to": []}, "nobody to encrypt to"),
        ({"encrypt_to": [keys.RECIPIENT, 7]}, r"recipient 2 cannot be used: it must be a string, not int"),
        ({"encrypt_to": b"x"}, "what to encrypt to must be a string or several, not bytes"),
        ({"encrypt_to": [Passphrase("a"), Passphrase("b")]}, "two passphrases"),
        ({"encrypt_to": keys.SECRET}, "private key"),
        ({"identities": ()}, "identities is empty"),
        ({"identities": [keys.SECRET, "hunter2"]}, r"identities\[1\] cannot be used: .*Passphrase"),
        ({"identities": keys.SECRET[:-1]}, r"identities\[0\] cannot be used: it is neither an AGE-SECRET-KEY"),
        ({"identities": keys.RECIPIENT}, "neither an AGE-SECRET-KEY"),
        ({"identities": [7]}, "must be a string, a path or a Passphrase"),
    ],
    ids=range(11),
)
def test_arguments_that_are_wrong_are_named_and_not_repeated(vault, options, why):
    with pytest.raises(ValueError, match=why) as raised:
        ColonyMemory(backend=vault, **options)
    assert "hunter2" not in str(raised.value)
    assert keys.SECRET[20:40].lower() not in str(raised.value).lower()
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff\r\n", " \ufeff\n", "\xa0\ufeff\x1f", 7, None])
def test_a_passphrase_that_is_none(text):
    with pytest.raises(ValueError, match="non-empty"):
        Passphrase(text)


def test_a_key_file(vault, tmp_path):
    from colony_memory.encryption import make_identity

    path = tmp_path / "keys" / "identity.txt"
    recipient = make_identity(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ColonyMemoryError, match="is not overwritten"):
        make_identity(path)
    ColonyMemory(backend=vault, encrypt_to=recipient).backup(HISTORY[0])
    for given in (path, str(path), [path]):
        assert ColonyMemory(backend=vault, identities=given).restore() == HISTORY[0]
    path.chmod(0o644)
    with pytest.raises(ColonyMemoryError, match="open to others"):
        ColonyMemory(backend=vault, identities=path)
    path.chmod(0o600)
    path.write_text("# nothing\n")
    with pytest.raises(ValueError, match="there is no key in it"):
        ColonyMemory(backend=vault, identities=path)
    with pytest.raises(ColonyMemoryError, match="cannot be read"):
        ColonyMemory(backend=vault, identities=tmp_path / "nowhere")


def test_what_a_manifest_says_in_the_clear_of_what_is_sealed_is_ignored(vault):
    info = client(vault).backup({"m": "text"}, note="private")
    del vault.files["cmem.default.latest.json"]
    name = manifest_filename(info.label, info.snapshot_id)
    raw = json.loads(vault.files[name])
    vault.files[name] = json.dumps({**raw, "note": "made up", "doc_count": 9, "ruined": 3, "blob_chars": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        (listed,) = ColonyMemory(backend=vault).list_snapshots()
        assert (listed.note, listed.doc_count) == (None, None)
        assert client(vault).restore() == {"m": "text"}
    assert manifest_of(vault, info).ruined == 0
