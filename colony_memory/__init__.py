"""The durability layer for an AI agent's memory: snapshots in the Colony vault, or in any other.

>>> from colony_memory import ColonyMemory, open_vault
>>> mem = ColonyMemory(backend=open_vault("memory:"))  # ColonyMemory(api_key="col_…") for the hosted vault
>>> info = mem.backup({"MEMORY.md": "two years of notes"})
>>> mem.restore()
{'MEMORY.md': 'two years of notes'}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format import FORMAT
from colony_memory._version import __version__
from colony_memory.client import AsyncColonyMemory, ColonyMemory
from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    DecryptionError,
    Hint,
    PruneIncomplete,
    QuotaExceeded,
    RateLimited,
    RollbackDetected,
    SecretsFound,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultDenied,
    VaultError,
    VaultMissing,
    VaultUnavailable,
)
from colony_memory.vaults import AsyncVaultBackend, VaultBackend, open_vault

if TYPE_CHECKING:
    from colony_memory.encryption import Passphrase
    from colony_memory.reports import (
        Change,
        Event,
        LifecycleEvent,
        Merged,
        SearchReport,
        SnapshotDiff,
        VaultMap,
        VerifyReport,
    )
    from colony_memory.retention import PrunePlan, Retention
    from colony_memory.shell.app.restore import restore_folder
    from colony_memory.shell.app.run import guard
    from colony_memory.shell.app.save import save_folder, save_paths
    from colony_memory.signing import Ed25519Signer, Signer
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.witness import FileWitness, Witness

__all__ = [
    "FORMAT",
    "AsyncColonyMemory",
    "AsyncVaultBackend",
    "BackupUncertain",
    "Change",
    "ColonyMemory",
    "ColonyMemoryError",
    "ColonyMemoryWarning",
    "ConflictDetected",
    "DecryptionError",
    "Ed25519Signer",
    "Event",
    "FileWitness",
    "Hint",
    "LifecycleEvent",
    "Merged",
    "Passphrase",
    "PruneIncomplete",
    "PrunePlan",
    "QuotaExceeded",
    "RateLimited",
    "Retention",
    "RollbackDetected",
    "SearchReport",
    "SecretsFound",
    "Signer",
    "SnapshotCorrupt",
    "SnapshotDiff",
    "SnapshotInfo",
    "SnapshotNotFound",
    "UnsupportedFormat",
    "UntrustedSnapshot",
    "VaultBackend",
    "VaultDenied",
    "VaultError",
    "VaultMap",
    "VaultMissing",
    "VaultUnavailable",
    "VerifyReport",
    "Witness",
    "__version__",
    "guard",
    "open_vault",
    "restore_folder",
    "save_folder",
    "save_paths",
]

# Loaded on first use: an agent that boots to restore does not wait for them.
_LATE = {
    **dict.fromkeys(["Change", "Event", "LifecycleEvent", "Merged", "SearchReport", "SnapshotDiff"], "reports"),
    **dict.fromkeys(["VaultMap", "VerifyReport"], "reports"),
    **dict.fromkeys(["Ed25519Signer", "Signer"], "signing"),
    **dict.fromkeys(["FileWitness", "Witness"], "witness"),
    **dict.fromkeys(["PrunePlan", "Retention"], "retention"),
    **dict.fromkeys(["save_folder", "save_paths"], "shell.app.save"),
    "Passphrase": "encryption",
    "SnapshotInfo": "snapshot",
    "guard": "shell.app.run",
    "restore_folder": "shell.app.restore",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATE:
        return getattr(import_module(f"{__name__}.{_LATE[name]}"), name)
    if name in ("signing", "snapshot"):  # modules that 0.1.1 loads at once
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
