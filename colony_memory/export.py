"""Pure: the export file, one snapshot in one text, with its vault files as they are: SNAPSHOT-FORMAT.md, section 17."""

from __future__ import annotations

import json
from collections.abc import Mapping

from colony_memory._boundary import corrupt, require_text
from colony_memory._format.json import load_object
from colony_memory._format.names import manifest_filename, read_filename, require_id, require_label
from colony_memory._values import Value, replace
from colony_memory.exceptions import SnapshotCorrupt, UnsupportedFormat
from colony_memory.snapshot import SnapshotInfo, read_manifest

__all__ = ["EXPORT_FORMAT", "Export", "read_export", "write_export"]

EXPORT_FORMAT = "colony-memory/export/1"


class Export(Value):
    """One snapshot's vault files, outside of a vault.

    Names are checked, contents are not: :class:`colony_memory.vaults.memory.ExportVault` makes a vault of them, which
    verifies and restores like any other.

    Raises:
        SnapshotCorrupt: A file is not of this snapshot, or the manifest is missing; ``file`` names it.
        ValueError: The label or the id is not one.
    """

    label: str  #: Label that the snapshot belongs to.
    snapshot_id: str  #: Its id.
    files: Mapping[str, str]  #: Text of each file by its name in a vault: the manifest and the parts.

    def __post_init__(self) -> None:
        if require_label(self.label) != self.label:
            raise ValueError(f"label {self.label!r} is not spelled as file names spell it")
        require_id(self.snapshot_id)
        for name, text in self.files.items():
            parsed = read_filename(name)
            # Packs may belong to earlier snapshots.
            own = parsed is not None and (parsed.snapshot_id == self.snapshot_id or parsed.kind == "pack")
            if parsed is None or parsed.label != self.label or not own:
                msg = f"{name[:300]!r} is not a file of snapshot {self.snapshot_id} of label {self.label!r}"
                raise SnapshotCorrupt(msg, file=name)
            with corrupt(f"the content of {name} is not text", name):
                require_text(name, text).encode("utf-8")
        manifest = manifest_filename(self.label, self.snapshot_id)
        if manifest not in self.files:
            raise SnapshotCorrupt(f"the manifest {manifest} is missing", file=manifest)

    @property
    def info(self) -> SnapshotInfo:
        """The summary in the manifest; ``UnsupportedFormat`` if a newer version wrote it."""
        text = self.files[manifest_filename(self.label, self.snapshot_id)]
        stored = sum(len(content.encode("utf-8")) for content in self.files.values())
        info = read_manifest(text, label=self.label, snapshot_id=self.snapshot_id).info
        return replace(info, stored_bytes=stored)


def write_export(label: str, snapshot_id: str, files: Mapping[str, str]) -> str:
    """The text of an export file, in ASCII; errors are those of :class:`Export`."""
    checked = Export(label, snapshot_id, files)
    raw = {"format": EXPORT_FORMAT, "label": label, "snapshot_id": snapshot_id, "files": dict(checked.files)}
    return json.dumps(raw, indent=1) + "\n"


def read_export(text: str) -> Export:
    """Read the text of an export file, which anyone may have made.

    Raises:
        SnapshotCorrupt: It is no export, is cut short, or has files of others; ``UnsupportedFormat``: it is newer.
    """
    with corrupt("not an exported snapshot", None):
        raw = load_object(text)
    kind, files = raw.get("format"), raw.get("files")
    if isinstance(kind, str) and kind != EXPORT_FORMAT and kind.startswith("colony-memory/export/"):
        raise UnsupportedFormat(f"unsupported export format {kind[:80]!r}; a newer colony-memory may read it")
    if kind != EXPORT_FORMAT:
        raise SnapshotCorrupt(f"not an exported snapshot: its format is not {EXPORT_FORMAT!r}")
    if not isinstance(files, dict):
        raise SnapshotCorrupt("the export has no object of files")
    with corrupt("the export does not say which snapshot it is", None):
        return Export(raw.get("label"), raw.get("snapshot_id"), files)  # type: ignore[arg-type]
