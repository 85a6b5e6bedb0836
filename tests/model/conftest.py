from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from colony_memory._format import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="package", autouse=True)
def short_pages() -> Iterator[None]:
    """The few snapshots of a model fill several pages of a catalogue, as thousands do elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "PAGE_ROWS", 2)
        yield
