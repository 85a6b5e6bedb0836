"""Pure: the requests of the vault's HTTP interface that the SDK does not make, and what replies to them say."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from colony_memory._version import __version__
from colony_memory.exceptions import VaultError

if TYPE_CHECKING:
    from collections.abc import Mapping


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

    def __init__(self, message: str, status: int | None, code: str | None, retry_after: float | None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after


class Unanswered(Exception):
    """No reply, or one that says nothing."""


def build_request(
    base_url: str,
    token: str,
    *,
    filename: str | None = None,
    content: str | None = None,
    if_match: str | None = None,
    if_none_match: str | None = None,
    prefix: str | None = None,
) -> Request:
    """The request that uploads ``content`` to ``filename`` under a condition, or lists the names under ``prefix``."""
    headers = {
        "Accept": "application/json",
        "Authorization": f"Bearer {token}",
        "User-Agent": f"colony-memory/{__version__}",
    }
    if filename is None:
        return Request("GET", f"{base_url}/vault/files?{urlencode({'prefix': prefix or ''})}", headers)
    headers["Content-Type"] = "application/json"
    if if_match is not None:
        headers["If-Match"] = f'"{if_match}"'
    if if_none_match is not None:
        headers["If-None-Match"] = if_none_match
    body = json.dumps({"content": content}).encode()
    return Request("PUT", f"{base_url}/vault/files/{quote(filename, safe='/')}", headers, body)


def read_reply(reply: Reply) -> Any:
    """The JSON of a success, together with the etag of what was written where the headers have it.

    Raises:
        Refused: The vault said no.
        Unanswered: A success whose body is torn.
    """
    try:
        data = json.loads(reply.body)
    except (ValueError, RecursionError) as exc:
        if 200 <= reply.status < 300:
            raise Unanswered("the reply is torn") from exc
        data = None
    if 200 <= reply.status < 300:
        etag = reply.headers.get("etag", "").strip('"')
        return {**data, "etag": etag} if etag and isinstance(data, dict) and "filename" in data else data
    detail = data.get("detail") if isinstance(data, dict) else None
    message, code = detail, None
    if isinstance(detail, dict):
        message, code = detail.get("message"), detail.get("code")
    elif isinstance(detail, list):
        message = "; ".join(str(item.get("msg")) for item in detail if isinstance(item, dict))
    if not isinstance(code, str):
        code = "PRECONDITION_FAILED" if reply.status == 412 else None
    said = f"HTTP {reply.status}" + (f", {message}" if isinstance(message, str) and message else "")
    raise Refused(said, reply.status, code, whole_number(reply.headers.get("retry-after")))


def check_shape(method: str, reply: Any) -> Any:
    """The reply, if it has what the method owes; the SDK gives ``{}`` for a body that is empty or torn.

    Raises:
        Unanswered: It has not.
    """
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
    """The number that a header holds, None where it holds none."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
