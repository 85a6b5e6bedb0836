"""The command line where its extra is not installed: these run without it."""

import os
import subprocess
import sys

import pytest

LINE = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"


MISSING = "raise ModuleNotFoundError(\"No module named '{0}'\", name='{0}')\n"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (MISSING.format("click"), LINE),
        (MISSING.format("click.core"), LINE),
        ("import click_needs_this\n", "error: ModuleNotFoundError: No module named 'click_needs_this'"),
        ("from os import nothing_of_this_name\n", "error: ImportError: cannot import name 'nothing_of_this_name'"),
    ],
    ids=["away", "a part of it away", "its own want", "broken"],
)
def test_without_click_one_line_says_what_to_install_or_what_is_wrong(tmp_path, code, says):
    (tmp_path / "click.py").write_text(code)
    env = {name: value for name, value in os.environ.items() if not name.startswith("COLONY_")}
    env.update(PYTHONPATH=str(tmp_path), HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-m", "colony_memory", "status", "--help"],
        env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith(says)
