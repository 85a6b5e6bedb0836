"""The command line as a terminal shows it."""

import io
import os
import re
import struct
import subprocess
import sys
import threading
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("click")

from colony_memory import ColonyMemory
from colony_memory.shell.cli.output import Output
from colony_memory.testing import FakeVault, VaultServer
from colony_memory.vaults.local import LocalVault

fcntl = pytest.importorskip("fcntl")
pty = pytest.importorskip("pty")
termios = pytest.importorskip("termios")

CONTROL = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


# Terminals say the same on every Python.
pytestmark = pytest.mark.once


@pytest.fixture
def environment(tmp_path):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("COLONY_")
        and not name.lower().endswith("_proxy")
        and name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
    }
    kept.update(
        HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"), TERM="xterm-256color", COLONY_SDK_NO_TOKEN_CACHE="1"
    )
    return {**kept, "PYTHONIOENCODING": "utf-8"}


def on_terminal(*args, env, columns=80, typed=""):
    """Run with stdout and stderr on a terminal of this width; returns the code and all that it was sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    running = subprocess.Popen(
        [sys.executable, "-m", "colony_memory", *map(str, args)], stdin=theirs, stdout=theirs, stderr=theirs, env=env
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    got = []

    def read():
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # how Linux tells that the other end is closed
                return
            if not data:
                return
            got.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    code = running.wait(timeout=60)
    reader.join(timeout=10)
    os.close(ours)
    return code, b"".join(got).decode().replace("\r\n", "\n")


def plain(sent):
    return CONTROL.sub("", sent)


@pytest.fixture
def vault(tmp_path):
    vault = LocalVault(tmp_path / "vault", create=True)
    now = datetime.now(timezone.utc)
    for days, label in ((500, "default"), (3, "research-notes"), (0.5, "default")):
        memory = ColonyMemory(backend=vault)
        memory._session.now = lambda days=days: now - timedelta(days=days, minutes=5)
        memory.backup({"a.md": f"{days}" * 3000, "b.md": label}, label=label)
    return vault


@pytest.mark.parametrize("columns", [80, 120])
def test_the_list_fits_and_gives_ages(environment, vault, columns):
    code, sent = on_terminal("list", "--vault", vault.path, "--label", "default", env=environment, columns=columns)
    table = plain(sent[sent.index("  id") :]).splitlines()
    assert code == 0
    assert max(map(len, table)) <= columns
    assert [line.split()[3:5] for line in table[1:-1] if line[0] == "*"] == [["12h", "ago"]]
    assert table[2].split()[1:4] == ["default", "1y", "ago"]
    assert table[-1] == "2 snapshots; * is the latest, which restore gives"


def test_a_narrow_terminal_gets_fewer_columns_and_is_told(environment, vault):
    _, sent = on_terminal("list", "--vault", vault.path, env=environment, columns=60)
    table = plain(sent[sent.index("  id") :]).splitlines()
    assert max(map(len, table)) <= 60
    assert table[0].split() == ["id", "label", "created"]
    assert table[-2:] == [
        "narrow terminal, not shown: size, stored, signed by",
        "3 snapshots; * is the latest, which restore gives",
    ]


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y\n", 0, 2), ("Yes\n", 0, 2), ("\n", 1, 3), ("n\n", 1, 3), ("\x04", 1, 3)]
)
def test_a_person_is_asked_before_anything_is_deleted(environment, vault, answer, code, left):
    got, sent = on_terminal("delete", "--vault", vault.path, "latest", env=environment, typed=answer)
    assert got == code
    assert re.search(r"delete snapshot \S+ of label default for good\? \[y/N\] ", plain(sent))
    assert ("error: nothing was deleted" in plain(sent)) == bool(code)
    assert len(ColonyMemory(backend=vault).list_snapshots()) == left


def test_a_no_to_a_rewrite_says_that_nothing_was_rewritten(environment, vault):
    got, sent = on_terminal("rewrite", "--vault", vault.path, "--format", "1", env=environment, typed="n\n")
    assert (got, "error: nothing was rewritten" in plain(sent)) == (1, True), sent


def test_a_person_sees_the_plan_before_the_question(environment, vault):
    got, sent = on_terminal("prune", "--vault", vault.path, "--keep", "1", env=environment, typed="y\n")
    lines = plain(sent[sent.index("keep  ") :]).splitlines()
    assert got == 0
    assert [line.split()[0] for line in lines[:2]] == ["keep", "delete"]
    assert "\x1b[31mdelete" in sent
    assert lines[2] == "label default: 1 to keep, 1 to delete"
    assert lines[3].startswith("go on? [y/N] ")
    assert "label default: 1 snapshot deleted, 1 kept" in lines  # what is young stays for an hour, which is said last


def test_the_first_word_of_status_is_coloured(environment, vault):
    _, sent = on_terminal("status", "--vault", vault.path, "--label", "default", env=environment)
    assert "\x1b[1;32mprotected\x1b[0m: last good backup 12h ago" in sent
    _, sent = on_terminal("status", "--vault", vault.path, "--max-age", "1h", env=environment)
    assert "\x1b[1;31mnot protected\x1b[0m: " in sent
    _, sent = on_terminal("status", "--vault", vault.path, env={**environment, "NO_COLOR": "1"})
    assert "32m" not in sent
    _, sent = on_terminal("status", "--vault", vault.path, env={**environment, "TERM": "dumb"})
    assert "\x1b" not in sent
    assert "protected" in sent


@pytest.fixture
def server(environment):
    with VaultServer(FakeVault()) as server:
        environment.update(COLONY_API_KEY="col_test", COLONY_BASE_URL=server.url)
        yield server


def test_work_under_way_is_shown_on_one_line_and_cleared(environment, server, tmp_path):
    (tmp_path / "large.md").write_bytes(os.urandom(1_500_000).hex().encode())
    server.fault("PUT", "delay", seconds=0.15, times=None)
    code, sent = on_terminal("backup", tmp_path / "large.md", env=environment, columns=100)
    assert code == 0
    assert re.search(r"\r\x1b\[KSaving to the hosted vault, uploading [1-4] of [2-5]", sent)
    code, sent = on_terminal("backup", tmp_path / "large.md", env=environment, columns=30)
    assert all(len(plain(line)) < 30 for line in sent.split("\r\x1b[K") if line.startswith("Sav"))
    assert plain(sent[sent.rindex("\x1b[K") :]).startswith("unchanged since ")


def test_an_error_and_a_warning_take_its_place(environment, server, tmp_path):
    ColonyMemory(backend=server.vault).backup({"a.md": "x"})
    del server.vault.files["cmem.default.latest.json"]
    code, sent = on_terminal("restore", tmp_path / "out", env=environment)
    assert code == 0
    assert "\x1b[Kwarning: taking the newest whole snapshot" in sent
    server.fault("*", "status", status=500, times=None)
    code, sent = on_terminal("list", env=environment)
    assert code == 5
    assert "\x1b[Kerror: " in sent


class Terminal(io.StringIO):
    encoding = "ascii"

    def isatty(self):
        return True


def test_a_terminal_in_this_process(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "80")
    with Output().working("Reading [bold]\x1b[31m"):
        pass
    assert r"Reading [bold]\x1b[31m" in plain(screen.getvalue())
