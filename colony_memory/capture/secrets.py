"""Likely secrets in documents: private keys, and API keys of well-known services."""

from __future__ import annotations

import hashlib
import re
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from colony_memory._arguments import several
from colony_memory.capture._metadata import METADATA_NAME, dump_metadata, load_metadata, split_documents
from colony_memory.capture._secret_kinds import KINDS
from colony_memory.exceptions import ColonyMemoryWarning, Hint, SecretsFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["SecretFinding", "find_secrets", "mask_secrets", "masked_names"]

_RAW = "raw private key"
_DIGITS = 6
_MATCHER = 1  # counts up with what is found by other means than the table
_TOLD = 10
_ID = re.compile(r"(?s).+?:(?P<kind>[a-z0-9-]+)(?::[0-9a-f]{6})?")


def _slug(kind: str) -> str:
    return kind.lower().replace(" ", "-")


#: Names the rules: what was found clean by the same ones need not be searched again.
RULES = hashlib.sha256(
    repr((_MATCHER, [(kind.name, kind.hints, kind.form) for kind in KINDS])).encode("ascii")
).hexdigest()[:16]
_SLUGS = frozenset(map(_slug, (*(kind.name for kind in KINDS), _RAW)))
# A key of this package may be kept as its bare bytes, of which nothing can be told but where they are.
_SEED_SIZE = 32
_SEED_NAME = re.compile(r"(?i)(key|seed)[^/]*$")


@dataclass(frozen=True)
class SecretFinding:
    """Where something stands that is likely a secret. It does not hold the secret.

    Attributes:
        name: Name of the file.
        line: Number of the line that it begins in, from 1; None in a file that is not text.
        kind: What it looks like, such as ``GitHub token``.
        id: Names it for as long as it stands in that file, wherever there, such as ``notes.md:github-token:0a1b2c``. Of
            the secret, which nobody can guess, it tells 24 bits of a digest.
    """

    name: str
    line: int | None
    kind: str
    id: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.name}{'' if self.line is None else f':{self.line}'}: {self.kind}"


def find_secrets(documents: Mapping[str, str]) -> tuple[SecretFinding, ...]:
    """Look for likely secrets in documents, also in the files that are not text.

    Args:
        documents: Name to text, as read_folder() gives them.

    Returns:
        What was found, by name and line. Only well-known forms are found: nothing found is no proof that none is there.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    contents, _ = split_documents(documents)
    return find_in_contents(contents)


def mask_secrets(
    documents: Mapping[str, str], *, allow: str | Iterable[str] = ()
) -> tuple[dict[str, str], tuple[SecretFinding, ...]]:
    """Replace each likely secret by ``[masked: …]``; see find_secrets() for what is found.

    Args:
        documents: Name to text, as read_folder() gives them.
        allow: Findings to leave as they are, as ``allow_secrets`` of read_folder().

    Returns:
        The documents, of which masked_names() tells those that were changed, and what was found and masked.

    Raises:
        ValueError: What is allowed is no id of a finding.
        SecretsFound: A file that is not text holds one, where it cannot be replaced.
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    allowed = read_allowed(allow)
    contents, metadata = split_documents(documents)
    findings = tuple(each for each in mask_contents(contents, allowed) if not is_allowed(each, allowed))
    if not findings:
        return dict(documents), ()
    names = {finding.name for finding in findings}
    masked = {name: text for name, text in contents.items() if isinstance(text, str)}
    masked[METADATA_NAME] = dump_metadata(replace(metadata, masked=tuple(sorted(names.union(metadata.masked)))))
    return dict(sorted(masked.items())), findings


def masked_names(documents: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the files in which secrets were masked before they were saved, sorted.

    Raises:
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    return load_metadata(documents[METADATA_NAME]).masked if METADATA_NAME in documents else ()


def find_in_contents(contents: Mapping[str, str | bytes]) -> tuple[SecretFinding, ...]:
    """Look for likely secrets in files."""
    return tuple(finding for name in sorted(contents) for finding, _ in _search(name, contents[name]))


def read_allowed(ids: str | Iterable[str]) -> frozenset[str]:
    """What may be saved: each the ``id`` of a finding, or the same without its last part.

    Raises:
        ValueError: One is neither.
    """
    allowed = several("allow_secrets", ids)
    for each in allowed:
        match = _ID.fullmatch(each) if isinstance(each, str) else None
        if match is None or match["kind"] not in _SLUGS:
            raise ValueError(
                f"{each!r} names no finding: give FILE:KIND or FILE:KIND:DIGEST as it is told, such as "
                "notes.md:github-token"
            )
    return frozenset(allowed)


def is_allowed(finding: SecretFinding, allowed: frozenset[str]) -> bool:
    """Whether it is among what :func:`read_allowed` gave."""
    return finding.id in allowed or finding.id.rpartition(":")[0] in allowed


def mask_contents(contents: dict[str, str | bytes], allowed: frozenset[str] = frozenset()) -> tuple[SecretFinding, ...]:
    """Mask the likely secrets in files, in place, and give all that were found; those that are allowed stay.

    Raises:
        SecretsFound: A file that is not text holds one. Nothing was changed.
    """
    found = {name: list(_search(name, content)) for name, content in sorted(contents.items())}
    findings = tuple(finding for each in found.values() for finding, _ in each)
    elsewhere = [finding for finding in findings if finding.line is None and not is_allowed(finding, allowed)]
    if elsewhere:
        raise SecretsFound(
            "secrets can be masked in text only, so nothing was saved; exclude the files where there are others, "
            "or allow these",
            findings=elsewhere,
            hint=Hint("read_folder", "secrets", "warn"),
        )
    for name, all_of_it in found.items():
        each = [(finding, hidden) for finding, hidden in all_of_it if not is_allowed(finding, allowed)]
        content = contents[name]
        if each and isinstance(content, str):
            contents[name] = "".join(_masked(content, each))
    return findings


def judge_secrets(
    contents: dict[str, str | bytes], choice: str, allowed: frozenset[str], *, depth: int = 2
) -> tuple[SecretFinding, ...]:
    """What is found, that which is allowed included; masked in the contents where that is the choice.

    Warnings are told as of whoever called that many calls above.

    Raises:
        SecretsFound: There are likely secrets that must stop the backup, or cannot be masked.
    """
    if choice == "mask":
        return mask_contents(contents, allowed)
    findings = find_in_contents(contents)
    likely = [finding for finding in findings if not is_allowed(finding, allowed)]
    if likely and choice == "stop":
        raise SecretsFound(
            f"nothing was saved: {len(likely)} likely secret{'s' if len(likely) > 1 else ''}; remove what is one, "
            "exclude its file, or have it masked or allowed",
            findings=likely,
            hint=Hint("read_folder", "secrets", "mask"),
        )
    for finding in likely[:_TOLD]:
        _warn(f"a likely secret is saved: {finding}; have secrets masked, or allow this one", depth, finding.id)
    if len(likely) > _TOLD:
        _warn(f"and {len(likely) - _TOLD} more likely secrets are saved", depth)
    return findings


def _warn(what: str, depth: int, allow: str | None = None) -> None:
    hint = Hint("read_folder", "secrets", "mask") if allow is None else Hint("read_folder", "allow_secrets", allow)
    warnings.warn(ColonyMemoryWarning(what, hint=hint), stacklevel=depth + 2)


def _masked(text: str, found: list[tuple[SecretFinding, tuple[int, int]]]) -> Iterator[str]:
    end = 0
    for finding, span in found:
        yield text[end : span[0]]
        yield f"[masked: {finding.kind}]"
        end = span[1]
    yield text[end:]


def _search(name: str, content: str | bytes) -> Iterator[tuple[SecretFinding, tuple[int, int]]]:
    """What is found in one file, in order, each with the place of what must not be seen; no two overlap."""
    if isinstance(content, bytes):
        if len(content) == _SEED_SIZE and _SEED_NAME.search(name):
            yield _finding(name, None, _RAW, content.hex()), (0, _SEED_SIZE)
        text = _decode(content)
    else:
        text = content
    found = [(span.start, -span.end, kind.name, span.hidden) for kind in KINDS for span in kind.find(text)]
    line, counted, end = 1, 0, 0
    for start, minus_end, kind_name, hidden in sorted(found):
        if start < end:
            continue
        line += text.count("\n", counted, start)
        counted, end = start, -minus_end
        own_line = None if isinstance(content, bytes) else line
        yield _finding(name, own_line, kind_name, text[slice(*hidden)]), hidden


def _finding(name: str, line: int | None, kind: str, secret: str) -> SecretFinding:
    # The name keeps equal secrets in two files from showing as equal, and the ends of a key's lines may change.
    told = f"{name}\0{kind}\0{''.join(secret.split())}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(told).hexdigest()[:_DIGITS]
    return SecretFinding(name, line, kind, f"{name}:{_slug(kind)}:{digest}")


def _decode(data: bytes) -> str:
    """What is readable in bytes: each as a character, or as Windows writes text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "ignore")
    return data.decode("latin-1")
