"""What a type checker must not let pass, a mistake a line. Checked, never called.

Each comment names the error that is expected there; where there is none, the comment itself is one.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    Ed25519Signer,
    Event,
    Passphrase,
    Retention,
    VaultBackend,
    open_vault,
    restore_folder,
    save_folder,
)
from colony_memory.testing import FakeVault, FaultyVault
from colony_memory.transfer import ExportVault, load_export

memory = ColonyMemory(backend=open_vault("memory:"))
later = AsyncColonyMemory(backend=open_vault("memory:"))
documents = {"MEMORY.md": "text"}


class Forgetful:
    """A vault that cannot delete."""

    def vault_status(self) -> dict[str, int]:
        return {}

    def vault_list_files(self) -> list[str]:
        return []

    def vault_get_file(self, filename: str) -> dict[str, str]:
        return {"content": filename}

    def vault_upload_file(self, filename: str, content: str) -> dict[str, int]:
        return {filename: len(content)}


class Misspelt(Forgetful):
    """A vault whose method takes something else."""

    def vault_delete_file(self, filename: int) -> None:
        return None


class Awaited:
    """An asynchronous vault, where a plain one is wanted; a plain memory says so only when it runs."""

    async def vault_status(self) -> dict[str, int]:
        return {}


class Scribble:
    """A witness that records nothing."""

    def read(self, label: str) -> str | None:
        return label or None


def listens_to_files_alone(event: Event) -> None:
    print(event.done)


def opening() -> None:
    ColonyMemory(backend=Forgetful())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(backend=Misspelt())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(backend=Awaited())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(backend="./vault")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(api_key=b"col_key")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory("key", "https://example.org")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ColonyMemory(signer="agent.pem")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(signer=Ed25519Signer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(witness=Path("witness.json"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(witness=Scribble())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(format=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(format="2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(encrypt_to=Path("recipients"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(on_event=listens_to_files_alone)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ColonyMemory(max_bytes="1 MB")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    open_vault(Path("vault"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    backend: VaultBackend = FaultyVault("memory:")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    FakeVault(10_000_000)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    ExportVault(Path("one.json"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(backend)


def saving() -> None:
    memory.backup("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.backup({"MEMORY.md": b"text"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    memory.backup({"MEMORY.md": None})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    memory.backup({Path("MEMORY.md"): "text"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    memory.backup(documents, "work")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memory.backup(documents, keep=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memory.backup(documents, retention=20)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.backup(documents, signer=bytes(32))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.backup(documents, on_conflict="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.backup(documents, note=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(memory.backup(documents).ident)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    save_folder(memory, "memory", secrets="refuse")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    save_folder(later, "memory")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retention(keep_within=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Retention(keep_daily=timedelta(days=7))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Passphrase(b"words")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.autobackup(documents)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.autobackup(lambda: documents, every="15 min")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def restoring() -> None:
    text: str = memory.restore()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    memory.restore(default=None)["MEMORY.md"]  # type: ignore[index]  # pyright: ignore[reportOptionalSubscript]
    memory.restore("work")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memory.restore(names=Path("MEMORY.md"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.restore(at_least=1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.latest().snapshot_id  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    memory.prune("work")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memory.delete_snapshot(snapshot_id="id")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    memory.import_snapshot("one.json")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    load_export(b"one.json")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    restore_folder(memory, "memory", at=7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    memory.verify().snapshots[0].digest = "ok"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    print(text)


async def awaiting() -> None:
    found: dict[str, str] = later.restore()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    info = later.backup(documents)
    print(info.label)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    await memory.restore()  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    with later:  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        print(found)
    with later.autobackup(lambda: documents):  # type: ignore[attr-defined]  # pyright: ignore[reportGeneralTypeIssues]
        print(await info)
