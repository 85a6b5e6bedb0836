"""Traces and metrics by OpenTelemetry: a span for each verb, with what it cost, and counters."""

import time

from opentelemetry import metrics, trace
from opentelemetry.trace import StatusCode

from colony_memory import ColonyMemory, LifecycleEvent, open_vault


class Telemetry:
    """An ``on_event``. The span is made when the verb has ended, and begins when the verb began."""

    def __init__(self, tracer, meter):
        self.tracer = tracer
        self.seconds = meter.create_histogram("colony_memory.duration", unit="s")
        self.calls = meter.create_counter("colony_memory.vault.calls")
        self.bytes = meter.create_counter("colony_memory.vault.io", unit="By")

    def __call__(self, event):
        if not isinstance(event, LifecycleEvent):
            return
        end = time.time_ns()
        span = self.tracer.start_span(
            f"colony_memory.{event.verb}", start_time=end - round(event.seconds * 1e9), attributes=self.facts(event)
        )
        if event.action == "fault":
            span.set_status(StatusCode.ERROR, event.error)
        span.end(end)
        facts = {"action": event.action, "verb": event.verb}
        self.seconds.record(event.seconds, facts)
        for kind in ("reads", "writes", "deletes"):
            self.calls.add(getattr(event, kind), {"kind": kind})
        self.bytes.add(event.bytes_read, {"direction": "read"})
        self.bytes.add(event.bytes_written, {"direction": "written"})

    @staticmethod
    def facts(event):
        names = ("action", "label", "snapshot_id", "count", "documents", "calls", "stored_bytes", "status", "code")
        found = {f"colony_memory.{name}": getattr(event, name) for name in names}
        return {name: value for name, value in found.items() if value is not None}


if __name__ == "__main__":
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([reader]))

    listen = Telemetry(trace.get_tracer("my-agent"), metrics.get_meter("my-agent"))
    mem = ColonyMemory(backend=open_vault("memory:"), on_event=listen)
    mem.backup({"MEMORY.md": "two years of notes"})
    try:
        mem.restore(label="nothing-there")
    except Exception:
        pass
    backup, restore = spans.get_finished_spans()
    assert (backup.name, backup.attributes["colony_memory.action"]) == ("colony_memory.backup", "created")
    assert backup.end_time > backup.start_time
    assert (restore.status.status_code, restore.status.description) == (StatusCode.ERROR, "SnapshotNotFound")
    (resource,) = reader.get_metrics_data().resource_metrics
    print(sorted(metric.name for metric in resource.scope_metrics[0].metrics))
