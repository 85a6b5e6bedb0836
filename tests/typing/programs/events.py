"""A listener that counts, by the type of what it is told."""

from __future__ import annotations

from collections import Counter

from colony_memory import ColonyMemory, Event, LifecycleEvent, VaultUnavailable, open_vault
from colony_memory.testing import FaultyVault


class Metrics:
    def __init__(self) -> None:
        self.verbs: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.seconds = 0.0
        self.progress: list[float] = []

    def __call__(self, event: Event | LifecycleEvent) -> None:
        match event:
            case Event(action="upload", done=done, total=total):
                self.progress.append(done / total)
            case Event():
                pass
            case LifecycleEvent(action="fault", error=error):
                self.faults[error or "unknown"] += 1
            case LifecycleEvent(action=action, seconds=seconds):
                self.verbs[action] += 1
                self.seconds += seconds


def label_of(event: Event | LifecycleEvent) -> str | None:
    return event.label if isinstance(event, LifecycleEvent) else None


def main() -> None:
    metrics, labels = Metrics(), list[str | None]()
    faulty = FaultyVault(open_vault("memory:"))
    memory = ColonyMemory(backend=faulty, on_event=metrics)
    memory.backup({"MEMORY.md": "text"})
    memory.backup({"MEMORY.md": "text"})
    assert metrics.verbs == {"created": 1, "reused": 1}
    assert metrics.progress[-1] == 1.0
    faulty.fail("*", TimeoutError)
    try:
        memory.restore()
    except VaultUnavailable:
        assert metrics.faults == {"VaultUnavailable": 1}
    watched = ColonyMemory(backend=open_vault("memory:"), on_event=lambda event: labels.append(label_of(event)))
    watched.backup({"MEMORY.md": "text"}, label="work")
    assert labels[-1] == "work"


if __name__ == "__main__":
    main()
