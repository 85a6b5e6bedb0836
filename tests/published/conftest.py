import pytest

from published.peer_client import PublishedPeer


@pytest.fixture(scope="session")
def peer():
    with PublishedPeer.start() as started:
        yield started
