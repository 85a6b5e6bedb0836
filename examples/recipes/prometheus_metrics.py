"""Metrics for Prometheus: what was done, how long it took, what it cost, and how old the last backup is."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from colony_memory import ColonyMemory, LifecycleEvent, open_vault


class Metrics:
    """An ``on_event``. Labels of a memory become labels of metrics: a few, not one for each user."""

    def __init__(self, registry):
        names = ["action", "label"]
        self.ended = Counter("colony_memory_verbs", "Verbs that ended", names, registry=registry)
        self.seconds = Histogram("colony_memory_seconds", "Seconds a verb took", names, registry=registry)
        self.calls = Counter("colony_memory_vault_calls", "Calls to the vault", ["kind"], registry=registry)
        self.bytes = Counter("colony_memory_vault_bytes", "Bytes to and from the vault", ["way"], registry=registry)
        self.faults = Counter("colony_memory_faults", "Verbs that raised", ["verb", "error"], registry=registry)
        self.saved = Gauge("colony_memory_last_saved", "When memory was known to be saved", ["label"], registry=registry)

    def __call__(self, event):
        if not isinstance(event, LifecycleEvent):
            return
        label = event.label or ""
        self.ended.labels(event.action, label).inc()
        self.seconds.labels(event.action, label).observe(event.seconds)
        for kind in ("reads", "writes", "deletes"):
            self.calls.labels(kind).inc(getattr(event, kind))
        self.bytes.labels("read").inc(event.bytes_read)
        self.bytes.labels("written").inc(event.bytes_written)
        if event.action == "fault":
            self.faults.labels(event.verb, event.error).inc()
        if event.action in ("created", "reused", "merged"):
            self.saved.labels(label).set(time.time())


if __name__ == "__main__":
    registry = CollectorRegistry()
    mem = ColonyMemory(backend=open_vault("memory:"), on_event=Metrics(registry))
    mem.backup({"MEMORY.md": "two years of notes"})
    mem.backup({"MEMORY.md": "two years of notes"})
    mem.restore()
    try:
        mem.restore(label="nothing-there")
    except Exception:
        pass
    text = generate_latest(registry).decode()
    assert 'colony_memory_verbs_total{action="created",label="default"} 1.0' in text
    assert 'colony_memory_verbs_total{action="reused",label="default"} 1.0' in text
    assert 'colony_memory_faults_total{error="SnapshotNotFound",verb="restore"} 1.0' in text
    assert 'colony_memory_vault_calls_total{kind="writes"} 3.0' in text
    print(next(line for line in text.splitlines() if line.startswith("colony_memory_last_saved")))
