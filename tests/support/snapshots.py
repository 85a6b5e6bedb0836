"""Snapshots that are saved, whole and damaged; and summaries of some, of labels and of a vault, like those of any."""

import base64
from datetime import datetime, timezone

from colony_memory import ColonyMemory, SnapshotInfo
from colony_memory._format.json import canonical
from colony_memory._format.record import FORMAT, RECORD_NAME
from colony_memory.capture._metadata import split_documents
from colony_memory.reports import LabelMap, VaultMap

NOON = datetime(2026, 11, 1, 12, 0, 0, 300_000, tzinfo=timezone.utc)


def snapshot(**changes):
    """A summary like that of any snapshot of noon, but for what is changed."""
    fields = {
        "snapshot_id": "20261101T120000300000Z-abcdef",
        "label": "default",
        "created_at": "2026-11-01T12:00:00Z",
        "doc_names": ["a.md"],
        "part_count": 1,
        "byte_size": 10,
        "plaintext_sha256": "sha256:" + "0" * 64,
    }
    return SnapshotInfo(**{**fields, **changes})


def label_map(**changes):
    fields = {
        "label": "default",
        "snapshots": 1,
        "oldest": snapshot(),
        "newest": snapshot(),
        "plain_bytes": 10,
        "stored_bytes": 300,
        "latest": "20261101T120000300000Z-abcdef",
        "dangling": False,
        "next_bytes": 300,
    }
    return LabelMap(**{**fields, **changes})


def vault_map(*labels, **changes):
    fields = {
        "labels": labels,
        "files": 3,
        "foreign_files": 0,
        "complete": True,
        "quota_bytes": 1000,
        "used_bytes": 250,
        "available_bytes": 750,
        "operations_left": 59,
    }
    return VaultMap(**{**fields, **changes})


def save(vault, documents, *, at=None, label="default", **options):
    memory = ColonyMemory(backend=vault)
    if at is not None:
        memory._session.now = lambda: at
    return memory.backup(documents, label=label, **options)


def content_file(vault, info):
    """The file with the content of a small snapshot, whatever its format."""
    pack, part = (vault.path / f"cmem.{info.label}.{info.snapshot_id}.{seq}.json" for seq in ("k0", "p0"))
    return pack if pack.exists() else part


def damage(vault, info):
    """Spoil the content of a snapshot; its size stays."""
    path = content_file(vault, info)
    path.write_text(path.read_text().replace("H4sI", "AAAA").replace("KLUv", "AAAA"))


def files_of(client, **which):
    """What a snapshot of a folder has on a disk, without what is said of it."""
    return split_documents(client.restore(**which))[0]


def recorded(documents, files):
    """The documents with a record of files, as a folder's snapshot has them."""
    spelled = {name: base64.b64encode(data).decode() for name, data in files.items()}
    told = {"empty_dirs": [], "executable": [], "files": spelled, "format": FORMAT}
    return {**documents, RECORD_NAME: canonical(told).decode("utf-8", "surrogatepass")}
