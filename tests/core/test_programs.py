"""What is written as users write it, to be type-checked, does what it says as well."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[1] / "typing" / "programs"
NEEDS = {"keys": ("cryptography", "pyrage")}


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NEEDS.get(path.stem, ()):
        pytest.importorskip(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLONY_SDK_NO_TOKEN_CACHE", "1")
    assert runpy.run_path(str(path), run_name="__main__")


def test_what_must_not_pass_names_the_error_of_each_checker() -> None:
    lines = (PROGRAMS / "refused.py").read_text(encoding="utf-8").splitlines()
    wrong = [line for line in lines if "ignore[" in line]
    assert len(wrong) > 40
    assert [line for line in wrong if line.count("# type: ignore[") != 1 or line.count("# pyright: ignore[") != 1] == []
