"""The command line where its extra is not installed: these run without it."""

from __future__ import annotations

import os
import subprocess
import sys

LINE = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"


def run_with(stub, module, code, *args):
    """Run the command line with a module of this name in front of the real one."""
    (stub / f"{module}.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if not name.startswith("COLONY_")}
    env.update(PYTHONPATH=str(stub), HOME=str(stub), XDG_DATA_HOME=str(stub / "data"))
    return subprocess.run(
        [sys.executable, "-m", "colony_memory", *args],
        env=env,
        cwd=stub,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def missing(name):
    return f"raise ModuleNotFoundError(\"No module named '{name}'\", name={name!r})\n"


def test_without_click_one_line_says_what_to_install(tmp_path):
    done = run_with(tmp_path, "click", missing("click"), "status", "--help")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", LINE + "\n")


def test_a_part_of_the_extra_that_is_missing_deep_inside_says_the_same(tmp_path):
    done = run_with(tmp_path, "click", missing("click.core"), "status", "--help")
    assert (done.returncode, done.stderr) == (1, LINE + "\n")


def test_any_other_missing_module_is_named(tmp_path):
    done = run_with(tmp_path, "click", "import click_needs_this\n", "status", "--help")
    assert done.returncode == 1
    assert done.stderr == "error: ModuleNotFoundError: No module named 'click_needs_this'\n"


def test_an_extra_that_is_broken_is_not_called_missing(tmp_path):
    done = run_with(tmp_path, "click", "from os import nothing_of_this_name\n", "status", "--help")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ImportError: cannot import name 'nothing_of_this_name'")
    assert len(done.stderr.splitlines()) == 1
