"""Each example in the help of each verb does what it says."""

import os
import shlex
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cli_runs import NOON, POSIX, save

from colony_memory import ColonyMemory
from colony_memory.shell.cli import app
from colony_memory.transfer import save_export
from colony_memory.vaults.local import LocalVault

#: Their output is that of the command that they start.
STARTING = {"run", "guard"}
#: It is the protocol's.
SERVING = {"mcp"}
EXAMPLES = [example for verb in app.VERBS for example in app.examples_of(verb)]
PLACES = {"/mnt/usb/vault": "stick", "/mnt/nas/vault": "nas"}


@pytest.fixture
def furnished(server, tmp_path, monkeypatch):
    """A home with an agent in it, and a hosted vault with some of its memory."""
    home = tmp_path / "home"
    for folder in ("agent/memory/notes", "agent/workspace"):
        (home / folder).mkdir(parents=True)
    for path in (home / "agent/memory/notes/a.md", home / "agent/workspace/todo.md", tmp_path / "MEMORY.md"):
        path.write_text("two years\n")
        os.utime(path, (0, 0))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "b.md").write_text("b\n")
    (tmp_path / "secrets.txt").write_text("a text that was saved by mistake\n")
    # After the last file was written, and before the clock says so.
    now = datetime.now(timezone.utc) + timedelta(seconds=5)
    for label in ("default", "research"):
        for at in (NOON - timedelta(days=40), NOON - timedelta(hours=1), NOON + timedelta(days=1), now):
            save(server.vault, {"notes/a.md": f"{label} {at}\ntwo years.\n"}, at=at, label=label)
    save_export(ColonyMemory(backend=server.vault).export_snapshot(label="research"), tmp_path / "research.json")
    claude = home / ".claude/projects/-before/memory"
    claude.mkdir(parents=True)
    (claude / "MEMORY.md").write_text("two years\n")
    os.utime(claude / "MEMORY.md", (0, 0))
    save(server.vault, {"projects/-before/memory/MEMORY.md": "two years\n"}, at=now, label="claude-code")
    for program in ("agent", "claude", "python", "rm"):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / program).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for vault in ("stick", "other", "home/second-vault"):
        LocalVault(tmp_path / vault, create=True)
    return tmp_path


def adapted(example, tmp_path, key):
    """The example with this host's paths and keys."""
    for place, here in PLACES.items():
        example = example.replace(place, str(tmp_path / here))
    return example.replace("did:key:z6Mk...", key)


@pytest.mark.parametrize("example", [each for each in EXAMPLES if "|" not in each])
def test_an_example_of_the_help_works(cli, furnished, example, monkeypatch):
    name, *arguments = shlex.split(adapted(example, furnished, "did:key:unused"))
    if SERVING & set(arguments):
        serve_nothing(monkeypatch)
        arguments = ["0" if each == "8765" else each for each in arguments]
    if "--trust" in arguments:
        arguments = sign_file(furnished, arguments)
    if "export" in arguments:
        (furnished / "research.json").unlink()
    if "watch" in arguments:
        arguments.append("--once")  # it would go on
    if os.name == "nt" and STARTING & set(arguments):
        pytest.skip("what is started is a script of a shell")
    if {"run", "restore"} & set(arguments):
        (furnished / "home/agent/memory/notes/a.md").unlink()  # what it holds is saved nowhere
    code, out, err = cli(*(Path(each).expanduser() if each.startswith("~") else each for each in arguments))
    assert (name, code) == ("colony-memory", 0), err
    assert out or {"--quiet", *STARTING, *SERVING} & set(arguments)


def serve_nothing(monkeypatch):
    """Servers would go on."""
    pytest.importorskip("mcp")
    from colony_memory.shell.mcp import server

    monkeypatch.setattr(server, "serve_stdio", lambda server: None)


def sign_file(folder, arguments):
    """The file signed by a key, and the arguments that trust it."""
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer, open_vault

    signer = Ed25519Signer(bytes(range(32)))
    memory = ColonyMemory(backend=open_vault("memory:"), signer=signer)
    memory.backup({"a.md": "x"}, label="research")
    (folder / "research.json").unlink()
    save_export(memory.export_snapshot(label="research"), folder / "research.json")
    return [signer.did_key if each.startswith("did:key:") else each for each in arguments]


@POSIX
@pytest.mark.parametrize("example", [each for each in EXAMPLES if "|" in each])
def test_an_example_with_another_host_works(furnished, example):
    """The other host is a shell with a vault of its own."""
    program = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m colony_memory "$@"\n'
    for name, script in (
        ("colony-memory", program),
        ("ssh", f'#!/bin/sh\nshift\nCOLONY_MEMORY_VAULT={shlex.quote(str(furnished / "other"))} exec "$@"\n'),
    ):
        (furnished / name).write_text(script)
        (furnished / name).chmod(0o755)
    path = f"{furnished}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", example],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(Path(furnished / "other").glob("cmem.*"))
