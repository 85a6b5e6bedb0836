"""Text that is given is taken as it is, what is not given is not there, and only a number is converted."""

import subprocess
import sys
from typing import Annotated

import pytest

pytest.importorskip("typer")

import cli_runs
import typer

from colony_memory.cli.values import take_text_as_it_is

environment, vault = cli_runs.environment, cli_runs.vault


@pytest.fixture
def parsed():
    """Gives what a function gets for arguments."""

    def parse(run, *args):
        one = typer.Typer(add_completion=False)
        one.command()(run)
        command = typer.main.get_command(one)
        take_text_as_it_is(command, run)
        found = []
        for _ in range(2):  # a command is made once, and used again
            with command.make_context("x", list(args)) as context:
                found.append(context.params)
        assert found[0] == found[1]
        return found[0]

    return parse


def test_as_given_or_not_there(parsed):
    def run(
        some: Annotated[list[str], typer.Argument()],
        text: Annotated[str, typer.Option()] = "as ever",
        none: Annotated[str | None, typer.Option()] = None,
        more: Annotated[list[str] | None, typer.Option()] = None,
        number: Annotated[int | None, typer.Option(min=2)] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> int:
        return 0

    odd = "\udcff \x1b{}"
    found = parsed(run, odd, "2")
    assert (list(found["some"]), found["text"], found["none"]) == ([odd, "2"], "as ever", None)
    assert (found["more"] or None, found["number"], found["flag"]) == (None, None, False)
    found = parsed(run, "a", "--text", odd, "--none", "", "--more", "b", "--more", odd, "--number", "2", "--flag")
    assert (found["text"], found["none"], list(found["more"])) == (odd, "", ["b", odd])
    assert (found["number"], found["flag"]) == (2, True)
    for args in ([], ["a", "--number", "x"], ["a", "--number", "1"], ["a", "--text"]):
        with pytest.raises(typer.BadParameter.__base__):
            parsed(run, *args)


def test_a_command_loads_nothing_to_convert_text(vault):
    program = (
        "import sys; from colony_memory.__main__ import main; code = main(['list', '--label', 'a', '--quiet']);"
        "print(code, 'pydantic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.split()[-2:] == ["0", "False"], (done.stdout, done.stderr)
