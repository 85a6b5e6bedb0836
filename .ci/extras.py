"""Each thing that needs an extra: it works where its extra is there, and says what to install where it is not.

    python -I extras.py MADE --make         # with every extra: makes what the others read, and prints the extras
    python -I extras.py MADE [EXTRA...]     # where there are these and no others, as layers.py has it

Run outside of any checkout. MADE holds vaults that were written with every extra, and their keys.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from colony_memory import AsyncColonyMemory, ColonyMemory, ColonyMemoryError, Ed25519Signer, open_vault

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = bytes(range(32))
ISSUER = "did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd"
TEXT = "two years of notes\n"


@dataclass(frozen=True)
class Promise:
    """Something that works with some extras, and otherwise fails with words that name the first that is missing."""

    what: str
    needs: tuple[str, ...]
    does: Callable[[Path, Path], object]
    error: str = "ColonyMemoryError"


@dataclass(frozen=True)
class Command:
    """The same of the command line, which needs an extra itself; ``code`` where something is missing beside that."""

    needs: tuple[str, ...]
    line: str
    code: int = 1


# In Python


def vault(here: Path, name: str = "vault") -> str:
    return (here / name).as_uri()


def save_signed(here: Path, made: Path) -> None:
    memory = ColonyMemory(backend=open_vault(vault(here), create=True), signer=Ed25519Signer(SEED))
    assert memory.backup({"MEMORY.md": TEXT}).issuer == ISSUER
    assert memory.restore() == {"MEMORY.md": TEXT}


def read_signed(here: Path, made: Path) -> None:
    assert ColonyMemory(backend=open_vault(vault(made, "signed"))).restore() == {"MEMORY.md": TEXT}


def read_pinned(here: Path, made: Path) -> None:
    memory = ColonyMemory(backend=open_vault(vault(made, "signed")), trusted_issuers=ISSUER)
    assert memory.restore() == {"MEMORY.md": TEXT}


def load_key(here: Path, made: Path) -> None:
    assert Ed25519Signer.load(made / "signing.pem").did_key == ISSUER


def save_packed(here: Path, made: Path) -> None:
    memory = ColonyMemory(backend=open_vault(vault(here), create=True), format=2)
    assert memory.backup({"MEMORY.md": TEXT}).format == "colony-memory/2"
    assert memory.restore() == {"MEMORY.md": TEXT}


def make_for_packs(here: Path, made: Path) -> None:
    open_vault(vault(here), create=True, format=2)


def read_packed(here: Path, made: Path) -> None:
    assert ColonyMemory(backend=open_vault(vault(made, "packed"))).restore() == {"MEMORY.md": TEXT}


def save_sealed(here: Path, made: Path) -> None:
    from colony_memory.encryption import make_identity

    recipient = make_identity(here / "identity.txt")
    memory = ColonyMemory(
        backend=open_vault(vault(here), create=True), encrypt_to=recipient, identities=here / "identity.txt"
    )
    assert memory.backup({"MEMORY.md": TEXT}).encrypted
    assert memory.restore() == {"MEMORY.md": TEXT}


def encrypt_to(here: Path, made: Path) -> None:
    ColonyMemory(backend=open_vault("memory:"), encrypt_to=(made / "recipient").read_text())


def read_sealed(here: Path, made: Path) -> None:
    memory = ColonyMemory(backend=open_vault(vault(made, "sealed")), identities=made / "identity.txt")
    assert memory.restore() == {"MEMORY.md": TEXT}


def merge(here: Path, made: Path) -> None:
    backend = open_vault("memory:")
    ours, theirs = ColonyMemory(backend=backend), ColonyMemory(backend=backend)
    ours.backup({"a": "1\n2\n3\n"}, on_conflict="merge")
    theirs.restore()
    theirs.backup({"a": "1\n2\n4\n"})
    ours.backup({"a": "0\n2\n3\n"}, on_conflict="merge")
    assert theirs.restore() == {"a": "0\n2\n4\n"}


def use_hosted(here: Path, made: Path) -> None:
    from colony_memory.testing import VaultServer

    async def save() -> None:
        async with AsyncColonyMemory(api_key="col_test", base_url=server.url) as memory:
            await memory.backup({"MEMORY.md": TEXT})
            assert await memory.restore() == {"MEMORY.md": TEXT}

    with VaultServer() as server:
        asyncio.run(save())


def use_store(here: Path, made: Path) -> None:
    open_vault("s3://bucket/prefix")
    from colony_memory.vaults.objects import ObjectVault
    from obstore.store import MemoryStore

    memory = ColonyMemory(backend=ObjectVault(MemoryStore(), create=True), format=1)
    memory.backup({"MEMORY.md": TEXT})
    assert memory.restore() == {"MEMORY.md": TEXT}


def compress_fast(here: Path, made: Path) -> None:
    from colony_memory._format.payload import _libdeflate

    save = ColonyMemory(backend=open_vault("memory:"), format=1)
    save.backup({"MEMORY.md": TEXT})
    assert save.restore() == {"MEMORY.md": TEXT}
    if _libdeflate() is None:  # the one extra that is not missed
        raise ColonyMemoryError("pip install 'colony-memory[fast]'")


def find_default_vault(here: Path, made: Path) -> None:
    from colony_memory.shell.app.open import choose_place

    assert choose_place().url


def read_last_runs(here: Path, made: Path) -> None:
    from colony_memory.schedule.last_run import read_runs

    assert read_runs(vault(made, "signed"), "default") is None


def serve(here: Path, made: Path) -> None:
    from colony_memory.shell.mcp import require_mcp

    require_mcp()
    from colony_memory.shell.app.open import choose_place
    from colony_memory.shell.mcp.served import Served, real_folder
    from colony_memory.shell.mcp.server import MemoryServer
    from mcp import Client

    async def ask() -> None:
        async with Client(server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"backup", "status"} <= names
            done = await client.call_tool("backup", {})
            assert not done.is_error, done

    (here / "memory").mkdir()
    (here / "memory" / "MEMORY.md").write_text(TEXT)
    open_vault(vault(here), create=True)
    server = MemoryServer(Served(choose_place(vault(here)), real_folder(str(here / "memory"))))
    asyncio.run(ask())


PROMISES = (
    Promise("sign", ("sign",), save_signed),
    Promise("read what is signed", ("sign",), read_signed),
    Promise("pin a signer", ("sign",), read_pinned),
    Promise("load a key", ("sign",), load_key),
    Promise("write format 2", ("zstd",), save_packed),
    Promise("make a vault for format 2", ("zstd",), make_for_packs),
    Promise("read format 2", ("zstd",), read_packed, error="UnsupportedFormat"),
    Promise("encrypt", ("encrypt",), save_sealed),
    Promise("encrypt to somebody", ("encrypt",), encrypt_to),
    Promise("decrypt", ("encrypt",), read_sealed),
    Promise("merge", (), merge),
    Promise("use the hosted vault with asyncio", ("async",), use_hosted),
    Promise("use an object store", ("objects",), use_store),
    Promise("compress fast", ("fast",), compress_fast),
    Promise("find the vault of this user", (), find_default_vault),
    Promise("read a watch's last run", (), read_last_runs),
    Promise("serve a folder", ("mcp",), serve),
)

COMMANDS = (
    Command((), "--help"),
    Command((), "init v"),
    Command((), "backup --vault v memory"),
    Command((), "restore --vault v back"),
    Command((), "report --vault v --html report.html"),
    Command(("sign",), "keygen signing.pem"),
    Command(("sign",), "backup --vault v --key-file {made}/signing.pem memory"),
    Command(("sign",), "restore --vault {made}/signed signed"),
    Command(("sign",), "list --vault {made}/signed --trust " + ISSUER),
    Command(("zstd",), "init --format 2 v2"),
    Command(("zstd",), "backup --vault v --format 2 memory"),
    Command(("zstd",), "restore --vault {made}/packed packed", code=4),
    Command(("encrypt",), "keygen --age identity.txt"),
    Command(("encrypt",), "backup --vault v --encrypt-to {recipient} memory"),
    Command(("encrypt",), "restore --vault {made}/sealed --identity {made}/identity.txt sealed"),
    Command((), "backup --vault v --on-conflict merge memory"),
    Command(("mcp",), "mcp --vault v memory"),
)


def told_to_install(extra: str, text: str) -> bool:
    return re.search(rf"pip install (-U )?'colony-memory\[{extra}\]'", text) is not None


def check_promise(promise: Promise, there: set[str], made: Path) -> None:
    missing = [extra for extra in promise.needs if extra not in there]
    with tempfile.TemporaryDirectory() as here:
        try:
            promise.does(Path(here), made)
        except ColonyMemoryError as error:
            assert missing, str(error)
            assert type(error).__name__ == promise.error, repr(error)
            assert told_to_install(missing[0], str(error)), str(error)
        else:
            assert not missing, f"it works without {missing}"


def check_command(command: Command, there: set[str], made: Path, here: str) -> None:
    missing = [extra for extra in ("cli", *command.needs) if extra not in there]
    words = command.line.format(made=made, recipient=(made / "recipient").read_text()).split()
    done = subprocess.run(
        [sys.executable, "-I", "-m", "colony_memory", *words],
        cwd=here,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    told = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    if not missing:
        assert done.returncode == 0, told
    else:
        assert done.returncode == (command.code if "cli" in there else 1), told
        assert told_to_install(missing[0], done.stderr), told
        assert done.stderr.count("\n") == 1, told
        assert not done.stdout, told


def check_all(there: set[str], made: Path) -> list[str]:
    """What is wrong."""
    wrong = []
    for promise in PROMISES:
        try:
            check_promise(promise, there, made)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            wrong.append(f"{promise.what}: {type(error).__name__}: {error}")
    with tempfile.TemporaryDirectory() as here:
        (Path(here) / "memory").mkdir()
        (Path(here) / "memory" / "MEMORY.md").write_text(TEXT)
        # What serves the protocol brings click, and then the first command works without the extra.
        lacking = () if importlib.util.find_spec("click") else COMMANDS[:1]
        for command in COMMANDS if "cli" in there else lacking:
            try:
                check_command(command, there, made, here)
            except AssertionError as error:
                wrong.append(f"colony-memory {command.line}: {error}")
    return wrong


def make(made: Path) -> None:
    from colony_memory.encryption import make_identity

    made.mkdir()
    Ed25519Signer(SEED).save(made / "signing.pem")
    (made / "recipient").write_text(make_identity(made / "identity.txt"))
    options = {
        "signed": {"format": 1, "signer": Ed25519Signer(SEED)},
        "packed": {"format": 2},
        "sealed": {"encrypt_to": (made / "recipient").read_text()},
    }
    for name, given in options.items():
        ColonyMemory(backend=open_vault(vault(made, name), create=True), **given).backup({"MEMORY.md": TEXT})


def main() -> None:
    made, extras = Path(sys.argv[1]).resolve(), set(sys.argv[2:]) - {"all", "merge"}
    # "merge" is a name of old that installs nothing.
    known = set(metadata("colony-memory").get_all("Provides-Extra") or ()) - {"all", "merge"}
    if "--make" in extras:
        make(made)
        print(" ".join(sorted(known)))
        return
    asked = {"cli", *(extra for promise in PROMISES for extra in promise.needs)}
    assert known == asked, f"these are not looked at: {sorted(known - asked)}"
    assert extras <= known, f"there are no such extras: {sorted(extras - known)}"
    if sys.version_info < (3, 11):
        extras.discard("objects")
    what = " and ".join(sorted(extras)) or "no extra"
    wrong = check_all(extras, made)
    if wrong:
        raise SystemExit("\n".join([f"with {what}:", *wrong]))
    print(f"with {what}: what it brings works, and what is missing says what to install")


if __name__ == "__main__":
    main()
