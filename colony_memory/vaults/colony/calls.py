"""The verbs of the hosted vault, written once over a client and a way to send."""

from __future__ import annotations

import inspect
import math
import os
import re
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from colony_memory._boundary import require_as_meant, translate
from colony_memory.exceptions import ColonyMemoryError, Hint, RateLimited, VaultError, VaultUnavailable, bad_argument
from colony_memory.vaults._files import check_none_match
from colony_memory.vaults.colony.transport import (
    Refused,
    Reply,
    Request,
    Unanswered,
    build_request,
    check_shape,
    check_text,
    delay_before_retry,
    file_path,
    is_plain,
    read_reply,
    whole_number,
)

if TYPE_CHECKING:
    from typing import NoReturn

_HOUR = 3600.0
# A reset from here on is in seconds since the epoch, one below in seconds from now.
_EPOCH_FROM = 1_000_000_000
_PREFIX_CHARS = 255
_TOKENS_KNOWN = 8
_COUNTED = frozenset({"vault_upload_file", "vault_upload_file_if", "vault_delete_file"})
_OF_ONE_FILE = frozenset({"vault_get_file", "vault_delete_file"})
_ROUTER_WORDS = frozenset({"", "Not Found"})  # what a web framework says of an address that it does not serve
# What the SDK stumbles into where a reply is something else than it expects.
_MISUNDERSTOOD = (AssertionError, LookupError, RecursionError, TypeError)


class Budget:
    """Uploads and deletes left this hour, as the latest reply to one of them said."""

    def __init__(self) -> None:
        self._told: tuple[int | None, float, bool] = None, 0.0, False  # how many, until when, and whether that was said

    def note(self, left: int | None, reset: float | None) -> None:
        """Keep a count until its reset: seconds from now, or since the epoch; an hour where that is not said."""
        wait = _HOUR if reset is None else reset if reset < _EPOCH_FROM else reset - time.time()
        self._told = left, time.monotonic() + min(wait, _HOUR), reset is not None

    def left(self) -> int | None:
        """The count, None where there is none or its hour is over."""
        left, until, _ = self._told
        return left if time.monotonic() < until else None

    def reset(self) -> int | None:
        """Whole seconds until all of them are back, None where there is no count, or that was not said."""
        left, until, said = self._told
        wait = until - time.monotonic()
        return math.ceil(wait) if said and left is not None and wait > 0 else None


class Hosted:
    """The verbs, over a client and a transport that subclasses have."""

    def __init__(
        self, api_key: str | None = None, *, base_url: str | None = None, client: Any = None, timeout: float = 30.0
    ) -> None:
        if timeout <= 0:
            raise ValueError(f"timeout must be above 0, not {timeout!r}")
        if client is None:
            api_key = (api_key or os.environ.get("COLONY_API_KEY", "")).strip()
            base_url = (base_url or os.environ.get("COLONY_BASE_URL", "")).strip()
            if not api_key:
                raise ColonyMemoryError(
                    "no vault: no API key is given, nor set as COLONY_API_KEY", hint=Hint("open", "api_key")
                )
            require_as_meant("the API key", api_key)
            parts = urlsplit(base_url)
            if base_url and (parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc):
                # Not repeated: what stands there may be a key that was set in the wrong place.
                raise bad_argument(
                    "the hosted vault's address must begin with http:// or https://, and hold no user name and "
                    "password",
                    hint=Hint("open", "base_url"),
                )
        elif api_key is not None or base_url is not None:
            raise ValueError("give a client=, or what to make one of (api_key=, base_url=), not both")
        self._budget = Budget()
        self._api_key, self._base_url = api_key, base_url
        self._given: Any = client
        self._made: Any = None
        self._timeout = timeout if client is None else getattr(client, "timeout", timeout)
        self._tokens: deque[str] = deque(maxlen=_TOKENS_KNOWN)  # a service may repeat one that was given up
        self._lock = threading.Lock()

    def _connect(self, api_key: str, **address: str) -> Any:
        """The SDK's client."""
        raise NotImplementedError

    async def _transmit(self, request: Request, client: Any, timeout: float) -> Reply:
        raise NotImplementedError

    async def _pause(self, seconds: float) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        base_url = self.identity().removeprefix("colony:")
        return f"{type(self).__name__}({f'base_url={base_url!r}' if base_url else ''})"

    def identity(self) -> str:
        """The identity of the vault: its address. Which account it is of shows in the history of a label."""
        return f"colony:{(self._base_url if self._given is None else self._given.base_url) or ''}"

    async def vault_status(self) -> Any:
        return await self._request("vault_status", "", "GET", "/vault/status")

    async def vault_list_files(self) -> Any:
        return await self._request("vault_list_files", "", "GET", "/vault/files")

    async def vault_list_prefix(self, prefix: str) -> Any:
        """The files whose names start with the literal ``prefix``, of at most 255 characters."""
        if len(prefix) > _PREFIX_CHARS:
            raise ValueError(f"a prefix may have {_PREFIX_CHARS} characters, not {len(prefix)}")
        check_text(prefix)
        path = f"/vault/files?{urlencode({'prefix': prefix})}"
        return await self._request("vault_list_prefix", prefix, "GET", path)

    async def vault_get_file(self, filename: str) -> Any:
        return await self._request("vault_get_file", filename, "GET", file_path(filename))

    async def vault_delete_file(self, filename: str) -> Any:
        return await self._request("vault_delete_file", filename, "DELETE", file_path(filename))

    async def vault_upload_file(self, filename: str, content: str) -> Any:
        return await self._request("vault_upload_file", filename, "PUT", file_path(filename), body={"content": content})

    async def vault_upload_file_if(
        self, filename: str, content: str, *, if_match: str | None = None, if_none_match: str | None = None
    ) -> Any:
        check_none_match(if_none_match)
        if if_match is None and if_none_match is None:
            return await self.vault_upload_file(filename, content)
        path = file_path(filename)
        if if_match is not None:
            if_match = if_match.strip('"')
            if '"' in if_match or not is_plain(if_match):
                raise VaultError(f"not an etag of {filename}: {if_match!r}", status=400, code="INVALID_INPUT")
        # Sent once: a second one would meet what the first has written.
        what = {"body": {"content": content}, "if_match": if_match, "if_none_match": if_none_match}
        return await self._request("vault_upload_file_if", filename, "PUT", path, again=False, **what)

    async def vault_operations_left(self) -> int | None:
        """Uploads and deletes left this hour by the latest reply to one of them, None where it is not known."""
        return self._budget.left()

    async def vault_operations_reset(self) -> int | None:
        """Seconds until all of them are back, None where that reply did not say."""
        return self._budget.reset()

    async def vault_may_write(self) -> bool | None:
        """True if the account may upload, which takes 10 karma; None where the service does not tell."""
        told = await self._request("vault_may_write", "", "GET", "/me/capabilities")
        for each in told.get("result", told).get("capabilities") or ():
            if isinstance(each, dict) and each.get("name") == "write_vault":
                return each.get("allowed") is not False
        return None

    async def _request(self, verb: str, name: str, method: str, path: str, *, again: bool = True, **what: Any) -> Any:
        """Send a request with the client's token, once more with a new one after a 401, and read the reply."""
        doing = _tell(verb, name)
        client = self._client()
        token = await self._token(doing)
        retry = client.retry if again else None
        try:
            reply = await self._send(client, build_request(client.base_url + path, token, method, **what), retry)
            if reply.status == 401:
                token = await self._token(doing, rejected=token)
                reply = await self._send(client, build_request(client.base_url + path, token, method, **what), retry)
            if verb in _COUNTED:
                told = (whole_number(reply.headers.get(f"x-ratelimit-{fact}")) for fact in ("remaining", "reset"))
                self._budget.note(*told)
            return check_shape(verb, read_reply(reply))
        except Exception as exc:  # noqa: BLE001 - one place for every failure, as for the SDK's
            self._fail(exc, verb, doing)

    async def _send(self, client: Any, request: Request, retry: Any) -> Reply:
        """Send, and send again for as long as ``retry`` (None for once) and the replies allow."""
        attempt = 0
        while True:
            reply = await self._transmit(request, client, self._timeout)
            delay = None if retry is None else delay_before_retry(reply, attempt, retry)
            if delay is None:
                return reply
            await self._pause(delay)
            attempt += 1

    async def _token(self, doing: str, *, rejected: str | None = None) -> str:
        """The client's token, a new one if it is still the one that was rejected."""
        client = self._client()
        try:
            token = await _ask_token(client)
            if token == rejected:
                client.refresh_token()
                token = await _ask_token(client)
        except Exception as exc:  # noqa: BLE001 - as above
            self._fail(exc, "get_auth_token", doing)
        if not isinstance(token, str) or not is_plain(token):
            raise VaultUnavailable(f"{doing} failed: the service gave no valid token")
        if token not in self._tokens:
            self._tokens.append(token)
        return token

    def _client(self) -> Any:
        if self._given is not None:
            return self._given
        with self._lock:
            if self._made is None:
                address = {"base_url": self._base_url} if self._base_url else {}
                self._made = self._connect(self._api_key or "", **address)
            return self._made

    def _fail(self, error: Exception, method: str, doing: str) -> NoReturn:
        """Raise what went wrong as an error of this package, without the key and the token."""
        if isinstance(error, ColonyMemoryError):
            raise error
        text, code = str(error), getattr(error, "code", None)
        clean, cause = self._redact(text), None if self._is_told_in(error) else error
        status = getattr(error, "status", None)
        unanswered = None
        if status == 404 and not (method in _OF_ONE_FILE and _speaks_of_a_file(error)):
            unanswered = "the answer is a 404, and not the vault's: is its address right?"
        elif isinstance(error, Unanswered):
            unanswered = clean
        elif isinstance(error, _MISUNDERSTOOD):
            unanswered = f"the reply was not understood ({type(error).__name__})"
        elif cause is None:
            code = self._redact(code) if isinstance(code, str) else None
            error = Refused(clean, status, code, getattr(error, "retry_after", None))
        told = translate(error, doing)
        if unanswered:
            hint = Hint("open", "base_url") if status == 404 else None
            told = VaultUnavailable(f"{doing} failed: {unanswered}", hint=hint)
        if method in _COUNTED and isinstance(told, RateLimited):
            self._budget.note(0 if told.retry_after is not None else None, told.retry_after)
        try:
            raise told from cause
        finally:
            if cause is None:
                # It is the one that holds the key or the token, and whoever shows a traceback may go by this.
                told.__context__ = None

    def _redact(self, text: str) -> str:
        secrets = [*self._tokens, self._api_key, getattr(self._given, "api_key", None)]
        known = sorted({each for each in secrets if isinstance(each, str) and each}, key=len, reverse=True)
        for each in known:
            # A host's name is lower case, whatever was written.
            text = re.sub(re.escape(each), "***", text, flags=re.IGNORECASE)
        return text

    def _is_told_in(self, error: BaseException | None) -> bool:
        """True if an error, or one that it came of, holds the key or a token."""
        seen: list[BaseException] = []
        while error is not None and error not in seen:
            seen.append(error)
            error = error.__cause__ or error.__context__
        text = " ".join(f"{each!s} {each!r} {vars(each)!r}" for each in seen)
        return self._redact(text) != text


def _tell(method: str, name: str) -> str:
    return {
        "vault_status": "asking for the quota",
        "vault_may_write": "asking what the account may do",
        "vault_list_files": "listing the vault",
        "vault_list_prefix": f"listing {name}*",
        "vault_get_file": f"reading {name}",
        "vault_delete_file": f"deleting {name}",
    }.get(method, f"writing {name}")


def _speaks_of_a_file(error: Exception) -> bool:
    """True if a 404 has the body of the vault's own, rather than a router's or a proxy's."""
    body = getattr(error, "response", None)
    detail = body.get("detail") if isinstance(body, dict) else None
    return isinstance(detail, dict) or (isinstance(detail, str) and detail not in _ROUTER_WORDS)


async def _ask_token(client: Any, *, again: bool = True) -> Any:
    try:
        token = client.get_auth_token()
        return await token if inspect.isawaitable(token) else token
    except AssertionError:  # the SDK's own, where another thread gave its token up at this moment
        if not again:
            raise
        return await _ask_token(client, again=False)
