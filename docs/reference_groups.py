"""What the page of the public names has, and in which order. Without names, all that a module exports."""

# ruff: noqa: INP001 - a script

from __future__ import annotations

from dataclasses import dataclass

PACKAGE = "colony_memory"


@dataclass(frozen=True, eq=False)
class Group:
    """A section of the page.

    Attributes:
        title: Its heading.
        about: What it is for.
        names: Names by module, below the package.
    """

    title: str
    about: str
    names: dict[str, tuple[str, ...]]


CONSTANTS = {"FORMAT": "the wire format that is written unless told otherwise", "__version__": "the version"}

GROUPS = (
    Group(
        "Clients",
        "The verbs, and backup by itself. [In Python](quickstart.md) begins here.",
        {
            "": ("ColonyMemory", "AsyncColonyMemory"),
            "schedule.autobackup": (),
        },
    ),
    Group(
        "Snapshots and reports",
        "What the verbs return: frozen values, most of them true where there is something good to say.",
        {
            "": (
                "SnapshotInfo", "VerifyReport", "SnapshotDiff", "Merged", "Change", "SearchReport", "VaultMap", "Event",
                "LifecycleEvent",
            ),
            "reports": ("SnapshotCheck", "DocumentChange", "Match", "LabelMap", "RewriteReport", "Salvaged"),
        },
    ),
    Group("Retention", "See [Decide what to keep](retention.md).", {"": ("Retention", "PrunePlan")}),
    Group(
        "Signing and trust",
        "See [Sign snapshots](signatures.md).",
        {"": ("Ed25519Signer", "Signer", "FileWitness", "Witness")},
    ),
    Group("Encryption", "See [Encrypt](encryption.md).", {"": ("Passphrase",), "encryption": ("make_identity",)}),
    Group(
        "Vaults",
        "See [Choose a vault](vaults.md).",
        {
            "": ("open_vault", "VaultBackend", "AsyncVaultBackend"),
            "vaults": (
                *("ConditionalUpload", "PrefixListing", "FileLookup", "ManyDeletion"),
                *("OperationBudget", "OperationReset", "FreeSpace"),
            ),
            "vaults.local": (),
            "vaults.objects": ("ObjectVault",),
            "vaults.memory": ("MemoryVault",),
            "vaults.colony": ("ColonyVault", "AsyncColonyVault"),
        },
    ),
    Group(
        "Folders",
        "See [With folders](folders.md) and [Restore a folder](restoring.md).",
        {
            "": ("save_folder", "save_paths", "restore_folder", "guard"),
            "shell.app.save": ("Saved",),
            "shell.app.restore": ("RestoredFolder",),
            "shell.app.run": ("Guarded",),
            "capture": (),
        },
    ),
    Group(
        "What the command line does",
        "Use cases for other faces: they take plain arguments, return typed results, and neither print nor ask.",
        {
            "shell.app.open": ("choose_place", "Place"),
            "shell.app.pick": ("find", "find_at"),
            "shell.app.content": ("content_of",),
            "shell.app.compare": ("file_history", "FileHistory", "search_files"),
            "shell.app.protection": ("check_protection", "Checked", "Protection", "Problem", "Newest"),
            "shell.app.config": ("load_config", "Config"),
            "schedule.watch": ("read_runs", "RunLog", "LastRun"),
        },
    ),
    Group(
        "Moving",
        "See [Export, import, copy](moving.md).",
        {
            "transfer": ("copy", "save_export", "load_export", "Export", "CopyReport"),
        },
    ),
    Group(
        "Errors",
        "Whatever leaves the package. [Errors](errors.md) says what to do about each.",
        {
            "": (
                "ColonyMemoryError", "SnapshotNotFound", "SnapshotCorrupt", "UnsupportedFormat", "UntrustedSnapshot",
                "RollbackDetected", "QuotaExceeded", "ConflictDetected", "BackupUncertain", "PruneIncomplete",
                "SecretsFound", "DecryptionError", "VaultError", "VaultUnavailable", "VaultMissing", "VaultDenied",
                "RateLimited", "ColonyMemoryWarning", "Hint",
            ),
        },
    ),
    Group("Testing", "See [Test an agent](testing.md).", {"testing": ()}),
)  # fmt: skip
