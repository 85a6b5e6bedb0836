"""Likely secrets in documents: private keys, passwords of databases, and keys and tokens of well-known services."""

from __future__ import annotations

import hashlib
import re
import warnings
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from colony_memory._boundary import several
from colony_memory._values import pattern, replace
from colony_memory.capture._metadata import METADATA_NAME, Metadata, describe, load_metadata, split_documents
from colony_memory.capture._secret_rules import RULES
from colony_memory.exceptions import ColonyMemoryWarning, Hint, SecretFinding, SecretsFound

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from colony_memory.capture._secret_kinds import Place

__all__ = ["RULES", "SecretFinding", "find_secrets", "mask_secrets", "masked_names"]

_RAW = "raw private key"
_DIGITS = 6
_WARNINGS = 10
_REST = bytes(range(0x80, 0xC0))  # what remains of a character in UTF-8 at which a place, bounded in bytes, ends
_ID = pattern(r"(?s).+?:(?P<kind>[a-z0-9-]+)(?::[0-9a-f]{6})?")


def _slug(kind: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", kind.lower())


class Pieces:
    """Digests of pieces of large files without secrets: if a database gets a row, only one piece is searched again."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self.known = frozenset(known)  # those that need not be searched
        self.clean: dict[str, list[str]] = {}  # those in which nothing was found, by the name of the file


def _places(text: bytes, known: Container[str] = (), clean: list[str] | None = None) -> Iterable[Place]:
    if not text:  # a short command may have only names known to be clean
        return ()
    from colony_memory.capture._secret_views import places

    return places(text, known, clean)


@lru_cache(maxsize=1)
def _slugs() -> frozenset[str]:
    from colony_memory.capture._secret_kinds import KINDS

    return frozenset(map(_slug, (*(kind.name for kind in KINDS), _RAW)))


# A key of this package may be kept as its bare bytes, for which only the name of the file speaks.
_SEED_SIZE = 32
_SEED_NAME = pattern(r"(?i)(key|seed)[^/]*$")


def find_secrets(documents: Mapping[str, str]) -> tuple[SecretFinding, ...]:
    """Look for likely secrets in documents, as read_folder() gives them: in all files, in names and in links.

    Only well-known forms are found: an empty result is no proof that there is none.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    contents, metadata = split_documents(documents)
    return (*find_in_names(*_names_of(contents, metadata)), *find_in_contents(contents))


def mask_secrets(
    documents: Mapping[str, str], *, allow: str | Iterable[str] = ()
) -> tuple[dict[str, str], tuple[SecretFinding, ...]]:
    """Replace each likely secret by ``[masked: …]``, except for those in ``allow``, which is as for read_folder().

    Returns the documents, of which masked_names() tells the changed ones, and the masked findings.

    Raises:
        ValueError: ``allow`` has something other than ids of findings.
        SecretsFound: A name, a link or a file that is not text holds one, where it cannot be replaced.
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    allowed = read_allowed(allow)
    contents, metadata = split_documents(documents)
    found = judge_secrets(contents, "mask", allowed, *_names_of(contents, metadata))
    findings = tuple(finding for finding in found if not is_allowed(finding, allowed))
    if not findings:
        return dict(documents), ()
    names = {finding.name for finding in findings}
    masked = {name: text for name, text in contents.items() if isinstance(text, str)}
    masked |= describe(replace(metadata, masked=tuple(sorted(names.union(metadata.masked)))))
    return dict(sorted(masked.items())), findings


def masked_names(documents: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the files in which secrets were masked before they were saved, sorted.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    return load_metadata(documents[METADATA_NAME]).masked if METADATA_NAME in documents else ()


def _names_of(contents: Mapping[str, str | bytes], metadata: Metadata) -> tuple[list[str], dict[str, str]]:
    return [*contents, *metadata.empty_dirs, *metadata.left_out], dict(metadata.links)


def find_in_contents(contents: Mapping[str, str | bytes], pieces: Pieces | None = None) -> tuple[SecretFinding, ...]:
    shown = shown_names(contents)
    return tuple(
        finding
        for name in sorted(contents)
        for finding, _ in _search(shown.get(name, name), contents[name], pieces, name)
    )


def find_in_names(names: Iterable[str], links: Mapping[str, str]) -> tuple[SecretFinding, ...]:
    """Look for likely secrets in names of files, directories and links, and in the targets of links."""
    of_links, targets = shown_names(links), dict[str, list[str]]()
    for name, target in links.items():
        targets.setdefault(target, []).append(of_links.get(name, name))
    hits = list[tuple[list[str], "list[Place]"]]()
    for name, found in _in_lines([*names, *links]):
        behind = name.encode("utf-8", "surrogatepass")[found[-1].hidden[1] :].count(b"/")
        hits.append(([_masked(name, found).rsplit("/", behind)[0]], found))
    hits += [(targets[target], found) for target, found in _in_lines(targets)]
    findings = [_finding(n, None, p.kind.name, p.secret) for shown, found in hits for n in shown for p in found]
    return tuple(sorted({f.id: f for f in findings}.values(), key=lambda f: (f.name, f.kind)))


def shown_names(names: Iterable[str]) -> dict[str, str]:
    """The names with a likely secret, each with its form for messages, in which that is masked."""
    return {name: _masked(name, found) for name, found in _in_lines(names)}


def _in_lines(texts: Iterable[str]) -> Iterator[tuple[str, list[Place]]]:
    """Search many short texts at once; yield those with findings."""
    lines = sorted(set(texts))
    data = [line.encode("utf-8", "surrogatepass").replace(b"\n", b" ") for line in lines]
    starts = [0, *accumulate(len(line) + 1 for line in data)]
    found: dict[int, list[Place]] = {}
    for place in _without_overlaps(_places(b"\n".join(data))):
        at = bisect_right(starts, place.start) - 1
        found.setdefault(at, []).append(place.shifted(-starts[at]))
    yield from ((lines[at], places) for at, places in found.items())


def read_allowed(ids: str | Iterable[str]) -> frozenset[str]:
    """Findings that may be saved: each an ``id``, or that without its last part; ValueError if it is neither."""
    allowed = several("allow_secrets", ids)
    for finding_id in allowed:
        match = _ID.fullmatch(finding_id) if isinstance(finding_id, str) else None
        if match is None or match["kind"] not in _slugs():
            raise ValueError(
                f"{finding_id!r} names no finding: give FILE:KIND or FILE:KIND:DIGEST as in the warning, such as "
                "notes.md:github-token"
            )
    return frozenset(allowed)


def is_allowed(finding: SecretFinding, allowed: frozenset[str]) -> bool:
    return finding.id in allowed or finding.id.rpartition(":")[0] in allowed


def mask_contents(
    contents: dict[str, str | bytes], allowed: frozenset[str] = frozenset(), pieces: Pieces | None = None
) -> tuple[SecretFinding, ...]:
    """Mask likely secrets in place, but not allowed ones; return all. SecretsFound, nothing masked, if one can't be."""
    shown = shown_names(contents)
    findings: list[SecretFinding] = []
    elsewhere: list[SecretFinding] = []
    masked: dict[str, str] = {}
    for name, content in sorted(contents.items()):
        found = list(_search(shown.get(name, name), content, pieces, name))
        findings += (finding for finding, _ in found)
        likely = [(finding, place) for finding, place in found if not is_allowed(finding, allowed)]
        elsewhere += (finding for finding, _ in likely if finding.line is None)
        if likely and isinstance(content, str) and all(finding.line is not None for finding, _ in likely):
            masked[name] = _masked(content, [place for _, place in likely if place])
            again = (finding for finding, _ in _search(shown.get(name, name), masked[name]))
            elsewhere += (finding for finding in again if not is_allowed(finding, allowed))
    _require_maskable(elsewhere)
    contents.update(masked)
    return tuple(findings)


def _require_maskable(findings: list[SecretFinding]) -> None:
    if findings:
        raise SecretsFound(
            "secrets can be masked in text only, so nothing was saved; rename or exclude the other files that have "
            "some, or allow these",
            findings=findings,
            hint=Hint("read_folder", "secrets", "warn"),
        )


def judge_secrets(
    contents: dict[str, str | bytes],
    choice: str,
    allowed: frozenset[str],
    names: Iterable[str] = (),
    links: Mapping[str, str] | None = None,
    *,
    pieces: Pieces | None = None,
    depth: int = 2,
) -> tuple[SecretFinding, ...]:
    """The findings, masked if that is the choice; SecretsFound to stop. Warnings point ``depth`` calls up."""
    findings = find_in_names(names, links or {})
    if choice == "mask":
        _require_maskable([finding for finding in findings if not is_allowed(finding, allowed)])
        return (*findings, *mask_contents(contents, allowed, pieces))
    findings = (*findings, *find_in_contents(contents, pieces))
    likely = [finding for finding in findings if not is_allowed(finding, allowed)]
    hint = Hint("read_folder", "secrets", "mask")
    if likely and choice == "stop":
        what = "1 likely secret; remove it, exclude its file, or have it"
        if len(likely) > 1:
            what = f"{len(likely)} likely secrets; remove them, exclude their files, or have them"
        raise SecretsFound(f"nothing was saved: {what} masked or allowed", findings=likely, hint=hint)
    warned = list[tuple[str, Hint]]()
    for finding in likely[:_WARNINGS]:
        text = f"a likely secret is saved: {finding}; have secrets masked, or allow this one"
        warned.append((text, Hint("read_folder", "allow_secrets", finding.id)))
    if len(likely) > _WARNINGS:
        warned.append((f"and {len(likely) - _WARNINGS} more likely secrets are saved", hint))
    for text, hint in warned:
        warnings.warn(ColonyMemoryWarning(text, hint=hint), stacklevel=depth + 1)
    return findings


def judge_words(
    note: str | None, tags: Iterable[str], choice: str, allowed: frozenset[str], *, depth: int = 2
) -> str | None:
    """The note of a snapshot, masked if that is the choice; raises SecretsFound as :func:`judge_secrets`."""
    contents: dict[str, str | bytes] = {"tag": "\n".join(tags).encode("utf-8", "surrogatepass")}
    if note is not None:
        contents["note"] = note
    judge_secrets(contents, choice, allowed, depth=depth + 1)
    return None if note is None else str(contents["note"])


def _masked(text: str, found: list[Place]) -> str:
    data = text.encode("utf-8", "surrogatepass")
    pieces, end = list[bytes](), 0
    for place in found:
        pieces += [data[end : place.hidden[0]].lstrip(_REST), f"[masked: {place.kind.name}]".encode("ascii")]
        end = place.hidden[1]
    return b"".join([*pieces, data[end:].lstrip(_REST)]).decode("utf-8", "surrogatepass")


def _search(
    name: str, content: str | bytes, pieces: Pieces | None = None, file_name: str = ""
) -> Iterator[tuple[SecretFinding, Place | None]]:
    """The findings of one file, in order and without overlaps, each with the place to mask, if there is one."""
    if isinstance(content, bytes):
        if len(content) == _SEED_SIZE and _SEED_NAME.search(name):
            yield _finding(name, None, _RAW, content.hex().encode("ascii")), None
        data = _decode(content)
    else:
        data = content.encode("utf-8", "surrogatepass")
    line, counted = 1, 0
    known, clean = ((), None) if pieces is None else (pieces.known, pieces.clean.setdefault(file_name, []))
    found = [*_places(data, known, clean)]
    for place in _without_overlaps(place for place in found if not place.is_wide):
        line += data.count(b"\n", counted, place.start)
        counted = place.start
        own_line = None if isinstance(content, bytes) else line
        yield _finding(name, own_line, place.kind.name, place.secret), place
    for place in _without_overlaps(place for place in found if place.is_wide):
        yield _finding(name, None, place.kind.name, place.secret), place


def _without_overlaps(found: Iterable[Place]) -> list[Place]:
    """Merge overlapping places into the one that begins first, or the longest of these; it hides what all hide."""
    chosen: list[Place] = []
    last: list[Place] = []
    for place in sorted(found, key=lambda place: (place.start, -place.end)):
        if place.kind.is_last:
            last.append(place)
        elif chosen and place.start < chosen[-1].end:
            before = chosen[-1]
            hidden = (min(before.hidden[0], place.hidden[0]), max(before.hidden[1], place.hidden[1]))
            chosen[-1] = before._replace(end=max(before.end, place.end), hidden=hidden)
        else:
            chosen.append(place)
    for place in last:
        at = bisect_right(chosen, place.start, key=lambda place: place.start)
        near = chosen[max(0, at - 1) : at + 1]
        if not any(other.start < place.end and place.start < other.end for other in near):
            chosen.insert(at, place)
    return chosen


def _finding(name: str, line: int | None, kind: str, secret: bytes) -> SecretFinding:
    # With the name, equal secrets in two files don't show as equal; without spaces, a key's line ends may change.
    identity = f"{name}\0{kind}\0".encode("utf-8", "surrogatepass") + b"".join(secret.split())
    digest = hashlib.sha256(identity).hexdigest()[:_DIGITS]
    return SecretFinding(name, line, kind, f"{name}:{_slug(kind)}:{digest}")


def _decode(data: bytes) -> bytes:
    """The readable text in bytes: plain, or decoded from the UTF-16 of Windows."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "ignore").encode("utf-8", "surrogatepass")
    return data
