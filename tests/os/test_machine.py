"""Whose a save by value is: the same for one account of one machine, and nothing in a container."""

import hashlib
import hmac
import os
import sys

import pytest

from colony_memory import ColonyMemory, open_vault
from colony_memory._os import machine

ID = b"0123456789abcdef0123456789abcdef"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="another system keeps its id elsewhere")


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine with an id, outside of any container."""
    monkeypatch.undo()
    monkeypatch.setattr(machine, "_LINUX", (tmp_path / "none", tmp_path / "machine-id"))
    monkeypatch.setattr(machine, "_IN_CONTAINER", (tmp_path / ".dockerenv",))
    monkeypatch.setattr(machine, "_MOUNTS", tmp_path / "mounts")
    for name in ("container", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "machine-id").write_bytes(ID + b"\n")
    (tmp_path / "mounts").write_text("/dev/sda1 / ext4 rw 0 0\noverlay /var/lib/docker overlay rw 0 0\n")
    return tmp_path


@pytest.mark.usefixtures("host")
def test_it_is_an_hmac_from_which_nothing_can_be_told():
    expected = hmac.new(ID, f"colony-memory\0default\0{os.getuid()}".encode(), hashlib.sha256).hexdigest()[:16]
    assert machine.origin_of("default") == expected
    assert len({expected, machine.origin_of("other"), machine.origin_of("default", "/home/a/memory")}) == 3


def test_there_is_none_in_a_container_or_without_an_id(host, monkeypatch):
    assert machine.machine_id() == ID
    for name in ("container", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.setenv(name, "x")
        assert machine.origin_of("default") is None
        monkeypatch.delenv(name)
    (host / ".dockerenv").touch()
    assert machine.origin_of("default") is None
    (host / ".dockerenv").unlink()
    (host / "mounts").write_text("overlay / overlay rw 0 0\n")
    assert machine.origin_of("default") is None
    (host / "mounts").unlink()
    assert machine.origin_of("default") is not None
    for bad in (b"uninitialized\n", b"", b"0" * 32):
        (host / "machine-id").write_bytes(bad)
        assert machine.origin_of("default") is None


def test_what_a_host_saves_bears_it_and_a_folder_bears_its_own(host):
    from basis_world import Index

    mem = ColonyMemory(backend=open_vault("memory:"), format=1)
    assert mem.backup({"a": "b"}).origin == machine.origin_of("default")
    folder = ColonyMemory(backend=open_vault("memory:"), format=1)
    folder._session.homes["default"] = index = Index()
    info = folder.backup({"a": "b"})
    assert info.origin == index.read().origin
    assert info.origin not in (None, machine.origin_of("default"))
    assert folder.backup({"a": "c"}).origin == info.origin
