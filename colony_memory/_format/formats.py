"""Pure: what the verbs ask of a format, whichever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from colony_memory._format import v1
from colony_memory._format.constants import FORMAT, FORMAT_2
from colony_memory._format.names import pack_filename, part_filename
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._format.v2.build import read_documents
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory._format.v2.zstd import is_installed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory._format.age import Identities
    from colony_memory.snapshot import Manifest, SnapshotInfo


class Format(Protocol):
    """A wire format.

    A snapshot's files are those that :meth:`needed` gives; a deletion asks that of every manifest that stays, and never
    takes it from a name.
    """

    name: str

    def needed(self, info: SnapshotInfo, manifest: Manifest | None) -> Mapping[str, int | None]:
        """Names of the files beside its manifest that a restore takes, with their bytes where those are known.

        Where a summary does not tell all of them, and no manifest is given, those that it tells.
        """

    def read(
        self,
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,
        spend: Spend = spend_freely,
    ) -> dict[str, str]:
        """The documents; the texts are used up, and ``spend`` is told of what was unpacked."""


class _Parts:
    """Format 1: each snapshot has its own part files, which nobody else needs."""

    name = FORMAT

    def needed(self, info: SnapshotInfo, manifest: Manifest | None) -> dict[str, int | None]:  # noqa: ARG002
        parts = range(info.part_count)
        return {part_filename(info.label, info.snapshot_id, seq): None for seq in parts}

    def read(
        self,
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,  # noqa: ARG002
        spend: Spend = spend_freely,
    ) -> dict[str, str]:
        return v1.read_documents(manifest, texts, max_bytes=max_bytes, spend=spend)


class _Packs:
    """Format 2: each snapshot has one pack of its own, and needs others below it."""

    name = FORMAT_2

    def needed(self, info: SnapshotInfo, manifest: Manifest | None) -> dict[str, int | None]:
        if not isinstance(manifest, ChainManifest):
            return {pack_filename(info.label, info.snapshot_id, 0): None}
        sizes = [size for pack in manifest.pack_bytes for size in pack]
        return dict(zip(manifest.part_files, sizes, strict=True))

    def read(
        self,
        manifest: Manifest,
        texts: dict[str, str | None],
        *,
        max_bytes: int,
        identities: Identities | None = None,
        spend: Spend = spend_freely,
    ) -> dict[str, str]:
        if not isinstance(manifest, ChainManifest):
            raise TypeError("the manifest was not read as one of format 2")
        return read_documents(manifest, texts, max_bytes=max_bytes, identities=identities, spend=spend)


FORMATS: Mapping[str, Format] = {FORMAT: _Parts(), FORMAT_2: _Packs()}


def format_of(name: str) -> Format:
    """The format of this name; of one that is not known, what is true of format 1, whose readers refuse it."""
    return FORMATS.get(name, FORMATS[FORMAT])


def is_readable(name: str) -> bool:
    """Whether this client reads snapshots of this format: it knows it, and what that takes is installed."""
    return name in FORMATS and (name != FORMAT_2 or is_installed())
