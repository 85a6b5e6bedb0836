"""A server over a folder and a vault of a test, and the official client at its other end."""

import os

import pytest

pytest.importorskip("click")
pytest.importorskip("mcp.server")

import anyio
from mcp import Client
from mcp_types import ElicitResult

from colony_memory import open_vault
from colony_memory.shell.app.open import Place
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.mcp.served import CAUTION, Served, real_folder
from colony_memory.shell.mcp.server import MemoryServer

#: The wire from before July 2026, with a handshake, and the one since.
ERAS = ("legacy", "auto")


class Desk:
    """A folder, a vault, and a client that calls tools on them."""

    def __init__(self, tmp_path, backend=None, *, allow_restore=False, **options):
        self.root = tmp_path / "memory"
        tmp_path.mkdir(exist_ok=True)
        self.vault_path = tmp_path / "vault"
        if backend is None:
            backend = open_vault(str(self.vault_path), create=True)
        self.write("MEMORY.md", "two years\n")
        self.place = Place(str(self.vault_path), backend)
        self.options, self.era, self.asked, self.says = options, "auto", [], "accept"
        self.serving = {"allow_restore": allow_restore}
        self.can_ask = True
        self._server = None

    def write(self, name, content, *, at=None):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if at is not None:
            os.utime(path, (at, at))

    def server(self):
        if self._server is None:
            served = Served(self.place, real_folder(str(self.root)), BackupOptions(**self.options), **self.serving)
            self._server = MemoryServer(served)
        return self._server

    async def _answer(self, ctx, params):
        self.asked.append(params.message)
        if callable(self.says):
            return await self.says(params)
        content = {"restore": True} if self.says == "accept" else None
        return ElicitResult(action=self.says, content=content)

    def client(self, server=None):
        asking = {"elicitation_callback": self._answer} if self.can_ask else {}
        return Client(server or self.server(), mode=self.era, **asking)

    def run(self, work):
        """What ``work(client)`` gives, in a loop of its own."""

        async def inside():
            with anyio.fail_after(60):
                async with self.client() as client:
                    return await work(client)

        return anyio.run(inside)

    def call(self, name, /, **arguments):
        found = self.run(lambda client: client.call_tool(name, arguments))
        assert not found.is_error, found.content
        return found.structured_content

    def refused(self, name, /, **arguments):
        found = self.run(lambda client: client.call_tool(name, arguments))
        assert found.is_error, found.structured_content
        assert found.structured_content is None
        (content,) = found.content
        sentence, *caution = content.text.split("\n")
        assert caution in ([], [CAUTION])  # what is wrong with the call itself is nobody else's words
        return sentence


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)
