"""Adapters of the attack suite ``agmi`` over snapshots: one record is one snapshot of a label in a vault.

The attacker holds the vault's files and not the agent's key. Each class below is one way to write to the files, against
one client. ``agmi-check --adapter agmi_adapters:SignedRehash`` runs one from the directory of this file.
"""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
import warnings
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from agmi.adapters.base import MemoryAdapter, Record

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, FileWitness
from colony_memory._format.catalog import Entry
from colony_memory._format.pointer import Pointer, read_pointer, write_pointer
from colony_memory.signing import Ed25519Signer, sign_manifest
from colony_memory.snapshot import build, latest_filename, manifest_filename, new_id, part_filename, read_manifest
from colony_memory.testing import FakeVault

LABEL, OTHER = "work", "other"
AGENT, ATTACKER = Ed25519Signer(bytes(range(32))), Ed25519Signer(b"\x66" * 32)
#: What a manifest says of its payload.
PAYLOAD = ("doc_names", "plaintext_sha256", "byte_size", "blob_chars", "tree")


class SnapshotAdapter(MemoryAdapter):
    """Snapshots of a small memory, each in one part.

    Class attributes:
        signer: Key of the client, which it then pins.
        witnessed: Whether the client has a witness outside of the vault.
        rehashes: The attacker makes every digest fit, in manifests, chain and catalogue, and moves the pointer.
        signatures: What becomes of them: ``"kept"``, ``"dropped"``, or ``"replaced"`` by the attacker's own.
        points: The attacker writes the pointer anew. Without ``rehashes`` it never does.
    """

    supports_replay = supports_metadata = supports_snapshot = True
    signer: Ed25519Signer | None = AGENT
    witnessed = False
    rehashes = True
    signatures = "kept"
    points = True

    # --- the client ---

    def setup(self):
        self.vault = FakeVault(operations_per_hour=None)
        self.files = self.vault.files
        self._elsewhere = tempfile.TemporaryDirectory()

    def teardown(self):
        self._elsewhere.cleanup()

    def client(self):
        witness = FileWitness(Path(self._elsewhere.name, "witness.json")) if self.witnessed else None
        return ColonyMemory(backend=self.vault, signer=self.signer, witness=witness)

    def save(self, label, *notes):
        mem = self.client()
        for note in notes:
            mem.backup({"MEMORY.md": f"{label}: {note}", "notes/day.md": "the same every day"}, label=label)

    def seed(self, n):
        self.save(LABEL, *(f"note {number}" for number in range(n)))

    def seed_other(self, n):
        self.save(OTHER, *(f"note {number}" for number in range(n)))

    def append_genuine(self):
        self.save(LABEL, "one more note")

    def reload(self):
        """Every check is made by a client that remembers nothing."""

    def verify(self):
        """Whether a client that starts now is content; ``detection_point`` says which verb was not."""
        self.detection_point, self.verify_detail = "read", None
        with warnings.catch_warnings():
            warnings.simplefilter("error", ColonyMemoryWarning)
            try:
                self.client().restore(label=LABEL)
            except (ColonyMemoryError, ColonyMemoryWarning) as found:
                self.verify_detail = f"{type(found).__name__}: {found}"
                return False
        self.detection_point = "audit"
        report = self.client().verify(label=LABEL)
        if not report:
            problems = (report.problem, *(check.problem for check in report.snapshots))
            self.verify_detail = next((each for each in problems if each), "a fact of the report is bad")
        return bool(report)

    # --- the files as they are ---

    def read_all_raw(self):
        return self._records(LABEL)

    def read_other_raw(self):
        return self._records(OTHER)

    def identity_of(self, record):
        return record.fields["id"]

    def payload_of(self, record):
        return json.dumps(record.fields["documents"], sort_keys=True)

    def owner_of(self, record):
        return record.fields["label"]

    def read_meta(self, seq):
        raw = json.loads(self.files[manifest_filename(LABEL, self._ids(LABEL)[seq])])
        return {key: value for key, value in raw.items() if key not in ("signature", "previous")}

    def snapshot_store(self):
        return dict(self.files)

    def restore_store(self, token):
        self.files.clear()
        self.files.update(token)

    def _ids(self, label):
        """Ids of the label by the names of its manifests, oldest first."""
        names = [name.split(".") for name in self.files]
        return sorted(name[2] for name in names if name[1] == label and name[3] == "manifest")

    def _records(self, label):
        out = []
        for seq, each in enumerate(self._ids(label)):
            part = json.loads(self.files[part_filename(label, each, 0)])
            created_at = json.loads(self.files[manifest_filename(label, each)])["created_at"]
            documents = json.loads(gzip.decompress(base64.b64decode(part["b64"])))
            fields = {"id": each, "label": label, "created_at": created_at, "documents": documents}
            out.append(Record(seq=seq, fields=fields))
        return out

    # --- the attacker ---

    def mutate_payload(self, record):
        record.fields["documents"]["MEMORY.md"] += " [TAMPERED]"
        return record

    def forge_record(self, template):
        forged = {**template.fields, "documents": {"MEMORY.md": "forged"}}
        forged["id"] = new_id(datetime.now(timezone.utc), "f0f0f0", [template.fields["id"]])
        return Record(seq=template.seq + 1, fields=forged)

    def write_raw(self, record):
        ids = self._ids(LABEL)
        if record.seq == len(ids):
            self._copy(ids[-1], LABEL, to=record.fields["id"], rename=True)
            ids.append(record.fields["id"])
        self._write_documents(ids[record.seq], record.fields["documents"])
        self._make_fit()

    def delete_raw(self, seq):
        gone = self._ids(LABEL)[seq]
        del self.files[manifest_filename(LABEL, gone)], self.files[part_filename(LABEL, gone, 0)]
        self._make_fit()

    def replay_onto(self, victim_seq, donor):
        self._copy(donor.fields["id"], donor.fields["label"], to=self._ids(LABEL)[victim_seq], rename=self.rehashes)
        self._make_fit()

    def write_meta(self, seq, meta):
        # What the suite adds no reader knows; a time is what one would go by.
        self._edit(manifest_filename(LABEL, self._ids(LABEL)[seq]), {**meta, "created_at": "2020-01-01T00:00:00Z"})
        self._make_fit()

    def _edit(self, name, fields):
        self.files[name] = json.dumps({**json.loads(self.files[name]), **fields})

    def _copy(self, snapshot_id, label, *, to, rename):
        """Put the files of one snapshot in place of another's, word for word or with its names inside."""
        for source, target in (
            (manifest_filename(label, snapshot_id), manifest_filename(LABEL, to)),
            (part_filename(label, snapshot_id, 0), part_filename(LABEL, to, 0)),
        ):
            self.files[target] = self.files[source]
            if rename:
                text = self.files[source].replace(f"cmem.{label}.", f"cmem.{LABEL}.").replace(snapshot_id, to)
                self.files[target] = text
        if rename:
            self._edit(manifest_filename(LABEL, to), {"label": LABEL})

    def _write_documents(self, snapshot_id, documents):
        built = build(documents, label=LABEL, snapshot_id=snapshot_id, created_at="")
        part = part_filename(LABEL, snapshot_id, 0)
        self.files[part] = built.files[part]
        if self.rehashes:
            raw = json.loads(built.files[built.manifest_file])
            self._edit(built.manifest_file, {key: raw[key] for key in PAYLOAD})

    def _make_fit(self):
        """Follow the chain from the oldest to the newest, and write a catalogue and a pointer of what is there."""
        if not self.rehashes:
            return
        entries, previous = [], None
        for each in self._ids(LABEL):
            name = manifest_filename(LABEL, each)
            raw = json.loads(self.files[name])
            raw.pop("previous", None)
            signature = raw.pop("signature", None)
            if previous is not None:
                raw["previous"] = previous
            self.files[name] = self._signed(raw, signature)
            manifest = read_manifest(self.files[name], label=LABEL, snapshot_id=each)
            stored = len(self.files[name]) + len(self.files[part_filename(LABEL, each, 0)])
            entries.insert(0, Entry(replace(manifest.info, stored_bytes=stored), manifest.sha256))
            previous = {"snapshot_id": each, "manifest_sha256": manifest.sha256}
        if not self.points:
            return
        old = read_pointer(self.files[latest_filename(LABEL)], label=LABEL)
        newest = entries[0].info
        pointer = Pointer(
            LABEL,
            newest.snapshot_id,
            newest.created_at,
            old.generation + 1,
            stream=old.stream,
            entries=tuple(entries),
        )
        raw = json.loads(write_pointer(pointer))
        self.files[latest_filename(LABEL)] = self._signed(raw, old.raw.get("signature"))

    def _signed(self, raw, signature):
        if self.signatures == "replaced":
            signature = sign_manifest(raw, ATTACKER)
        if signature is None or self.signatures == "dropped":
            return json.dumps(raw)
        return json.dumps({**raw, "signature": signature})


class SignedEdit(SnapshotAdapter):
    name = "signed-edit"
    rehashes = False


class SignedRehash(SnapshotAdapter):
    name = "signed-rehash"


class SignedStrip(SnapshotAdapter):
    name = "signed-strip"
    signatures = "dropped"


class SignedResign(SnapshotAdapter):
    name = "signed-resign"
    signatures = "replaced"


class SignedPointer(SnapshotAdapter):
    name = "signed-pointer"
    signatures = "replaced"
    points = False


class SignedWitness(SnapshotAdapter):
    name = "signed-witness"
    witnessed = True


class UnsignedEdit(SnapshotAdapter):
    name = "unsigned-edit"
    signer = None
    rehashes = False


class UnsignedRehash(SnapshotAdapter):
    name = "unsigned-rehash"
    signer = None
