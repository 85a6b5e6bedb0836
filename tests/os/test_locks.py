"""The lock on a file: whom it keeps out, how long one waits, and that it goes with its holder."""

import errno
import os
import subprocess
import sys
import threading

import pytest
from forks import fork

from colony_memory._os import machine
from colony_memory._os.files import Files as Directory
from colony_memory._os.files import locked, locked_in
from colony_memory._os.paths import real_path
from colony_memory.capture import read_folder

# Takes the lock, says so, and keeps it until it is told to go or killed.
HOLDER = """
import sys
from pathlib import Path
from colony_memory._os.files import locked

with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
print("given back", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def lock(tmp_path):
    return tmp_path / ".lock"


@pytest.fixture
def holder(lock):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def is_free(lock):
    try:
        with locked(lock, patience=0):
            return True
    except TimeoutError:
        return False


def test_one_thread_at_a_time_holds_it(lock, **options):
    inside, most = 0, 0
    counting = threading.Lock()

    def work():
        nonlocal inside, most
        for _ in range(20):
            with locked(lock, **options):
                with counting:
                    inside += 1
                    most = max(most, inside)
                with counting:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (inside, most) == (0, 1)


def test_another_process_is_waited_for_and_then_let_be(lock, holder):
    with pytest.raises(TimeoutError, match=r"locked by another process for 0 s: .*\.lock"), locked(lock, patience=0.01):
        pytest.fail("held by two")
    assert not is_free(lock)
    holder.stdin.write("go\n")
    holder.stdin.flush()
    assert holder.stdout.readline() == "given back\n"
    assert is_free(lock)


def test_it_goes_with_a_holder_that_is_killed(lock, holder):
    assert not is_free(lock)
    holder.kill()
    holder.wait(10)
    assert is_free(lock)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_meanwhile_does_not_keep_it(lock):
    stay, go = os.pipe()
    with locked(lock):
        child = fork()
        if child == 0:  # has the descriptor of the lock too
            os.close(go)
            os.read(stay, 1)
            os._exit(0)
    try:
        assert is_free(lock)
    finally:
        os.close(go)
        os.close(stay)
        os.waitpid(child, 0)


def test_who_waited_for_a_file_that_is_gone_locks_the_one_in_its_place(lock, monkeypatch):
    """Whoever comes later locks what has the name by then, so that is what all must hold."""
    directory = Directory(lock.parent)
    opened = []
    real = directory.open_or_make

    def swap(name):
        opened.append(real(name))
        if len(opened) == 1:
            lock.unlink()
            lock.touch()
        return opened[-1]

    monkeypatch.setattr(directory, "open_or_make", swap)
    with locked_in(directory, lock.name):
        assert len(opened) == 2
        assert not is_free(lock)
    assert is_free(lock)


def test_a_file_that_is_swapped_for_ever_is_given_up(lock, monkeypatch):
    directory = Directory(lock.parent)
    monkeypatch.setattr(directory, "look", lambda name: None)
    with pytest.raises(TimeoutError, match="locked by another process"), locked_in(directory, lock.name, patience=0):
        pytest.fail("held a file without a name")


@pytest.fixture
def without_locks(monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("colony_memory._os.files._try", refuse)
    monkeypatch.setattr("colony_memory._os.files._STALE_AFTER", 0.05)


def test_where_a_file_system_has_no_locks_a_file_stands_for_a_brief_one(lock, without_locks):
    with pytest.raises(OSError, match="No locks"), locked(lock):
        pytest.fail("held for long, by nothing that goes with its holder")
    with (
        locked(lock, brief=True),
        pytest.raises(TimeoutError, match="locked by another"),
        locked(lock, patience=0.01, brief=True),
    ):
        pytest.fail("held by two")
    with pytest.raises(ZeroDivisionError), locked(lock, brief=True):
        raise ZeroDivisionError
    assert list(lock.parent.iterdir()) == [lock]
    test_one_thread_at_a_time_holds_it(lock, brief=True)


def test_a_file_that_a_crash_left_in_the_place_of_a_lock_is_taken_away(lock, without_locks):
    left = lock.with_name(f"{lock.name}-held")
    left.touch()
    with locked(lock, patience=5, brief=True):
        assert left.exists()
    assert list(lock.parent.iterdir()) == [lock]


def test_who_is_faster_than_another_waiter_keeps_what_it_made(lock, without_locks, monkeypatch):
    left, fresh = lock.with_name(f"{lock.name}-held"), lock.with_name("fresh")
    directory, kept = Directory(lock.parent), []
    left.touch()
    fresh.write_bytes(b"another's")
    real = directory.move

    def move(name, other, other_name):
        if name == left.name and not kept:
            kept.append(fresh.stat().st_ino)
            fresh.replace(left)
        real(name, other, other_name)

    monkeypatch.setattr(directory, "move", move)
    with pytest.raises(TimeoutError), locked_in(directory, lock.name, patience=0.08, brief=True):
        pytest.fail("held by two")
    assert [left.stat().st_ino] == kept
    monkeypatch.setattr(directory, "move", lambda *_: (_ for _ in ()).throw(FileNotFoundError))
    left.unlink()
    with locked_in(directory, lock.name, brief=True):
        assert left.exists()


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


def fail_first(monkeypatch, times, error):
    """Have that many looks at a path fail, as where a link is swapped between a look at it and the reading of it."""
    real, left = os.path.realpath, [times]

    def realpath(path, **options):
        if left[0]:
            left[0] -= 1
            raise error
        return real(path, **options)

    monkeypatch.setattr(os.path, "realpath", realpath)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file or directory"), OSError(22, "Invalid argument")])
def test_a_link_that_is_swapped_is_looked_at_again(tmp_path, monkeypatch, error):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.md").write_text("text")
    (tmp_path / "link").symlink_to("there")
    fail_first(monkeypatch, 3, error)
    assert real_path(tmp_path / "link") == tmp_path.resolve() / "there"
    fail_first(monkeypatch, 1, error)
    assert "a.md" in read_folder(tmp_path / "there").documents


def test_a_path_that_changes_all_the_time_is_told(tmp_path, monkeypatch):
    fail_first(monkeypatch, 1000, FileNotFoundError(2, "No such file or directory"))
    with pytest.raises(FileNotFoundError):
        real_path(tmp_path)
