import asyncio
import sys
import threading
import time

import pytest
from small_vaults import BUSY, FILES, NAME, Coroutines, Decorated, Dictionary, view

from colony_memory._boundary import drive
from colony_memory._engine import store
from colony_memory._engine.store import AsyncVault, StoredFile
from colony_memory.exceptions import VaultUnavailable


class Clock:
    def __init__(self, step):
        self.step = step
        self.now = 0.0

    def perf_counter(self):
        self.now += self.step
        return self.now


def readers():
    """Threads that read, those that another test has left behind among them."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("colony-memory-read")}


@pytest.mark.parametrize(("step", "threaded"), [(0.0019, False), (0.0021, True)])
def test_only_slow_reads_are_worth_a_thread(monkeypatch, step, threaded):
    monkeypatch.setattr(store, "time", Clock(step))
    vault, backend = view(FILES)
    found = drive(vault.gather(FILES, print, vault.get))
    assert [file.content for file in found if file] == list(FILES.values())
    assert (backend.threads != {threading.current_thread().name}) is threaded


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_what_is_read_keeps_its_order_and_its_absences(monkeypatch, step):
    monkeypatch.setattr(store, "time", Clock(step))
    vault, _ = view({"a": "1", "c": "3"})
    found = drive(vault.get_many(["c", "b", "a", "c"]))
    assert list(found.items()) == [("c", StoredFile("3", None)), ("b", None), ("a", StoredFile("1", None))]
    assert drive(vault.get_many([])) == {}


@pytest.mark.parametrize("kind", [VaultUnavailable, KeyboardInterrupt])
def test_the_first_error_ends_a_reading_of_many(monkeypatch, kind):
    before = readers()
    monkeypatch.setattr(store, "time", Clock(1.0))
    vault, backend = view(FILES)
    drive(vault.list(""))
    started = threading.Barrier(store.READERS)

    def get():
        if backend.calls.count("get") <= store.READERS:
            started.wait(5)
        time.sleep(0.02)
        return KeyboardInterrupt() if kind is KeyboardInterrupt else BUSY

    backend.odd["get"] = get
    with pytest.raises(kind):
        drive(vault.gather(FILES, print, vault.get))
    assert store.READERS <= backend.calls.count("get") < len(FILES)
    assert not readers() - before


# --- the asynchronous view ---


BACKENDS = [Dictionary, Coroutines, Decorated]


@pytest.mark.parametrize("kind", BACKENDS)
def test_any_backend_works_asynchronously(kind):
    async def main():
        backend = kind(FILES)
        vault = AsyncVault(backend)
        assert await vault.status() == {"quota_bytes": 10, "used_bytes": 1}
        assert set((await vault.list("file 1")).files) == {f"file 1{digit}" for digit in range(10)}
        assert await vault.get("file 07") == StoredFile("7", None)
        assert await vault.get("other") is None
        await vault.put("new", "x")
        await vault.delete("new")
        assert set(backend.files) == set(FILES)
        found = await vault.get_many([*FILES, "other"])
        assert {name: file.content for name, file in found.items() if file} == FILES
        assert found["other"] is None
        assert await vault.get_many([]) == {}
        backend.odd["get"] = BUSY
        with pytest.raises(VaultUnavailable, match=r"^reading x failed: ColonyServerError: busy"):
            await vault.get("x")

    asyncio.run(main(), debug=True)


class Searching(Dictionary):
    def vault_get_file(self, filename):
        return {"content": next(text for name, text in self.files.items() if name == filename)}


def test_a_plain_method_that_raises_stop_iteration_does_not_hang_the_loop():
    async def main():
        return await asyncio.wait_for(AsyncVault(Searching(FILES)).get_many(["file 07", NAME]), 5)

    assert asyncio.run(main()) == {"file 07": StoredFile("7", None), NAME: None}


@pytest.mark.parametrize("lacks", ["threads", "all but one", "imports"])
def test_threads_that_can_not_be_started_are_done_without(monkeypatch, lacks):
    """At the interpreter's exit no thread starts any more, and a last backup still has to read: each file once."""

    def refuse(*_, **__):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    def start(thread, usual=threading.Thread.start):
        usual(thread) if readers() == before else refuse()

    before = readers()
    monkeypatch.setattr(store, "time", Clock(1.0))
    if lacks == "threads":
        monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refuse)
    elif lacks == "imports":
        monkeypatch.setitem(sys.modules, "concurrent.futures", None)
    else:
        monkeypatch.setattr(threading.Thread, "start", start)
    vault, backend = view(FILES)
    drive(vault.list(""))
    heard, size = [], sum(map(len, FILES.values()))
    found = drive(vault.get_many(FILES, lambda *what: heard.append(what[1]), at_most=size))
    assert {name: file.content for name, file in found.items() if file} == FILES
    assert (heard, backend.calls.count("get"), readers()) == ([*FILES], len(FILES), before)
    assert threading.current_thread().name in backend.threads


def test_reads_wait_together_and_no_more_than_so_many_at_once():
    async def main():
        backend = Coroutines(FILES)
        backend.pause = 0.005
        await AsyncVault(backend).get_many(FILES)
        return backend.most

    assert asyncio.run(main()) == store.READERS


@pytest.mark.parametrize("kind", [Dictionary, Coroutines])
def test_an_error_ends_the_other_reads(kind):
    many = {f"file {n}": str(n) for n in range(10 * len(FILES))}

    async def main():
        backend = kind(many)
        backend.pause = 0.001
        backend.odd["get"] = BUSY
        with pytest.raises(VaultUnavailable):
            await AsyncVault(backend).get_many(many)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert backend.calls.count("get") < len(many)

    asyncio.run(main(), debug=True)


@pytest.mark.parametrize("kind", [Dictionary, Coroutines])
def test_a_cancelled_reading_leaves_nothing_behind(kind, caplog):
    async def main():
        backend = kind(FILES)
        backend.odd["get"] = lambda: time.sleep(0.01) or {"content": ""}
        reading = asyncio.ensure_future(AsyncVault(backend).get_many(FILES))
        while not backend.calls:  # noqa: ASYNC110 - threads set no event of the loop
            await asyncio.sleep(0.001)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert asyncio.all_tasks() == {asyncio.current_task()}
        calls = len(backend.calls)
        await asyncio.sleep(0.05)
        assert len(backend.calls) <= calls + store.READERS  # what a thread has begun it ends
        assert len(backend.calls) < len(FILES)

    asyncio.run(main())
    assert caplog.text == ""
