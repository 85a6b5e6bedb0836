"""Both sides as processes, asked in turn: A B, B A, A B, …, so that what else the machine does falls on both."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from environments import HERE, Sides, clean_environ

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_TIMEOUT = 900
# Modules of extras, which a worker finds missing where none of them is measured.
EXTRAS = ("deflate", "backports.zstd")


class Pair(NamedTuple):
    """What both sides said."""

    published: Any
    ours: Any


class Peer:
    """The worker in one environment; :meth:`ask` sends it a request and gives its answer.

    Args:
        python: Its interpreter.
        without: Modules that it finds missing: those of extras, other than where an extra is measured.
    """

    def __init__(self, python: Path, *, without: tuple[str, ...] = EXTRAS) -> None:
        # Without -I: the folder of the script, which holds nothing of the package, has the worker's own modules.
        command = [str(python), "-E", "-s", "-B", "-X", "utf8", str(HERE / "worker.py"), *without]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environ(), encoding="utf-8"
        )

    def ask(self, do: str, **arguments: Any) -> Any:
        """The answer to a request, in at most a quarter of an hour."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the worker has no pipes")
        watchdog = threading.Timer(_TIMEOUT, self._process.kill)
        watchdog.start()
        try:
            stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            stdin.flush()
            line = stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            msg = f"the worker ended with {self._process.wait()} at {do}; what it says is on stderr"
            raise RuntimeError(msg)
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Peers:
    """Both environments."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides

    @contextmanager
    def started(self) -> Iterator[Pair]:
        """A worker in each."""
        pair = Pair(Peer(self.sides.published), Peer(self.sides.ours))
        try:
            yield pair
        finally:
            for peer in pair:
                peer.close()

    def rounds(self, number: int, do: str, **arguments: Any) -> list[Pair]:
        """Ask both the same, in turn, each in one process that goes on."""
        with self.started() as pair:
            return in_turn(number, pair, lambda peer: peer.ask(do, **arguments))

    def ask_fresh(self, side: str, do: str, **arguments: Any) -> Any:
        """Ask one side in a process of its own."""
        peer = Peer(getattr(self.sides, side))
        try:
            return peer.ask(do, **arguments)
        finally:
            peer.close()

    def run_ours(self, *command: str) -> str:
        """What a program of this folder prints in the environment of this tree."""
        words = [str(self.sides.ours), "-E", "-s", "-B", "-X", "utf8", *command]
        done = subprocess.run(words, env=clean_environ(), stdout=subprocess.PIPE, encoding="utf-8", check=True)
        return done.stdout


def in_turn(number: int, pair: tuple[Any, Any], ask: Callable[[Any], Any]) -> list[Pair]:
    """Ask both so many times, the one that begins changing every time."""
    out = []
    for n in range(number):
        if n % 2:
            ours = ask(pair[1])
            out.append(Pair(ask(pair[0]), ours))
        else:
            out.append(Pair(ask(pair[0]), ask(pair[1])))
    return out


def medians(pairs: list[Pair], key: str) -> tuple[float, float, float]:
    """The median of each side and the median of the pairs' ratios, ours to theirs."""
    published, ours = [pair.published[key] for pair in pairs], [pair.ours[key] for pair in pairs]
    return median(published), median(ours), median(b / a for a, b in zip(published, ours, strict=True))
