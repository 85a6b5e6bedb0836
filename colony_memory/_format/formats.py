"""Pure: what the verbs ask of a format, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from colony_memory import snapshot
from colony_memory._format.constants import FORMAT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from colony_memory.snapshot import BuiltSnapshot, Manifest, SnapshotInfo


class Format(Protocol):
    """A wire format.

    A snapshot's files are those that :meth:`needed` gives; a deletion asks that of every manifest that stays, and never
    takes it from a name. :meth:`owned` is what goes with a snapshot where nobody else needs it.
    """

    name: str

    def files(self, info: SnapshotInfo) -> tuple[str, ...]:
        """Names of the files that hold its text, by its summary alone, in the order in which they are read."""

    def owned(self, info: SnapshotInfo, parts: Mapping[int, str]) -> tuple[str, ...]:
        """Of the listed files that are named after it, those that were written for it."""

    def needed(self, snapshot_id: str, parts: Mapping[int, str], manifest: Manifest | None) -> frozenset[str] | None:
        """Names of the listed files that a restore of it takes; None where that cannot be told."""

    def build(self, documents: dict[str, str], **facts: Any) -> BuiltSnapshot:
        """A snapshot of these documents, as files in the order in which they are to be written."""

    def read(self, manifest: Manifest, texts: dict[str, str | None], *, max_bytes: int) -> dict[str, str]:
        """The documents; the texts are used up.

        Raises:
            SnapshotCorrupt: The files are not what the manifest says.
        """


class _Parts:
    """Format 1: each snapshot has its own part files, which nobody else needs."""

    name = FORMAT

    def files(self, info: SnapshotInfo) -> tuple[str, ...]:
        return tuple(snapshot.part_filename(info.label, info.snapshot_id, seq) for seq in range(info.part_count))

    def owned(self, info: SnapshotInfo, parts: Mapping[int, str]) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(parts.values())

    def needed(
        self,
        snapshot_id: str,  # noqa: ARG002
        parts: Mapping[int, str],
        manifest: Manifest | None,  # noqa: ARG002
    ) -> frozenset[str]:
        return frozenset(parts.values())

    def build(self, documents: dict[str, str], **facts: Any) -> BuiltSnapshot:
        return snapshot.build(documents, **facts)

    def read(self, manifest: Manifest, texts: dict[str, str | None], *, max_bytes: int) -> dict[str, str]:
        return snapshot.read_documents(manifest, texts, max_bytes=max_bytes)


FORMATS: Mapping[str, Format] = {FORMAT: _Parts()}


def format_of(name: str) -> Format:
    """The format of this name; of one that is not known, what is true of format 1, whose readers refuse it."""
    return FORMATS.get(name, FORMATS[FORMAT])


def needed_files(
    manifests: Iterable[tuple[str, str, Manifest | None]], parts: Mapping[str, Mapping[int, str]]
) -> frozenset[str] | None:
    """What the snapshots that stay take, each given by id, format and manifest; None where that cannot be told."""
    found: set[str] = set()
    for snapshot_id, name, manifest in manifests:
        needed = format_of(name).needed(snapshot_id, parts.get(snapshot_id, {}), manifest)
        if needed is None:
            return None
        found |= needed
    return frozenset(found)
