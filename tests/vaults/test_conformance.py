"""What every vault owes, of every vault that the package comes with."""

import pytest
from colony_sdk import ColonyClient
from hosted import FACES, opener, server
from test_vault_memory import Plain
from unmade import UnmadeVaultTests

from colony_memory.exceptions import ColonyMemoryWarning
from colony_memory.testing import FakeVault, FaultyVault, VaultBackendTests
from colony_memory.vaults import ConditionalUpload
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

__all__ = ["server"]


def serve_objects(request):
    from object_server import ObjectServer

    running = ObjectServer().__enter__()
    request.addfinalizer(running.__exit__)
    return running


def in_a_store(name):
    def opened(request):
        stores = pytest.importorskip("obstore.store")
        import object_server

        from colony_memory.vaults.objects import ObjectVault

        if name == "a folder":  # which does not write on condition
            with pytest.warns(ColonyMemoryWarning, match="has no conditional writes: let one program"):
                made = ObjectVault(stores.LocalStore(request.getfixturevalue("tmp_path")), create=True)
            assert not isinstance(made, ConditionalUpload)
            return made
        if name == "memory":
            return ObjectVault(stores.MemoryStore(), create=True)
        if name == "versions":
            return ObjectVault(object_server.Versioned(), create=True)
        return ObjectVault(serve_objects(request).store(), create=True)

    return opened


def hosted(face):
    return lambda request: opener(request, face)("col_test", base_url=request.getfixturevalue("server").url)


def in_a_directory(**limits):
    return lambda request: LocalVault(request.getfixturevalue("tmp_path") / "vault", create=True, **limits)


VAULTS = {
    "memory": lambda _: MemoryVault(),
    "memory with limits": lambda _: MemoryVault(quota_bytes=4_000_000, max_file_bytes=1_000_000),
    "the five methods alone, other envelopes": lambda _: Plain(),
    "fake": lambda _: FakeVault(operations_per_hour=None),
    "faulty": lambda _: FaultyVault(MemoryVault()),
    "directory": in_a_directory(),
    "directory with limits": in_a_directory(quota_bytes=4_000_000, max_file_bytes=1_000_000),
    **{f"hosted, {face}": hosted(face) for face in FACES},
    "the SDK's client": lambda request: ColonyClient("col_test", base_url=request.getfixturevalue("server").url),
    **{f"objects in {name}": in_a_store(name) for name in ("memory", "a folder", "versions", "a bucket")},
}


@pytest.mark.usefixtures("one_tls_context")
class TestEachVault(VaultBackendTests):
    @pytest.fixture(params=VAULTS)
    def vault(self, request):
        return VAULTS[request.param](request)


class TestWhereNoneWasMade(UnmadeVaultTests):
    @pytest.fixture(params=["directory", "objects in memory", "objects in a bucket", "objects without a bucket"])
    def unmade(self, request, tmp_path):
        if request.param == "directory":
            return LocalVault(tmp_path)
        stores = pytest.importorskip("obstore.store")
        from colony_memory.vaults.objects import ObjectVault

        if request.param == "objects in memory":
            return ObjectVault(stores.MemoryStore())
        return ObjectVault(serve_objects(request).store(bucket="bucket" if "in a" in request.param else "another"))
