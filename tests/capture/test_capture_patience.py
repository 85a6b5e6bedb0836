"""What hangs in the operating system is left behind, and named."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from capture_trees import make, posix

from colony_memory.capture import LeftOut, _reading, _steady, _walk, read_folder
from colony_memory.capture._steady import Deadline, Patience

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hung() -> Iterator[threading.Event]:
    """What hangs waits for this; it is let go in the end."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_walk, "SECONDS", 0.5)
    monkeypatch.setattr(_reading, "SECONDS", 0.5)
    monkeypatch.setattr(_steady, "_SECONDS_TO_TIDY_UP", 0.1)


def hang_at(monkeypatch: pytest.MonkeyPatch, function: str, name: str, hung: threading.Event) -> None:
    real = getattr(os, function)

    def hanging(path: object, *args: object, **more: object) -> object:
        if path == name.encode():
            hung.wait()
        return real(path, *args, **more)

    monkeypatch.setattr(os, function, hanging)


@posix
@pytest.mark.parametrize(
    ("function", "name", "left_out"),
    [("open", "b.md", "b.md"), ("open", "sub", "sub/"), ("stat", "deep.md", "sub/")],
)
def test_what_never_answers_is_named_and_the_rest_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung: threading.Event, function: str, name: str, left_out: str
) -> None:
    make(tmp_path, {"a.md": b"a", "b.md": b"b", "c.md": b"c", "sub/deep.md": b"d", "tub/e.md": b"e"})
    hang_at(monkeypatch, function, name, hung)
    capture = read_folder(tmp_path)
    assert capture.left_out == (LeftOut(left_out, "not read within 0.5 seconds"),)
    assert {"a.md", "c.md", "tub/e.md"} <= set(capture.documents)


@posix
def test_a_directory_that_hangs_when_its_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hung: threading.Event
) -> None:
    make(tmp_path, {"a.md": b"a", "sub/b.md": b"b"})
    real, asked = os.open, []

    def hanging(path: str | bytes, *args: int, **more: int) -> int:
        if path == b"sub":
            asked.append(path)
            if len(asked) == 2:
                hung.wait()
        return real(path, *args, **more)

    monkeypatch.setattr(os, "open", hanging)
    assert read_folder(tmp_path).left_out == (LeftOut("sub/b.md", "not read within 0.5 seconds"),)


def test_an_interrupt_lets_the_call_tidy_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_steady, "_SECONDS_TO_TIDY_UP", 20)
    started, tidied = threading.Event(), []

    def work(deadline: Deadline) -> None:
        started.set()
        try:
            while True:
                deadline.check()
        finally:
            tidied.append(True)

    real = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout == 60:
            assert started.wait(20)
            raise KeyboardInterrupt
        return real(event, timeout)

    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Patience().run(work, seconds=60)
    assert tidied == [True]


def test_no_thread_is_left_after_a_folder_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = _steady._serve

    def slowly_ending(*args: Any) -> None:
        real(*args)
        time.sleep(0.05)

    monkeypatch.setattr(_steady, "_serve", slowly_ending)
    make(tmp_path, {"a.md": b"text"})
    before = threading.enumerate()
    read_folder(tmp_path)
    # A fork would copy a thread that is only about to end, and Python warns of that.
    assert threading.enumerate() == before
