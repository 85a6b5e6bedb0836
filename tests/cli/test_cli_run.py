"""The verb ``run``: in this process with a command that is a function, and with real commands."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from cli_runs import POSIX, damage, save
from cli_runs import Child as Agent
from snapshots import files_of

from colony_memory import ColonyMemory
from colony_memory.schedule.last_run import alone
from colony_memory.schedule.watch import last_run_path, read_runs
from colony_memory.shell.cli import output
from colony_memory.shell.cli.verbs import backup
from colony_memory.vaults.local import LocalVault

pytestmark = pytest.mark.usefixtures("no_command")

ID = r"\d{8}T\d{12}Z-[0-9a-f]{6}"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


@pytest.fixture
def memory(tmp_path):
    return tmp_path / "memory"


def long_ago(vault, documents, **options):
    """A snapshot, of a moment that no file here is newer than."""
    return save(vault, documents, at=datetime.now(timezone.utc) + timedelta(seconds=5), **options)


def test_from_what_was_saved_to_what_is_saved(cli, vault, memory):
    info = long_ago(vault, {"MEMORY.md": "two years", "a.md": "a"})

    def life(agent):
        assert agent.program == ["agent", "--resume", "-x"]
        assert (memory / "MEMORY.md").read_text() == "two years"
        (memory / "MEMORY.md").write_text("three years")

    Agent.life = life
    code, out, err = cli("run", memory, "--", "agent", "--resume", "-x")
    assert (code, out) == (0, "")
    first, second, third = err.splitlines()
    assert re.fullmatch(
        rf"restored snapshot {info.snapshot_id} of \S+ \S+ UTC into {re.escape(str(memory))}: 2 written, 0 unchanged",
        first,
    )
    assert second == f"saving to the vault {vault.path} every 15m"
    assert re.fullmatch(rf"{TIME} (saved|unchanged since) {ID} \(last backup, on the end of the command\)", third)
    assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "three years", "a.md": "a"}
    assert read_runs(str(vault.path), "default").last.ok


@pytest.mark.parametrize("own", [0, 3, 143])
def test_memory_that_is_gone_at_the_end_stays_saved_and_is_told(cli, vault, memory, own):
    info = long_ago(vault, {"MEMORY.md": "two years"})

    def life(agent):
        shutil.rmtree(memory)
        memory.mkdir()
        return own

    Agent.life = life
    code, _, err = cli("run", "--quiet", "--keep", "1", memory, "--", "agent")
    assert code == (own or 1)
    assert "nothing to back up (last backup, on the end of the command)" in err.splitlines()[-2]
    assert err.splitlines()[-1] == (
        f"error: the command ended with exit code {own}, and its memory was not saved at its end"
    )
    assert ColonyMemory(backend=vault).latest().snapshot_id == info.snapshot_id


# What keeps the command from being started.


def test_a_key_that_is_refused(refused, server, memory, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_wrong")
    refused(5, "run", memory, "--", "agent")
    assert Agent.started == 0


@pytest.mark.parametrize("chosen", [True, False])
def test_a_vault_that_is_missing(refused, memory, tmp_path, chosen):
    line = refused(5, "run", *(["--vault", tmp_path / "away"] if chosen else []), memory, "--", "agent")
    assert "there is no vault in " in line
    assert (Agent.started, memory.exists()) == (0, False)
    # Nor is one made on the way that nobody chose: an agent in a new container would begin with nothing, each time.
    assert not (tmp_path / "data").exists()


def test_a_snapshot_that_is_not_trusted(refused, vault, memory):
    pytest.importorskip("cryptography")
    from colony_memory import Ed25519Signer

    long_ago(vault, {"MEMORY.md": "two years"})
    refused(4, "run", "--trust", Ed25519Signer(bytes(range(32))).did_key, memory, "--", "agent")
    assert (Agent.started, memory.exists()) == (0, False)


def test_what_is_saved_nowhere_is_saved_first_and_that_is_told(cli, vault, memory):
    save(vault, {"MEMORY.md": "two years"})
    memory.mkdir()
    (memory / "MEMORY.md").write_text("not saved yet")
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert (code, Agent.started) == (0, 1)
    (kept,) = ColonyMemory(backend=vault).list_snapshots(label="default-before-restore")
    assert err == f"what was here is saved as {kept.snapshot_id} of label default-before-restore\n"
    assert (memory / "MEMORY.md").read_text() == "two years"
    assert files_of(ColonyMemory(backend=vault), label=kept.label) == {"MEMORY.md": "not saved yet"}


def test_where_it_cannot_be_saved_first_the_folder_stays_and_the_command_runs(cli, vault, memory):
    save(vault, {"MEMORY.md": "two years"})
    memory.mkdir()
    (memory / "MEMORY.md").write_text(f"not saved yet: {TOKEN}")
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert (code, Agent.started) == (1, 1)
    first = err.splitlines()[0]
    assert first.startswith(f"{memory} stays as it is: nothing was saved: 1 likely secret")
    # By then the folder is saved as the latest.
    wanted = ColonyMemory(backend=vault).list_snapshots()[-1].snapshot_id
    assert first.endswith(f"; try: colony-memory restore --snapshot-first {wanted} {memory} --vault {vault.path}")
    assert (memory / "MEMORY.md").read_text() == f"not saved yet: {TOKEN}"
    assert cli("run", "--quiet", "--secrets", "allow", memory, "--", "agent")[0] == 0
    assert (memory / "MEMORY.md").read_text() == "two years"


def test_a_damaged_latest_starts_nothing_unless_an_older_one_will_do(refused, cli, vault, memory):
    info = save(vault, {"MEMORY.md": "two years"})
    damage(vault, save(vault, {"MEMORY.md": "three years"}))
    line = refused(4, "run", memory, "--", "agent")
    assert Agent.started == 0
    assert re.search(rf"; try: colony-memory run {memory} --vault \S+ --fallback -- agent$", line), line
    for day in range(2):
        code, _, err = cli("run", "--quiet", "--fallback", memory, "--", "agent")
        assert (code, Agent.started) == (0, day + 1)
        assert ("is damaged" in err) or day
        assert (memory / "MEMORY.md").read_text() == "two years"
    assert info


def test_a_plan_of_a_start_says_what_would_become_of_each_file(cli, vault, memory):
    save(vault, {"MEMORY.md": "two years", "b.md": "b"})
    code, out, _ = cli("run", "--dry-run", memory, "--", "agent")
    assert (code, Agent.started, memory.exists()) == (0, 0, False)
    assert out.splitlines()[:2] == ["would create  MEMORY.md", "would create  b.md"]
    cli("run", memory, "--", "agent")
    code, out, _ = cli("run", "--dry-run", memory, "--", "agent")
    assert out.startswith(f"{memory} would stay as it is: the latest snapshot is 20")
    assert cli("run", "--dry-run", "--quiet", memory, "--", "agent")[1] == out


def test_a_start_that_cannot_restore_says_why_once_and_its_plan_too(cli, vault, memory):
    save(vault, {"MEMORY.md": "two years"})
    (memory / "MEMORY.md").mkdir(parents=True)
    code, out, _ = cli("run", "--dry-run", memory, "--", "agent")
    reason = out.partition(f"{memory} would stay as it is: ")[2].strip()
    assert (code, "MEMORY.md" in reason) == (1, True), out
    code, _, err = cli("run", memory, "--", "agent")
    assert (code, err.count(reason), err.count("stays as it is")) == (1, 1, 1), err


def test_a_plan_of_a_start_for_programs(cli, vault, memory):
    plan = ("run", "--dry-run", "--json", memory, "--", "agent")
    first = json.loads(cli(*plan)[1])
    assert (first["directory"], first["dry_run"], first["messages"]) == (str(memory), True, [])
    assert (first["latest"], first["restored"], first["failed"]) == (None, None, None)
    assert first["missing"].startswith("nothing is saved yet under label 'default'")
    info = save(vault, {"MEMORY.md": "two years"})
    answer = json.loads(cli(*plan)[1])
    restored = answer["restored"]
    assert (answer["latest"], restored["info"]["snapshot_id"]) == (info.snapshot_id, info.snapshot_id)
    assert (restored["written"]["created"], answer["failed"], memory.exists()) == (["MEMORY.md"], None, False)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["memory"], 2, "the command to start is missing"),
        (["memory", "--", ""], 2, "the command to start is missing"),
        (["", "--", "agent"], 2, "an empty path"),
        (["--every", "900", "memory", "--", "agent"], 2, "--every: '900' is not a length of time"),
        (["--allow-secret", "x", "memory", "--", "agent"], 2, "'x' names no finding"),
        ([".", "--", "agent"], 2, "each backup would hold all the ones before"),
    ],
)
def test_what_is_asked_for_is_not_understood(refused, vault, memory, arguments, code, says):
    assert says in refused(code, "run", *arguments)
    assert Agent.started == 0


def test_a_second_one_on_this_host(refused, vault, memory):
    with alone(last_run_path(str(vault.path), "default")):
        assert "another watch or run of this vault and label" in refused(1, "run", memory, "--", "agent")
    assert Agent.started == 0


# What goes wrong meanwhile.


def test_what_fails_is_told_and_the_command_goes_on(cli, vault, memory):
    long_ago(vault, {"MEMORY.md": "two years"})

    def life(agent):
        (memory / "MEMORY.md").write_text(TOKEN)
        agent.on_end(signal.SIGTERM)  # one is made at once
        while (log := read_runs(str(vault.path), "default")) is None or log.last_failure is None:
            time.sleep(0.002)
        (memory / "MEMORY.md").write_text("three years")

    Agent.life = life
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert code == 0
    assert any(re.match(rf"{TIME} failed: .*secret.*; next in ", line) for line in err.splitlines())
    assert TOKEN not in err
    assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "three years"}


def test_a_vault_that_goes_away_is_told(cli, vault, memory):
    long_ago(vault, {"MEMORY.md": "two years"})

    def life(agent):
        vault.path.rename(vault.path.with_name("away"))
        (memory / "MEMORY.md").write_text("three years")

    Agent.life = life
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert code == 1
    assert "failed: there is no vault in " in err
    assert not vault.path.exists()
    assert ColonyMemory(backend=LocalVault(vault.path.with_name("away"))).restore()["MEMORY.md"] == "two years"


def test_for_programs(cli, vault, memory):
    Agent.life = lambda agent: (memory / "a").write_text("a") and 0
    code, out, err = cli("run", "--json", memory, "--", "agent")
    assert (code, out) == (0, "")
    assert json.loads(err.splitlines()[-1])["ok"] is True


def test_an_end_in_spite_of_a_backup_that_hangs(cli, vault, memory, monkeypatch):
    left, let_go = [], threading.Event()
    monkeypatch.setattr(output, "leave", left.append)
    began = threading.Event()

    def hang(*args, **options):
        began.set()
        let_go.wait(20)

    monkeypatch.setattr(backup, "save", hang)

    def life(agent):
        (memory / "a").write_text("a")
        agent.on_end(signal.SIGTERM)
        began.wait(20)
        return 0

    Agent.life = life
    monkeypatch.setattr("colony_memory.shell.app.config.parse_duration", lambda text: timedelta(seconds=0.05))
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert (code, left) == (1, [1])
    assert "not done within 0.05 s (last backup, on the end of the command)" in err
    let_go.set()


def test_whoever_does_not_want_to_wait(cli, vault, memory, monkeypatch):
    from colony_memory.schedule.watch import Watch

    def interrupted(self, reason):
        raise KeyboardInterrupt

    monkeypatch.setattr(Watch, "end", interrupted)
    monkeypatch.setattr(output, "leave", lambda code: None)
    Agent.life = lambda agent: 0
    code, _, err = cli("run", "--quiet", memory, "--", "agent")
    assert (code, err) == (130, "interrupted: the last backup was not waited for\n")


# Real commands.


def start(memory, script, *options, within=(), **settings):
    """``run`` with a shell that does this, as process 1 of ``within`` if that is given."""
    words = [*within, sys.executable, "-m", "colony_memory", "run", "-q", *options, memory, "--", "sh", "-c", script]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
    return subprocess.Popen(list(map(str, words)), text=True, **streams)


def ended(process, said=None):
    try:
        out, err = process.communicate(said, timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.once
@POSIX
def test_input_and_outputs_are_the_command_s(vault, memory):
    process = start(memory, "cat; echo >&2 err; exit 7", stdin=subprocess.PIPE)
    assert ended(process, "hello\n") == (7, "hello\n", "err\n")


@pytest.mark.once
@POSIX
@pytest.mark.parametrize(
    ("number", "trapped"),
    [("TERM", True), ("HUP", True), ("INT", True), ("QUIT", True), ("USR1", True), ("TERM", False)],
)
def test_a_signal_reaches_the_command_and_what_it_did_last_is_saved(vault, memory, number, trapped):
    trap = f"trap 'echo last words > {memory}/MEMORY.md; exit 3' {number}; " if trapped else ""
    process = start(memory, f"{trap}echo ready; while :; do sleep 0.02; done")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, f"SIG{number}"))
    code, _, err = ended(process)
    if trapped:
        assert (code, err) == (3, "")
        assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "last words\n"}
    else:
        assert code == 143


@pytest.mark.once
@POSIX
def test_a_command_that_shuts_down_slowly_is_saved_before_it_is_killed(vault, memory):
    script = f"trap '' TERM; echo first > {memory}/MEMORY.md; echo ready; while :; do sleep 0.02; done"
    process = start(memory, script, start_new_session=True)
    try:
        assert process.stdout.readline() == "ready\n"
        # The first one may have come before there was anything.
        process.send_signal(signal.SIGTERM)
        while not (vault.path / "cmem.default.latest.json").exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "first\n"}


@pytest.mark.once
@POSIX
def test_killed_it_leaves_the_command_alive_and_what_that_writes_is_not_overwritten(vault, memory, tmp_path):
    script = f"echo $$; read line; echo {'$line'} > {memory}/MEMORY.md; echo done"
    os.mkfifo(tmp_path / "in")
    process = start(memory, f"({script}) < {tmp_path / 'in'}")
    with (tmp_path / "in").open("w") as said:
        process.stdout.readline()
        process.kill()
        process.wait()
        said.write("after\n")
    assert process.stdout.readline() == "done\n"
    process.communicate(timeout=60)
    assert (memory / "MEMORY.md").read_text() == "after\n"
    code, _, err = ended(start(memory, "true"))
    assert (code, err) == (0, "")
    assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "after\n"}


@pytest.mark.once
@POSIX
def test_ctrl_c_on_a_terminal_reaches_the_command_once(vault, memory):
    import pty

    script = f"trap 'echo interrupted >> {memory}/MEMORY.md; echo heard' INT; echo ready; read a; read b; exit 5"
    command = [sys.executable, "-m", "colony_memory", "run", "-q", str(memory), "--", "sh", "-c", script]
    # Its own session, with the terminal as that session's.
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", take, *command], stdin=end, stdout=end, stderr=end, start_new_session=True
    )
    os.close(end)
    seen = b""

    def until(word):
        nonlocal seen
        while word not in seen:
            seen += os.read(terminal, 1000)

    try:
        until(b"ready")
        os.write(terminal, b"\x03")
        until(b"heard")
        os.write(terminal, b"\n\n")
        with contextlib.suppress(OSError):  # the end, as Linux tells it
            while more := os.read(terminal, 1000):
                seen += more
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert code == 5, seen
    assert files_of(ColonyMemory(backend=vault)) == {"MEMORY.md": "interrupted\n"}


@pytest.fixture
def process_1():
    """How to be process 1 of a namespace."""
    for user in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *user, "--pid", "--fork", "--mount-proc"]
        if (
            shutil.which("unshare")
            and subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
        ):
            return command
    return pytest.skip("no process namespace is to be had here")


@pytest.mark.once
@POSIX
def test_in_a_container_the_command_outlives_what_makes_the_backups(vault, memory, process_1, tmp_path):
    os.mkfifo(tmp_path / "in")
    script = f"echo ready; read line < {tmp_path / 'in'}; echo after > {memory}/MEMORY.md; echo done"
    process = start(memory, script, within=process_1)
    assert process.stdout.readline() == "ready\n"
    (first,) = children(process.pid)
    (worker,) = children(first)
    os.kill(worker, signal.SIGKILL)
    (tmp_path / "in").write_text("go\n")
    assert process.stdout.readline() == "done\n"
    code, _, err = ended(process)
    assert (code, err) == (
        137,
        "error: the process that makes the backups was ended by signal 9; the command goes on without backups\n",
    )
    assert (memory / "MEMORY.md").read_text() == "after\n"


def children(pid):
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
