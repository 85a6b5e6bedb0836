"""The server as a host starts it: a process of its own, with nothing on stdout but the protocol."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("mcp.server")

import anyio
from mcp import Client, StdioServerParameters
from mcp_calls import ERAS, Desk
from snapshots import files_of

from colony_memory import ColonyMemory

pytestmark = pytest.mark.once


def command(desk, *options):
    return ["-m", "colony_memory", "mcp", *options, "--vault", str(desk.vault_path), str(desk.root)]


def start(desk):
    return subprocess.Popen(
        [sys.executable, *command(desk)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("era", ERAS)
def test_a_host_starts_it_calls_it_and_ends_it(tmp_path, era):
    desk = Desk(tmp_path)
    given = StdioServerParameters(
        command=sys.executable, args=command(desk, "--keep", "2"), env={**os.environ, "PYTHONWARNINGS": "default"}
    )

    async def work():
        async with Client(given, mode=era) as client:
            for number in range(3):
                desk.write("MEMORY.md", f"{number}\n")
                assert not (await client.call_tool("backup", {})).is_error
            return (await client.call_tool("list", {})).structured_content

    assert anyio.run(work)["total"] == 2
    assert files_of(ColonyMemory(backend=desk.place.backend)) == {"MEMORY.md": "2\n"}


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


def say(process, message):
    process.stdin.write(json.dumps(message).encode() + b"\n" if isinstance(message, dict) else message)
    process.stdin.flush()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_although_the_input_stays_open(tmp_path, number):
    with start(Desk(tmp_path)) as process:
        say(process, HELLO)
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "colony-memory"
        process.send_signal(number)
        assert process.wait(30) == 128 + number
        assert process.stdout.read() == process.stderr.read() == b""


def test_garbage_is_answered_and_survived_and_stdout_is_lines_of_json(tmp_path):
    with start(Desk(tmp_path)) as process:
        for garbage in (b"\xff\xfe\n", b"{}\n", b"[" * 100_000 + b"\n", b'"\\ud800"\n', b"\n", b"null\n"):
            say(process, garbage)
        say(process, HELLO)
        say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        say(process, b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"\\ud800","arguments":{}}}\n')
        call = {"name": "show", "arguments": {"file": "../../etc/passwd"}}
        say(process, {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": call})
        found = []
        while not any(each.get("id") == 3 for each in found):
            found.append(json.loads(process.stdout.readline()))
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert (out, err) == (b"", b"")
    assert next(each for each in found if each.get("id") == 3)["result"]["isError"] is True
    assert b"Traceback" not in json.dumps(found).encode()


def test_a_host_that_does_not_read_any_more_is_one_line(tmp_path):
    with start(Desk(tmp_path)) as process:
        say(process, HELLO)
        process.stdout.readline()
        process.stdout.close()
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})
        process.stdin.close()
        assert process.wait(30) in (0, 1)
        err = process.stderr.read().decode()
    assert "Traceback" not in err
    assert len(err.splitlines()) <= 1
