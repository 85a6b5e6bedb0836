"""The use cases need nothing of the command line, and say nothing by themselves."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, pathlib, pkgutil, importlib
for name in ("click", "colony_memory.cli"):
    sys.modules[name] = None  # as where it is not installed
import colony_memory.app
for module in pkgutil.iter_modules(colony_memory.app.__path__):
    importlib.import_module(f"colony_memory.app.{module.name}")
from colony_memory import restore_folder, save_folder
from colony_memory.app.open import open_memory
from colony_memory.app.open import choose_place
from colony_memory.app.protection import check_protection
here = pathlib.Path(sys.argv[1])
(here / "memory").mkdir()
(here / "memory" / "a.md").write_text("x")
choose_place(str(here / "vault")).make()
memory = open_memory(str(here / "vault")).memory
assert save_folder(memory, here / "memory")
assert restore_folder(memory, here / "again")
assert check_protection(memory)
assert (here / "again" / "a.md").read_text() == "x"
"""


def test_without_what_the_command_line_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
