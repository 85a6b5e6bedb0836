"""The ends of a process that makes backups beside its own work, in real processes."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from colony_memory import ColonyMemory
from colony_memory.testing import VaultServer
from colony_memory.vaults.local import LocalVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")

BEGIN = """
import atexit, logging, os, signal, sys, threading, time, warnings
from colony_memory import ColonyMemory
from colony_memory.schedule.autobackup import Autobackup
from colony_memory.vaults.local import LocalVault

logging.basicConfig()
mem = ColonyMemory(backend=LocalVault(sys.argv[1], create=True))
memory = {"MEMORY.md": "first"}
collect = lambda: dict(memory)

def wait():
    print("ready", flush=True)
    any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
"""


@pytest.fixture
def run(tmp_path):
    """Start a script with a local vault; it is killed at the end of the test, whatever happens."""
    started = []

    def start(script, *args, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", BEGIN + script, str(tmp_path / "vault"), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def saved(tmp_path):
    return ColonyMemory(backend=LocalVault(tmp_path / "vault"))


def end(process, *, ask=True):
    """Send SIGTERM as soon as the script is ready. Returns status, standard error, and seconds from there."""
    if ask:
        assert process.stdout.readline() == "ready\n", process.communicate()[1]
        process.send_signal(signal.SIGTERM)
    begin = time.monotonic()
    _, err = process.communicate(timeout=50)
    return process.returncode, err, time.monotonic() - begin


@on_posix
def test_a_process_dies_of_sigterm_and_its_memory_is_saved(run, saved):
    status, err, _ = end(
        run("""
with Autobackup(mem, collect, every=900):
    memory["MEMORY.md"] = "last words"
    wait()
""")
    )
    assert status == -signal.SIGTERM
    assert err == ""
    assert saved.restore() == {"MEMORY.md": "last words"}


def test_the_hosted_vault_at_the_exit_where_many_files_are_to_be_read(run):
    with VaultServer() as server:
        vault = ColonyMemory("col_test", base_url=server.url)
        for number in range(4):
            vault.backup({"MEMORY.md": f"text {number}"})
        # As an older client leaves it: every manifest has to be read.
        pointer = json.loads(server.vault.files["cmem.default.latest.json"])
        for name in ("generation", "catalog"):
            del pointer[name]
        server.vault.files["cmem.default.latest.json"] = json.dumps(pointer)
        server.fault("GET", "delay", seconds=0.005, times=None)
        script = """
mem = ColonyMemory("col_test", base_url=sys.argv[2])
auto = Autobackup(mem, collect, prune_keep=3)
auto.__enter__()
"""
        status, err, _ = end(run(script, server.url, COLONY_SDK_NO_TOKEN_CACHE="1", NO_PROXY="127.0.0.1"), ask=False)
        assert status == 0
        assert vault.restore() == {"MEMORY.md": "first"}, err


@on_posix
@pytest.mark.parametrize("how", ["exit", "end", "SIGTERM"])
def test_a_forked_child_saves_nothing(run, saved, how):
    child_end = {"exit": "sys.exit(4)", "end": "", "SIGTERM": "os.kill(os.getpid(), signal.SIGTERM)"}[how]
    process = run(f"""
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() beside a thread

def collect():
    assert os.getpid() == parent, "collected in the child"
    return dict(memory)

parent = os.getpid()
with Autobackup(mem, collect, every=900) as auto:
    child = os.fork()
    if child == 0:
        memory["MEMORY.md"] = "of the child"
        assert not auto.running
        {child_end}
    else:
        status = os.waitpid(child, 0)[1]
        assert mem.latest() is None
        print(os.WEXITSTATUS(status), os.WTERMSIG(status), flush=True)
        memory["MEMORY.md"] = "of the parent"
""")
    out, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (0, "")
    assert out == {"exit": "4 0\n", "end": "0 0\n", "SIGTERM": f"0 {int(signal.SIGTERM)}\n"}[how]
    assert saved.restore() == {"MEMORY.md": "of the parent"}
    assert len(saved.list_snapshots()) == 1
