"""The bounds that format 2 was made for: 100,000 documents, 100 MB, 40 MB in one line; and every restore exact.

Each verb runs in a process of its own, whose memory is what it takes. The figures are printed at the end of the run.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest
from counts import TRIED

from colony_memory import ColonyMemory, restore_folder, save_folder
from colony_memory.vaults.local import LocalVault

WORKER = Path(__file__).parent.parent / "support" / "limits_worker.py"

#: Memory beyond what the process had before, in times the text. A document takes some hundred bytes however short it
#: is.
MOST = {"large": 4.0, "line": 4.2, "many": 7.0}


def run(verb, vault, kind, state):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    command = [sys.executable, str(WORKER), verb, str(vault), kind, str(state)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is told by Linux")
@pytest.mark.parametrize("kind", sorted(MOST))
def test_a_memory_as_large_as_that(tmp_path, kind):
    """A base, a patch by a client that has to read what it goes on from, and a restore by a third."""
    LocalVault(tmp_path / "vault", create=True)
    first, second = (run("save", tmp_path / "vault", kind, state) for state in (0, 1))
    restored = run("restore", tmp_path / "vault", kind, 1)
    verified = run("verify", tmp_path / "vault", kind, 1)
    for what, told in {"base": first, "patch": second, "restore": restored, "verify": verified}.items():
        times = told["peak"] / told["text"]
        TRIED[f"limits: {kind}, {told['text'] // 10**6} MB, {what}: memory in hundredths of the text"] = round(
            100 * times
        )
        TRIED[f"limits: {kind}, {told['text'] // 10**6} MB, {what}: CPU in ms"] = round(1000 * told["cpu"])
        assert times <= MOST[kind], what
    assert restored["same"]
    assert verified["ok"]
    assert first["format"] == second["format"] == "colony-memory/2"
    assert second["stored"] * 100 < first["stored"]


@pytest.mark.parametrize("size", [2000, pytest.param(9_000_000, marks=pytest.mark.long)])
def test_a_folder_of_all_kinds_comes_back_exactly(tmp_path, size):
    """Binaries, case twins, empty files and folders, links, and a line without an end."""
    folder, chance = tmp_path / "memory", random.Random(1)
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "hollow").mkdir()
    files = {
        "face.png": b"\x89PNG\r\n\x1a\n" + chance.randbytes(size),
        "state.bin": bytes(range(256)) * (size // 256),
        "NOTES.md": b"upper", "notes.md": b"lower", "empty": b"",
        "deep/er/line.json": b'{"a": "' + b"b" * size + b'"}',
        "deep/latin.txt": "caf\u00e9".encode("latin-1"),
        "deep/\u00e9.md": b"\xef\xbb\xbfbom\r\n\0",
    }  # fmt: skip
    for name, data in files.items():
        (folder / name).write_bytes(data)
    vault = LocalVault(tmp_path / "vault", create=True)
    memory, states = ColonyMemory(backend=vault), []
    for number in range(3):
        (folder / "state.bin").write_bytes(
            files["state.bin"][: size // 2] + bytes([number]) * 7 + files["state.bin"][size // 2 :]
        )
        (folder / f"came{number}.bin").write_bytes(chance.randbytes(64))
        saved = save_folder(memory, folder, secrets="allow")
        assert saved
        states.append(
            (saved.info, {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        )
    assert {info.format for info, _ in states} == {"colony-memory/2"}
    for number, (info, expected) in enumerate(states):
        target = tmp_path / f"out{number}"
        assert restore_folder(ColonyMemory(backend=vault), target, snapshot=info.snapshot_id)
        assert {path.relative_to(target): path.read_bytes() for path in target.rglob("*") if path.is_file()} == expected
        assert (target / "hollow").is_dir()
