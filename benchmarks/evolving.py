"""A memory that grows as an agent's does: every state of it, the same on every run of one Python.

Its sentences are those of the standard library's documentation, so that it is prose and not a salad of words: notes of
days, pages of projects, transcripts that are added to, and one page that is edited all the time.
"""

from __future__ import annotations

import ast
import json
import random
import sysconfig
from pathlib import Path
from pydoc_data import topics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

STATES, SIZE = 400, 2_000_000
_INDEX = "MEMORY.md"


def sentences() -> list[str]:
    """Paragraphs of documentation, each once."""
    found: dict[str, None] = {}
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if any(part in name for part in ("test", "site-packages", "lib2to3", "idlelib")):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                found.update(dict.fromkeys(_paragraphs(ast.get_docstring(node) or "")))
    for topic in sorted(topics.topics):
        found.update(dict.fromkeys(_paragraphs(topics.topics[topic])))
    return list(found)


def _paragraphs(text: str) -> Iterator[str]:
    for block in text.split("\n\n"):
        paragraph = " ".join(block.split())
        if len(paragraph) > 40:
            yield paragraph


def history(states: int = STATES, size: int = SIZE, seed: int = 7) -> Iterator[dict[str, str]]:
    """Each state, first to last. The first has nine tenths of ``size``."""
    memory = _Memory(seed)
    memory.fill(size * 9 // 10)
    yield dict(memory.documents)
    for day in range(1, states):
        for _ in range(memory.chance.choice((1, 1, 2, 2, 3, 5))):
            memory.work(day)
        yield dict(memory.documents)


def written(size: int, seed: int = 7) -> dict[str, str]:
    """One state of about so many bytes."""
    memory = _Memory(seed)
    memory.fill(size)
    return memory.documents


class _Memory:
    """A memory at work."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._pool = sentences()
        self.chance.shuffle(self._pool)
        self._next = 0
        self.documents: dict[str, str] = {}

    def sentence(self) -> str:
        """One that was not said yet, as far as they reach; then the same ones backwards."""
        turn, at = divmod(self._next, len(self._pool))
        self._next += 1
        return " ".join(reversed(self._pool[at].split(" "))) if turn % 2 else self._pool[at]

    def turn(self) -> str:
        """A line of a transcript."""
        role, at = self.chance.choice(("user", "assistant")), 1_700_000_000 + self.chance.randrange(10**7)
        return json.dumps({"role": role, "ts": at, "content": self.sentence()}) + "\n"

    def fill(self, size: int) -> None:
        """Write what is there before the first day."""
        kinds = (
            (0.6, 500, 6000, "notes/{}.md"),
            (0.9, 4000, 30_000, "projects/{}.md"),
            (1, 20_000, 90_000, "talks/{}.jsonl"),
        )
        total = 0
        while total < size:
            draw = self.chance.random()
            _, least, most, name = next(kind for kind in kinds if draw < kind[0])
            text, wanted = "", self.chance.randrange(least, most)
            while len(text) < wanted:
                text += self.turn() if name.endswith("l") else self.sentence() + "\n\n"
            self.documents[name.format(f"{len(self.documents):04}")] = text
            total += len(text)
        self.documents[_INDEX] = "".join(f"- {self.sentence()}\n" for _ in range(60))

    def work(self, day: int) -> None:
        """Change one thing."""
        documents, chance = self.documents, self.chance
        name, kind = chance.choice(sorted(documents)), chance.random()
        if kind < 0.35:
            lines = documents[_INDEX].splitlines(keepends=True)
            lines[chance.randrange(len(lines))] = f"- {self.sentence()}\n"
            documents[_INDEX] = "".join(lines) + (f"- {self.sentence()}\n" if chance.random() < 0.3 else "")
        elif kind < 0.6:
            talks = [each for each in sorted(documents) if each.startswith("talks/")]
            documents[chance.choice(talks[-3:])] += "".join(self.turn() for _ in range(chance.randrange(1, 4)))
        elif kind < 0.8:
            note = f"notes/day-{day:04}.md"
            documents[note] = documents.get(note, "") + self.sentence() + "\n\n"
        elif kind < 0.93:
            lines = documents[name].split("\n")
            lines[chance.randrange(len(lines))] = self.sentence()
            documents[name] = "\n".join(lines)
        elif name == _INDEX or name.startswith("talks/"):
            return
        elif kind < 0.97:
            documents[f"archive/{name}"] = documents.pop(name)
        else:
            del documents[name]
