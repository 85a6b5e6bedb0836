"""The program: its verbs, their help and their options."""

import os
import shlex
import shutil
import subprocess
import sys
from random import Random

import pytest
from cli_runs import POSIX

from colony_memory.shell.cli import app, program
from colony_memory.shell.cli.call import Call, parse


def test_the_help_loads_no_verb_and_nothing_heavy():
    code = (
        "import sys; from colony_memory.__main__ import main; main(['--help']); "
        "print([m for m in sys.modules if m.startswith(('colony_memory.shell.cli.verbs',))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", app.VERBS)
def test_what_every_verb_has_is_named_in_one_line_below_its_own(cli, verb):
    options = cli(verb, "--help")[1].partition("\n  Example")[0]
    own, _, common = options.partition("\nCommon options, which 'colony-memory --help' describes: ")
    assert "--help" in own
    assert "--json" in common
    assert "--json" not in own
    assert "--label" not in common
    described = cli("--help")[1].partition("\nCommon options")[2]
    assert all(f"{flag.strip()} " in described for flag in common.strip().split(","))


@pytest.mark.parametrize(("columns", "flag"), [(60, "-h"), (120, "--help")])
@pytest.mark.parametrize("verb", [[], *([verb] for verb in app.VERBS)])
def test_the_help_is_plain_text_that_fits_the_terminal_with_examples(cli, monkeypatch, verb, columns, flag):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = cli(*verb, flag)
    assert (code, err, out.isascii()) == (0, "", True)
    assert out.startswith(" ".join(["Usage: colony-memory", *verb]))
    # Examples are to be pasted, and a terminal that wraps them lets them be.
    text, example, _ = out.partition("  Example")
    assert max(map(len, text.splitlines())) <= columns
    assert bool(example) == bool(verb)


@pytest.mark.parametrize(
    ("shell", "asked", "answer"),
    [
        ("bash", {"COMP_WORDS": "colony-memory res", "COMP_CWORD": "1"}, ["plain,restore"]),
        ("bash", {"COMP_WORDS": "colony-memory restore --fo", "COMP_CWORD": "2"}, ["plain,--force"]),
        ("zsh", {"COMP_WORDS": "colony-memory sho", "COMP_CWORD": "1"}, ["plain", "show", app.VERBS["show"]]),
        ("fish", {"COMP_WORDS": "colony-memory sta", "COMP_CWORD": "sta"}, ["plain,status"]),
    ],
)
def test_shells_complete(shell, asked, answer):
    done = subprocess.run(
        [sys.executable, "-m", "colony_memory"],
        env={**os.environ, **asked, "_COLONY_MEMORY_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert all(line.startswith(each) for line, each in zip(lines, answer, strict=False)), lines


@POSIX
def test_bash_takes_what_the_program_offers(tmp_path):
    bash = shutil.which("bash") or pytest.skip("needs bash")
    program = tmp_path / "colony-memory"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m colony_memory "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_COLONY_MEMORY_COMPLETE=bash_source colony-memory)"; complete -p colony-memory; '
        'COMP_WORDS=(colony-memory ver); COMP_CWORD=1; _colony_memory_completion colony-memory; echo "${COMPREPLY[@]}"'
    )
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "verify"


VALUES = ("a", "7", "0", "-1", "", "raise", "2", "--", "x=y")


@pytest.mark.parametrize("verb", app.VERBS)
def test_plain_arguments_are_what_click_takes_them_for(verb, monkeypatch):
    monkeypatch.setattr(Call, "run", lambda call, _: call)
    random = Random(verb)
    words = [*VALUES, *(flag for each in program.verb_of(verb).params for flag in each.opts if flag[0] == "-")]
    plain = 0
    for _ in range(100):
        argv = [*(["--html", "a"] if verb == "report" else []), *random.choices(words, k=random.randrange(4))]
        call = parse(verb, argv)
        if call is None:
            continue
        plain += 1
        with program.verb_of(verb).make_context(verb, list(argv), obj=None) as context:
            theirs = program.verb_of(verb).invoke(context)
        assert (call.params, call.sources) == (theirs.params, theirs.sources), argv
    assert plain > 5
