"""The program: its verbs, their help and their options."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

pytest.importorskip("typer")

import cli_runs

from colony_memory.cli import app

environment, vault, cli = cli_runs.environment, cli_runs.vault, cli_runs.cli


@pytest.mark.parametrize("verb", app.VERBS)
def test_each_verb_s_line_in_the_help_is_the_first_of_its_own(verb):
    module = app.module_of(verb)
    assert inspect.getdoc(module.run).partition("\n")[0] == app.VERBS[verb]
    assert f"the verb ``{verb}``" in module.__doc__.replace("The", "the")
    assert module.EXAMPLES


def test_the_help_loads_no_verb_and_nothing_heavy():
    code = (
        "import sys; from colony_memory.__main__ import main; main(['--help']); "
        "print([m for m in sys.modules if m.startswith(('colony_memory.cli.verbs', 'rich'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_verb_that_is_mistyped_is_suggested(cli):
    code, out, err = cli("bakcup")
    assert (code, out) == (2, "")
    assert "'backup'" in err
