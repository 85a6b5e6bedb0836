"""Pure: what is asked of a snapshot, whichever format it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colony_memory._format import FORMAT, FORMAT_2, v1
from colony_memory._format.payload import Spend, spend_freely
from colony_memory._format.v2 import build as v2
from colony_memory._format.v2.manifest import ChainManifest
from colony_memory._format.v2.zstd import is_installed

if TYPE_CHECKING:
    from colony_memory._format.age import Identities
    from colony_memory.snapshot import Manifest


def read_documents(
    manifest: Manifest,
    texts: dict[str, str | None],
    *,
    max_bytes: int,
    identities: Identities | None = None,
    spend: Spend = spend_freely,
) -> dict[str, str]:
    """The documents; the texts are used up, and ``spend`` is told of what was unpacked."""
    if isinstance(manifest, ChainManifest):
        return v2.read_documents(manifest, texts, max_bytes=max_bytes, identities=identities, spend=spend)
    return v1.read_documents(manifest, texts, max_bytes=max_bytes, spend=spend)


def is_readable(name: str) -> bool:
    """True if this client reads snapshots of this format: it knows it, and what that takes is installed."""
    return name == FORMAT or (name == FORMAT_2 and is_installed())
