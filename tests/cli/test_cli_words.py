"""Words of other programs, and mistyped ones, get the command that was meant."""

from __future__ import annotations

import json
import shlex

import pytest

pytest.importorskip("click")


from colony_memory.cli import app, program


@pytest.mark.parametrize(
    ("asked", "says", "offers"),
    [
        ("bakcup memory", "there is no command 'bakcup', did you mean 'backup'?", "backup --help"),
        ("RESTORE out", "there is no command 'RESTORE', did you mean 'restore'?", "restore --help"),
        ("snapshots", "there is no command 'snapshots', did you mean 'list'?", "list --help"),
        ("forget --keep-last 1", "there is no command 'forget', did you mean 'prune'?", "prune --help"),
        ("help", "there is no command 'help'", "--help"),
        ("version", "there is no command 'version'", "--help"),
        ("xyzzy", "there is no command 'xyzzy'", "--help"),
        (f"{'x' * 5000}", f"there is no command '{'x' * 40}\u2026'", "--help"),
        ("--quiet list", "there is no option --quiet before the command", "--help"),
        ("--frob", "there is no option --frob before the command", "--help"),
        ("list --lable a", "there is no option --lable, did you mean --label?", "list --help"),
        (f"backup --frob{'x' * 5000}", f"there is no option --frob{'x' * 34}\u2026", "backup --help"),
    ],
)
def test_what_is_said_of_it(refused, asked, says, offers):
    assert refused(2, *shlex.split(asked)) == f"error: {says}; try: colony-memory {offers}"


def test_without_a_command_the_help_is_printed(cli):
    code, out, err = cli()
    assert (code, err) == (2, "error: a command is missing; try: colony-memory --help\n")
    assert out == cli("--help")[1]


@pytest.mark.parametrize(("word", "verb"), program.FOREIGN.items())
def test_no_word_of_another_program_is_a_verb_and_each_is_one_here(word, verb):
    assert word not in app.VERBS
    assert verb in (*app.VERBS, "--help", "--version")


def test_programs_get_the_command_as_the_hint(cli):
    code, out, err = cli("snapshots", "--json")
    assert (code, out) == (2, "")
    assert json.loads(err) == {
        "error": "there is no command 'snapshots', did you mean 'list'?",
        "kind": "UsageError",
        "code": 2,
        "hint": "colony-memory list --help",
    }
