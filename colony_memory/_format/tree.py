"""Pure: the ``tree`` of a memory, one digest from which names and contents can be proven without the documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._format.json import canonical
from colony_memory._format.names import is_digest
from colony_memory._format.payload import sha256
from colony_memory._format.record import take_apart
from colony_memory.exceptions import SnapshotCorrupt

if TYPE_CHECKING:
    from collections.abc import Mapping


def document_digest(text: str) -> str:
    """Digest of one document: of its text in UTF-8, each surrogate in the three bytes that UTF-8 would have for it.

    Of a document that is a text file's content, that is the digest of the file.
    """
    return sha256(text.encode("utf-8", "surrogatepass"))


def tree_of(documents: Mapping[str, str]) -> str:
    """The tree of documents by name."""
    return tree_of_digests(digests_of(documents))


def digests_of(documents: Mapping[str, str]) -> dict[str, str]:
    """The digest of each document by name, and of each file of a folder's record in the place of their base64."""
    texts, files = take_apart(documents)
    digests = {name: document_digest(text) for name, text in texts.items()}
    return digests | {name: of_file(sha256(data)) for name, data in files.items()}


def of_file(digest: str) -> str:
    """The digest of a file of a record, told apart from that of a text."""
    return f"file:{digest}"


def tree_of_digests(digests: Mapping[str, str]) -> str:
    """The tree of documents whose digests are known, by name.

    It is the digest of a canonical JSON object, in which every name and every digest ends where its quotes end.
    """
    return sha256(canonical(dict(digests)))


def read_tree(raw: Mapping[str, Any]) -> str:
    """The tree that a manifest tells, empty where it tells none.

    Raises:
        ValueError: It is no digest.
    """
    told = raw.get("tree")
    if told is None:
        return ""
    if not is_digest(told):
        raise ValueError("tree should be 'sha256:' and 64 hex digits")
    return told


def check_tree(told: str, digests: Mapping[str, str], *, file: str) -> None:
    """Raise a SnapshotCorrupt where a manifest tells another tree than that of its documents, by their digests."""
    if told and told != tree_of_digests(digests):
        raise SnapshotCorrupt(f"{file} has another tree than its documents", file=file)
