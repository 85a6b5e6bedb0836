"""What a client does not trust may be of anybody's making, and a verification does not unpack it."""

import json
import warnings
from datetime import datetime, timedelta, timezone

import pytest
from faces import FORMATS, PlainVault

from colony_memory import ColonyMemory, ColonyMemoryWarning, Ed25519Signer, UntrustedSnapshot
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory.testing import FakeVault

pytest.importorskip("cryptography")

OWN, STRANGER = (Ed25519Signer(bytes([seed]) * 32) for seed in (1, 2))


@pytest.mark.parametrize("signer", [None, STRANGER], ids=["nobody", "a stranger"])
@pytest.mark.parametrize("wire", FORMATS)
def test_what_is_not_trusted_is_not_unpacked(wire, signer):
    vault = FakeVault(operations_per_hour=None)
    theirs = ColonyMemory(backend=vault, signer=signer, format=wire).backup({"m": "x" * 5000}).snapshot_id
    pinned = ColonyMemory(backend=vault, signer=OWN, max_bytes=100)  # unpacking it would be told of
    (check,) = pinned.verify().snapshots
    trust = "bad" if signer else "missing"
    assert (check.snapshot_id, check.trust, check.parts, check.digest) == (theirs, trust, "unchecked", "unchecked")
    assert "max_bytes" not in check.problem
    assert not check
    assert not check.sealed
    assert ColonyMemory(
        backend=vault, signer=OWN, require_signature=False, trusted_issuers=[STRANGER.did_key, OWN.did_key]
    ).verify()
    part = next(name for name in vault.files if ".p0." in name or ".k0." in name)
    del vault.files[part]
    assert pinned.verify(snapshot_id=theirs).snapshots[0].parts == "missing"


def test_what_a_pointer_lists_is_no_sign_that_it_is_an_older_one():
    """A client whose clock was a year ahead saved twice, and 0.1.1, by the right time, wrote the pointer since."""
    now, hours = datetime(2026, 6, 1, tzinfo=timezone.utc), [0]
    fake = FakeVault(operations_per_hour=None, clock=lambda: now.timestamp() + 3600 * hours[0])
    vault = PlainVault(fake)
    ours = ColonyMemory(backend=vault)

    def save(text, at):
        ours._session.now = lambda: at
        return ours.backup({"m": text}).snapshot_id

    victim, first = save("0", now), save("1", now)
    save("2", now + timedelta(days=365))
    save("3", now + timedelta(days=365))
    vault.files[latest_filename("default")] = json.dumps(
        {
            "format": "colony-memory/latest/1",
            "label": "default",
            "snapshot_id": first,
            "manifest_file": manifest_filename("default", first),
            "updated_at": "2026-06-01T00:00:03Z",
        }
    )
    ours = ColonyMemory(backend=vault)
    assert "is an older one" in ours.verify().problem  # nothing tells yet that this was 0.1.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        ours.delete_snapshot(label="default", snapshot_id=victim)
        hours[0] = 3
        latest = save("4", now + timedelta(hours=3))
        ours.prune(label="default", keep=4)
    (label,) = ours.inspect().labels
    assert (ours.verify().problem, label.broken) == (None, {})
    assert (ours.latest().snapshot_id, label.snapshots) == (latest, 4)


def warned(call):
    """What a call gives, and the warnings about labels that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ColonyMemoryWarning)
        return call(), [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("history", "trust", "limited", "older", "broken"),
    [
        ("u u u", "missing missing missing", False, 3, 0),
        ("u u s", "ok missing missing", True, 2, 0),
        ("u s s", "ok ok missing", True, 1, 0),
        ("s s", "ok ok", False, 0, 0),
        ("s u", "bad ok", False, 0, 1),  # what nobody signed and is newer may be anybody's
        ("u s u", "bad ok missing", False, 1, 1),
        ("u f s", "ok bad missing", False, 1, 1),
        ("f", "bad", False, 0, 1),
    ],
)
def test_what_is_older_than_signing_is_neither_believed_nor_broken(history, trust, limited, older, broken):
    """u: nobody signed it, s: this client did, f: a stranger."""
    vault = FakeVault(operations_per_hour=None)
    signers = {"u": None, "s": OWN, "f": STRANGER}
    for n, by in enumerate(history.split()):
        other = ColonyMemory(backend=vault, signer=signers[by], require_signature=False, trusted_issuers=None)
        warned(lambda other=other, n=n: other.backup({"m": str(n)}, on_conflict="continue"))
    pinned = ColonyMemory(backend=vault, signer=OWN)
    report = pinned.verify()
    assert [check.trust for check in report.snapshots] == trust.split()
    assert (report.limited, len(report.unsigned)) == (limited, older)
    assert bool(report) == (set(trust.split()) == {"ok"})
    assert set(report.forged) == {check.snapshot_id for check in report.snapshots if check.trust == "bad"}
    (label,), _ = warned(lambda: pinned.inspect().labels)
    assert (label.unsigned, len(label.untrusted)) == (report.unsigned, broken)
    listed, told = warned(pinned.list_snapshots)
    assert len(listed) == trust.split().count("ok")
    assert len([each for each in told if "older than signing" in each]) == (older > 0)
    if "s" in history:
        return
    with pytest.raises(UntrustedSnapshot, match="older than signing" if older else "is signed by") as refused:
        pinned.restore()
    if older:
        assert "try ColonyMemory(require_signature=False)" in str(refused.value)
