"""The hosted vault over HTTP with the SDK's real clients: every fault, at every call."""

import contextlib
import itertools
import json
import ssl
import time
from datetime import datetime, timedelta, timezone

import colony_sdk
import pytest
from hosted import answering, connect, open_hosted, server, with_token

from colony_memory.exceptions import (
    ColonyMemoryError,
    QuotaExceeded,
    RateLimited,
    VaultDenied,
    VaultError,
    VaultUnavailable,
)
from colony_memory.testing.server import Reply
from colony_memory.vaults import colony
from colony_memory.vaults.colony import ColonyVault, transport
from colony_memory.vaults.colony.transport import Reply as ApiReply
from colony_memory.vaults.colony.transport import build_request, delay_before_retry

__all__ = ["connect", "open_hosted", "server"]

# Every call, on a vault that holds x.json, with the method and the path of its request.
CALLS = {
    "status": (lambda vault: vault.vault_status(), "GET", "/vault/status"),
    "list": (lambda vault: vault.vault_list_files(), "GET", "/vault/files"),
    "get": (lambda vault: vault.vault_get_file("x.json"), "GET", "x.json"),
    "upload": (lambda vault: vault.vault_upload_file("x.json", "new"), "PUT", "x.json"),
    "delete": (lambda vault: vault.vault_delete_file("x.json"), "DELETE", "x.json"),
    "prefix": (lambda vault: vault.vault_list_prefix("x"), "GET", "/vault/files"),
    "upload if": (lambda vault: vault.vault_upload_file_if("new.json", "new", if_none_match="*"), "PUT", "new.json"),
}
NO_TIMES = ("9" * 400, "9" * 5000, "-5", "nan", "inf", "1e999", "Wed, 21 Oct 2026 07:28:00 GMT", "\u00b2", "")
REDIRECTS = (
    *((status, "other") for status in (300, 301, 302, 303, 304, 305, 307, 308, 399)),
    *((302, "same"), (302, "none"), (301, "odd"), (308, "odd")),
)
every_call = pytest.mark.parametrize("name", CALLS)


def crossed(names, *cases, but=None):
    """Each case with a call in turn and, beside the quick set, with every call."""
    calls = [name for name in CALLS if name != but]
    values = [
        pytest.param(call, *case, marks=[] if number % len(calls) == at else pytest.mark.exhaustive)
        for number, case in enumerate(cases)
        for at, call in enumerate(calls)
    ]
    return pytest.mark.parametrize(("name", *names), values)


@pytest.fixture
def vault(server, connect):
    server.vault.files["x.json"] = "old"
    return connect(server.url)


@crossed(
    ("kind", "options"),
    ("drop", {}),
    ("garbage", {}),
    ("torn", {"declared": "whole"}),
    ("torn", {"declared": "sent"}),
    ("status", {"status": 500}),
    ("status", {"status": 502}),
    ("status", {"status": 503}),
    ("status", {"status": 504}),
    ("applied", {"then": "drop"}),
    ("applied", {"then": "status", "status": 500}),
)
def test_no_answer_is_told_as_such(vault, server, name, kind, options):
    call, method, path = CALLS[name]
    server.fault(method, kind, path=path, times=None, **options)
    if name == "delete" and kind in {"garbage", "torn"}:
        # What a delete is answered with does not matter, where it was a success.
        with contextlib.suppress(VaultUnavailable):
            call(vault)
        return
    with pytest.raises(VaultUnavailable) as caught:
        call(vault)
    assert caught.value.status in {None, options.get("status")}
    if path.endswith(".json"):
        assert path in str(caught.value)


@crossed(
    ("kind", "options"),
    *[("drop", {}), ("garbage", {}), ("torn", {}), ("torn", {"declared": "sent"}), ("status", {"status": 503})],
)
def test_no_answer_of_the_token_service(vault, server, name, kind, options):
    server.fault("POST", kind, path="/auth/token", times=None, **options)
    with pytest.raises(VaultUnavailable):
        CALLS[name][0](vault)
    assert server.vault.files == {"x.json": "old"}


@every_call
def test_no_connection(server, vault, name):
    server.close()
    with pytest.raises(VaultUnavailable):
        CALLS[name][0](vault)


@pytest.mark.parametrize("name", ["get", "upload if"])
def test_a_slow_vault_times_out(server, connect, name):
    server.vault.files["x.json"] = "old"
    vault = connect(server.url, timeout=1.5)
    call, method, path = CALLS[name]
    vault.vault_status()
    server.fault(method, "delay", path=path, seconds=5)
    with pytest.raises(VaultUnavailable):
        call(vault)


@every_call
def test_an_expired_token_is_renewed(vault, server, name):
    call, method, _path = CALLS[name]
    vault.vault_status()
    server.expire_tokens()
    server.calls.clear()
    call(vault)
    assert [seen[0] for seen in server.calls] == [method, "POST", method]


@every_call
def test_a_token_that_stays_rejected_is_denied(vault, server, name):
    call, method, path = CALLS[name]
    server.fault(method, "expired", path=path, times=None)
    with pytest.raises(VaultDenied) as caught:
        call(vault)
    assert (caught.value.status, caught.value.code) == (401, "AUTH_INVALID_TOKEN")
    assert sum(path in seen[1] for seen in server.calls) == 2


@every_call
def test_a_wrong_key_is_denied_and_not_repeated(server, connect, name):
    with pytest.raises(VaultDenied) as caught:
        CALLS[name][0](connect(server.url, api_key="col_wrong_and_secret"))
    assert (caught.value.status, caught.value.code) == (401, "AUTH_INVALID_KEY")
    assert "col_wrong" not in str(caught.value)
    assert server.vault.calls == []


@crossed(["header"], *[(text,) for text in NO_TIMES])
def test_too_many_requests_for_a_time_that_is_none(connect, name, header):
    headers = {"Retry-After": header, "X-RateLimit-Remaining": header, "X-RateLimit-Reset": header}
    body = b'{"detail": {"message": "slow", "code": "RATE_LIMIT"}}'
    with answering(with_token(lambda request: Reply(429, body, headers))) as url, pytest.raises(RateLimited) as caught:
        CALLS[name][0](connect(url))
    assert caught.value.retry_after is None
    assert "try again later" in caught.value.message


@crossed(
    ("status", "code", "kind"),
    (403, "KARMA_TOO_LOW", VaultDenied),
    (400, "INVALID_INPUT", VaultError),
    (400, "QUOTA_EXCEEDED", QuotaExceeded),
    (400, "LIMIT_EXCEEDED", QuotaExceeded),
    (409, "CONFLICT", VaultError),
    (422, None, VaultError),
    (429, "RATE_LIMIT", RateLimited),
)
def test_a_refusal_carries_what_the_vault_said(vault, server, name, status, code, kind):
    call, method, path = CALLS[name]
    server.fault(method, "status", path=path, status=status, code=code, retry_after=1234 if status == 429 else None)
    with pytest.raises(kind) as caught:
        call(vault)
    assert not path.endswith(".json") or path in str(caught.value)
    assert "injected fault" in str(caught.value)
    assert type(caught.value) is kind
    assert kind is QuotaExceeded or (caught.value.status, caught.value.code) == (status, code)
    assert kind is not RateLimited or caught.value.retry_after == 1234


def test_an_etag_may_come_in_its_quotes(vault, server):
    etag = vault.vault_get_file("x.json")["etag"]
    vault.vault_upload_file_if("x.json", "new", if_match=f'"{etag}"')
    assert server.vault.files == {"x.json": "new"}


@pytest.mark.parametrize("etag", ["", 'a"b', "a\nX-Evil: 1", "é"])
def test_an_etag_that_is_none_is_not_sent(vault, server, etag):
    with pytest.raises(VaultError) as caught:
        vault.vault_upload_file_if("x.json", "new", if_match=etag)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_INPUT")
    assert server.calls == []


@pytest.mark.parametrize("name", ["", ".", "..", "../status", "a/../b.json", "/x.json", "x/", "a//b", "\ud800.json"])
def test_a_name_that_is_another_address_is_not_sent(vault, server, name):
    for call in (
        lambda: vault.vault_get_file(name),
        lambda: vault.vault_delete_file(name),
        lambda: vault.vault_upload_file(name, "new"),
        lambda: vault.vault_upload_file_if(name, "new", if_none_match="*"),
    ):
        with pytest.raises(VaultError) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (400, "INVALID_INPUT")
    assert server.calls == []


def test_prefixes(vault, server):
    for name in ("a b.json", "a%20b.json", "a&prefix=.json", "é+.json", "folder/x.json"):
        server.vault.files[name] = ""
        assert [item["filename"] for item in vault.vault_list_prefix(name[:-1])["items"]] == [name]
    assert len(vault.vault_list_prefix("")["items"]) == 6
    assert vault.vault_list_prefix("n" * 255)["items"] == []
    with pytest.raises(ValueError, match="255"):
        vault.vault_list_prefix("n" * 256)
    with pytest.raises(VaultError) as caught:
        vault.vault_list_prefix("\ud800")
    assert caught.value.code == "INVALID_INPUT"


# --- absence


@crossed(
    ["body"],
    *[(each,) for each in (b"<h1>Not Found</h1>", b"", b"[]", b"{}", b'{"detail": "Not Found"}', b'{"detail": ""}')],
)
def test_a_404_that_is_not_the_vaults_is_no_absence(connect, name, body):
    with answering(with_token(lambda request: Reply(404, body))) as url:
        with pytest.raises(VaultUnavailable, match="base_url") as caught:
            CALLS[name][0](connect(url))
        assert caught.value.status is None


def test_a_404_in_plain_words_is_absence(connect):
    with answering(with_token(lambda request: Reply(404, b'{"detail": "File not found"}'))) as url:
        with pytest.raises(VaultError) as caught:
            connect(url).vault_get_file("x.json")
        assert (type(caught.value), caught.value.status) == (VaultError, 404)


@crossed(
    ["body"],
    *[(each,) for each in (b"{}", b"", b"null", b"3", b'{"result": {}}', b'{"detail": 1}'[:-1], b"[" * 99_999)],
    but="delete",
)
def test_a_success_without_what_was_asked_for(connect, name, body):
    with answering(with_token(lambda request: Reply(200, body))) as url, pytest.raises(VaultUnavailable):
        CALLS[name][0](connect(url))


def test_wrapped_replies_and_other_shapes_are_fine(connect):
    bodies = iter([{"result": {"items": []}}, {"files": []}, [], {"result": []}])
    with answering(with_token(lambda request: Reply(200, json.dumps(next(bodies)).encode()))) as url:
        vault = connect(url)
        assert vault.vault_list_prefix("x") == {"result": {"items": []}}
        assert vault.vault_list_prefix("x") == {"files": []}
        assert vault.vault_list_prefix("x") == []
        assert vault.vault_list_files() == {"result": []}


# --- secrets


@crossed(["status"], (401,), (403,), (400,), (429,), (503,))
def test_a_vault_that_repeats_the_secrets(connect, name, status):
    def respond(request):
        message = f"token {request.bearer} of key col_test_secret is no good"
        detail = {"message": message, "code": "ECHO"}
        return Reply(status, json.dumps({"detail": detail}).encode(), {"Retry-After": "7"})

    with answering(with_token(respond)) as url, pytest.raises(VaultError) as caught:
        CALLS[name][0](connect(url, api_key="col_test_secret"))
    assert caught.value.status == status
    assert status != 429 or caught.value.retry_after == 7
    assert "token *** of key *** is no good" in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@crossed(["status", "where"], *itertools.product([400, 307], ["code", "body", "host"]))
def test_no_secret_is_in_what_an_error_came_of(connect, name, status, where):
    def respond(request):
        secrets = f"{request.bearer} Col_Test_Secret"
        detail = {"message": "no", "code": secrets if where == "code" else "X", "more": secrets}
        host = {"Location": f"http://{request.bearer}.example/"} if where == "host" else {}
        return Reply(status, json.dumps({"detail": detail}).encode(), host)

    with answering(with_token(respond)) as url, pytest.raises(VaultError) as caught:
        CALLS[name][0](connect(url, api_key="col_test_secret"))
    found, error = [], caught.value
    while error is not None:
        found.append(f"{error!s} {error!r} {vars(error)!r} {error.__notes__ if hasattr(error, '__notes__') else ''}")
        error = error.__cause__ or error.__context__
    assert not [each for each in found if "secret" in each.lower() or "token-of-the-day" in each]


def test_the_repr_has_the_address_alone(server, connect):
    vault = connect(server.url, api_key="col_test_secret")
    with pytest.raises(VaultDenied):
        vault.vault_status()
    assert server.url in repr(vault)
    assert "secret" not in repr(vault)


@pytest.mark.parametrize("token", ['"a\\nb"', '""', "7", '"t\\u00f6ken"'])
def test_a_token_that_cannot_be_sent(connect, token):
    with (
        answering(lambda request: Reply(200, f'{{"access_token": {token}}}'.encode())) as url,
        pytest.raises(VaultUnavailable) as caught,
    ):
        connect(url).vault_list_prefix("x")
    assert "a\\nb" not in str(caught.value)


# --- operations left


def test_operations_left_follow_uploads_and_deletes(vault, server):
    server.vault.operations_per_hour = 60
    assert vault.vault_operations_left() is vault.vault_operations_reset() is None
    for name, left in (
        ("get", None),
        ("upload", 59),
        ("list", 59),
        ("status", 59),
        ("upload if", 58),
        ("upload if", 57),  # which is refused
        ("delete", 56),
    ):
        with contextlib.suppress(VaultError):
            CALLS[name][0](vault)
        assert vault.vault_operations_left() == left
    assert 3500 < vault.vault_operations_reset() <= 3600


@pytest.mark.parametrize("name", ["upload", "delete", "upload if"])
def test_no_operation_is_left_after_a_429(vault, server, name, monkeypatch):
    server.vault.operations_per_hour = 0
    with pytest.raises(RateLimited) as caught:
        CALLS[name][0](vault)
    assert 3500 < caught.value.retry_after <= 3600
    assert vault.vault_operations_left() == 0
    later = time.monotonic() + 3601
    monkeypatch.setattr(colony.time, "monotonic", lambda: later)
    assert vault.vault_operations_left() is vault.vault_operations_reset() is None


# --- the constructor


def test_key_and_address_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", " col_test\n")
    monkeypatch.setenv("COLONY_BASE_URL", server.url)
    vault = ColonyVault()
    vault.vault_upload_file("x.json", "x")
    assert server.vault.files == {"x.json": "x"}
    assert repr(vault) == f"ColonyVault(base_url={server.url!r})"


def test_the_address_is_the_sdks_where_none_is_given():
    vault = ColonyVault("col_test", timeout=2.5)
    assert repr(vault) == "ColonyVault()"
    client = vault._client()
    assert client.base_url == colony_sdk.ColonyClient("col_test").base_url
    assert client.timeout == 2.5
    assert vault._client() is client


@pytest.mark.parametrize("key", [None, "", "  "])
def test_without_a_key_the_choices_are_named(key, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", " ")
    with pytest.raises(ColonyMemoryError) as caught:
        ColonyVault(key)
    for choice in ("api_key=", "COLONY_API_KEY"):
        assert choice in str(caught.value)


@pytest.mark.parametrize(
    "address", ["thecolony.ai/api/v1", "ftp://thecolony.ai", "https://", "https://me:col_x@thecolony.ai", "col_secret"]
)
def test_an_address_that_is_none_is_refused_and_not_repeated(address):
    with pytest.raises(ValueError, match="base_url") as caught:
        ColonyVault("col_test", base_url=address)
    assert address.removeprefix("https://") not in str(caught.value) or address == "https://"


def test_a_client_beside_a_key_or_an_address_and_a_timeout_that_is_none():
    with pytest.raises(ValueError, match="timeout"):
        ColonyVault("col_test", timeout=0)
    client = colony_sdk.ColonyClient("col_test")
    for extra in ({"api_key": "col_test"}, {"base_url": "https://thecolony.ai/api/v1"}):
        with pytest.raises(ValueError, match="client="):
            ColonyVault(client=client, **extra)


# --- what the synchronous client does by itself


def test_replies_that_the_client_keeps_are_not_believed(server):
    client = colony_sdk.ColonyClient("col_test", base_url=server.url)
    client.enable_cache(60)
    vault = ColonyVault(client=client)
    server.vault.files["x.json"] = "old"
    assert vault.vault_get_file("x.json")["content"] == "old"
    server.vault.files["x.json"] = "moved by another"
    assert vault.vault_get_file("x.json")["content"] == "moved by another"


def test_the_clients_proxy_is_used_for_every_request(server):
    proxy = server.url.removesuffix("/api/v1")
    client = colony_sdk.ColonyClient("col_test", base_url="http://vault.invalid/api/v1", proxy=proxy)
    vault = ColonyVault(client=client)
    vault.vault_upload_file("x.json", "x")
    assert vault.vault_list_prefix("x")["total"] == 1


def test_a_token_given_up_by_another_thread_is_asked_for_again(server, monkeypatch):
    client = colony_sdk.ColonyClient("col_test", base_url=server.url)
    ask, asked = client.get_auth_token, []

    def get_auth_token():
        asked.append(1)
        assert len(asked) > 1
        return ask()

    monkeypatch.setattr(client, "get_auth_token", get_auth_token)
    assert ColonyVault(client=client).vault_list_prefix("x")["total"] == 0


# --- how long a count holds


@pytest.mark.parametrize(
    ("reset", "seconds"), [(30, 30), (None, 3600), (0, 0), (90_000, 3600), (1_800_000_030, 30), (1_799_999_995, -5)]
)
def test_a_count_holds_until_its_reset(reset, seconds, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(colony.time, "monotonic", lambda: now)
    monkeypatch.setattr(colony.time, "time", lambda: 1_800_000_000.0)
    budget = colony.Budget()
    budget.note(7, reset)
    for later, left in ((0, 7), (seconds - 0.5, 7), (seconds, None)):
        now = 1000.0 + max(later, 0)
        assert budget.left() == (left if seconds > 0 else None)


def test_a_request_keeps_the_token_out_of_its_repr():
    assert "secret" not in repr(build_request("http://x", "secret", "PUT", body={"content": "secret"}))


# --- redirects


class Elsewhere:
    """A host that answers everything as a vault would, and what it was asked."""

    def __init__(self):
        self.seen = []

    def __call__(self, request):
        self.seen.append((request.method, request.path, request.bearer))
        body = {"access_token": "token-of-elsewhere", "items": [], "total": 0, "has_more": False, "content": "theirs"}
        return Reply(200, json.dumps({**body, "filename": "x.json", "content_size": 3}).encode())


@crossed(["status", "location"], *REDIRECTS)
def test_a_redirect_is_not_followed(open_hosted, name, status, location):
    elsewhere, asked = Elsewhere(), []
    with answering(elsewhere) as other:
        places = {"other": f"{other}/x", "same": "/api/v1/other", "odd": "http://[", "none": None}
        headers = {"Location": places[location]} if places[location] else {}

        def moved(request):
            asked.append(request.path)
            return Reply(status, b'{"items": [], "detail": {"code": "NOT_FOUND", "message": "m"}}', headers)

        with answering(with_token(moved)) as url, pytest.raises(VaultUnavailable) as caught:
            CALLS[name][0](open_hosted("col_test", base_url=url))
    assert (caught.value.status, caught.value.code) == (status, None)
    assert "redirects are not followed" in caught.value.message
    assert len(asked) == 1
    assert elsewhere.seen == []


@crossed(["status"], (301,), (302,), (303,), (307,), (308,))
def test_a_redirect_of_the_token_service_is_not_followed(open_hosted, name, status):
    elsewhere, tokens = Elsewhere(), []

    def moved(request):
        tokens.append(request.bearer)
        if request.path == "/auth/token":
            return Reply(status, b"{}", {"Location": f"{other}/auth/token"})
        return elsewhere(request)

    with answering(elsewhere) as other, answering(moved) as url, pytest.raises(VaultUnavailable) as caught:
        CALLS[name][0](open_hosted("col_test", base_url=url))
    assert "redirects are not followed" in caught.value.message
    assert elsewhere.seen == []
    assert tokens == [""]


# --- when a request is sent again


@pytest.mark.parametrize(
    ("status", "header", "delays"),
    [
        (503, None, [1.0, 2.0, None]),
        (429, "7", [7.0, 7.0, None]),
        (429, "60", [60.0, 60.0, None]),
        *((429, header, [None]) for header in ("61", *NO_TIMES[:-1])),
        *((status, None, [None]) for status in (200, 302, 500)),
    ],
)
def test_when_it_is_sent_again(status, header, delays):
    reply = ApiReply(status, b"", {} if header is None else {"retry-after": header})
    retry = colony_sdk.RetryConfig()
    assert [delay_before_retry(reply, attempt, retry) for attempt in range(len(delays))] == delays


@every_call
def test_a_vault_that_is_busy_for_a_moment_is_asked_again_but_for_a_conditional_upload(server, name, monkeypatch):
    paused = []
    monkeypatch.setattr(time, "sleep", paused.append)
    server.vault.files["x.json"] = "old"
    call, method, path = CALLS[name]
    server.fault(method, "status", path=path, times=2, status=503)
    with contextlib.nullcontext() if name != "upload if" else pytest.raises(VaultUnavailable):
        call(ColonyVault("col_test", base_url=server.url))
    assert paused == ([] if name == "upload if" else [1.0, 2.0])


def test_a_token_service_that_is_down_for_a_moment_is_asked_again(server, monkeypatch):
    paused = []
    monkeypatch.setattr(time, "sleep", paused.append)
    server.fault("POST", "status", path="/auth/token", times=2, status=503)
    ColonyVault("col_test", base_url=server.url).vault_status()
    assert paused == [2.0, 4.0]


# --- TLS ---


@pytest.fixture
def tls_server(server, tmp_path):
    """The server behind TLS, and the file with the certificate that vouches for it."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    public, private = tmp_path / "certificate.pem", tmp_path / "key.pem"
    public.write_bytes(certificate.public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    listener = server._listener
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    transport.tls_context.cache_clear()
    yield server.url.replace("http://127.0.0.1", "https://localhost"), public
    transport.tls_context.cache_clear()


def test_over_tls_the_certificates_are_read_once(tls_server, server, monkeypatch):
    url, certificate = tls_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    read = []
    real = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", lambda *args: read.append(args) or real(*args))
    vault = ColonyVault("col_test", base_url=url)
    vault.vault_upload_file("x.json", "text")
    assert ColonyVault("col_test", base_url=url).vault_get_file("x.json")["content"] == "text"
    assert len(server.calls) == 4
    assert read == [()]


def test_a_certificate_that_nobody_vouches_for_gets_nothing(tls_server, server):
    url, _ = tls_server
    with pytest.raises(VaultUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        ColonyVault("col_test", base_url=url).vault_upload_file("x.json", "text")
    assert server.calls == []
