"""Likely secrets in documents: private keys, and API keys of well-known services."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from colony_memory.capture._metadata import METADATA_NAME, dump_metadata, load_metadata, split_documents
from colony_memory.capture._secret_kinds import KINDS
from colony_memory.exceptions import ColonyMemoryError, Hint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["SecretFinding", "find_secrets", "mask_secrets", "masked_names"]

_SHOWN = 10
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
    """

    name: str
    line: int | None
    kind: str

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


def mask_secrets(documents: Mapping[str, str]) -> tuple[dict[str, str], tuple[SecretFinding, ...]]:
    """Replace each likely secret by ``[masked: …]``; see find_secrets() for what is found.

    Args:
        documents: Name to text, as read_folder() gives them.

    Returns:
        The documents, of which masked_names() tells those that were changed, and what was found.

    Raises:
        ColonyMemoryError: A file that is not text holds one, where it cannot be replaced.
        SnapshotCorrupt: The document that describes the folder is malformed.
    """
    contents, metadata = split_documents(documents)
    findings = mask_contents(contents)
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


def mask_contents(contents: dict[str, str | bytes]) -> tuple[SecretFinding, ...]:
    """Mask the likely secrets in files, in place.

    Raises:
        ColonyMemoryError: A file that is not text holds one. Nothing was changed.
    """
    found = {name: list(_search(name, content)) for name, content in sorted(contents.items())}
    findings = tuple(finding for each in found.values() for finding, _ in each)
    elsewhere = [finding for finding in findings if finding.line is None]
    if elsewhere:
        raise ColonyMemoryError(
            f"secrets can be masked in text only, and these are elsewhere: {list_findings(elsewhere)}; "
            "exclude the files in a .cmemignore, or allow secrets",
            hint=Hint("read_folder", "secrets", "warn"),
        )
    for name, each in found.items():
        content = contents[name]
        if each and isinstance(content, str):
            contents[name] = "".join(_masked(content, each))
    return findings


def _masked(text: str, found: list[tuple[SecretFinding, tuple[int, int]]]) -> Iterator[str]:
    end = 0
    for finding, span in found:
        yield text[end : span[0]]
        yield f"[masked: {finding.kind}]"
        end = span[1]
    yield text[end:]


def list_findings(findings: tuple[SecretFinding, ...] | list[SecretFinding]) -> str:
    """The first findings in a line."""
    shown = ", ".join(map(str, findings[:_SHOWN]))
    return f"{shown} and {len(findings) - _SHOWN} more" if len(findings) > _SHOWN else shown


def _search(name: str, content: str | bytes) -> Iterator[tuple[SecretFinding, tuple[int, int]]]:
    """What is found in one file, in order, each with the place of what must not be seen; no two overlap."""
    if isinstance(content, bytes):
        if len(content) == _SEED_SIZE and _SEED_NAME.search(name):
            yield SecretFinding(name, None, "raw private key"), (0, _SEED_SIZE)
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
        yield SecretFinding(name, None if isinstance(content, bytes) else line, kind_name), hidden


def _decode(data: bytes) -> str:
    """What is readable in bytes: each as a character, or as Windows writes text."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "ignore")
    return data.decode("latin-1")
