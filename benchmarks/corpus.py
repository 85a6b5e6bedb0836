"""What is backed up: real text that every machine with a Python has, shaped like an agent's folder.

The text is the standard library's: its help topics and licence, then its sources, in an order that depends on nothing
but their names. It is written once below ``.cache/bench``, a JSON array ``[name, text]`` a line, so that both sides
read the same bytes, a document at a time.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import random
import sysconfig
import tarfile
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from environments import CACHE, REPOSITORY, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SIZE = 8_000_000
_SHAPE = 3  # another number for another way to cut, so that no old file is used
# How often a document of a kind comes in each 32, its least and its greatest length, and its name.
_KINDS = (
    (18, 400, 8_000, "notes/{n:04}.md"),
    (9, 8_000, 40_000, "projects/{n:04}.md"),
    (4, 40_000, 120_000, "transcripts/{n:04}.jsonl"),
    (1, 150_000, 500_000, "archive/{n:04}.txt"),
)
# With so much of it pictures, 8 MB make eight part files: compressed text alone makes five.
_PICTURE_BYTES = 2_600_000
# Six megabytes of handbook, written by people for people.
_PROSE = ("django==5.2.1", "57fe1f1b59462caed092c80b3dd324fd92161b620d59a9ba9181c34746c97284")
_PROSE_SIZE = 6_000_000


class Corpus(NamedTuple):
    """Documents in a file: how many, and how many bytes of text in UTF-8."""

    path: Path
    documents: int
    size: int


def text_8mb() -> Corpus:
    """8 MB of text in a few hundred documents of mixed sizes."""
    return _saved("text", lambda: _cut(_library_text(), SIZE))


def with_pictures() -> Corpus:
    """8 MB of which a part is pictures in base64, as a folder with binary files has them: eight part files."""
    return _saved("pictures", _with_pictures)


def one_document(emoji: str = "") -> Corpus:
    """The 8 MB as one document; a single emoji in it makes Python hold every character in four bytes."""
    return _saved(
        "one-wide" if emoji else "one",
        lambda: [("MEMORY.md", emoji + "".join(text for _, text in load(text_8mb().path)))],
    )


def example() -> Corpus | None:
    """The example folder of the repository, where it is there."""
    folder = REPOSITORY / "examples" / "agent-memory"
    documents = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            try:
                text = data.decode("utf-8")
            except UnicodeDecodeError:
                text = base64.b64encode(data).decode("ascii")
            documents.append((path.relative_to(folder).as_posix(), text))
    return _write(CACHE / "corpus-example.jsonl", documents) if documents else None


def prose() -> Corpus:
    """6 MB of real prose: the handbook that a source release of Django ships."""
    return _saved("prose", lambda: _cut(_handbook(), _PROSE_SIZE))


def notes() -> Corpus:
    """8 MB of an agent's notes, projects and talks, as :mod:`evolving` writes them."""
    from evolving import written

    return _saved("notes", lambda: written(SIZE).items())


def logs() -> Corpus:
    """8 MB of log lines in JSON: times, ids and numbers, and few words that do not come again and again."""
    return _saved("logs", lambda: _cut(_log_texts(), SIZE))


def load(path: Path) -> Iterator[tuple[str, str]]:
    """The documents of a corpus file, one at a time."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            name, text = json.loads(line)
            yield name, text


def _saved(name: str, make: Callable[[], Iterable[tuple[str, str]]]) -> Corpus:
    path = CACHE / f"corpus-{name}-{_SHAPE}-{platform.python_version()}.jsonl"
    if not path.exists():
        return _write(path, make())
    return _corpus(path, load(path))


def _write(path: Path, documents: Iterable[tuple[str, str]]) -> Corpus:
    CACHE.mkdir(parents=True, exist_ok=True)
    documents = list(documents)
    unfinished = path.with_suffix(".new")
    with unfinished.open("w", encoding="utf-8", newline="\n") as out:
        for each in documents:
            out.write(json.dumps(each) + "\n")
    unfinished.replace(path)
    return _corpus(path, documents)


def _corpus(path: Path, documents: Iterable[tuple[str, str]]) -> Corpus:
    sizes = [len(text.encode("utf-8")) for _, text in documents]
    return Corpus(path, len(sizes), sum(sizes))


def _library_text() -> Iterator[str]:
    """The standard library as texts: prose first, then sources, tests last, each in an order given by names."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in root.rglob("*") if path.suffix in {".txt", ".rst", ".py"} and path.is_file()]
    places = {path: path.relative_to(root) for path in files}
    wanted = [path for path in files if not {"site-packages", "pydoc_data", "dist-packages"} & set(places[path].parts)]

    def order(path: Path) -> tuple[bool, bool, str]:
        place = places[path]
        tests = bool({"test", "tests", "idle_test"} & set(place.parts))
        return tests, path.suffix == ".py", hashlib.sha256(place.as_posix().encode()).hexdigest()

    for path in sorted(wanted, key=order):
        try:
            yield path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue


def _handbook() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(source_of(*_PROSE, Path(scratch))) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            if "/docs/" in member.name and member.name.endswith(".txt") and (file := archive.extractfile(member)):
                yield file.read().decode("utf-8")


def _log_texts() -> Iterator[str]:
    lines = _log_lines()
    while True:
        yield "".join(islice(lines, 50))


def _log_lines() -> Iterator[str]:
    from evolving import sentences

    chance, said, at = random.Random(3), sentences(), 1_760_000_000.0
    pick = chance.choice
    while True:
        at += chance.expovariate(2)
        line: dict[str, object] = {
            "ts": round(at, 3),
            "level": pick(("info",) * 6 + ("debug",) * 3 + ("warning",)),
            "logger": pick(("agent.loop", "agent.tools", "vault", "http", "planner")),
            "session": f"{chance.randrange(40):08x}",
        }
        draw = chance.random()
        if draw < 0.4:
            path, status = f"/files/{chance.randrange(2**32):08x}", pick((200, 200, 200, 304, 404, 429))
            line |= {"event": "request", "path": path, "status": status, "ms": round(chance.lognormvariate(4, 1), 2)}
        elif draw < 0.75:
            note, tool = f"notes/{chance.randrange(400):04}.md", pick(("read_file", "search", "write_file"))
            line |= {"event": "tool", "tool": tool, "call_id": f"call_{chance.randrange(2**64):016x}", "path": note}
        else:
            line |= {"event": "message", "role": pick(("user", "assistant")), "content": pick(said)}
        yield json.dumps(line) + "\n"


def _cut(texts: Iterable[str], size: int) -> list[tuple[str, str]]:
    """Cut texts at line ends into documents that have ``size`` bytes together."""
    kinds = [kind for kind in _KINDS for _ in range(kind[0])]
    out: list[tuple[str, str]] = []
    source, rest, left = iter(texts), "", size
    while left > 0:
        n = len(out)
        draw = int.from_bytes(hashlib.sha256(f"document {n}".encode()).digest()[:8], "big")
        _, least, most, name = kinds[draw % len(kinds)]
        # As many documents between 1 and 2 kB as between 2 and 4 kB.
        wanted = min(left, int(least * (most / least) ** ((draw >> 8) % 1000 / 1000)))
        while len(rest) < wanted:
            more = next(source, None)
            if more is None:
                msg = f"this Python's standard library has less than {size} bytes of text"
                raise RuntimeError(msg)
            rest += more
        end = rest.find("\n", wanted) + 1 or len(rest)
        text, rest = rest[:end], rest[end:]
        out.append((name.format(n=n), text))
        left -= len(text.encode("utf-8"))
    return out


def _with_pictures() -> list[tuple[str, str]]:
    pictures: list[tuple[str, str]] = []
    left = _PICTURE_BYTES
    while left > 0:
        n = len(pictures)
        size = min(left, 20_000 + 37_000 * (n % 7))
        # Compressed pictures have no pattern that gzip finds, and neither have these bytes.
        data = hashlib.shake_256(f"picture {n}".encode()).digest(size)
        pictures.append((f"pictures/{n:04}.png", base64.b64encode(data).decode("ascii")))
        left -= size
    return _cut(_library_text(), SIZE - sum(len(text) for _, text in pictures)) + pictures
