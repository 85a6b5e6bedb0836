"""Every error that leaves the package.

::

    ColonyMemoryError(RuntimeError)
    ├── SnapshotNotFound                 proven absence
    ├── SnapshotCorrupt(…, ValueError)   bytes are not what the manifest says; .file
    │   └── UnsupportedFormat
    ├── UntrustedSnapshot(…, ValueError) signature missing, foreign, wrong, moved
    │   └── RollbackDetected
    ├── QuotaExceeded                    .needed .available
    ├── ConflictDetected                 another writer; .theirs .snapshot_id
    ├── BackupUncertain                  may have been applied; .snapshot_id
    ├── PruneIncomplete                  .deleted .failed
    ├── SecretsFound                     in what was to be saved; .findings
    ├── DecryptionError                  no key that fits; not damage
    └── VaultError                       .status .code .retry_after
        ├── VaultUnavailable             network, timeout, 5xx, torn reply
        │   └── VaultMissing             no vault was ever made there
        ├── VaultDenied                  401, 403
        └── RateLimited                  429

A bad argument is a plain :class:`ValueError`, a missing extra a plain :class:`ColonyMemoryError`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence
from typing import Any

from colony_memory._values import Value, field

_SHOWN_FINDINGS = 10


class Hint(Value):
    """A call that helps, for each face to word in its own way; as text it is the call in Python.

    >>> str(Hint("restore", "snapshot_id", "20260101T000000000000Z-abcdef", label="notes"))
    "restore(label='notes', snapshot_id='20260101T000000000000Z-abcdef')"
    """

    #: A verb of :class:`ColonyMemory`, ``open`` for an argument of the client itself, ``init`` to make a vault, or the
    #: name of another function of the package, such as ``read_folder``.
    action: str
    option: str | None = None  #: Keyword argument to give, None for the call as it is.
    value: str | int | None = None  #: Its value; None if only the caller can know it.
    label: str | None = None  #: The label to call it for; None for the default, or if it takes none.

    def __str__(self) -> str:
        name = {"open": "ColonyMemory", "init": "open_vault"}.get(self.action, self.action)
        arguments = [] if self.label in (None, "default") else [f"label={self.label!r}"]
        if self.option is not None:
            arguments.append(f"{self.option}={'…' if self.value is None else repr(self.value)}")
        return f"{name}({', '.join(arguments)})"


class _Hinted(Exception):
    """The base of errors and warnings: a message that every face can print, and a next step."""

    def __init__(self, message: str = "", *, hint: Hint | None = None) -> None:
        super().__init__(message)
        self.hint = hint  #: The next step, None if there is none beyond the message.

    @property
    def message(self) -> str:
        """The message without the hint."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}; try {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Attributes are keyword-only, which the default way to pickle and copy exceptions does not support.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class ColonyMemoryError(_Hinted, RuntimeError):
    """Base class of every error of this package."""


class _BadArgument(_Hinted, ValueError):
    """A bad argument with a hint. To callers it is a ValueError like every other."""


def bad_argument(message: str, *, hint: Hint) -> ValueError:
    """The ValueError of a wrong argument, with a next step."""
    return _BadArgument(message, hint=hint)


def message_of(error: BaseException) -> str:
    """The message for every face: an error's or warning's text without its hint."""
    return error.message if isinstance(error, _Hinted) else str(error)


class ColonyMemoryWarning(_Hinted, UserWarning):
    """Something was worked around: the message names it. The call itself succeeded."""


class SnapshotNotFound(ColonyMemoryError):
    """The vault answered, and it holds no such snapshot. Never raised for a fault."""


class SnapshotCorrupt(ColonyMemoryError, ValueError):
    """Stored bytes differ from the manifest."""

    def __init__(self, message: str, *, file: str | None = None, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.file = file  #: The vault file that is wrong, or None if that cannot be known.


class UnsupportedFormat(SnapshotCorrupt):
    """The snapshot is of a format or codec that this version does not read."""


class UntrustedSnapshot(ColonyMemoryError, ValueError):
    """The signature is missing, foreign, wrong, or belongs to another snapshot."""


class RollbackDetected(UntrustedSnapshot):
    """The vault shows an older state than one that was seen before."""


class QuotaExceeded(ColonyMemoryError):
    """The snapshot does not fit; nothing of it was left behind."""

    def __init__(
        self, message: str, *, needed: int | None = None, available: int | None = None, hint: Hint | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.needed = needed  #: Bytes that the snapshot takes, or None if only the vault knows.
        self.available = available  #: Bytes that are free, or None if only the vault knows.


class ConflictDetected(ColonyMemoryError):
    """Another writer moved the pointer in between."""

    def __init__(
        self, message: str, *, theirs: str | None, snapshot_id: str | None = None, hint: Hint | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.theirs = theirs  #: Id of the snapshot that the pointer names now, or None if it was removed.
        #: Id of this call's own snapshot, whole and listed, or None if none was made.
        self.snapshot_id = snapshot_id


class BackupUncertain(ColonyMemoryError):
    """A write was not answered and could not be read back: the snapshot may be live."""

    def __init__(self, message: str, *, snapshot_id: str, hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.snapshot_id = snapshot_id  #: Id of the snapshot in question.


class PruneIncomplete(ColonyMemoryError):
    """Some files that were to be deleted could not be."""

    def __init__(self, message: str, *, deleted: int, failed: Sequence[str], hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.deleted = deleted  #: Number of snapshots that are gone.
        self.failed = tuple(failed)  #: Vault files that are still there.


class SecretFinding(Value):
    """The place of something that is likely a secret. It does not hold the secret."""

    name: str  #: Name of the file, in which a secret of its own is masked; ``note`` or ``tag`` for those of a snapshot.
    #: Number of the line that it begins in, from 1; None in a file that is not text, in a name and in a link.
    line: int | None
    kind: str  #: The kind of secret that it looks like, such as ``GitHub token``.
    #: The same as long as the secret is in that file, on whatever line, such as ``notes.md:github-token:0a1b2c``. It
    #: reveals 24 bits of a digest of the secret, which nobody can guess.
    id: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.name}{'' if self.line is None else f':{self.line}'}: {self.kind}"


class SecretsFound(ColonyMemoryError):
    """There are likely secrets in what was to be saved, and nothing was."""

    def __init__(self, message: str, *, findings: Sequence[SecretFinding], hint: Hint | None = None) -> None:
        super().__init__(message, hint=hint)
        self.findings = tuple(findings)  #: Where, without the secrets.

    @property
    def summary(self) -> str:
        """The message without the list of the findings."""
        return super().message

    @property
    def message(self) -> str:
        """The message with the first of the findings."""
        more = len(self.findings) - _SHOWN_FINDINGS
        shown = ", ".join(map(str, self.findings[:_SHOWN_FINDINGS])) + (f" and {more} more" if more > 0 else "")
        return f"{self.summary}: {shown}" if shown else self.summary


class DecryptionError(ColonyMemoryError):
    """The snapshot is encrypted, and no identity that was given decrypts it: it may well be intact."""


class VaultError(ColonyMemoryError):
    """The vault refused or failed in a way that has no class of its own here."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        hint: Hint | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status  #: HTTP status, or None if there was no reply.
        self.code = code  #: The vault's machine-readable code, or None.
        self.retry_after = retry_after  #: Seconds to wait before the next try, or None.


class VaultUnavailable(VaultError):
    """No usable answer: network, timeout, 5xx or a torn reply. Says nothing about what is stored."""


class VaultMissing(VaultUnavailable):
    """There is no vault: none was ever made there, or the disk that it is on is not mounted. Never a first start."""


class VaultDenied(VaultError):
    """401 or 403: the key is wrong, or the account may not do this."""


class RateLimited(VaultError):
    """429: too many operations; see ``retry_after``."""
