"""The catalogue's pages as the verbs use them: a backup opens one, and what has to look at every row opens all."""

from __future__ import annotations

import json
import random
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from colony_memory import ColonyMemory, Retention
from colony_memory._format import catalog
from colony_memory._format.pointer import read_pointer
from colony_memory._format.v2.zstd import is_installed
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

if TYPE_CHECKING:
    from pathlib import Path

POINTER = "cmem.default.latest.json"
ROWS = 4
FORMATS = [1, pytest.param(2, marks=pytest.mark.skipif(not is_installed(), reason="no zstd"))]


class Place:
    """A vault with many snapshots, and clients of it."""

    def __init__(self, wire: int = 1, **options: Any) -> None:
        self.time = 1.8e9
        self.vault = MemoryVault(clock=lambda: self.time)
        self.options = {"format": wire, **options}
        chance = random.Random(1)
        self.documents = {f"{n}.md": " ".join(f"{chance.getrandbits(40):x}" for _ in range(200)) for n in range(4)}
        self.saved = 0

    def client(self) -> ColonyMemory:
        memory = ColonyMemory(backend=self.vault, **self.options)
        memory._session.now = lambda: datetime.fromtimestamp(self.time, timezone.utc)
        return memory

    def save(self, memory: ColonyMemory, **more: Any) -> str:
        self.time += 600
        self.saved += 1
        self.documents["log.md"] = f"entry {self.saved}\n"
        return memory.backup(self.documents, **more).snapshot_id

    @property
    def pages(self) -> list[str]:
        found: list[str] = json.loads(self.vault.files[POINTER])["catalog"]
        return found

    @property
    def listed(self) -> list[str]:
        rows = read_pointer(self.vault.files[POINTER], label="default", strict=True).entries
        return [row.snapshot_id for row in rows or ()]

    @property
    def there(self) -> list[str]:
        return sorted({name.split(".")[2] for name in self.vault.files if "manifest" in name}, reverse=True)

    def edit(self, **changes: Any) -> None:
        self.vault.files[POINTER] = json.dumps({**json.loads(self.vault.files[POINTER]), **changes})


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PAGE_ROWS", ROWS)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts = list[str]()
    read = catalog._read_page
    monkeypatch.setattr(catalog, "_read_page", lambda page, label: texts.append(page.text) or read(page, label))
    return texts


@pytest.mark.parametrize("fresh", [True, False], ids=["cold", "warm"])
@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("wire", FORMATS)
def test_a_backup_opens_one_page_and_keeps_the_others(wire: int, signed: bool, fresh: bool, opened: list[str]) -> None:
    signer = None
    if signed:
        pytest.importorskip("cryptography")
        from colony_memory import Ed25519Signer

        signer = Ed25519Signer(bytes(32))
    place = Place(wire, signer=signer)
    memory = place.client()
    for n in range(1, 6 * ROWS):
        before = place.pages if n > 1 else []
        opened.clear()
        place.save(place.client() if fresh else memory)
        assert set(opened) <= set(before[:1])
        assert place.pages[len(place.pages) - len(before[1:]) :] == before[1:]
        assert len(place.pages) == -(-n // ROWS)
    assert place.listed == place.there
    assert [info.snapshot_id for info in memory.list_snapshots()] == place.there
    assert memory.verify()


@pytest.mark.parametrize("wire", FORMATS)
def test_a_retention_takes_rows_out_of_old_pages(wire: int) -> None:
    place = Place(wire)
    memory = place.client()
    for _ in range(5 * ROWS):
        place.save(memory)
    middle = place.pages[1:-1]
    place.save(memory, prune_keep=5 * ROWS)  # one goes, out of the last page
    assert place.listed == place.there
    assert len(place.there) == 5 * ROWS
    assert set(middle) < set(place.pages)
    gone = place.listed[7]
    memory.delete_snapshot(label="default", snapshot_id=gone)
    assert gone not in place.listed
    assert place.listed == place.there
    for _ in range(2 * ROWS):
        place.save(place.client())
    assert gone not in place.listed
    memory.prune(retention=Retention(keep_hourly=3))
    assert place.listed == place.there
    assert len(place.there) == 3
    assert len(place.pages) == 1
    assert memory.verify()


def test_a_page_that_lies_is_told_of_and_made_anew() -> None:
    place = Place()
    memory = place.client()
    for _ in range(5 * ROWS):
        place.save(memory)
    lie = place.pages
    lie[2] = lie[2].replace(":", ":1", 1)
    place.edit(catalog=lie)
    # A backup has no need to look at it, and a listing does without it.
    place.save(memory)
    assert place.pages[3] == lie[2]
    assert [info.snapshot_id for info in memory.list_snapshots()] == place.there
    report = memory.verify()
    assert not report
    assert f"the catalogue in {POINTER} is not readable: page 4" in (report.problem or "")
    assert len(report.snapshots) == len(place.there)
    assert memory.restore() == place.documents
    # What looks at everything writes it as it should be.
    place.save(memory, retention=Retention(keep_last=100))
    assert place.listed == place.there
    assert memory.verify()


def test_a_first_page_that_lies_is_no_catalogue() -> None:
    place = Place()
    memory = place.client()
    for _ in range(3 * ROWS):
        place.save(memory)
    place.edit(catalog=["1:1:AAAA", *place.pages])
    assert [info.snapshot_id for info in place.client().list_snapshots()] == place.there
    assert not memory.verify()
    place.time += 7200
    place.save(memory)  # without the young ones, which may be the work of others
    assert set(place.listed) < set(place.there)
    place.save(memory, retention=Retention(keep_last=100))
    assert place.listed == place.there
    assert memory.verify()


def test_a_listing_of_a_directory_looks_at_what_was_asked_for_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = LocalVault(tmp_path / "vault", create=True)
    for name in ("cmem.a.latest.json", "cmem.b.latest.json", "other.json"):
        vault.vault_upload_file(name, "{}")
    (tmp_path / "vault" / ".cmem.a.x.manifest.json.icloud").write_text("")
    (tmp_path / "vault" / ".cmem.b.x.manifest.json.icloud").write_text("")
    with pytest.warns(UserWarning, match=r"placeholders in place of 1 files.*\.cmem\.a|cmem\.a"):
        reply = vault.vault_list_prefix("cmem.a.")
    assert [item["filename"] for item in reply["items"]] == ["cmem.a.latest.json", "cmem.a.x.manifest.json"]
    assert vault.vault_free_bytes() is not None
    assert LocalVault(tmp_path / "vault", quota_bytes=10_000).vault_free_bytes() is None
    ColonyMemory(backend=vault).backup({"a": "b"})
    monkeypatch.setattr("colony_memory.vaults.local.scan", lambda *_: pytest.fail("it looked at every file"))
    ColonyMemory(backend=vault).backup({"a": "c"})
