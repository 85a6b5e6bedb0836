"""The command that is told of a failure."""

import os
import shlex
import sys

import pytest

from colony_memory.schedule.on_error import OnError, clean

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def said():
    return []


def on_error(command, said):
    return OnError(command, label="notes", warn=said.append)


def test_a_message_leaves_its_secrets_behind(monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_mine")
    token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    text = clean(f"x\0\x1b[2J\n col_mine {token} https://u:p@host/v {'y' * 5000}")
    assert text.startswith("x [2J … ghp_[masked: GitHub token] https://…@host/v y")
    assert len(text) == 2000


@POSIX
def test_a_command_hears_what_happened(tmp_path, said):
    code = (
        "import os, sys; ours = {n: v for n, v in os.environ.items() if n.startswith('COLONY_MEMORY_')}; "
        "print(ours, sys.argv[1:], sep='|', file=open(sys.argv[1], 'w'))"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "told"), "two words", "$HOME;x"]
    command = on_error(shlex.join(words), said)
    command.failed("failed: no\nroom", kind="Odd", code=4)
    command.wait(20)
    environment, arguments = (tmp_path / "told").read_text().strip().split("|")
    facts = {"ERROR": "failed: no room", "KIND": "Odd", "CODE": "4", "LABEL": "notes"}
    assert eval(environment).items() >= {f"COLONY_MEMORY_{name}": value for name, value in facts.items()}.items()
    assert eval(arguments) == words[-3:]
    assert said == []


@POSIX
def test_a_command_that_fails_or_is_not_there_is_a_word_and_no_more(said):
    for words in ("sh -c 'exit 7'", "/nonexistent/mailer -x"):
        command = on_error(words, said)
        command.failed("x", kind="Odd", code=1)
        command.wait(20)
    assert said == [
        "the command for failures, sh, failed: exit code 7",
        "the command for failures, /nonexistent/mailer, cannot be run: No such file or directory",
    ]


@POSIX
@pytest.mark.parametrize("ends", ["at the end", "at the next failure"])
def test_a_command_that_hangs_is_ended_with_what_it_started(said, tmp_path, ends):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = on_error(f"sh -c 'exec 3>{pipe}; sleep 60 & sleep 60'", said)
    command.failed("x", kind="Odd", code=1)
    with pipe.open() as reader:  # both have it open: it ends when both are gone
        if ends == "at the end":
            command.wait(0.05)
        else:
            command._words = ["true"]
            command.failed("x", kind="Odd", code=1)
        assert reader.read() == ""
    command.wait(20)
    assert said == ["the command for failures, sh, was ended before it was done"]


@pytest.mark.parametrize(
    ("command", "why"), [("", "is empty"), ("  ", "is empty"), ("''", "is empty"), ("mail 'x", "cannot be read")]
)
def test_a_command_that_is_none_is_refused(command, why, said):
    with pytest.raises(ValueError, match=why):
        on_error(command, said)
