"""The hosted vault in memory: limits, replies and refusals of the real one, for anyone's tests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from colony_memory.vaults._files import describe_room
from colony_memory.vaults.memory import MemoryVault

__all__ = ["EXTENSIONS", "FakeVault", "error_envelope"]

#: The file extensions that the hosted vault takes.
EXTENSIONS = (
    ".md", ".txt", ".html", ".json", ".yaml", ".yml", ".toml", ".xml", ".csv", ".cfg", ".ini", ".conf", ".env", ".log",
)  # fmt: skip

_MAX_BODY_CHARS = 1_100_000
_MAX_NAME_CHARS = 255
_HOUR = 3600.0


class FakeVault(MemoryVault):
    """The hosted vault as ``colony_sdk.ColonyClient`` shows it, without network.

    It refuses with the SDK's own exceptions, in this order: for a listing 422 (a prefix of more than 255 characters);
    for an upload 422 (more than 1,100,000 characters, a name of more than 255, text that UTF-8 cannot encode), 403
    KARMA_TOO_LOW, 400 INVALID_INPUT (extension), 400 QUOTA_EXCEEDED (the file, then the total, to which a replaced file
    does not count), 400 LIMIT_EXCEEDED (number of files, where the upload makes a new one), 429, 412; for a delete,
    which needs no karma, 429, 404.

    Uploads and deletes share one bucket an hour, which begins with the first of them. Calls that get as far as the
    bucket spend from it, even if a 404 or 412 follows. Status is all zeros until the first upload that succeeds.

    Args:
        quota_bytes: Bytes that all files together may take.
        max_file_bytes: Bytes that one file may take.
        max_files: Number of files, or None for no limit.
        karma_ok: False if the account may not upload.
        operations_per_hour: Uploads and deletes an hour, or None for no limit.
        clock: Seconds since the epoch, for times and for the hour.

    Attributes:
        files: Name to text; may be read and changed directly, as may every argument above.
        calls: ``(verb, filename)`` of every call, refused ones included. The verbs are ``"status"``, ``"list"``
            (with the prefix as filename, or ``""``), ``"get"``, ``"upload"`` and ``"delete"``.
    """

    def __init__(
        self,
        *,
        quota_bytes: int = 10_000_000,
        max_file_bytes: int = 1_000_000,
        max_files: int | None = None,
        karma_ok: bool = True,
        operations_per_hour: int | None = 60,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(quota_bytes=quota_bytes, max_file_bytes=max_file_bytes, clock=clock)
        self.max_files = max_files
        self.karma_ok = karma_ok
        self.operations_per_hour = operations_per_hour
        self.calls: list[tuple[str, str]] = []
        self._provisioned = False
        self._hour_began: float | None = None
        self._spent = 0

    def vault_operations_left(self) -> int | None:
        """Uploads and deletes left this hour, or None if there is no limit."""
        with self._lock:
            if self.operations_per_hour is None:
                return None
            self._turn_hour()
            return max(0, self.operations_per_hour - self._spent)

    def seconds_to_reset(self) -> float:
        """Seconds until the bucket is full again; a whole hour if nothing has been spent."""
        with self._lock:
            self._turn_hour()
            return _HOUR if self._hour_began is None else self._hour_began + _HOUR - self.clock()

    def _enter(self, verb: str, filename: str) -> None:
        self.calls.append((verb, filename))

    def _refusal(self, status: int, code: str | None, message: str, *, retry_after: int | None = None) -> Exception:
        import colony_sdk

        response = error_envelope(status, code, message)
        if status == 429:
            return colony_sdk.ColonyRateLimitError(message, status, response, code, retry_after)
        kinds: dict[int, type[colony_sdk.ColonyAPIError]] = {
            400: colony_sdk.ColonyValidationError,
            403: colony_sdk.ColonyAuthError,
            404: colony_sdk.ColonyNotFoundError,
            422: colony_sdk.ColonyValidationError,
        }
        return kinds.get(status, colony_sdk.ColonyAPIError)(message, status, response, code)

    def _encode(self, filename: str, content: str) -> bytes:
        self._admit_length("a text", content, _MAX_BODY_CHARS)
        self._admit_length("a name", filename, _MAX_NAME_CHARS)
        return super()._encode(filename, content)

    def _admit_length(self, kind: str, text: str, most: int) -> None:
        if len(text) > most:
            raise self._refusal(422, None, f"{kind} of {len(text)} characters, at most {most} are allowed")

    def _admit_upload(self, filename: str, size: int) -> None:
        if not self.karma_ok:
            raise self._refusal(403, "KARMA_TOO_LOW", "writing to the vault takes a karma of 10")
        if not filename.endswith(EXTENSIONS):
            raise self._refusal(400, "INVALID_INPUT", f"{filename}: the vault does not take this extension")
        super()._admit_upload(filename, size)
        if self.max_files is not None and filename not in self.files and len(self.files) >= self.max_files:
            raise self._refusal(400, "LIMIT_EXCEEDED", f"{filename}: the vault holds {self.max_files} files")
        self._spend()

    def _admit_delete(self, filename: str) -> None:  # noqa: ARG002
        self._spend()

    def _status(self) -> dict[str, Any]:
        return super()._status() if self._provisioned or self.files else describe_room(0, 0, 0)

    def _upload(
        self, filename: str, content: str, *, if_match: str | None = None, absent: bool = False
    ) -> dict[str, Any]:
        reply = super()._upload(filename, content, if_match=if_match, absent=absent)
        self._provisioned = True
        return reply

    def _listing(self, prefix: str) -> dict[str, Any]:
        self._admit_length("a prefix", prefix, _MAX_NAME_CHARS)
        return super()._listing(prefix)

    def _turn_hour(self) -> None:
        began = self._hour_began
        # A clock that was set back begins a new hour too, rather than wait for the end of the old one.
        if began is not None and not began <= self.clock() < began + _HOUR:
            self._hour_began, self._spent = None, 0

    def _spend(self) -> None:
        limit = self.operations_per_hour
        if limit is None:
            return
        self._turn_hour()
        if self._hour_began is None:
            self._hour_began = self.clock()
        if self._spent >= limit:
            wait = max(1, math.ceil(self.seconds_to_reset()))
            message = f"{limit} file operations an hour, the next in {wait} s"
            raise self._refusal(429, "RATE_LIMIT", message, retry_after=wait)
        self._spent += 1


def error_envelope(status: int, code: str | None, message: str) -> dict[str, Any]:
    """The body of an error reply: a list in ``detail`` for 422, a message with a code for all others."""
    if status == 422:
        return {"detail": [{"type": "value_error", "loc": ["body"], "msg": message}]}
    return {"detail": {"message": message, "code": code}}
