"""A file's bytes as they were at one moment, whoever writes to it meanwhile."""

import os
import random
import threading
import time

import pytest
from agents import wait_until
from capture_trees import PNG, contents, make, posix

from colony_memory.capture import LeftOut, Note, _moment, _reading, _steady, read_folder
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._moment import NEVER_STILL
from colony_memory.capture._steady import LARGE
from colony_memory.exceptions import ColonyMemoryError

SIZES = [40, LARGE, 3 * (1 << 20) + 5]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(_moment, "APART", 0.001)
    monkeypatch.setattr(_moment, "LOG_SECONDS", 0.0)


def after_each_reading(monkeypatch, path, act):
    """Call ``act`` with the number of bytes asked for, whenever the file was read from."""
    real, asked = _steady._read_at, []
    inode = path.stat().st_ino

    def reading(descriptor, size, position):
        data = real(descriptor, size, position)
        if os.fstat(descriptor).st_ino == inode and size > 16:
            asked.append(size)
            act(len(asked))
        return data

    monkeypatch.setattr(_steady, "_read_at", reading)
    return asked


def lines(size):
    return (b"0123456789abcde\n" * (size // 16 + 1))[-size:-1] + b"\n"


@posix
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", [None, PNG, "\u00e9".encode()[:1], b"one line"], ids=repr)
def test_what_only_grows_is_saved_up_to_its_last_whole_line_if_it_has_lines(tmp_path, monkeypatch, size, start):
    data = lines(size) + b"half a li" if start is None else (start * (size // len(start) + 1))[:size]
    path = make(tmp_path, {"x": data, "a.md": b"a"}) / "x"
    with path.open("ab") as file:

        def append(_):
            file.write(b"ne\nhalf a li" if start is None else b"more")
            file.flush()

        after_each_reading(monkeypatch, path, append)
        capture = read_folder(tmp_path)
    content = split_documents(capture.documents)[0]["x"]
    saved = content.encode() if isinstance(content, str) else content
    assert path.read_bytes().startswith(saved)
    assert len(saved) >= size
    assert saved.endswith(b"\n") == (start is None)
    assert capture.left_out == ()
    how = f"up to its last whole line, {len(saved)} B" if start is None else "as it was when that began"
    assert capture.notes == (Note("x", f"grew while it was read: saved {how}"),)


@posix
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("restless", [1, 2, 10**6])
def test_what_changes_in_place_is_read_again(tmp_path, monkeypatch, size, restless):
    """Through a memory map, with size and time of change as they were: nothing but the bytes tells."""
    path = make(tmp_path, {"index": b"a" * size, "a.md": b"a"}) / "index"
    before = path.stat()

    def change(reading):
        if reading <= restless:
            with path.open("r+b") as file:
                file.write(str(reading).encode())

    def told(call):
        def tell(*args, **more):
            status = call(*args, **more)
            return before if status.st_ino == before.st_ino else status

        return tell

    for name in ("stat", "fstat"):
        monkeypatch.setattr(os, name, told(getattr(os, name)))
    after_each_reading(monkeypatch, path, change)
    capture = read_folder(tmp_path)
    if restless == 10**6:
        assert capture.left_out == (LeftOut("index", NEVER_STILL),)
        assert set(contents(capture)) == {"a.md"}
    else:
        assert capture.documents["index"] == path.read_text()
        assert capture.left_out == ()


@posix
@pytest.mark.parametrize("size", SIZES)
def test_what_shrinks_each_time_is_named(tmp_path, monkeypatch, size):
    path = make(tmp_path, {"x": b"a" * max(size, 10**5), "a.md": b"a"}) / "x"
    after_each_reading(monkeypatch, path, lambda _: os.truncate(path, path.stat().st_size - 3))
    assert read_folder(tmp_path).left_out == (LeftOut("x", NEVER_STILL),)


@posix
def test_a_large_file_replaced_by_another_is_read_anew(tmp_path, monkeypatch):
    path = make(tmp_path / "src", {"x": b"a" * LARGE}) / "x"
    other = make(tmp_path / "other", {"y": b"b" * LARGE}) / "y"

    def replace(_):
        if other.exists():
            other.replace(path)

    after_each_reading(monkeypatch, path, replace)
    capture = read_folder(tmp_path / "src")
    assert capture.documents["x"] == "b" * LARGE
    assert capture.left_out == ()


def test_a_large_file_is_read_twice_with_some_time_between(tmp_path, monkeypatch):
    monkeypatch.undo()
    times = list[float]()
    after_each_reading(monkeypatch, make(tmp_path, {"x": b"a" * LARGE}) / "x", lambda _: times.append(time.monotonic()))
    read_folder(tmp_path)
    assert times[-1] - times[0] > 0.9 * _moment.APART


@posix
def test_a_size_that_is_not_true_is_named(tmp_path, monkeypatch):
    """As in /proc, where files are empty until they are read."""
    inode = (make(tmp_path, {"odd": b"", "a.md": b"a"}) / "odd").stat().st_ino
    real = _steady._read_at

    def giving(descriptor, size, position):
        return b"x"[:size] if os.fstat(descriptor).st_ino == inode else real(descriptor, size, position)

    monkeypatch.setattr(_steady, "_read_at", giving)
    capture = read_folder(tmp_path)
    assert capture.left_out == (LeftOut("odd", "has more bytes than the file system says"),)
    assert contents(capture) == {"a.md": "a"}


@posix
def test_what_comes_in_pieces_is_put_together(tmp_path, monkeypatch):
    data = random.Random(1).randbytes(3 * LARGE)
    make(tmp_path, {"small": data[:1000], "large": data})
    real = os.pread
    monkeypatch.setattr(_steady, "_read_at", lambda descriptor, size, at: real(descriptor, min(size, 700), at))
    assert contents(read_folder(tmp_path)) == {"small": data[:1000], "large": data}


@posix
@pytest.mark.parametrize(("function", "name"), [("open", "b.md"), ("stat", "sub"), ("open", "sub")])
def test_a_system_that_never_answers_is_said_with_its_place(tmp_path, monkeypatch, function, name):
    make(tmp_path, {"a.md": b"a", "b.md": b"b", "sub/deep.md": b"d"})
    monkeypatch.setattr(_reading, "SECONDS", 0.3)
    real, answers = getattr(os, function), threading.Event()

    def hanging(path, *args, **more):
        if path == name.encode():
            answers.wait()
        return real(path, *args, **more)

    monkeypatch.setattr(os, function, hanging)
    before = threading.enumerate()
    where = {"b.md": "'b.md'", "sub": "'the folder'|'sub/'"}[name]
    try:
        with pytest.raises(ColonyMemoryError, match=f"({where}): the system has not answered for 0 seconds"):
            read_folder(tmp_path)
    finally:
        answers.set()
    wait_until(lambda: threading.enumerate() == before)  # it goes no further
    monkeypatch.undo()
    assert set(read_folder(tmp_path).documents) == {"a.md", "b.md", "sub/deep.md"}
    assert threading.enumerate() == before  # a fork would copy a thread that is only about to end


def test_a_large_file_may_take_longer(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a", "large.md": b"b" * 3_000_000})
    monkeypatch.setattr(_reading, "SECONDS", 0.2)
    real = _steady.read_bytes

    def slow(descriptor, **options):
        time.sleep(0.8 if os.fstat(descriptor).st_size > 1 else 0)
        return real(descriptor, **options)

    monkeypatch.setattr(_steady, "read_bytes", slow)
    assert set(read_folder(tmp_path, secrets="allow").documents) == {"a.md", "large.md"}


def test_an_interrupt_ends_the_reading(tmp_path, monkeypatch):
    make(tmp_path, {f"{number}.md": b"text" for number in range(9)})
    real = _reading.read_contents

    def slow(*args, **options):
        time.sleep(0.2)
        return real(*args, **options)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_reading, "read_contents", slow)
    before = threading.enumerate()
    with pytest.raises(KeyboardInterrupt):
        read_folder(tmp_path, on_progress=interrupt)
    wait_until(lambda: threading.enumerate() == before, seconds=1.0)
