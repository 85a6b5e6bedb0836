"""The catalogue's pages as the verbs use them: a backup opens one, and what has to look at every row opens all."""

import json
import random
from datetime import datetime, timezone

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory, Ed25519Signer, QuotaExceeded, Retention
from colony_memory._format import catalog
from colony_memory._format.pointer import read_pointer
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

POINTER = "cmem.default.latest.json"
ROWS = 4


class Place:
    def __init__(self, wire=1, **options):
        self.time = 1.8e9
        self.vault = MemoryVault(clock=lambda: self.time)
        self.options = {"format": wire, **options}
        chance = random.Random(1)
        self.documents = {f"{n}.md": " ".join(f"{chance.getrandbits(40):x}" for _ in range(200)) for n in range(4)}
        self.saved = 0

    def client(self):
        memory = ColonyMemory(backend=self.vault, **self.options)
        memory._session.now = lambda: datetime.fromtimestamp(self.time, timezone.utc)
        return memory

    def save(self, memory, **more):
        self.time += 600
        self.saved += 1
        self.documents["log.md"] = f"entry {self.saved}\n"
        return memory.backup(self.documents, **more).snapshot_id

    @property
    def pages(self):
        return json.loads(self.vault.files[POINTER])["catalog"]

    @property
    def listed(self):
        rows = read_pointer(self.vault.files[POINTER], label="default", strict=True).entries
        return [row.snapshot_id for row in rows or ()]

    @property
    def there(self):
        return sorted({name.split(".")[2] for name in self.vault.files if "manifest" in name}, reverse=True)

    def edit(self, **changes):
        self.vault.files[POINTER] = json.dumps({**json.loads(self.vault.files[POINTER]), **changes})


@pytest.fixture(autouse=True)
def short_pages(monkeypatch):
    monkeypatch.setattr(catalog, "PAGE_ROWS", ROWS)


@pytest.fixture(params=[True, False], ids=["signed", "unsigned"])
def signer(request):
    if not request.param:
        return None
    pytest.importorskip("cryptography")
    return Ed25519Signer(bytes(32))


@pytest.fixture
def opened(monkeypatch):
    texts = list[str]()
    read = catalog._read_page
    monkeypatch.setattr(catalog, "_read_page", lambda page, label: texts.append(page.text) or read(page, label))
    return texts


@pytest.mark.parametrize("fresh", [True, False], ids=["cold", "warm"])
@pytest.mark.parametrize("wire", FORMATS)
def test_a_backup_opens_one_page_and_keeps_the_others(wire, signer, fresh, opened):
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
def test_a_retention_takes_rows_out_of_old_pages(wire):
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


def test_a_page_that_lies_is_told_of_and_made_anew():
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


def test_a_first_page_that_lies_is_no_catalogue():
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


def test_a_listing_of_a_directory_looks_at_what_was_asked_for_alone(tmp_path, monkeypatch):
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
    monkeypatch.setattr("colony_memory.vaults.local._scan", lambda *_: pytest.fail("it looked at every file"))
    ColonyMemory(backend=vault).backup({"a": "c"})


# --- page files


class TestPageFiles:
    """Page files of so few rows that a few backups fill them."""

    @pytest.fixture(autouse=True)
    def small_files(self, monkeypatch):
        monkeypatch.setattr(catalog, "PAGE_ROWS", 2)
        monkeypatch.setattr(catalog, "SPILL_CHARS", 1200)
        monkeypatch.setattr(catalog, "STAY_CHARS", 500)
        monkeypatch.setattr(catalog, "FILE_CHARS", 700)

    @staticmethod
    def named(place):
        return [each["file"] for each in json.loads(place.vault.files[POINTER]).get("older", [])]

    @staticmethod
    def there_are(place):
        return {name for name in place.vault.files if name.split(".")[3].startswith("c")}

    @pytest.mark.parametrize("wire", FORMATS)
    def test_backups_fill_them_and_every_verb_reads_them(self, wire, signer):
        place = Place(wire, signer=signer)
        ids = [place.save(place.client()) for _ in range(24)]
        assert len(self.named(place)) >= 4
        assert self.there_are(place) == {*self.named(place)}
        memory = place.client()
        asked = list[str]()
        read = place.vault.vault_get_file
        place.vault.vault_get_file = lambda name: asked.append(name) or read(name)
        assert [info.snapshot_id for info in memory.list_snapshots()] == ids[::-1]
        assert not any("manifest" in name for name in asked)
        assert memory.restore(snapshot_id=ids[0])["log.md"] == "entry 1\n"
        assert memory.verify()

    def test_what_is_deleted_leaves_its_row_nowhere_and_the_old_file_goes_once_it_is_old(self):
        place = Place(1)
        ids = [place.save(place.client()) for _ in range(24)]
        memory, before = place.client(), {*self.named(place)}
        memory.delete_snapshot(label="default", snapshot_id=ids[1])
        after = {*self.named(place)}
        assert len(before - after) == len(after - before) == 1
        assert [info.snapshot_id for info in place.client().list_snapshots()] == [*ids[:1], *ids[2:]][::-1]
        assert memory.verify()
        assert before - after <= self.there_are(place)
        place.time += 2 * 3600
        memory.prune(keep=100)
        place.save(memory)
        memory.prune(keep=100)
        assert self.there_are(place) == {*self.named(place)}

    def test_one_that_is_lost_costs_reads_and_nothing_else(self):
        place = Place(1)
        ids = [place.save(place.client()) for _ in range(24)]
        lost = self.named(place)[1]
        del place.vault.files[lost]
        assert [info.snapshot_id for info in place.client().list_snapshots()] == ids[::-1]
        assert "page file" in str(place.client().verify().problem)
        place.client().prune(keep=100)
        assert place.client().verify()
        assert lost not in self.named(place)

    def test_one_that_cannot_be_written_stops_no_backup(self, monkeypatch):
        place = Place(1)
        real = place.vault.vault_upload_file_if

        def full(name, content, **condition):
            if ".c" in name:
                raise QuotaExceeded("full", needed=1, available=0)
            return real(name, content, **condition)

        place.vault.vault_upload_file_if = full
        ids = [place.save(place.client()) for _ in range(12)]
        assert self.named(place) == []
        assert [info.snapshot_id for info in place.client().list_snapshots()] == ids[::-1]
        place.vault.vault_upload_file_if = real
        place.save(place.client())
        assert self.named(place)

    def test_one_that_goes_while_it_is_read_is_looked_for_again(self):
        place = Place(1)
        ids = [place.save(place.client()) for _ in range(24)]
        other, read, done = place.client(), place.vault.vault_get_file, list[str]()

        def get(name):
            if ".c" in name and not done:
                done.append(name)
                other.delete_snapshot(label="default", snapshot_id=ids[0])
                for each in self.there_are(place) - {*self.named(place)}:
                    del place.vault.files[each]
            return read(name)

        place.vault.vault_get_file = get
        assert [info.snapshot_id for info in place.client().list_snapshots()] == ids[:0:-1]

    def test_a_copy_brings_them(self):
        pytest.importorskip("cryptography")
        signer = Ed25519Signer(bytes(32))
        place, here = Place(1, signer=signer), Place(1)
        ids = [place.save(place.client()) for _ in range(24)]
        keyless = ColonyMemory(backend=place.vault, trusted_issuers=[signer.did_key])
        keyless.copy_to(ColonyMemory(backend=here.vault, trusted_issuers=[signer.did_key]))
        assert self.named(here) == self.named(place)
        copied = ColonyMemory(backend=here.vault, trusted_issuers=[signer.did_key])
        assert copied.verify()
        assert [info.snapshot_id for info in copied.list_snapshots()] == ids[::-1]

    @pytest.mark.parametrize("stop", range(1, 14))
    def test_a_backup_and_a_deletion_are_stopped_anywhere(self, stop):
        place = Place(1)
        ids = [place.save(place.client()) for _ in range(20)]
        for run in (
            lambda memory: memory.backup({"a": "new"}, skip_unchanged=False),
            lambda memory: memory.delete_snapshot(label="default", snapshot_id=ids[2]),
        ):
            before = dict(place.vault.files)
            faulty = FaultyVault(place.vault)
            faulty.stop_after(stop, applied=True)
            memory = ColonyMemory(backend=faulty, format=1)
            try:
                run(memory)
            except ProcessDied:
                listed = [info.snapshot_id for info in place.client().list_snapshots()]
                assert {*ids} - {ids[2]} <= {*listed}
                assert place.client().verify().problem is None
            place.vault.files.clear()
            place.vault.files.update(before)


def test_ten_thousand_snapshots_take_few_reads(monkeypatch):
    """Every one has a row, and no manifest is read."""
    monkeypatch.undo()
    from colony_memory._format.catalog import Catalog, Entry
    from colony_memory._format.names import manifest_filename, part_filename
    from colony_memory._format.pointer import Pointer, write_pointer
    from colony_memory.shell.app.pick import find_id
    from colony_memory.snapshot import SnapshotInfo
    from colony_memory.testing import FakeVault

    vault, chance, rows = FakeVault(quota_bytes=10**9), random.Random(1), list[Entry]()
    for n in range(10_000):
        made = datetime.fromtimestamp(1.8e9 + 900 * n, timezone.utc)
        own = f"{made:%Y%m%dT%H%M%S%f}Z-{chance.getrandbits(24):06x}"
        before = rows[-1].snapshot_id if rows else None
        info = SnapshotInfo(
            own,
            "default",
            f"{made:%Y-%m-%dT%H:%M:%SZ}",
            ["MEMORY.md"],
            1,
            1000,
            f"sha256:{chance.getrandbits(256):064x}",
            stored_bytes=40,
            parent_id=before,
            based_on=(before,) if before else (),
        )
        rows.append(Entry(info, f"sha256:{chance.getrandbits(256):064x}"))
        vault.files[manifest_filename("default", own)] = vault.files[part_filename("default", own, 0)] = "x" * 20
    spilled, files = Catalog.of("default", rows).spilled("20270101T000000000000Z-000000")
    newest = rows[-1].snapshot_id
    vault.files |= files
    vault.files[POINTER] = write_pointer(Pointer("default", newest, "", 9, "0" * 16, spilled))
    assert len(vault.files[POINTER]) < 400_000
    memory = ColonyMemory(backend=vault, format=1)
    saved = [memory.backup({"a": str(n)}).snapshot_id for n in range(2)]
    for run in (lambda: memory.list_snapshots(label="default"), lambda: find_id(memory, "latest~1", label="default")):
        begin = len(vault.calls)
        found = run()
        assert len(vault.calls) - begin <= 12
        assert found == saved[0] or len(found) == 10_002
