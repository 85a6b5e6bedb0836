"""Processes that answer one line of JSON with one line of JSON, and the published client as one of them."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from published.environments import HERE, clean_environ, published_python


class LineProcess:
    """A script running under ``python``; ``ask`` sends it a JSON value and returns its JSON answer.

    It runs in an empty directory of its own, isolated from this process's import path. A process that ends or stays
    silent for ``timeout`` seconds raises RuntimeError with what it wrote to stderr.
    """

    def __init__(self, python, script, *, timeout=60, **environ):
        self._timeout = timeout
        self._directory = tempfile.TemporaryDirectory(prefix="line-process-")
        self._stderr = (Path(self._directory.name) / "stderr").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            [str(python), "-I", "-B", "-X", "utf8", str(HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=self._directory.name,
            env=clean_environ(**environ),
            encoding="utf-8",
        )

    def ask(self, request):
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(self._timeout, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            watchdog.cancel()
            watchdog.join()
        if not line:
            self._process.wait(self._timeout)
            raise RuntimeError(f"process ended with {self._process.returncode}: {self.stderr()}")
        return json.loads(line)

    def stderr(self):
        """What the process has written to stderr so far."""
        return Path(self._stderr.name).read_text(encoding="utf-8", errors="replace")

    def close(self):
        """End the process and remove its directory; a second call does nothing."""
        if self._stderr.closed:
            return
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        self._stderr.close()
        self._directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


@dataclass(frozen=True)
class Reply:
    """What a verb returned, as JSON values, the vault's contents after it, and the calls that it made."""

    result: Any
    files: dict[str, str]
    calls: list[list[str]]


class PeerError(Exception):
    """The published client raised: its exception's name and text, and the vault as it was left."""

    def __init__(self, kind, message, files, calls):
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.files = files
        self.calls = calls


class PublishedPeer:
    """The published 0.1.1 in its own environment, working on vault contents that are handed to it.

    ::

        with PublishedPeer.start() as peer:
            files = peer.call("backup", {}, documents={"MEMORY.md": "x"}, label="home").files
            assert peer.call("restore", files, label="home").result == {"MEMORY.md": "x"}
    """

    def __init__(self, process):
        self._process = process

    @classmethod
    def start(cls):
        """Start it; the first time, its environment is built, which takes some seconds and a package index."""
        return cls(LineProcess(published_python(), "peer.py"))

    def call(
        self, verb, files, *, signer_seed=None, part_chars=None, now=None, stop_at=None, applied=False, **arguments
    ):
        """Run a verb (backup, restore, list, latest, prune, delete) on a vault that holds exactly ``files``.

        ``now`` (aware, UTC) sets the client's clock. From vault call ``stop_at`` (from 0) on the vault is dead;
        ``applied`` tells whether that call still took effect. ``arguments`` go to the verb. Raises PeerError.
        """
        answer = self._process.ask(
            {
                "verb": verb,
                "files": files,
                "arguments": arguments,
                "signer_seed": signer_seed.hex() if signer_seed else None,
                "part_chars": part_chars,
                "now": now.isoformat() if now else None,
                "stop_at": stop_at,
                "applied": applied,
            }
        )
        if answer["error"]:
            raise PeerError(**answer["error"], files=answer["files"], calls=answer["calls"])
        return Reply(answer["result"], answer["files"], answer["calls"])

    def hello(self):
        """The ``version`` of the package on the other side and the ``module`` file it was loaded from."""
        return self._process.ask({"verb": "hello"})

    def close(self):
        self._process.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
