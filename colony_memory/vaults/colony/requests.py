"""Pure: the requests of the vault's HTTP interface that the SDK does not make, and what replies to them say."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from colony_memory._version import __version__
from colony_memory.exceptions import VaultError

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_DIGITS = 12
# Objects and lists in a reply: read, each takes up to a hundred times its bytes.
_MOST_NODES = 400_000
# What is no larger is not looked at for them.
_FEW_BYTES = 2**20


@dataclass(frozen=True)
class Request:
    """What to send; the token is in its headers, so that its repr leaves them out."""

    method: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Reply:
    """What came back; ``headers`` by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class Refused(Exception):
    """A reply that says no, with the attributes of the SDK's errors."""

    def __init__(
        self, message: str, status: int | None, code: str | None, retry_after: float | None, response: object = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.response = response


class Unanswered(Exception):
    """No reply, or one that says nothing."""


def file_path(filename: str) -> str:
    """Where a file is, below the address of the API."""
    return f"/vault/files/{quote(filename, safe='/')}"


def prefix_path(prefix: str) -> str:
    """Where the listing of the names under a prefix is."""
    return f"/vault/files?{urlencode({'prefix': prefix})}"


def build_request(
    url: str,
    token: str | None,
    method: str = "GET",
    *,
    body: object = None,
    if_match: str | None = None,
    if_none_match: str | None = None,
) -> Request:
    """A request of the API: ``body`` is sent as JSON, ``if_match`` as an etag in its quotes."""
    headers = {"Accept": "application/json", "User-Agent": f"colony-memory/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    if if_none_match is not None:
        headers["If-None-Match"] = if_none_match
    return Request(method, url, headers, None if body is None else json.dumps(body).encode())


def read_reply(reply: Reply) -> Any:
    """The JSON of a success, together with the etag of what was written where the headers have it."""
    good = 200 <= reply.status < 300
    if good and not reply.body:
        return {}
    try:
        if len(reply.body) > _FEW_BYTES and reply.body.count(b"{") + reply.body.count(b"[") > _MOST_NODES:
            raise ValueError("it holds too much")
        data = json.loads(reply.body)
    except (ValueError, RecursionError) as exc:
        if good:
            raise Unanswered("the reply is torn") from exc
        data = None
    if good:
        etag = reply.headers.get("etag", "").strip('"')
        return {"etag": etag, **data} if etag and isinstance(data, dict) and "filename" in data else data
    said = f"HTTP {reply.status}"
    if 300 <= reply.status < 400:
        # What a redirect says of itself is not believed, so that nothing of its body is read.
        raise Refused(f"{said}{_direction(reply.headers.get('location', ''))}", reply.status, None, None)
    detail = data.get("detail") if isinstance(data, dict) else None
    message, code = detail, None
    if isinstance(detail, dict):
        message, code = detail.get("message"), detail.get("code")
    elif isinstance(detail, list):
        message = "; ".join(str(item.get("msg")) for item in detail if isinstance(item, dict))
    if not isinstance(code, str):
        code = "PRECONDITION_FAILED" if reply.status == 412 else None
    said += f", {message}" if isinstance(message, str) and message else ""
    raise Refused(said, reply.status, code, whole_number(reply.headers.get("retry-after")), data)


def _direction(location: str) -> str:
    """The host that a redirect names, as the end of a sentence."""
    try:
        parts = urlsplit(location)
        host = parts.hostname or ""
    except ValueError:
        return ""
    return f", to {parts.scheme}://{host[:100]}" if parts.scheme in {"http", "https"} and host.isprintable() else ""


def delay_before_retry(reply: Reply, attempt: int, retry: Any) -> float | None:
    """Seconds until a request is sent again, None where it is not; by the rules of the SDK's ``RetryConfig``."""
    if attempt >= retry.max_retries or reply.status not in retry.retry_on:
        return None
    told = reply.headers.get("retry-after")
    wait = whole_number(told)
    if wait is None:
        # A date, or a number beyond all bounds: nothing to go by, and no leave to be quick.
        return None if told else min(retry.base_delay * 2**attempt, retry.max_delay)
    return None if wait > retry.max_retry_after else float(wait)


def check_shape(method: str, reply: Any) -> Any:
    """The reply, if it has what the method owes; the SDK gives ``{}`` for a body that is empty or torn."""
    bare = reply.get("result", reply) if isinstance(reply, dict) else reply
    if method == "vault_delete_file":
        return reply
    if method in {"vault_list_files", "vault_list_prefix"}:
        good = isinstance(bare.get("items", bare.get("files")) if isinstance(bare, dict) else bare, list)
    else:
        good = isinstance(bare, dict) and bool(bare)
    if method == "vault_get_file":
        good = good and isinstance(bare.get("content"), str)
    if not good:
        raise Unanswered("the reply is torn, or not a vault's")
    return reply


def check_name(filename: str) -> None:
    """Refuse a name that would make the address of something else."""
    if any(part in {"", ".", ".."} for part in filename.split("/")):
        raise VaultError(f"not a name of a vault file: {filename!r}", status=400, code="INVALID_INPUT")
    check_text(filename)


def check_text(text: str) -> None:
    """Refuse a text that UTF-8 cannot hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise VaultError(f"not valid Unicode: {text!r}", status=400, code="INVALID_INPUT") from exc


def is_plain(text: str) -> bool:
    """Whether a text can stand in a header."""
    return bool(text) and text.isascii() and text.isprintable()


def whole_number(text: str | None) -> int | None:
    """The number that a header holds, None where it holds none, or one that no clock and no count gets to."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    return int(text)
