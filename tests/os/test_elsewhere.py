"""Windows as far as it can be played here: the library, the command line, what it starts, and hooks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("click")

import elsewhere
from agent_hosts import make_host

pytestmark = [pytest.mark.skipif(os.name == "nt", reason="it is there")]

LIBRARY = """
import os, sys
from pathlib import Path

import elsewhere

elsewhere.go_there()
from colony_memory import ColonyMemory, ColonyMemoryError, FileWitness, VaultMissing, open_vault
from colony_memory._ownfiles import write_key_file
from colony_memory._os import directory, files
from colony_memory.transfer import load_export, save_export

assert not directory.BY_DESCRIPTOR
assert directory.NO_LINK == 0
place = sys.argv[1]
missing = ColonyMemory(backend=open_vault(place + "/vault"))
try:
    missing.restore(default={})
    raise AssertionError("a vault that nobody made")
except VaultMissing:
    pass
open_vault(place + "/vault", create=True)
open_vault(place + "/vault", create=True)
mem = ColonyMemory(backend=open_vault(place + "/vault"), witness=FileWitness(place + "/witness.json"))
mem.backup({"a.md": "one"})
mem.backup({"a.md": "two"}, prune_keep=1)
assert mem.restore() == {"a.md": "two"}
save_export(mem.export_snapshot(), place + "/export.json")
save_export(mem.export_snapshot(), place + "/export.json", overwrite=True)
assert load_export(place + "/export.json")
write_key_file(place + "/key", b"secret")
try:
    write_key_file(place + "/key", b"other")
    raise AssertionError("overwritten")
except ColonyMemoryError as error:
    assert "not overwritten" in str(error)
with files.locked(Path(place) / "lock"):
    try:
        with files.locked(Path(place) / "lock", patience=0):
            raise AssertionError("held by two")
    except TimeoutError:
        pass
assert not elsewhere.held
os.symlink(place + "/export.json", place + "/vault/cmem.linked.latest.json")
try:
    open_vault(place + "/vault").vault_get_file("cmem.linked.latest.json")
    raise AssertionError("followed")
except ColonyMemoryError as error:
    assert "a link, not a plain file" in str(error), error
print("all went well")
"""


def test_the_library_without_what_only_posix_has(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LIBRARY, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all went well\n"), done.stderr


@pytest.fixture
def there(tmp_path):
    """Call it with commands, each as its words and what it reads; gives the exit codes and all that was written."""

    def run(*commands):
        done = subprocess.run(
            [sys.executable, elsewhere.__file__],
            input=json.dumps([[[str(word) for word in words], given] for words, given in commands]),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path / "home")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        codes = [json.loads(line)[1] for line in lines if line.startswith('["')]
        return codes, done.stdout + done.stderr

    (tmp_path / "memory" / "notes").mkdir(parents=True)
    (tmp_path / "memory" / "empty").mkdir()
    (tmp_path / "memory" / "a.md").write_text("one\n")
    (tmp_path / "memory" / "notes" / "b.bin").write_bytes(b"\0\1")
    return run


@pytest.mark.once
def test_the_command_line_without_what_only_posix_has(there, tmp_path):
    codes, said = there(
        (["init", "v"], ""),
        (["backup", "memory", "--vault", "v"], ""),
        (["run", "memory", "--vault", "v", "--", sys.executable, "-c", "open('memory/a.md', 'a').write('two\\n')"], ""),
        (["guard", "memory", "--vault", "v", "--", sys.executable, "-c", "import os; os.remove('memory/a.md')"], ""),
        (["restore", "memory", "--vault", "v", "--dry-run"], ""),
        (["restore", "memory", "--vault", "v"], ""),
        (["watch", "memory", "--vault", "v", "--once"], ""),
        *((words.split(), "") for words in ("list --vault v", "show latest --vault v", "log a.md --vault v")),
        *((words.split(), "") for words in ("grep two --vault v", "diff latest~1 --vault v", "verify --vault v")),
        *((words.split(), "") for words in ("status memory --vault v", "pin latest --vault v", "config")),
        *((words.split(), "") for words in ("export latest x.json --vault v", "prune --keep 1 --yes --vault v")),
    )
    assert codes == [0] * 18, said
    assert "created  a.md" in said
    assert (tmp_path / "memory" / "a.md").read_text() == "one\ntwo\n"
    (tmp_path / "memory" / "new.md").write_text("of later")
    (tmp_path / "memory" / "a.md").write_text("three\n")
    codes, said = there((["restore", "memory", "--vault", "v"], ""))
    assert (codes, "saved nowhere" in said) == ([1], True)
    codes, said = there((["restore", "memory", "--vault", "v", "--delete", "--snapshot-first"], ""))
    assert codes == [0], said
    found = {path.relative_to(tmp_path / "memory").as_posix() for path in (tmp_path / "memory").rglob("*")}
    assert found == {"a.md", "empty", "notes", "notes/b.bin"}
    assert (tmp_path / "memory" / "notes" / "b.bin").read_bytes() == b"\0\1"


@pytest.mark.once
def test_hooks_without_what_only_posix_has(there, tmp_path):
    (tmp_path / "home").mkdir()
    make_host(tmp_path / "home", "claude-code")
    hook = ["hook", "--agent", "claude-code", "--format", "claude-code", "--vault", "v"]
    codes, said = there(
        (["init", "v"], ""),
        (["hook", "install", "claude-code", "--vault", "v", "--settings", "s.json"], ""),
        (hook, json.dumps({"hook_event_name": "Stop", "session_id": "s", "cwd": str(tmp_path)})),
        (hook, json.dumps({"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(tmp_path)})),
    )
    assert codes == [0] * 4, said
    assert "It is as it was saved, in snapshot " in said
    assert "Stop" in json.loads(Path(tmp_path, "s.json").read_text())["hooks"]
