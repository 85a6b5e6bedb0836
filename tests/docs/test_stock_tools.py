"""What is encrypted opens with the stock commands, by the steps in SNAPSHOT-FORMAT.md as they stand there."""

import json
import os
import re
import shutil
import subprocess
import time

import age_keys as keys
import pytest
from chains import growing
from documentation_pages import FORMAT, read_blocks

from colony_memory import ColonyMemory, Passphrase, open_vault
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2.state import State

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        not all(map(shutil.which, ("age", "zstd", "jq", "base64"))), reason="there is no age, zstd, jq or base64"
    ),
]
PTY = pytest.importorskip("pty")
HISTORY = growing(3)


def steps(sign):
    (block,) = (block for block in read_blocks(FORMAT) if block.language == "text" and sign in block.text)
    return block.text.splitlines()


def run(at, command, **names):
    for name, value in names.items():
        command = re.sub(rf"\b{name}\b…?", value, command)
    subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=at, check=True, timeout=60)


def saved(at, monkeypatch, encrypt_to):
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    monkeypatch.setattr("colony_memory._format.v2.chain.PACK_CHARS", 1500)
    vault = at / "vault"
    memory = ColonyMemory(
        backend=open_vault(vault.as_uri(), create=True), encrypt_to=encrypt_to, identities=keys.SECRET
    )
    for documents in HISTORY:
        memory.backup(documents, note="private")
    return vault


def test_each_pack_opens_by_the_steps(tmp_path, monkeypatch):
    vault = saved(tmp_path, monkeypatch, keys.RECIPIENT)
    seal, unpack, inflate = steps(".sealed MANIFEST")
    (tmp_path / "identity.txt").write_text(f"{keys.SECRET}\n")
    manifests = sorted(vault.glob("*.manifest.json"))
    before = State.of({})
    for manifest, documents in zip(manifests, HISTORY, strict=True):
        run(tmp_path, seal, MANIFEST=str(manifest))
        told = json.loads((tmp_path / "sealed.json").read_text())
        assert (told["note"], told["doc_count"]) == ("private", len(documents))
        packs = sorted(vault.glob(f"cmem.default.{told['snapshot_id']}.k*.json"))
        assert len(packs) > 1 or len(before)
        run(tmp_path, unpack, PACK=" ".join(map(str, packs)))
        (tmp_path / "state").write_bytes(b"".join(before.run()))
        command = inflate if len(before) else inflate.replace(" --patch-from=PREFIX", "")
        run(tmp_path, command + " -q -f", PREFIX="state")
        before = chains.apply(before, (tmp_path / "content").read_bytes(), max_bytes=10**6).state
        assert before.documents() == documents


def test_a_passphrase_opens_by_the_steps(tmp_path, monkeypatch):
    vault = saved(tmp_path, monkeypatch, [Passphrase("correct horse"), keys.RECIPIENT])
    fetch, ask = steps(".passphrase_key MANIFEST")
    (manifest, *_) = sorted(vault.glob("*.manifest.json"))
    run(tmp_path, fetch, MANIFEST=str(manifest))
    typed(tmp_path, ask.split(), "correct horse")
    secret = (tmp_path / "identity.txt").read_text()
    found = ColonyMemory(backend=open_vault(vault.as_uri()), identities=secret).restore()
    assert found == HISTORY[-1]


def typed(at, command, words):
    pid, terminal = PTY.fork()
    if pid == 0:
        os.chdir(at)
        os.execvp(command[0], command)
    time.sleep(0.2)  # what is typed earlier is kept for it, unless it clears that first
    os.write(terminal, f"{words}\n".encode())
    try:
        while os.read(terminal, 1024):
            pass
    except OSError:  # it has ended
        pass
    assert os.waitpid(pid, 0)[1] == 0
