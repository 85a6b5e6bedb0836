"""The benchmarks start where nothing is installed, and say what they can."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

RUN = Path(__file__).parents[2] / "benchmarks" / "run.py"


def test_they_need_nothing_that_is_installed():
    # Without the packages of this environment, and without the package itself.
    done = subprocess.run(
        [sys.executable, "-E", "-s", "-S", str(RUN), "--help"],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    for group in ("folders", "startup", "watch", "calls"):
        assert group in done.stdout
    assert "against other tools" in done.stdout
