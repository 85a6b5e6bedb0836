"""Telling a monitor and a command of each run."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
import threading

import pytest
from monitors import Monitor

from colony_memory.exceptions import VaultUnavailable
from colony_memory.schedule import notify
from colony_memory.schedule.notify import Notifier, clean, read_ping_url

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def monitor():
    with Monitor() as monitor:
        yield monitor


@pytest.fixture
def told():
    return []


def python(code, *args):
    return shlex.join([sys.executable, "-I", "-S", "-c", code, *map(str, args)])


# Pings.


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hc.example.org/a1b2",
        "ftp://example.org/secret",
        "file:///etc/secret",
        "https:///secret",
        "https://[::1/secret",
        "https://me:secret@example.org/",
        "https://example.org/secret#x",
        "https://example.org/se cret",
        "https://example.org/s\u00e9cret",
        "https://example.org/\nsecret",
        "http://example.org:99999/secret",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(url):
    with pytest.raises(ValueError, match="the address to ping") as caught:
        read_ping_url(url)
    assert "secret" not in str(caught.value)


def told_of(monitor_url):
    said = []
    notifier = Notifier(ping=monitor_url, warn=said.append)
    notifier.succeeded()
    notifier.close(20)
    return said


def test_no_redirect_is_followed(monitor):
    monitor.answer, monitor.headers = 302, {"Location": "file:///etc/passwd"}
    assert told_of(monitor.url) == ["the ping to 127.0.0.1 failed: it answered 302"]


def test_a_monitor_that_refuses_is_silent_or_away(monitor, monkeypatch):
    monitor.answer = 500
    assert told_of(monitor.url) == ["the ping to 127.0.0.1 failed: it answered 500"]
    monkeypatch.setattr(notify, "PATIENCE", 0.05)
    monitor.let_go.clear()
    (told,) = told_of(monitor.url)
    assert re.search("^the ping to 127.0.0.1 failed: .*(timed out|in time)", told)
    monitor.let_go.set()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        (told,) = told_of(f"http://127.0.0.1:{unused.getsockname()[1]}/a1b2")
    assert told.startswith("the ping to 127.0.0.1 failed: ")
    assert "a1b2" not in told


# What is told.


def test_a_message_leaves_its_secrets_behind(monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_mine")
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    text = clean(f"x\0\x1b[2J\n col_mine {token} https://u:p@host/v {'y' * 5000}")
    assert text.startswith("x [2J … ghp_[masked: GitHub token] https://…@host/v y")
    assert len(text) == 2000


def test_a_run_is_told_from_begin_to_end(monitor, told):
    notifier = Notifier(ping=monitor.url, warn=told.append)
    notifier.begin()
    notifier.succeeded()
    notifier.begin()
    notifier.failed("failed: the vault is down", VaultUnavailable("the vault is down"))
    notifier.close(20)
    notifier.succeeded()  # too late
    assert monitor.events == ["start", "", "start", "fail"]
    assert monitor.told[-1][2] == "failed: the vault is down"
    assert told == []


def test_a_monitor_that_hangs_holds_nothing_up(monitor, told):
    monitor.let_go.clear()
    notifier = Notifier(ping=monitor.url, warn=told.append)
    for _ in range(100):
        notifier.begin()
        notifier.succeeded()
    assert len(notifier._waiting.queue) <= 8
    notifier.close(0.01)
    assert told == ["not everyone could be notified within 0.01 s"]
    monitor.let_go.set()
    notifier._thread.join(20)
    assert len(monitor.told) <= 1


def test_where_no_thread_can_be_started(monkeypatch, told):
    def fail(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    notifier = Notifier(ping="http://127.0.0.1/", warn=told.append)
    notifier.begin()
    notifier.close(20)
    assert told == ["nobody can be notified: no thread can be started"]


# The command.


@POSIX
def test_a_command_hears_what_happened(tmp_path, told, monkeypatch):
    code = (
        "import os, sys; ours = {n: v for n, v in os.environ.items() if n.startswith('COLONY_')}; "
        "print(ours, sys.argv[1:], sep='|', file=open(sys.argv[1], 'w'))"
    )
    notifier = Notifier(
        label="notes",
        on_error=f"{python(code, tmp_path / 'told')} 'two words' '$HOME;x'",
        classify=lambda error: ("Odd", 4),
        warn=told.append,
    )
    notifier.failed("failed: no\nroom", ValueError("no room"))
    notifier.close(20)
    environment, arguments = (tmp_path / "told").read_text().strip().split("|")
    assert {name: value for name, value in eval(environment).items() if name != "COLONY_SDK_NO_TOKEN_CACHE"} == {
        "COLONY_MEMORY_ERROR": "failed: no room",
        "COLONY_MEMORY_KIND": "Odd",
        "COLONY_MEMORY_CODE": "4",
        "COLONY_MEMORY_LABEL": "notes",
    }
    assert eval(arguments) == [str(tmp_path / "told"), "two words", "$HOME;x"]
    assert told == []


@POSIX
def test_a_command_that_fails_or_is_not_there_is_a_word_and_no_more(told):
    for command in ("sh -c 'exit 7'", "/nonexistent/mailer -x"):
        notifier = Notifier(on_error=command, warn=told.append)
        notifier.failed("x")
        notifier.close(20)
    assert told == [
        "the command for failures, sh, failed: exit code 7",
        "the command for failures, /nonexistent/mailer, cannot be run: No such file or directory",
    ]


@POSIX
@pytest.mark.parametrize("ends", ["by itself", "with the notifier"])
def test_a_command_that_hangs_is_ended_with_what_it_started(told, monkeypatch, tmp_path, ends):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if ends == "by itself":
        monkeypatch.setattr(notify, "LONGEST_COMMAND", 0.05)
    notifier = Notifier(on_error=f"sh -c 'exec 3>{pipe}; sleep 60 & sleep 60'", warn=told.append)
    notifier.failed("x")
    with pipe.open() as reader:  # both have it open: it ends when both are gone
        notifier.close(20 if ends == "by itself" else 0.05)
        assert reader.read() == ""
    notifier._thread.join(20)
    if ends == "by itself":
        assert told == ["the command for failures, sh, was ended: it took longer than 0.05 s"]
    else:
        assert "not everyone could be notified within 0.05 s" in told


@pytest.mark.parametrize(
    ("command", "why"), [("", "is empty"), ("  ", "is empty"), ("''", "is empty"), ("mail 'x", "cannot be read")]
)
def test_a_command_that_is_none_is_refused(command, why):
    with pytest.raises(ValueError, match=why):
        Notifier(on_error=command)
