"""Use the installed package, outside of any checkout: python -I smoke.py SOURCE

SOURCE is the checkout that must not be what is imported. What the extras bring is looked at by extras.py.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

# What "import colony_memory" leaves alone, installed or not.
HEAVY = ("backports", "click", "colony_sdk", "cryptography", "deflate", "httpx", "mcp", "obstore", "pyrage")


def check_import(source: Path) -> None:
    import colony_memory

    assert source not in Path(colony_memory.__file__).parents, f"imported from {source}"
    loaded = [name for name in HEAVY if name in sys.modules]
    assert not loaded, f"'import colony_memory' imports {loaded}"
    for name in set(colony_memory.__all__) - {"Ed25519Signer"}:
        assert getattr(colony_memory, name) is not None, name


def check_verbs(directory: Path) -> None:
    from colony_memory import ColonyMemory, SnapshotNotFound, open_vault

    memory = ColonyMemory(backend=open_vault(directory.as_uri(), create=True))
    try:
        memory.restore()
    except SnapshotNotFound:
        pass
    else:
        raise AssertionError("an empty vault gave a snapshot")
    documents = {"MEMORY.md": "# memory\r\nline\n", "日記/十一月.md": "今日は🌤\n", "empty.txt": ""}
    ids = [memory.backup({**documents, "n": str(n)}).snapshot_id for n in range(4)]
    assert memory.restore() == {**documents, "n": "3"}
    assert memory.restore(snapshot_id=ids[0]) == {**documents, "n": "0"}
    assert [info.snapshot_id for info in memory.list_snapshots()] == ids[::-1]
    assert memory.prune(label="default", keep=2) == 2
    assert [info.snapshot_id for info in memory.list_snapshots()] == ids[:1:-1]
    assert memory.restore() == {**documents, "n": "3"}


def check_script() -> None:
    """The command is there, and does what the module does: it works, or says what to install."""
    script = Path(sys.prefix) / "bin" / "colony-memory"
    told = [
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
        for command in ([script, "--version"], [sys.executable, "-I", "-m", "colony_memory", "--version"])
    ]
    assert told[0].stdout + told[0].stderr == told[1].stdout + told[1].stderr
    assert ("colony-memory 0." in told[0].stdout) == (told[0].returncode == 0)


def main() -> None:
    check_import(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as directory:
        check_verbs(Path(directory) / "vault")
    check_script()
    print("the installed package works")


if __name__ == "__main__":
    main()
