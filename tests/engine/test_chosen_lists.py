"""Lists and texts that whoever holds the vault chose: no verb takes time by their square, or writes them twice."""

import base64
import gzip
import json
import re
import time
import warnings
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from faces import FORMATS

from colony_memory import ColonyMemory, ColonyMemoryError, ColonyMemoryWarning, SnapshotCorrupt
from colony_memory._engine import label as labels
from colony_memory._engine import observe
from colony_memory._format import LATEST_FORMAT
from colony_memory._format.manifest import MAX_NOTE, read_lacking, read_note, read_word
from colony_memory._format.names import latest_filename, manifest_filename
from colony_memory._format.rows import count_values
from colony_memory.shell.cli.verbs.look import _documents
from colony_memory.testing import FakeVault

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DIGEST = "sha256:" + "0" * 64
# Seconds that a verb may take on a busy machine; by the square of the lists it is a minute and more.
PATIENCE = 10


def ids(count):
    return [f"{START + timedelta(seconds=n):%Y%m%dT%H%M%S}000000Z-0a1b2c" for n in range(count)]


def forged(count, *, names=("a.md",), removed=(), **facts):
    """A vault of so many snapshots, none of which can be read, and a pointer that lists them all."""
    row = {"note": None, "missing": [], "issuer": None, **facts}
    own = ids(count)
    facts = (row["issuer"], "colony-memory/1", 2, None, False, None, row["note"], row["missing"])
    rows = [[0, each, DIGEST, None, 1, 10, DIGEST, False, *facts] for each in reversed(own)]
    plain = json.dumps({"format": "colony-memory/catalog/1", "names": [list(names)], "snapshots": rows}).encode()
    page = f"{len(plain)}:{count_values(plain)}:{base64.b64encode(gzip.compress(plain)).decode()}"
    vault = FakeVault(operations_per_hour=None, quota_bytes=None)
    vault.files |= {manifest_filename("default", each): "x" for each in own}
    vault.files |= {f"cmem.default.{each}.p0.json": "x" for each in own}
    vault.files[latest_filename("default")] = json.dumps({
        "format": LATEST_FORMAT, "label": "default", "snapshot_id": own[-1],
        "manifest_file": manifest_filename("default", own[-1]), "updated_at": "2026-11-27T08:15:00Z", "generation": 3,
        "stream": "0123456789abcdef", "catalog": [page],
        "removed": list(removed),
    })  # fmt: skip
    return vault


VERBS = {
    "list": lambda memory: memory.list_snapshots(),
    "plan": lambda memory: memory.plan_prune(keep=3),
    "inspect": lambda memory: memory.inspect(),
    "backup": lambda memory: memory.backup({"a.md": "new"}),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.filterwarnings("ignore::colony_memory.ColonyMemoryWarning")
def test_what_is_removed_is_asked_in_sets(verb):
    vault = forged(800, removed=[f"{n:x}" for n in range(60_000)])
    began = time.process_time()
    VERBS[verb](ColonyMemory(backend=vault))
    assert time.process_time() - began < PATIENCE


def test_a_list_for_programs_writes_names_once():
    memory = ColonyMemory(backend=forged(120, names=[f"{n:x}" for n in range(60_000)]))
    infos = memory.list_snapshots()
    assert len(infos) == 120
    text = json.dumps(list(_documents(infos)))
    assert len(text) < 8 * 2**20
    rows, own = json.loads(text), {}
    for row, info in zip(rows, infos, strict=True):
        own[row["snapshot_id"]] = row["doc_names"]
        assert (own[row["doc_names_of"]] if row["doc_names"] is None else row["doc_names"]) == info.doc_names


def test_a_list_of_an_honest_size_is_written_in_full():
    memory = ColonyMemory(backend=forged(300, names=[f"notes/{n}.md" for n in range(100)]))
    assert all(row["doc_names"] and "doc_names_of" not in row for row in _documents(memory.list_snapshots()))


def test_notes_and_lines_have_a_bound_wherever_they_come_from():
    much = "n" * 10**6
    (info,) = ColonyMemory(backend=forged(1, note=much, missing=[much] * 3, issuer=much)).list_snapshots()
    assert len(info.note) == MAX_NOTE + 1
    assert info.incomplete == (much, "and 2 more")
    assert len(info.issuer) == MAX_NOTE
    assert (read_note(None), read_note(7), read_note("short"), read_word("short")) == (None, None, "short", "short")
    assert read_note("\\ud83d" * MAX_NOTE) == "\\ud83d" * MAX_NOTE  # as a writer may have spelled it
    assert len(read_lacking("n" * 100 for _ in range(10**5))) < 11_000


@pytest.fixture
def thrifty(monkeypatch):
    """A verb unpacks no more than some 3,000 bytes."""
    monkeypatch.setattr(observe, "_MOST_UNPACKED", 0)
    monkeypatch.setattr(observe, "_LEAST_UNPACKED", 3000)


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.usefixtures("thrifty")
def test_a_verb_unpacks_so_much_and_says_what_it_did_not_read(wire):
    vault = FakeVault(operations_per_hour=None)
    writer = ColonyMemory(backend=vault, format=wire)
    own = [writer.backup({"a.md": f"{n}" + "text " * 150}).snapshot_id for n in range(20)]
    memory = ColonyMemory(backend=vault)
    report = memory.verify()
    unread = {each.snapshot_id for each in report.snapshots if each.digest == "unchecked"}
    assert not report
    assert 0 < len(unread) < 20
    assert own[-1] not in unread
    assert all("bytes at most" in each.problem for each in report.snapshots if each.snapshot_id in unread)
    with pytest.warns(ColonyMemoryWarning, match="snapshots of label 'default' are passed over") as warned:
        found = memory.search("text")
    assert len(warned) == 1
    assert set(found.passed_over) == {*own[: 20 - found.searched]}
    assert 0 < found.searched < 20
    for each in own:  # one by one they are all there
        assert memory.restore(snapshot_id=each)["a.md"].startswith(str(own.index(each)))


@pytest.mark.usefixtures("thrifty")
def test_what_was_not_read_is_not_taken_for_damaged():
    vault = FakeVault(operations_per_hour=None)
    writer = ColonyMemory(backend=vault, format=1)
    good = writer.backup({"a.md": "good"})
    for n in range(9):
        info = writer.backup({"a.md": f"{n}" + "text " * 150})
        raw = json.loads(vault.files[manifest_filename("default", info.snapshot_id)])
        vault.files[manifest_filename("default", info.snapshot_id)] = json.dumps({**raw, "plaintext_sha256": DIGEST})
    memory = ColonyMemory(backend=vault)
    with pytest.raises(ColonyMemoryError, match="bytes at most"):
        memory.prune(keep=1)
    with pytest.raises(ColonyMemoryError, match="bytes at most"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        memory.restore(fallback=True)
    assert memory.restore(snapshot_id=good.snapshot_id) == {"a.md": "good"}
    assert len([name for name in vault.files if "manifest" in name]) == 10


class Swelling(FakeVault):
    """Answers for every file of a snapshot with a megabyte, and counts how often."""

    answered, swells = 0, False

    def vault_get_file(self, filename):
        if not self.swells or not re.search(r"\.[pk]\d", filename):
            return super().vault_get_file(filename)
        self.answered += 1
        return {"filename": filename, "content": "x" * 10**6, "etag": "0"}


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("said", [10, 10**6])
def test_a_snapshot_of_two_thousand_files_is_not_gathered(wire, said):
    vault = Swelling(operations_per_hour=None)
    info = ColonyMemory(backend=vault, format=wire).backup({"a.md": "text"})
    file = manifest_filename("default", info.snapshot_id)
    raw = json.loads(vault.files[file])
    if wire == 1:
        parts = [f"cmem.default.{info.snapshot_id}.p{n}.json" for n in range(2000)]
        raw |= {"part_files": parts, "part_count": len(parts), "blob_chars": said * len(parts)}
    else:
        raw["pack_bytes"] = [[said] * 2000]
    vault.files[file] = json.dumps(raw)
    memory = ColonyMemory(backend=vault, max_bytes=2**20)
    vault.swells = True
    with pytest.raises(SnapshotCorrupt, match=r"larger than it may be|more than the"):
        memory.restore(snapshot_id=info.snapshot_id)
    assert not memory.verify(snapshot_id=info.snapshot_id)
    with pytest.raises(SnapshotCorrupt), warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        memory.search("text")
    assert vault.answered < 400


@pytest.mark.parametrize("verb", ["list_snapshots", "inspect"])
def test_the_name_of_each_file_is_read_once(verb, monkeypatch):
    vault = FakeVault()
    memory = ColonyMemory(backend=vault)
    for number in range(20):
        memory.backup({"a.md": "x"}, label=f"l{number}")
    counted, read = SimpleNamespace(calls=0), labels.read_filename

    def count(name):
        counted.calls += 1
        return read(name)

    monkeypatch.setattr(labels, "read_filename", count)
    getattr(ColonyMemory(backend=vault), verb)()
    assert counted.calls == len(vault.files)


def test_a_pointer_whose_snapshots_are_gone_is_no_empty_vault():
    vault = FakeVault()
    info = ColonyMemory(backend=vault).backup({"a.md": "x"})
    del vault.files[f"cmem.default.{info.snapshot_id}.manifest.json"]
    with pytest.raises(SnapshotCorrupt, match="which is not there"):
        ColonyMemory(backend=vault).list_snapshots()
    ColonyMemory(backend=vault).backup({"b.md": "y"}, label="other")
    with pytest.warns(ColonyMemoryWarning, match="which is not there"):
        assert [each.label for each in ColonyMemory(backend=vault).list_snapshots()] == ["other"]
