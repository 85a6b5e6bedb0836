from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from published.peer_client import PublishedPeer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def peer() -> Iterator[PublishedPeer]:
    with PublishedPeer.start() as started:
        yield started
