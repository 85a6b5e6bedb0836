"""The server on a port: who is let through, the token, and one whole run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("mcp.server")

import anyio
from mcp_calls import ERAS, Desk

from colony_memory import ColonyMemoryError
from colony_memory.mcp import http

TOKEN = "t" * 43
OURS = (b"host", b"127.0.0.1:8765")
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())


def knock(*headers, kind="http"):
    """The status that a request with these headers gets; 200 where it is let through."""
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message):
        sent.append(message)

    guard = http.Guard(app, token=TOKEN, port=8765)
    anyio.run(guard, {"type": kind, "headers": list(headers)}, None, send)
    assert TOKEN not in str(sent)
    return sent[0].get("status", sent[0].get("code"))


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, [OURS, BEARER]),
        (200, [(b"host", b"localhost:8765"), BEARER]),
        (200, [OURS, (b"Authorization", b"bearer   " + TOKEN.encode())]),
        (200, [OURS, BEARER, (b"origin", b"http://localhost:8765")]),
        (401, [OURS]),
        (401, [OURS, (b"authorization", b"Bearer")]),
        (401, [OURS, (b"authorization", b"Bearer ")]),
        (401, [OURS, (b"authorization", b"Bearer " + TOKEN[:-1].encode())]),
        (401, [OURS, (b"authorization", BEARER[1] + b"x")]),
        (401, [OURS, (b"authorization", b"Basic " + TOKEN.encode())]),
        (401, [OURS, (b"authorization", "Bearer é".encode())]),
        (401, [OURS, BEARER, BEARER]),
        (401, [OURS, (b"authorization", b"Bearer x"), BEARER]),
        (421, [BEARER]),
        (421, [(b"host", b""), BEARER]),
        (421, [(b"host", b"127.0.0.1"), BEARER]),
        (421, [(b"host", b"127.0.0.1:80"), BEARER]),
        (421, [(b"host", b"evil.example:8765"), BEARER]),
        (421, [(b"host", b"127.0.0.1.evil.example:8765"), BEARER]),
        (421, [(b"host", b"0.0.0.0:8765"), BEARER]),
        (421, [(b"host", b"127.0.0.1:8765:1"), BEARER]),
        (421, [OURS, (b"host", b"evil.example"), BEARER]),
        (403, [OURS, BEARER, (b"origin", b"http://evil.example")]),
        (403, [OURS, BEARER, (b"origin", b"null")]),
        (403, [OURS, BEARER, (b"origin", b"")]),
        (403, [OURS, BEARER, (b"origin", b"https://localhost:8765")]),
        (403, [OURS, BEARER, (b"origin", b"http://localhost:8765"), (b"origin", b"http://evil.example")]),
    ],
)
def test_who_is_let_through(status, headers):
    assert knock(*headers) == status


def test_no_web_socket_is_opened():
    assert knock(OURS, BEARER, kind="websocket") == knock(kind="websocket") == 1008


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "deep" / "token"
    token, made = http.read_token(path)
    assert made
    assert len(token) >= 43
    assert http.read_token(path) == (token, False)
    if os.name != "nt":
        assert path.stat().st_mode & 0o777 == 0o600
    assert http.new_token() != token


@pytest.mark.skipif(os.name == "nt", reason="POSIX")
@pytest.mark.parametrize("content", ["short", "", "t" * 31, "t t" * 20, "t\n" * 40, "é" * 40])
def test_what_is_no_token(tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(ColonyMemoryError, match="holds no token"):
        http.read_token(path)
    path.chmod(0o644)
    with pytest.raises(ColonyMemoryError, match="open to others"):
        http.read_token(path)
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    with pytest.raises(ColonyMemoryError, match="cannot be read"):
        http.read_token(path)


def test_it_listens_on_loopback_alone():
    with http.listen(0) as at:
        host, port = at.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(ValueError, match="cannot be had"):
            http.listen(port)
        with pytest.raises(ValueError, match="cannot be had"):
            http.listen(70_000)


@pytest.mark.once
def test_a_whole_run_over_http(tmp_path):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    desk = Desk(tmp_path)
    options = ["--json", "--allow-restore", "--vault", desk.vault_path, "--http", "0"]
    command = ["-m", "colony_memory", "mcp", *options, desk.root]
    with subprocess.Popen(
        [sys.executable, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            started = json.loads(process.stderr.readline())
            url, token = started["url"], started["token"]
            port = int(url.rpartition(":")[2].partition("/")[0])

            async def work():
                async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as web:
                    for era in ERAS:
                        async with Client(
                            streamable_http_client(url, http_client=web), mode=era, elicitation_callback=desk._answer
                        ) as client:
                            found = await client.call_tool("backup", {})
                            assert not found.is_error
                            assert found.structured_content["unchanged"] is (era == ERAS[1])
                            desk.write("MEMORY.md", "spoilt\n")
                            assert not (await client.call_tool("restore", {"force": True})).is_error
                            assert (desk.root / "MEMORY.md").read_text() == "two years\n"
                    assert len(desk.asked) == len(ERAS)
                    for headers, status in (
                        ({"Host": "evil.example"}, 421),
                        ({"Origin": "http://evil.example"}, 403),
                        ({"Authorization": "Bearer x"}, 401),
                    ):
                        assert (await web.post(url, json={}, headers=headers)).status_code == status
                    large = await web.post(url, content=b"x" * 300_000, headers={"content-type": "application/json"})
                    assert large.status_code == 413
                async with httpx2.AsyncClient() as stranger:
                    for path in ("/mcp", "/", "/.well-known/oauth-protected-resource"):
                        assert (await stranger.get(f"http://127.0.0.1:{port}{path}")).status_code == 401

            anyio.run(work)
            with socket.socket() as elsewhere:
                others = [each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
                for host in {*others} - {"127.0.0.1", "127.0.1.1"}:
                    elsewhere.settimeout(1)
                    assert elsewhere.connect_ex((host, port)) != 0
        finally:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (143, "")
    assert json.loads(err)["kind"] == "Terminated"
    assert token not in err
