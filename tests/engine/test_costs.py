"""Whatever lies in a vault: what it costs whoever reads it, in memory by max_bytes, and in CPU by the bytes unpacked.

Memory is measured on Linux alone, which tells that of a process.
"""

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest
from age_keys import RECIPIENT, SECRET
from cost_worker import KINDS, VERBS

from colony_memory import ColonyMemory, ColonyMemoryError
from colony_memory.testing import FakeVault

WORKER = Path(__file__).parent.parent / "support" / "cost_worker.py"
MB = 2**20
# What a verb takes whatever the bound: its modules, and files of some megabytes as Python's values.
BESIDE = 64 * MB
DEAREST = [
    "1: one wide text", "2: one long wide name", "2: documents in turn", "2: all of it anew", "catalogue: one name",
    "pointer: objects", "manifests: wide",
]  # fmt: skip

told_by_linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is told by Linux")


@told_by_linux
@pytest.mark.parametrize(
    ("most", "verbs", "kinds"),
    [
        pytest.param(8 * MB, ["restore", "list"], DEAREST, id="the dearest", marks=pytest.mark.once),
        *(
            pytest.param(most * MB, list(VERBS), [kind], id=f"{kind}, {most} MiB", marks=pytest.mark.long)
            for kind in KINDS
            for most in (8, 64)
        ),
    ],
)
def test_it_costs_eight_times_max_bytes_at_most(most, verbs, kinds):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    command = [sys.executable, str(WORKER), str(most), ",".join(verbs), *kinds]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(verbs) * len(kinds)
    # 0.1 microseconds for each byte that one snapshot may unpack to, and 3 for each that is stored. A verb looks up to
    # three times where another client may be at work.
    seconds = {each["kind"]: 3 * (1 + 1e-7 * (8 * most + 16 * MB) + 3e-6 * each["stored"]) for each in found}
    wrong = [
        each
        for each in found
        if each["said"].startswith("a bare") or each["bytes"] > 8 * most + BESIDE or each["cpu"] > seconds[each["kind"]]
    ]
    assert not wrong


def honest(wire, keys):
    vault = FakeVault(operations_per_hour=None, quota_bytes=None)
    writer = ColonyMemory(backend=vault, format=wire, **keys)
    for n in range(4):
        writer.backup({f"{m}.md": f"{n} {m} " + "some text " * 40 for m in range(5 + n)}, note="a note")
    writer.pin(snapshot_id=writer.latest().snapshot_id)
    return vault


def spoiled(files, chance):
    """A file of them with some characters changed, doubled many times, cut out or put in another's place."""
    name = chance.choice(sorted(files))
    text, kind = files[name], chance.randrange(4)
    at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    if kind == 0:
        text = text[:at] + chance.choice('0123456789"[]{},:eE-\\nau\ud83d\U0001f600') + text[at + 1 :]
    elif kind == 1:
        text = text[:at] + text[at:end] * chance.choice([2, 1000]) + text[end:]
    elif kind == 2:
        text = text[:at] + text[end:]
    else:
        text = files[chance.choice(sorted(files))]
    return {**files, name: text[: 2 * MB]}


@pytest.mark.parametrize("turns", [10, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("wire", "keys"), [(1, {}), (2, {}), (2, {"encrypt_to": RECIPIENT, "identities": SECRET})], ids=["1", "2", "sealed"]
)
@pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
def test_whatever_a_file_becomes_ends_soon_and_in_an_error_of_the_package(wire, keys, turns):
    if keys:
        pytest.importorskip("pyrage")
    files, chance = dict(honest(wire, keys).files), random.Random(wire + len(keys))
    for _ in range(turns):
        vault = FakeVault(operations_per_hour=None, quota_bytes=None)
        vault.files |= spoiled(spoiled(files, chance), chance)
        memory = ColonyMemory(backend=vault, max_bytes=MB, **keys)
        for name in ("restore", "list", "verify", "search", "inspect", "backup"):
            began = time.process_time()
            with contextlib.suppress(ColonyMemoryError):
                VERBS[name](memory)
            assert time.process_time() - began < 5
