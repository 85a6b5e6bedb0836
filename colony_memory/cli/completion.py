"""What a shell is told may come next: ids and labels of the vault that the command line names, and choices.

Whoever presses the tab key asked for nothing. So it ends soon although the vault does not answer, says nothing of
what is wrong, and makes nothing. Only what needs no quoting in any shell is offered.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from colony_memory._engine.label import LabelFiles

#: Seconds that a vault has to answer.
PATIENCE = 1.5
_MOST = 100
_WORDS = "COMP_WORDS"
_CURSOR = "COMP_CWORD"
_KIND = re.compile("[A-Z]+")
_NAMES_SNAPSHOT = frozenset({"ID", "A", "B"})
_NAMES_FOLDER = frozenset({"DIR", "A", "B"})
_NAMES_FILE = frozenset({"FILE", "A", "B"})
_PLAIN = re.compile(r"[A-Za-z0-9_.+][A-Za-z0-9_.+,@%-]*")


@dataclass(frozen=True)
class Candidate:
    """What may come next, as the shells' scripts take it."""

    value: str
    help: str | None = None
    type: str = "plain"


def attach(command: Any) -> None:
    """Let a verb's arguments and options complete what this module knows of."""
    for each in command.params:
        each.shell_complete = partial(_complete, each)


def join_bash_words() -> None:
    """Put together again, in the environment, what bash has taken apart at ``=`` and ``:``."""
    with suppress(KeyError, ValueError):
        text = os.environ[_WORDS]
        between = "\n" if "\n" in text else " "
        words, at = rejoined(text.split(between), int(os.environ[_CURSOR]))
        os.environ[_WORDS], os.environ[_CURSOR] = between.join(words), str(at)


def rejoined(words: Sequence[str], at: int) -> tuple[list[str], int]:
    """Pure: the words up to the one at the cursor, whole, and where that is now."""
    joined: list[str] = []
    glue = ""
    for word in words[:at]:
        if joined and (word == "=" and joined[-1].startswith("--")):
            glue = "="
        elif joined and word == ":":
            joined[-1] += ":"
            # Nothing comes after the name of the hosted vault.
            glue = "" if joined[-1].lower().endswith("colony:") else ":"
        elif glue == "=":
            joined[-1] += f"={word}"
            glue = ""
        elif glue and not word.startswith("-"):
            joined[-1] += word
            glue = ""
        else:
            joined.append(word)
            glue = ""
    last = words[at] if at < len(words) else ""
    if glue == ":":
        last = joined.pop() + last
    return [*joined, last], len(joined)


def _complete(parameter: Any, ctx: Any, incomplete: str) -> list[Candidate]:
    metavar = str(parameter.metavar or "")
    if parameter.param_type_name == "argument":
        kinds = _kinds(metavar, len(_given(ctx.params.get(parameter.name))))
    elif "--label" in parameter.opts:
        return _within(PATIENCE, lambda: _beginning(incomplete, map(Candidate, _labels(ctx.params))))
    elif {"--set", "--lens"} & set(parameter.opts):
        return _within(PATIENCE, lambda: _beginning(incomplete, map(Candidate, _named(parameter.name, ctx.params))))
    elif "|" in metavar:
        return _beginning(incomplete, map(Candidate, metavar.split("|")))
    else:
        kinds = frozenset({metavar}) & _NAMES_SNAPSHOT
    if not kinds & _NAMES_SNAPSHOT:
        return []
    return _within(PATIENCE, lambda: _snapshots_and_paths(ctx.params, kinds, incomplete))


def _kinds(metavar: str, given: int) -> frozenset[str]:
    """What the next of several words may be: of ``[ID] DIR`` the first either, the second the last."""
    words = metavar.split()
    if len(words) > 1 and given == 0 and words[0].startswith("["):
        return frozenset(_KIND.findall(metavar))
    return frozenset(_KIND.findall(words[min(given, len(words) - 1)])) if words else frozenset()


def _given(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else ()


def _snapshots_and_paths(params: Mapping[str, Any], kinds: frozenset[str], incomplete: str) -> list[Candidate]:
    label = params.get("label")
    files = _listed(params).get(label if isinstance(label, str) else "default")
    found = _beginning(incomplete, _snapshots(files)) if files and files.manifests else []
    # Where no snapshot is meant the shell itself completes names of files, and better.
    return [*found, *_paths(kinds, incomplete)] if found else []


def _snapshots(files: LabelFiles) -> Iterable[Candidate]:
    from colony_memory._format.names import id_time
    from colony_memory.cli.text import age, now_utc

    now = now_utc()
    yield Candidate("latest", "what restore gives")
    for each in files.manifests:
        made = id_time(each)
        yield Candidate(each, age(made, now) if made else None)


def _labels(params: Mapping[str, Any]) -> list[str]:
    return [label for label, files in _listed(params).items() if files.manifests]


def _listed(params: Mapping[str, Any]) -> dict[str, LabelFiles]:
    """What the vault lists, in one request; nothing is read."""
    from colony_memory._engine.drive import drive
    from colony_memory._engine.faces import SyncVault
    from colony_memory._engine.label import read_labels
    from colony_memory.app.place import choose_place

    return read_labels(drive(SyncVault(choose_place(_vault(params)).backend).list("cmem.")))


def _vault(params: Mapping[str, Any]) -> str | None:
    """The vault that is named, else the one of the configuration file."""
    from colony_memory.app.config import load_config

    config, url = load_config(params.get("config")), params.get("source") or params.get("vault")
    if url:
        return config.url_of(url)
    chosen = config.sets.get(str(params.get("set_name")))
    return {**config.settings, **(chosen.settings if chosen else {})}.get("vault")


def _named(parameter: str, params: Mapping[str, Any]) -> Iterable[str]:
    """The sets or lenses of the configuration file."""
    from colony_memory.app.config import load_config

    config = load_config(params.get("config"))
    return config.lenses if parameter == "lens" else config.sets


def _paths(kinds: frozenset[str], incomplete: str) -> list[Candidate]:
    if not kinds & (_NAMES_FOLDER | _NAMES_FILE):
        return []
    found = []
    with os.scandir() as entries:
        for each in islice(entries, 10 * _MOST):
            if not each.name.startswith(incomplete) or not _PLAIN.fullmatch(each.name):
                continue
            if each.is_dir() and kinds & _NAMES_FOLDER:
                found.append(Candidate(f"{each.name}/"))
            elif kinds & _NAMES_FILE and each.is_file() and incomplete:
                found.append(Candidate(each.name))
    return sorted(found, key=lambda each: each.value)[:_MOST]


def _beginning(incomplete: str, candidates: Iterable[Candidate]) -> list[Candidate]:
    return list(islice((each for each in candidates if each.value.startswith(incomplete)), _MOST))


def _within(seconds: float, look: Callable[[], list[Candidate]]) -> list[Candidate]:
    """What the call finds, nothing where that fails or takes longer: then it is left to end with the process."""
    import logging
    import threading
    import warnings

    found: list[Candidate] = []

    def run() -> None:
        with suppress(Exception):
            found.extend(look())

    logging.disable()
    warnings.simplefilter("ignore")
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return [] if thread.is_alive() else found
