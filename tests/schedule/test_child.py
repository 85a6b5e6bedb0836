"""A command as a child: its signals, its end, and what process 1 owes."""

import os
import signal
import subprocess
import sys

import pytest

from colony_memory.schedule import child as module
from colony_memory.schedule.child import Child, CommandNotFound, find_command

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals of other systems end the process at once")


class Process:
    """In the place of a process: its end is what ``wait`` does."""

    made = None

    def __init__(self, command):
        self.command = command
        self.sent, self.looks = [], 0
        Process.made = self
        if Process.starting is not None:
            Process.starting()

    def send_signal(self, number):
        self.sent.append(number)

    def wait(self, timeout):
        self.looks += 1
        if self.looks == 1:  # it takes longer than one look
            raise subprocess.TimeoutExpired(self.command, timeout)
        return Process.life(self)


@pytest.fixture(autouse=True)
def process(monkeypatch, request):
    if "once" in request.keywords:
        return
    monkeypatch.setattr(subprocess, "Popen", Process)
    monkeypatch.setattr(module, "_is_foreground", lambda: False)
    Process.starting, Process.life = None, lambda self: 0


@POSIX
@pytest.mark.parametrize(
    "name",
    ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT", "SIGALRM", "SIGRTMIN"],
)
def test_signals_are_sent_on(name):
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip("this system does not have it")
    before, asked = signal.getsignal(number), []
    Process.life = lambda self: [signal.raise_signal(number) for _ in range(2)] and -number
    with Child(["agent"], on_end=asked.append) as child:
        child.start()
        assert child.wait() == 128 + number
    assert Process.made.sent == [number, number]
    assert asked == ([number] if name in ("SIGTERM", "SIGHUP", "SIGQUIT") else [])  # once
    assert signal.getsignal(number) is before


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, getattr(signal, "SIGQUIT", signal.SIGINT)])
def test_an_interrupt_of_the_terminal_is_not_sent_twice(monkeypatch, number):
    monkeypatch.setattr(module, "_is_foreground", lambda: True)
    Process.life = lambda self: signal.raise_signal(number) or 130
    with Child(["agent"]) as child:
        child.start()
        assert child.wait() == 130
    assert Process.made.sent == []


@POSIX
def test_what_comes_before_it_is_there_is_sent_as_soon_as_it_is():
    Process.starting = lambda: signal.raise_signal(signal.SIGTERM)
    with Child(["agent"]) as child:
        signal.raise_signal(signal.SIGHUP)
        child.start()
        child.wait()
    assert Process.made.sent == [signal.SIGHUP, signal.SIGTERM]


@POSIX
def test_after_its_end_an_interrupt_stops_what_waits_and_others_do_nothing():
    with Child(["agent"]) as child:
        child.start()
        child.wait()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert Process.made.sent == []


def test_a_command_that_cannot_be_run(tmp_path, monkeypatch):
    with pytest.raises(CommandNotFound, match="'no-such-agent': there is no such command") as caught:
        find_command(["no-such-agent"])
    assert caught.value.code == 127
    (tmp_path / "agent").write_text("")
    if os.name != "nt":
        with pytest.raises(CommandNotFound, match="it cannot be executed") as caught:
            find_command([str(tmp_path / "agent")])
        assert caught.value.code == 126
    find_command([sys.executable])

    def refuse(command):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with Child(["agent"]) as child, pytest.raises(CommandNotFound, match="'agent': Permission denied") as caught:
        child.start()
    assert caught.value.code == 126


# Process 1, by what it asks of the system.


class World:
    """The system as process 1 sees it: who ends in which order."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.sent = []
        self.handlers = {}
        self.masks = []

    def waitpid(self, pid, options):
        assert (pid, options) == (-1, os.WNOHANG)
        end = self.ends.pop(0) if self.ends else ChildProcessError
        if isinstance(end, signal.Signals):
            self.handlers[end](end, None)
            return 0, 0
        if end is ChildProcessError:
            raise end
        return end

    def kill(self, pid, number):
        self.sent.append((pid, number))
        if pid == 404:
            raise ProcessLookupError


@pytest.fixture
def world(monkeypatch):
    def make(*ends):
        world = World(*ends)
        monkeypatch.setattr(os, "waitpid", world.waitpid)
        monkeypatch.setattr(os, "kill", world.kill)
        monkeypatch.setattr(signal, "signal", world.handlers.__setitem__)
        monkeypatch.setattr(signal, "pthread_sigmask", lambda how, which: world.masks.append(how))
        return world

    return make


TERM, INT = signal.SIGTERM, signal.SIGINT
NUMBERS = {TERM, INT}


@POSIX
def test_process_1_reaps_and_passes_on_until_the_worker_ends(world, monkeypatch):
    here = world((50, 0), TERM, (51, 9), INT, (7, 3 << 8), (52, 0))
    assert module._reap(7, NUMBERS, print) == 3
    assert here.sent == [(7, TERM), (7, INT)]
    assert here.ends == [(52, 0)]
    assert here.masks == [signal.SIG_UNBLOCK]
    here = world(TERM, (404, 0))  # it has just ended
    assert module._reap(404, NUMBERS, print) == 0
    assert here.sent == [(404, TERM)]
    monkeypatch.setattr(module, "_is_foreground", lambda: True)
    here = world(INT, (404, 0))
    assert (module._reap(404, NUMBERS, print), here.sent) == (0, [])


@POSIX
def test_process_1_lets_the_command_go_on_where_the_worker_is_killed(world, capsys):
    here = world((7, 9), (50, 0), TERM, (51, 0))
    assert module._reap(7, NUMBERS, print) == 137
    assert here.sent == [(-1, TERM)]
    assert (
        capsys.readouterr().out
        == "the process that makes the backups was ended by signal 9; the command goes on without backups\n"
    )


@POSIX
def test_only_process_1_becomes_one(world, monkeypatch):
    here = world((7, 0))
    left = []
    monkeypatch.setattr(os, "fork", lambda: 7)
    monkeypatch.setattr(os, "_exit", left.append)
    module.become_init(print)
    assert (left, here.masks) == ([], [])
    monkeypatch.setattr(os, "getpid", lambda: 1)
    module.become_init(print)
    assert left == [0]
    monkeypatch.setattr(os, "fork", lambda: 0)
    module.become_init(print)
    assert left == [0]
