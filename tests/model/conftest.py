import pytest

from colony_memory._format import catalog


# For a module, since a process that runs some of the tests may go to another room and back.
@pytest.fixture(scope="module", autouse=True)
def short_pages():
    """The few snapshots of a model fill several pages of a catalogue, as thousands do elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "PAGE_ROWS", 2)
        yield
