"""The ends of a process that makes backups beside its own work, in real processes."""

from __future__ import annotations

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


@on_posix
def test_sigterm_interrupts_a_backup_of_the_main_thread(run, saved):
    status, err, _ = end(
        run("""
def collect():
    if threading.current_thread() is threading.main_thread():
        print("ready", flush=True)
        time.sleep(0.5)
        memory["MEMORY.md"] = "last words"
        return {"MEMORY.md": "first"}
    return memory

with Autobackup(mem, collect, every=900) as auto:
    auto.backup_now()
    memory["MEMORY.md"] = "too late"
    any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
""")
    )
    assert status == -signal.SIGTERM
    assert err == ""
    assert saved.restore() == {"MEMORY.md": "last words"}
    assert len(saved.list_snapshots()) == 2


@on_posix
def test_sigterm_ends_a_backup_of_the_main_thread_that_hangs(run, saved):
    status, err, seconds = end(
        run("""
def collect():
    if threading.current_thread() is threading.main_thread():
        print("ready", flush=True)
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
    return memory

with Autobackup(mem, collect, every=900, final_timeout=0.3) as auto:
    auto.backup_now()
""")
    )
    assert status == -signal.SIGTERM
    assert "the final backup was not done within 0.3 s" in err
    assert seconds < 20


@on_posix
def test_a_former_handler_decides_how_the_process_ends(run, saved):
    status, err, _ = end(
        run("""
def shut_down(signum, frame):
    assert mem.restore() == {"MEMORY.md": "before the signal"}
    memory["MEMORY.md"] = "shut down in peace"
    sys.exit(3)

signal.signal(signal.SIGTERM, shut_down)
with Autobackup(mem, collect, every=900):
    memory["MEMORY.md"] = "before the signal"
    wait()
""")
    )
    assert (status, err) == (3, "")
    assert saved.restore() == {"MEMORY.md": "shut down in peace"}


EXITS = {
    "the end of the script": "",
    "sys.exit()": "sys.exit(5)",
    "an exception": "raise OSError('the agent')",
}


@pytest.mark.parametrize("how", EXITS)
def test_the_interpreter_exits_inside_the_block(run, saved, how):
    status, err, _ = end(
        run(f"""
auto = Autobackup(mem, collect, every=900)
auto.__enter__()
memory["MEMORY.md"] = "last words"
{EXITS[how]}
"""),
        ask=False,
    )
    assert status == {"sys.exit()": 5, "an exception": 1}.get(how, 0)
    assert err == "" or how == "an exception"
    assert saved.restore() == {"MEMORY.md": "last words"}


def test_the_interpreter_exits_while_a_daemon_thread_is_in_the_block(run, saved):
    status, err, _ = end(
        run("""
inside = threading.Event()

def agent():
    with Autobackup(mem, collect, every=0.05):
        memory["MEMORY.md"] = "last words"
        inside.set()
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short

threading.Thread(target=agent, daemon=True).start()
inside.wait()
sys.exit(0)
"""),
        ask=False,
    )
    assert (status, err) == (0, "")
    assert saved.restore() == {"MEMORY.md": "last words"}


def test_an_exit_handler_registered_later_has_its_last_words_saved(run, saved):
    status, err, _ = end(
        run("""
auto = Autobackup(mem, collect)
auto.__enter__()
atexit.register(lambda: memory.update({"MEMORY.md": "of the exit handler"}))
"""),
        ask=False,
    )
    assert (status, err) == (0, "")
    assert saved.restore() == {"MEMORY.md": "of the exit handler"}


@on_posix
@pytest.mark.parametrize("how", ["SIGTERM", "leaving", "exit"])
def test_a_collect_that_blocks_does_not_hold_the_process(run, saved, how):
    script = """
def collect():
    if memory["MEMORY.md"] == "blocks":
        any(time.sleep(0.05) for _ in range(1200))  # a signal just before a long sleep would not cut it short
    return dict(memory)

auto = Autobackup(mem, collect, every=900, final_timeout=0.3)
auto.__enter__()
auto.backup_now()
memory["MEMORY.md"] = "blocks"
"""
    script += {"SIGTERM": "wait()", "leaving": "auto.__exit__()", "exit": ""}[how]
    begin = time.monotonic()
    status, err, _ = end(run(script), ask=how == "SIGTERM")
    assert status == (-signal.SIGTERM if how == "SIGTERM" else 0)
    assert time.monotonic() - begin < 20
    assert "the final backup was not done within 0.3 s" in err
    assert saved.restore() == {"MEMORY.md": "first"}


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
def test_a_vault_that_hangs_does_not_hold_the_process(run):
    with VaultServer() as server:
        vault = ColonyMemory("col_test", base_url=server.url)
        process = run(
            """
mem = ColonyMemory("col_test", base_url=sys.argv[2])
with Autobackup(mem, collect, every=900, final_timeout=0.3) as auto:
    assert auto.backup_now(), auto.last_error
    memory["MEMORY.md"] = "second"
    print("saved", flush=True)
    wait()
""",
            server.url,
            COLONY_SDK_NO_TOKEN_CACHE="1",
            NO_PROXY="127.0.0.1",
        )
        assert process.stdout.readline() == "saved\n", process.communicate()[1]
        before = vault.latest()
        server.fault("*", "delay", seconds=30, times=None)
        status, err, seconds = end(process)
        assert status == -signal.SIGTERM
        assert seconds < 15
        assert "the final backup was not done within 0.3 s" in err
        server._faults.clear()
        assert vault.latest() == before
        assert vault.restore() == {"MEMORY.md": "first"}


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
