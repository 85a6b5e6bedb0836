"""Wrong arguments of whatever a program calls: a ValueError that names the argument, and nothing is changed."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    Ed25519Signer,
    FileWitness,
    UntrustedSnapshot,
    open_vault,
    restore_folder,
    save_folder,
    save_paths,
)
from colony_memory.app.compare import file_history, find_unsaved, search_files
from colony_memory.app.open import open_memory
from colony_memory.app.options import BackupOptions
from colony_memory.app.pick import find, find_at, find_id, parse_moment
from colony_memory.app.place import choose_place
from colony_memory.app.protection import check_protection
from colony_memory.app.save import save_capture
from colony_memory.capture import read_folder, read_paths, write_folder
from colony_memory.signing import decode_did_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CASES: list[tuple[str, Any, Callable[[ColonyMemory, str, Any], object]]] = [
    ("incomplete", 5, lambda m, d, x: m.backup({"a": "b"}, incomplete=x)),
    ("destination", None, lambda m, d, x: m.copy_to(x)),
    ("labels", 5, lambda m, d, x: m.copy_to(ColonyMemory(backend=open_vault("memory:")), labels=x)),
    ("progress", 5, lambda m, d, x: m.copy_to(ColonyMemory(backend=open_vault("memory:")), progress=x)),
    ("a and b", [5], lambda m, d, x: m.diff({"a": "b"}, x)),
    ("names", 5, lambda m, d, x: m.restore(names=x)),
    ("names", [5], lambda m, d, x: m.restore(names=x)),
    ("names", b"*", lambda m, d, x: m.restore(names=x)),
    ("trusted_issuers", 5, lambda m, d, x: ColonyMemory(backend=open_vault("memory:"), trusted_issuers=x)),
    ("path", None, lambda m, d, x: FileWitness(x)),
    ("url", None, lambda m, d, x: open_vault(x)),
    ("url", 5, lambda m, d, x: choose_place(x)),
    ("key file", 5, lambda m, d, x: open_memory("memory:", key_file=x)),
    ("trust", 5, lambda m, d, x: open_memory("memory:", trust=x)),
    ("memory", None, lambda m, d, x: restore_folder(x, d)),
    ("memory", None, lambda m, d, x: save_folder(x, d)),
    ("memory", None, lambda m, d, x: save_paths(x, [d])),
    ("memory", None, lambda m, d, x: file_history(x, "a")),
    ("memory", None, lambda m, d, x: search_files(x, "a")),
    ("memory", None, lambda m, d, x: find(x, "latest", label="default")),
    ("memory", None, lambda m, d, x: find_at(x, "now", label="default")),
    ("memory", None, lambda m, d, x: find_unsaved(x, d)),
    ("memory", None, lambda m, d, x: check_protection(x)),
    ("path", 5, lambda m, d, x: restore_folder(m, x)),
    ("snapshot", 5, lambda m, d, x: restore_folder(m, d, snapshot=x)),
    ("only", None, lambda m, d, x: restore_folder(m, d, only=x)),
    ("path", None, lambda m, d, x: save_folder(m, x)),
    ("path", b"x", lambda m, d, x: save_folder(m, x)),
    ("exclude", 5, lambda m, d, x: save_folder(m, d, exclude=x)),
    ("allow_secrets", None, lambda m, d, x: save_folder(m, d, allow_secrets=x)),
    ("on_progress", 5, lambda m, d, x: save_folder(m, d, on_progress=x)),
    ("paths", None, lambda m, d, x: save_paths(m, x)),
    ("paths", 5, lambda m, d, x: find_unsaved(m, x)),
    ("capture", None, lambda m, d, x: save_capture(m, x, BackupOptions())),
    ("text", 5, lambda m, d, x: find(m, x, label="default")),
    ("text", None, lambda m, d, x: find_id(m, x, label="default")),
    ("text", 5, lambda m, d, x: parse_moment(x)),
    ("max_bytes", None, lambda m, d, x: read_folder(d, max_bytes=x)),
    ("paths", 5, lambda m, d, x: read_paths(x)),
    ("documents", 5, lambda m, d, x: write_folder(x, d)),
    ("on_progress", 5, lambda m, d, x: write_folder({"a": "b"}, d, on_progress=x)),
    ("did_key", None, lambda m, d, x: decode_did_key(x)),
]


@pytest.mark.parametrize(("named", "value", "call"), CASES)
def test_a_wrong_argument_is_named_and_changes_nothing(
    named: str, value: Any, call: Callable[[ColonyMemory, str, Any], object], tmp_path: Path
) -> None:
    if named == "key file":
        pytest.importorskip("cryptography")
    (tmp_path / "a.md").write_text("here")
    memory = ColonyMemory(backend=open_vault("memory:"))
    memory.backup({"a.md": "there"})
    before = memory.list_snapshots()
    with pytest.raises(ValueError, match=named) as caught:
        call(memory, str(tmp_path), value)
    assert caught.type is ValueError
    assert memory.list_snapshots() == before
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.md", "here")]


def test_a_copy_stays_with_its_face() -> None:
    memory: Any = ColonyMemory(backend=open_vault("memory:"))

    async def copy() -> None:
        await AsyncColonyMemory(backend=open_vault("memory:")).copy_to(memory)

    with pytest.raises(ValueError, match="destination must be of type AsyncColonyMemory, not ColonyMemory"):
        asyncio.run(copy())


def test_every_mapping_says_up_to_where_a_key_is_trusted() -> None:
    pytest.importorskip("cryptography")
    signer = Ed25519Signer.generate()
    vault = open_vault("memory:")
    ColonyMemory(backend=vault, signer=signer).backup({"a.md": "stolen"})
    until = {signer.did_key: "20250101T000000000000Z-000000"}
    for issuers in (until, MappingProxyType(until)):
        with pytest.raises(UntrustedSnapshot, match="up to"):
            ColonyMemory(backend=vault, trusted_issuers=issuers).restore()
