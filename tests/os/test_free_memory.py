"""How much memory a process may still take, as Linux tells it; elsewhere nothing is known."""

from __future__ import annotations

import pytest

from colony_memory._os import machine

MEMINFO = "MemTotal: 900 kB\nMemAvailable:   500 kB\nSwapFree: 100 kB\nHugePages_Free: 0\nodd\n"
GROUP = {
    "memory.max": "400000",
    "memory.current": "390000",
    "memory.stat": "anon 1\ninactive_file 50000\nactive_file 7\n",
}
OLD = {"memory.limit_in_bytes": "300000", "memory.usage_in_bytes": "299000", "memory.stat": "total_inactive_file 5\n"}


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes what the system says; nothing of a process's own limits."""
    monkeypatch.setattr(machine, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "_of_process", lambda: None)

    def write(files):
        for name, text in files.items():
            place = tmp_path / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    return write


def group(place, files):
    return {f"groups/{place}{name}": text for name, text in files.items()}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, None),
        ({"proc/meminfo": MEMINFO}, 600 * 1024),
        ({"proc/meminfo": "garbled"}, None),
        ({"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a/b\n", **group("a/", GROUP)}, 60007),
        (
            {"proc/meminfo": MEMINFO, "proc/self/cgroup": "0::/a\n", **group("a/", GROUP | {"memory.max": "max"})},
            614400,
        ),
        ({"proc/self/cgroup": "0::/\n", **group("", GROUP)}, 60007),
        ({"proc/self/cgroup": "3:cpu:/a\n4:memory:/a\n", **group("memory/a/", OLD)}, 1005),
        ({"proc/self/cgroup": "0::/../../x\n", "memory.max": "1", "memory.current": "1"}, None),
    ],
)
def test_the_least_of_what_is_told(system, files, free):
    system(files)
    assert machine.free_memory() == free


def test_the_limit_of_the_process_counts():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = 2**40
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        assert 0 < machine.free_memory() < limit
        assert machine._of_process() < limit
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert soft != resource.RLIM_INFINITY or machine._of_process() is None
