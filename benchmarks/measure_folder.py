"""Restoring many small files into a folder, against ``tar xf`` and ``sync`` of the same files, in turn; and the search
for likely secrets.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from corpus import text_8mb
from environments import clean_environ
from figures import Figure

if TYPE_CHECKING:
    from peers import Peers

_FILES = 5000
_SCRIPT = """
import json, sys, time
from colony_memory.capture import write_folder
documents = json.load(open(sys.argv[1]))
start = time.perf_counter()
write_folder(documents, sys.argv[2])
print(time.perf_counter() - start)
"""

_SCAN = """
import json, sqlite3, sys, time
from backports import zstd
from colony_memory.capture.secrets import find_in_contents
texts = [json.loads(line)[1] for line in open(sys.argv[1], encoding="utf-8")]
lines = [{"type": "user", "message": {"content": [{"type": "tool_result", "content": each}]}} for each in texts]
with sqlite3.connect(":memory:") as base:
    base.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)")
    base.executemany("INSERT INTO notes (text) VALUES (?)", ((line,) for text in texts for line in text.splitlines()))
    base.commit()
    contents = {"text": "".join(texts), "a transcript": "\\n".join(map(json.dumps, lines)), "SQLite": base.serialize()}
find_in_contents({"warm": "up"})
def spent(function, *given):
    start = time.process_time()
    function(*given)
    return time.process_time() - start
told = {}
for name, content in contents.items():
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    told[name] = [spent(zstd.compress, data, 9) / len(data), spent(find_in_contents, {"a": content}) / len(data)]
print(json.dumps(told))
"""


def secrets(peers: Peers, rounds: int) -> list[Figure]:
    """CPU a byte of the search for likely secrets, to that of zstd at level 9, in turn."""
    told = [
        json.loads(
            subprocess.run(
                [peers.sides.ours, "-I", "-c", _SCAN, text_8mb().path],
                check=True,
                capture_output=True,
                env=clean_environ(),
            ).stdout
        )
        for _ in range(max(3, rounds))
    ]
    out = []
    for name, limit in (("text", 2.0), ("SQLite", 2.0), ("a transcript", 2.0)):
        pairs = [each[name] for each in told]
        zstd, ours = (1e9 * median(each) for each in zip(*pairs, strict=True))
        ratio = median(one / other for other, one in pairs)
        what = f"search {name} for secrets: CPU a byte, to zstd level 9"
        out.append(Figure("secrets", what, zstd, ours, " ns", ratio, limit, note=f"{len(pairs)} pairs"))
    return out


def folder(peers: Peers, rounds: int) -> list[Figure]:
    """Wall time, both ending with all of it on the disk. 0.1.1 writes no folders, so tar stands in its column."""
    documents = {f"notes/{number // 100:02}/{number:04}.md": f"note {number}\n" * 40 for number in range(_FILES)}
    out = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        top = Path(scratch)
        (top / "documents.json").write_text(json.dumps(documents), encoding="utf-8")
        _pack(top / "files.tar", documents)
        for name, files in (("that is missing", None), ("with other files", {"MEMORY.md": "here before"})):
            pairs = []
            for number in range(max(5, rounds)):
                sides = [_tar, _ours] if number % 2 else [_ours, _tar]
                took = {side: side(top, peers, files) for side in sides}
                pairs.append((took[_tar], took[_ours]))
            ratio = median(ours / tar for tar, ours in pairs)
            tar, ours = (1000 * median(each) for each in zip(*pairs, strict=True))
            what = f"restore {_FILES:,} files into a folder {name}: wall, to tar xf and sync"
            out.append(Figure("folder", what, tar, ours, " ms", ratio, limit=4, note=f"{len(pairs)} pairs"))
    return out


def _pack(path: Path, documents: dict[str, str]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, text in documents.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode("ascii")))


def _tar(top: Path, _peers: Peers, files: dict[str, str] | None) -> float:
    target = _prepare(top, files)
    target.mkdir(exist_ok=True)
    start = time.perf_counter()
    subprocess.run(["tar", "xf", top / "files.tar", "-C", target], check=True)
    os.sync()
    return time.perf_counter() - start


def _ours(top: Path, peers: Peers, files: dict[str, str] | None) -> float:
    target = _prepare(top, files)
    environment = {**clean_environ(), "XDG_STATE_HOME": str(top / "state")}
    command = [peers.sides.ours, "-I", "-c", _SCRIPT, top / "documents.json", target]
    return float(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)


def _prepare(top: Path, files: dict[str, str] | None) -> Path:
    target = top / "target"
    shutil.rmtree(target, ignore_errors=True)
    for name, text in (files or {}).items():
        target.mkdir(exist_ok=True)
        (target / name).write_text(text, encoding="utf-8")
    os.sync()
    return target
