"""What a type checker makes of listeners and of sets of stores. Checked by mypy, never called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory import ColonyMemory, Event, LifecycleEvent, open_vault
from colony_memory.app.restore import RestoredFolder
from colony_memory.app.save import Saved
from colony_memory.app.sources import restore_sources, save_sources
from colony_memory.capture.sources import Part, SourceDiff, SourceSet, compare_sources, file_documents
from colony_memory.capture.stores import SqliteTables, StoredFile

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from typing_extensions import assert_type  # noqa: TC004 - never called


def listening(event: Event | LifecycleEvent) -> None:
    if isinstance(event, LifecycleEvent):
        assert_type(event.error, str | None)
        assert_type(event.calls, int)
        label: str = event.label  # type: ignore[assignment]
        print(label, event.seconds)
    else:
        assert_type(event.done, int)


class Counter:
    kind, path = "counter", "counter.bin"

    def capture(self, root: Path, *, max_bytes: int) -> Part:
        return Part({f"{self.path}/number": str(len(root.parts) + max_bytes)})

    def restore(self, documents: Mapping[str, str]) -> Mapping[str, str]:
        return file_documents({self.path: documents[f"{self.path}/number"].encode()})


def sets(memory: ColonyMemory) -> None:
    ColonyMemory(backend=open_vault("memory:"), on_event=listening)
    parts = SourceSet("root", [Counter(), StoredFile("a.json"), SqliteTables("b.db", "CREATE TABLE b (c)")])
    assert_type(save_sources(memory, parts), Saved)
    assert_type(restore_sources(memory, parts), RestoredFolder)
    assert_type(compare_sources({}, memory.restore()), tuple[SourceDiff, ...])
    SourceSet("root", ["a.json"])  # type: ignore[list-item]
