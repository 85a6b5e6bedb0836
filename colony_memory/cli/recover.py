"""Where to read on in trouble: the page that goes from what was printed to what to do."""

from __future__ import annotations

from colony_memory.exceptions import (
    BackupUncertain,
    ConflictDetected,
    DecryptionError,
    QuotaExceeded,
    RollbackDetected,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultError,
    VaultMissing,
)

PAGE = "https://memory.thecolony.cc/recover"
# The first that fits. A newer format is no damage: its message says all.
_PARTS: tuple[tuple[type[BaseException], str | None], ...] = (
    (UnsupportedFormat, None),
    (SnapshotNotFound, "nothing-saved-yet"),
    (SnapshotCorrupt, "damaged"),
    (RollbackDetected, "rolled-back"),
    (UntrustedSnapshot, "not-trusted"),
    (DecryptionError, "encrypted"),
    (VaultMissing, "no-vault"),
    (VaultError, "no-answer"),
    (BackupUncertain, "no-answer"),
    (QuotaExceeded, "vault-full"),
    (ConflictDetected, "two-writers"),
)


def address_for(error: BaseException) -> str | None:
    """The part of the page that is about such an error, None where there is none."""
    # What the command line has more to say of than the error did was raised from that error.
    for each in (error, error.__cause__):
        for kind, part in _PARTS:
            if isinstance(each, kind):
                return None if part is None else f"{PAGE}#{part}"
    return None
