"""Ways to run the command line, for its tests. A test module takes the fixtures that it needs by assignment."""

import json
import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("click")

from snapshots import NOON, content_file, damage, save, snapshot

from colony_memory.__main__ import main
from colony_memory.shell.cli.verbs import run as commands
from colony_memory.testing import FakeVault, VaultServer
from colony_memory.vaults.local import LocalVault

__all__ = ["NOON", "POSIX", "content_file", "damage", "fails", "main", "process", "save", "snapshot", "tree"]

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No account, no vault and a home of its own."""
    for name in list(os.environ):
        if name.startswith(("COLONY_", "CLAUDE_", "CODEX_", "HERMES_", "OPENCLAW_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLONY_SDK_NO_TOKEN_CACHE", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "memory"
    (path / "notes").mkdir(parents=True)
    (path / "logs").mkdir()
    (path / "MEMORY.md").write_bytes(b"two years\r\n")
    (path / "notes" / "caf\u00e9.md").write_bytes(b"caf\xe9\n")
    return path


@pytest.fixture
def vault(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONY_MEMORY_VAULT", str(tmp_path / "vault"))
    return LocalVault(tmp_path / "vault", create=True)


@pytest.fixture
def vault_of_1(tmp_path, monkeypatch):
    """The same, of snapshots that name their documents, and that another vault takes."""
    monkeypatch.setenv("COLONY_MEMORY_VAULT", str(tmp_path / "vault"))
    return LocalVault(tmp_path / "vault", create=True, format=1)


@pytest.fixture
def server(monkeypatch):
    with VaultServer(FakeVault()) as server:
        monkeypatch.setenv("COLONY_API_KEY", "col_test")
        monkeypatch.setenv("COLONY_BASE_URL", server.url)
        yield server


def process(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "colony_memory", *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def fails(done, code):
    """One error on stderr, nothing on stdout, and this code; returns the line."""
    assert done.returncode == code, done.stderr
    assert not done.stdout
    return _one_error(done.stderr, code)


def _one_error(text, code):
    """The one error in what was written to stderr, as a line or, for programs, as an object."""
    (line,) = text.splitlines()
    if line.startswith("{"):
        found = json.loads(line)
        assert [key for key in found if key != "help"] == ["error", "kind", "code", "hint"]
        assert found["code"] == code
        return f"error: {found['error']}"
    assert line.startswith("error: ")
    return line


@pytest.fixture
def cli(capsys):
    """The command line in this process: ``cli(*args)`` gives code, stdout and stderr."""

    def run(*args):
        code = main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return code, out, err

    before = signal.getsignal(signal.SIGHUP) if os.name != "nt" else None
    yield run
    if before is not None:
        signal.signal(signal.SIGHUP, before)  # a hook ignores it, as its process is about to end


@pytest.fixture
def refused(cli):
    def run(code, *args):
        got, out, err = cli(*args)
        assert (got, out) == (code, ""), (out, err)
        return _one_error(err, code)

    return run


class Child:
    """In the place of a command: ``life`` is what it does, and gives its exit code."""

    started = 0

    def __init__(self, program, *, on_end=None):
        self.program, self.on_end = program, on_end

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def start(self):
        Child.started += 1

    def life(self):
        return 0

    def wait(self, meanwhile=None):
        return type(self).life(self) or 0


@pytest.fixture
def child(monkeypatch):
    """No command is started: set the ``life`` of this in its place."""
    monkeypatch.setattr(commands, "Child", Child)
    monkeypatch.setattr(commands, "find_command", lambda command: None)
    monkeypatch.setattr(Child, "life", Child.life)
    Child.started = 0
    return Child


@pytest.fixture
def no_command(request):
    """The same, but for tests that run once."""
    if "once" not in request.keywords:
        request.getfixturevalue("child")


def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
