"""Use the installed package, outside of any checkout.

    python -I smoke.py SOURCE [--extras]

SOURCE is the checkout that must not be what is imported. With --extras, everything that the extras bring is expected
to be there; without, it is expected to be missing and to say so.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

ZSTD = "backports.zstd" if sys.version_info < (3, 14) else "compression.zstd"
EXTRAS = ("cryptography", "deflate", "httpx", "mcp", "merge3", "platformdirs", "rich", "typer")
if sys.version_info >= (3, 11):
    EXTRAS = (*EXTRAS, "obstore")
HEAVY = ("colony_sdk", ZSTD, *EXTRAS)


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


def command_line(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "colony_memory", *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)


def check_missing_extras() -> None:
    present = [name for name in EXTRAS if find(name)]
    assert not present, f"an environment without extras has {present}"
    done = command_line("--help")
    told = done.stderr.strip()
    assert done.returncode != 0, "the command line works without its extra"
    assert "colony-memory[cli]" in told, told
    assert "\n" not in told, told
    assert not done.stdout, done.stdout


def check_extras(directory: Path) -> None:
    missing = [name for name in HEAVY if not find(name)]
    assert not missing, f"'colony-memory[all]' does not bring {missing}"
    done = command_line("--help")
    assert done.returncode == 0, done.stderr
    assert "backup" in done.stdout, done.stdout
    assert "restore" in done.stdout, done.stdout

    from colony_memory import ColonyMemory, Ed25519Signer, open_vault

    signer = Ed25519Signer(bytes(range(32)))
    memory = ColonyMemory(backend=open_vault(directory.as_uri(), create=True), signer=signer)
    info = memory.backup({"MEMORY.md": "signed"})
    assert info.issuer == "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
    assert memory.restore() == {"MEMORY.md": "signed"}
    page = directory.with_suffix(".html")
    done = command_line("report", "--html", str(page), "--vault", str(directory))
    assert done.returncode == 0, done.stderr
    assert "signed" in page.read_text(encoding="utf-8"), page


def find(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def main() -> None:
    source, *options = sys.argv[1:]
    check_import(Path(source).resolve())
    with tempfile.TemporaryDirectory() as directory:
        check_verbs(Path(directory) / "vault")
        if "--extras" in options:
            check_extras(Path(directory) / "signed")
        else:
            check_missing_extras()
    print(f"the installed package works ({'all' if options else 'no'} extras)")


if __name__ == "__main__":
    main()
