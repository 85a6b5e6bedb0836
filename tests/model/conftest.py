from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from colony_memory._format import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator


# For a module, since a process that runs some of the tests may go to another room and back.
@pytest.fixture(scope="module", autouse=True)
def short_pages() -> Iterator[None]:
    """The few snapshots of a model fill several pages of a catalogue, as thousands do elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "PAGE_ROWS", 2)
        yield
