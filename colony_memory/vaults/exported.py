"""An export as a vault that can only be read, so that one snapshot in a file is verified and restored as any other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from colony_memory._format.constants import LATEST_FORMAT
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory.exceptions import VaultDenied
from colony_memory.vaults.memory import MemoryVault

if TYPE_CHECKING:
    from colony_memory.export import Export

__all__ = ["ExportVault"]


class ExportVault(MemoryVault):
    """The one snapshot of an export.

    Its pointer is made here and signed by nobody, so a client that pins issuers asks for the snapshot by its id:
    ``mem.restore(label=vault.label, snapshot_id=vault.snapshot_id)``.

    Args:
        exported: The export. Its content is as untrusted as what any vault holds.

    Attributes:
        label: Label of the snapshot.
        snapshot_id: Its id.
    """

    def __init__(self, exported: Export) -> None:
        super().__init__()
        self.label, self.snapshot_id = exported.label, exported.snapshot_id
        pointer = {
            "format": LATEST_FORMAT,
            "label": self.label,
            "snapshot_id": self.snapshot_id,
            "manifest_file": manifest_filename(self.label, self.snapshot_id),
            "updated_at": "",
        }
        self.files = {**exported.files, latest_filename(self.label): json.dumps(pointer)}

    def _admit_upload(self, filename: str, size: int) -> None:  # noqa: ARG002 - whatever its size
        raise _read_only(filename)

    def _admit_delete(self, filename: str) -> None:
        raise _read_only(filename)


def _read_only(filename: str) -> VaultDenied:
    msg = f"{filename}: an export can only be read; import it into a vault first"
    return VaultDenied(msg, status=403, code="READ_ONLY")
