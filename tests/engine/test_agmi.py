"""What the attack suite ``agmi`` finds of snapshots at rest: nine edits of the files, by each way to write them.

REJECTED: restore raises or warns. REPORTED: verify is false. ACCEPTED: neither.
"""

import importlib
import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

check = pytest.importorskip("agmi.check")
pytest.importorskip("cryptography")
adapters = importlib.import_module("agmi_adapters")

EDITS = ("T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9")
REFUSED = ["REJECTED"] * 8
EDITED = ["REPORTED", "REJECTED", "REPORTED", "REPORTED", "REPORTED", "REJECTED", "REJECTED", "REPORTED"]
#: T9 puts back what the agent itself wrote: only a memory outside of the vault tells.
EXPECTED = {
    "SignedEdit": [*EDITED, "ACCEPTED"],
    "SignedRehash": [*REFUSED, "ACCEPTED"],
    "SignedStrip": [*REFUSED, "ACCEPTED"],
    "SignedResign": [*REFUSED, "ACCEPTED"],
    "SignedPointer": [*REFUSED, "ACCEPTED"],
    "SignedWitness": [*REFUSED, "REJECTED"],
    "UnsignedEdit": [*EDITED, "ACCEPTED"],
    # Without a key nothing tells a snapshot whose every digest fits from the agent's own.
    "UnsignedRehash": ["ACCEPTED"] * 9,
}


def verdicts(adapter):
    return {row["edit"][:2]: row["verdict"] for row in check.run(adapter)}


def test_every_adapter_has_its_row():
    assert {each.__name__ for each in adapters.SnapshotAdapter.__subclasses__()} == set(EXPECTED)


@pytest.mark.parametrize("row", EXPECTED)
def test_each_way_to_write(row):
    assert verdicts(getattr(adapters, row)()) == dict(zip(EDITS, EXPECTED[row], strict=True))


@pytest.mark.parametrize(
    ("row", "code"), [pytest.param("SignedRehash", 1, marks=pytest.mark.once), ("SignedWitness", 0)]
)
def test_the_command_says_the_same(row, code, tmp_path):
    command = shutil.which("agmi-check", path=sysconfig.get_path("scripts"))
    assert command, "agmi is installed without its command"
    done = subprocess.run(
        [command, "--adapter", f"agmi_adapters:{row}", "--json", str(tmp_path / "row.json")],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "support")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stderr
    edits = json.loads((tmp_path / "row.json").read_text(encoding="utf-8"))["edits"]
    assert [each["verdict"] for each in edits] == EXPECTED[row]
    assert done.stdout.count("ACCEPTED") == code


def test_the_page_shows_these_verdicts():
    page = (Path(__file__).parents[2] / "benchmarks" / "README.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith(("| signed", "| unsigned"))]
    shown = [[cell.upper() for cell in cells] for _, *cells in rows[: len(EXPECTED)]]
    assert shown == [EXPECTED[name] for name in EXPECTED]
