"""rewrite: what was taken out is in no file any more, everything else stays, and nothing is lost wherever it stops."""

import base64
import contextlib
import json
import warnings

import pytest
from chains import growing
from faces import FORMATS, PlainVault, copy_of, with_zstd
from test_crash_points import STOPS, WAYS, is_over
from test_transfer_interleavings import beside, meddle
from transfers import backend_of, fake, hours_later

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    DecryptionError,
    Ed25519Signer,
    QuotaExceeded,
    SnapshotCorrupt,
    UntrustedSnapshot,
)
from colony_memory._format.pointer import read_pointer
from colony_memory._format.record import RECORD_NAME
from colony_memory._format.v2 import chain as chains
from colony_memory.exceptions import Hint
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied

SECRET = "hunter2-secret-word"


def history(number=5):
    """A memory in which a secret came, and went."""
    states = growing(number)
    states[0] |= {"keys.md": f"login {SECRET}\n"}
    states[2] |= {"MEMORY.md": states[2]["MEMORY.md"] + SECRET}
    return states


def filled(wire=1, *, states=None, **options):
    vault = options.pop("vault", None) or fake()
    memory = ColonyMemory(backend=vault, format=wire, **options)
    return memory, [memory.backup(docs, note=f"note {n}", tags=[f"t{n}"]).snapshot_id for n, docs in
                    enumerate(states or history())]  # fmt: skip


def clean(docs):
    return {name: text.replace(SECRET, "gone") for name, text in docs.items()}


def contents(memory):
    return [memory.restore(snapshot_id=info.snapshot_id) for info in reversed(memory.list_snapshots())]


def unpacked(vault, monkeypatch):
    """All that the files of a vault hold: their texts, their catalogue, and whatever any of them unpacks to."""
    out, unpack = [*vault.files.values()], chains.decompress

    def kept(*args, **options):
        found = unpack(*args, **options)
        out.append(bytes(found).decode("utf-8", "replace"))
        return found

    monkeypatch.setattr(chains, "decompress", kept)
    new = ColonyMemory(backend=vault)
    infos = new.list_snapshots()
    for info in infos:
        out.append(json.dumps(ColonyMemory(backend=vault).restore(snapshot_id=info.snapshot_id)))
    monkeypatch.undo()
    there = {name.split(".")[2] for name in vault.files if ".k" in name or ".p" in name}
    needed = {info.snapshot_id for info in infos}
    assert there <= needed, "a file that nobody unpacked"
    out.append(repr(read_pointer(vault.files["cmem.default.latest.json"], label="default").entries))
    return out


@pytest.mark.parametrize("wire", FORMATS)
def test_afterwards_no_file_holds_the_text(wire, monkeypatch):
    memory, ids = filled(wire)
    vault = backend_of(memory)
    memory.pin(snapshot_id=ids[1])
    before = {info.snapshot_id: info for info in memory.list_snapshots()}
    plan = memory.rewrite(replace={SECRET: "gone"}, dry_run=True)
    assert not plan.rewritten
    assert {info.snapshot_id for info in memory.list_snapshots()} == {*ids}
    report = memory.rewrite(replace={SECRET: "gone"})
    assert (report.writes, report.stored_bytes) == (plan.writes, plan.stored_bytes)
    assert report.deleted == len(report.rewritten) == (5 if wire == 2 else 2)
    assert bool(report) == (wire == 1)  # packs that are younger than an hour stay
    hours_later(vault)
    memory.prune(keep=99)
    assert not [text for text in unpacked(vault, monkeypatch) if SECRET in text]
    after = {info.rewrites or info.snapshot_id: info for info in memory.list_snapshots()}
    assert [*after] == [*reversed(ids)]
    for own, info in after.items():
        was = before[own]
        assert (info.created_at, info.note, info.tags, info.pinned, info.format) == (
            was.created_at, was.note, was.tags, own == ids[1], was.format
        )  # fmt: skip
        stands = report.rewritten if info.rewrites else {}
        assert info.based_on == tuple(stands.get(each, each) for each in was.based_on)
    assert contents(memory) == [clean(docs) for docs in history()]
    assert memory.restore() == clean(history()[-1])
    assert memory.verify()
    again = ColonyMemory(backend=vault).rewrite(replace={SECRET: "gone"})
    assert (again.rewritten, again.deleted, again.writes, again.unchanged) == ({}, 0, 0, 5)


@with_zstd
def test_what_a_deleted_snapshot_left_in_the_packs_of_others_goes_too(monkeypatch):
    text = "".join(f"line {n}\n" for n in range(3000))
    states = [{"keys.md": SECRET, "a": text}, *({"a": f"{text}more {n}"} for n in range(3))]
    memory, ids = filled(2, states=states)
    vault = backend_of(memory)
    memory.delete_snapshot(label="default", snapshot_id=ids[0])
    hours_later(vault)
    memory.backup({"a": f"{text}later"})
    memory.prune(keep=99)
    assert any(ids[0] in name for name in vault.files)
    memory.rewrite(exclude="keys.md")
    assert not any(ids[0] in name for name in vault.files)
    hours_later(vault)
    memory.backup({"a": "latest"})
    memory.prune(keep=99)
    assert not [text for text in unpacked(vault, monkeypatch) if SECRET in text]


@pytest.mark.parametrize("wire", FORMATS)
def test_whoever_saved_or_restored_before_goes_on(wire):
    memory, _ = filled(wire)
    reader = ColonyMemory(backend=backend_of(memory), format=wire)
    mine = reader.restore()
    ColonyMemory(backend=backend_of(memory)).rewrite(replace={"growing": "smaller", SECRET: "gone"})
    info = reader.backup({**mine, "more": "text"})
    assert info.head
    assert info.based_on == (memory.list_snapshots()[1].snapshot_id,)
    assert memory.backup({**mine, "own": "text"}, on_conflict="merge").merged == ()


@with_zstd
def test_formats_signer_and_recipients_change_on_the_way():
    pyrage = pytest.importorskip("pyrage")
    identity = pyrage.x25519.Identity.generate()
    signer = Ed25519Signer(bytes(range(32)))
    vault = fake()
    filled(1, vault=vault)
    memory = ColonyMemory(backend=vault, signer=signer, require_signature=False, identities=str(identity))

    def now():
        infos = memory.list_snapshots()
        return {(info.format[-1], info.issuer, info.encrypted) for info in infos}

    assert memory.rewrite(format=2).deleted == 5
    assert now() == {("2", signer.did_key, False)}
    assert memory.rewrite(sign=True).unchanged == 5
    assert memory.rewrite(format=1).deleted == 5
    before, stranger = dict(vault.files), pyrage.x25519.Identity.generate()
    for more in ({}, {"identities": str(stranger)}):  # what it writes could not be read again
        blind = ColonyMemory(backend=vault, signer=signer, **more)
        for dry_run in (True, False):
            with pytest.raises(ValueError, match="give one that does") as caught:
                blind.rewrite(encrypt_to=str(identity.to_public()), dry_run=dry_run)
            assert (vault.files, caught.value.hint) == (before, Hint("open", "identities"))
    assert memory.rewrite(encrypt_to=str(identity.to_public())).deleted == 5
    assert now() == {("2", signer.did_key, True)}
    assert contents(memory) == history()
    assert memory.rewrite(encrypt_to=str(identity.to_public())).unchanged == 5
    with pytest.raises(ColonyMemoryError, match="name its recipients"):
        memory.rewrite(exclude="keys.md")
    assert memory.rewrite(exclude="keys.md", encrypt_to=str(identity.to_public())).deleted == 5
    assert all("keys.md" not in docs for docs in contents(memory))
    with pytest.raises(DecryptionError):
        ColonyMemory(backend=vault, signer=signer).rewrite(exclude="MEMORY.md")
    assert ColonyMemory(backend=vault, trusted_issuers=signer.did_key, identities=str(identity)).verify()


def test_what_was_signed_takes_a_signer():
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    memory, _ = filled(1, signer=signer)
    before = dict(backend_of(memory).files)
    for trust in ({}, {"trusted_issuers": signer.did_key}):
        keyless = ColonyMemory(backend=backend_of(memory), **trust)
        with pytest.raises(UntrustedSnapshot, match="takes a signer"):
            keyless.rewrite(replace={SECRET: "gone"})
    with pytest.raises(ValueError, match="no key to sign with"):
        ColonyMemory(backend=fake()).rewrite(sign=True)
    assert backend_of(memory).files == before


def test_a_folder_loses_a_file_from_its_record_too():
    data = base64.b64encode(b"\xff" + SECRET.encode()).decode()
    record = {"empty_dirs": [], "executable": ["run.sh"], "files": {"a.bin": data}, "format": "colony-memory/folder/1",
              "modes": {"a.bin": "600", "run.sh": "755"}}  # fmt: skip
    memory, _ = filled(states=[{"run.sh": "text", RECORD_NAME: json.dumps(record)}])
    with pytest.raises(ColonyMemoryError, match=r"in a file that is not text.*exclude 'a\.bin'"):
        memory.rewrite(replace={SECRET: "gone"})
    memory.rewrite(replace={SECRET: "gone"}, exclude="*.bin")
    left = json.loads(memory.restore()[RECORD_NAME])
    assert (left["files"], left["modes"], left["executable"]) == ({}, {"run.sh": "755"}, ["run.sh"])


def test_what_cannot_be_is_refused_before_anything_is_written():
    memory, ids = filled()
    vault = backend_of(memory)
    before = dict(vault.files)
    for wrong, told in (
        ({}, "nothing to do"),
        ({"replace": {"": "x"}}, "not empty"),
        ({"replace": {"a": "ba"}}, "must not hold"),
        ({"replace": {"a": 1}}, "must be a string"),
        ({"exclude": [""]}, "not empty"),
        ({"label": "a b", "format": 1}, "a b"),
    ):
        with pytest.raises(ValueError, match=told):
            memory.rewrite(**wrong)
    with pytest.raises(ColonyMemoryError, match="would be left with nothing"):
        memory.rewrite(exclude="*")
    vault.quota_bytes = sum(map(len, vault.files.values())) + 100
    with pytest.raises(QuotaExceeded, match="does not fit"):
        memory.rewrite(replace={SECRET: "gone"})
    vault.files[f"cmem.default.{ids[1]}.p0.json"] = "{}"
    with pytest.raises(SnapshotCorrupt):
        memory.rewrite(replace={SECRET: "gone"})
    del vault.files[f"cmem.default.{ids[1]}.p0.json"]
    with pytest.raises(SnapshotCorrupt, match="delete that snapshot first"):
        memory.rewrite(replace={SECRET: "gone"})
    assert vault.files.items() <= before.items()


@pytest.mark.parametrize("wire", FORMATS)
def test_what_another_saves_meanwhile_is_rewritten_too(wire):
    memory, _ = filled(wire)
    vault = FaultyVault(backend_of(memory))
    other = ColonyMemory(backend=backend_of(memory), format=wire)
    vault.hook("upload", lambda: other.backup({"new": SECRET}), match="latest", times=1)
    report = ColonyMemory(backend=vault, format=wire).rewrite(replace={SECRET: "gone"})
    assert other.list_snapshots()[0].snapshot_id in report.rewritten.values()
    assert contents(memory) == [*(clean(docs) for docs in history()), {"new": "gone"}]
    assert ColonyMemory(backend=backend_of(memory)).restore() == {"new": "gone"}


def test_what_keeps_being_saved_is_told():
    memory, _ = filled()
    vault, numbers = FaultyVault(backend_of(memory)), iter(range(99))
    other = ColonyMemory(backend=backend_of(memory))
    vault.hook("upload", lambda: other.backup({"new": f"{next(numbers)} {SECRET}"}), match="latest", times=None)
    with pytest.raises(ConflictDetected, match="kept changing"):
        ColonyMemory(backend=vault).rewrite(replace={SECRET: "gone"})


def test_what_another_deletes_meanwhile_does_not_come_back():
    memory, ids = filled()
    vault = FaultyVault(backend_of(memory))
    other = ColonyMemory(backend=backend_of(memory))
    vault.hook("upload", lambda: other.delete_snapshot(label="default", snapshot_id=ids[0]), match="manifest", times=1)
    with pytest.raises(ColonyMemoryError, match="do it again"):
        ColonyMemory(backend=vault).rewrite(replace={SECRET: "gone"})
    memory.rewrite(replace={SECRET: "gone"})
    assert contents(memory) == [clean(docs) for docs in history()[1:]]


def test_what_is_unmerged_or_kept_for_a_shrink_stays_so():
    memory, _ = filled(states=[{"a": "long " * 100 + SECRET, "b": "b"}, {"a": "b"}])
    other = ColonyMemory(backend=backend_of(memory))
    other.restore()
    memory.backup({"a": "of one"})
    with pytest.raises(ConflictDetected) as caught:
        other.backup({"a": f"of another {SECRET}"})
    report = memory.rewrite(replace={SECRET: "gone"})
    pointer = read_pointer(backend_of(memory).files["cmem.default.latest.json"], label="default")
    assert [one.snapshot_id for one in pointer.unmerged] == [report.rewritten[caught.value.snapshot_id]]
    assert pointer.entries[-1].shrunk_at
    infos = memory.list_snapshots()
    assert infos[0].refused
    assert memory.restore() == {"a": "of one"}


#: The format, what happens at a call, and whether the vault takes no conditions; the first two with every run.
KINDS = [(1, "dies after", False), (2, "dies after", False),
         *((wire, way, False) for wire in (1, 2) for way in STOPS if way != "dies after"),
         *((1, way, True) for way in ("dies after", "fails once after"))]  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "way", "plain"),
    [
        pytest.param(*kind, marks=([] if at < 2 else [pytest.mark.exhaustive]) + [with_zstd] * (kind[0] == 2))
        for at, kind in enumerate(KINDS)
    ],
)
def test_stopped_at_every_call_nothing_is_lost_and_again_completes_it(wire, way, plain, monkeypatch):
    start, _ = filled(wire, states=history(3))
    states = history(3)
    allowed = [*states, *map(clean, states)]
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 150
        target = copy_of(backend_of(start))
        vault = FaultyVault(PlainVault(target) if plain else target)
        struck = WAYS[way](vault, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            with contextlib.suppress(ColonyMemoryError, ProcessDied):
                ColonyMemory(backend=vault).rewrite(replace={SECRET: "gone"})
        finished = is_over(way, struck, vault.count, n)
        new = ColonyMemory(backend=target)
        found = contents(new)
        assert all(each in allowed for each in found)
        assert all(docs in found or clean(docs) in found for docs in states)
        assert new.restore() in (states[-1], clean(states[-1]))
        again = ColonyMemory(backend=PlainVault(target) if plain else target)
        again.rewrite(replace={SECRET: "gone"})
        assert contents(new) == [clean(docs) for docs in states]
        hours_later(target)
        again.backup({"later": "text"})
        again.prune(keep=99)
        assert not [text for text in unpacked(target, monkeypatch) if SECRET in text]
        assert ColonyMemory(backend=target).verify()
    assert n > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("do", ["saves", "saves and retires", "deletes the oldest", "deletes the latest", "prunes"])
def test_beside_others_at_every_call(do, wire):
    """Whole verbs of another client between two calls of a rewrite: what is listed restores, and nothing that the other
    did not delete goes. Where it was in the way, that is said, and doing it again completes it.
    """
    start, _ = filled(wire, states=history(3))
    at, happened = 0, [1]
    while happened:
        at += 1
        vault = copy_of(backend_of(start))
        other = ColonyMemory(backend=vault, format=wire)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            faulty, happened = beside(lambda other=other: meddle(other, do), at, vault)
            with contextlib.suppress(ColonyMemoryError):
                ColonyMemory(backend=faulty, format=wire).rewrite(replace={SECRET: "gone"})
            ColonyMemory(backend=vault).rewrite(replace={SECRET: "gone"})
        new = ColonyMemory(backend=vault)
        found = contents(new)
        assert len(found) == len({json.dumps(docs, sort_keys=True) for docs in found})
        assert not [docs for docs in found if SECRET in json.dumps(docs)]
        if do == "saves":
            assert found == [*map(clean, history(3)), {"m": "in between"}] or not happened
        assert new.restore() == found[-1]
        assert new.verify()
    assert at > 20
