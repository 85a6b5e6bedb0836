"""An agent's life: boot from the vault, work, save at the end; and what it does about each fault."""

from __future__ import annotations

import logging
import time
from typing import TypedDict

from colony_memory import (
    BackupUncertain,
    ColonyMemory,
    ColonyMemoryError,
    ConflictDetected,
    QuotaExceeded,
    RateLimited,
    SnapshotCorrupt,
    SnapshotInfo,
    UntrustedSnapshot,
    VaultError,
    VaultUnavailable,
    open_vault,
)

logger = logging.getLogger(__name__)


class Settings(TypedDict, total=False):
    """What this agent's own configuration may say."""

    label: str
    keep: int


class Agent:
    """Remembers what it did."""

    def __init__(self, memory: ColonyMemory, settings: Settings | None = None) -> None:
        self._memory = memory
        self._label = (settings or {}).get("label", "default")
        self._keep = (settings or {}).get("keep", 20)
        self.documents: dict[str, str] = {}
        self.last: SnapshotInfo | None = None

    def boot(self) -> bool:
        """Whether it knows anything; a fault stops the boot."""
        found = self._memory.restore(label=self._label, default=None)
        if found is None:
            return False
        self.documents = found
        return True

    def work(self) -> None:
        notes = self.documents.get("MEMORY.md", "")
        self.documents["MEMORY.md"] = f"{notes}did something\n"

    def shut_down(self) -> str:
        try:
            self.last = self._memory.backup(self.documents, label=self._label, prune_keep=self._keep)
        except ConflictDetected as conflict:
            logger.warning("another writer saved %s; ours is %s", conflict.theirs, conflict.snapshot_id)
            self.last = self._memory.backup(self.documents, label=self._label, on_conflict="continue")
        except QuotaExceeded as full:
            short: int = (full.needed or 0) - (full.available or 0)
            raise SystemExit(f"{short} bytes are missing") from full
        return self.last.snapshot_id

    def describe(self) -> str:
        info = self._memory.latest(label=self._label)
        if info is None:
            return "nothing saved"
        names: list[str] = info.doc_names
        by = info.issuer.removeprefix("did:key:") if info.issuer is not None else "nobody"
        state = "unchanged" if info.reused else info.head.partition(":")[0]
        return f"{info.created_at} {', '.join(names)} ({info.byte_size + info.stored_bytes} bytes, {by}) {state}"


def boot_patiently(memory: ColonyMemory, tries: int = 3) -> dict[str, str]:
    for _ in range(tries):
        try:
            return memory.restore(default={})
        except RateLimited as limited:
            time.sleep(limited.retry_after or 60.0)
        except VaultUnavailable as error:
            logger.warning("no answer (%s, %s): %s", error.status, error.code, error.hint)
            time.sleep(1)
        except SnapshotCorrupt as damage:
            logger.warning("%s is damaged", damage.file or "the snapshot")
            return memory.restore(fallback=True)
    raise SystemExit("the vault does not answer")


def exit_code(error: Exception) -> int:
    if isinstance(error, UntrustedSnapshot | SnapshotCorrupt):
        return 4
    if isinstance(error, VaultError | BackupUncertain):
        return 5
    return 1 if isinstance(error, ColonyMemoryError) else 70


def main() -> None:
    vault = open_vault("memory:")
    agent = Agent(ColonyMemory(backend=vault), {"keep": 3})
    assert not agent.boot()
    agent.work()
    saved = agent.shut_down()
    again = Agent(ColonyMemory(backend=vault))
    assert again.boot()
    assert again.documents == {"MEMORY.md": "did something\n"}
    assert "MEMORY.md" in again.describe()
    again.work()
    assert again.shut_down() > saved
    assert boot_patiently(ColonyMemory(backend=vault)) == again.documents
    assert exit_code(VaultUnavailable("no answer")) == 5


if __name__ == "__main__":
    main()
