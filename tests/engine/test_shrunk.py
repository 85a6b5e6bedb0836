"""What a retention in a backup keeps since something much smaller followed, or a document was ruined."""

import json
import random
import warnings

import pytest

from colony_memory import ColonyMemory, Ed25519Signer
from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory._format.v2.zstd import is_installed
from colony_memory.retention import document_bytes, find_ruined
from colony_memory.testing import FakeVault

NOTES = {"log.md": "\n".join(map(str, range(9_000))), **{f"note{n}.md": f"what was learned {n}\n" for n in range(40)}}
MEMORY = {
    "MEMORY.md": "two years of notes. " * 300,
    "other.md": random.Random(1).randbytes(9_500).hex(),
    "small.md": "a line\n",
}
RUINS = {
    "nothing": lambda text: "",
    "NUL bytes": lambda text: "\0" * len(text),
    "a stub": lambda text: "- new\n[the rest is unchanged]\n",
}


def folder(texts):
    """The documents of a folder: its texts, and the record of when each changed."""
    times = {
        name: {"mode": "0644", "mtime": f"2026-11-30T10:00:{n % 60:02}.123456789Z"} for n, name in enumerate(texts)
    }
    return {**texts, ATTRIBUTES_NAME: json.dumps({"format": "colony-memory/folder/1", "attributes": times})}


FACTS = {f"notes/n{n}.md": f"fact {n}: the owner likes tea and lives at no {n}.\n" for n in range(120)}
LOSSES = {
    "documents": (NOTES, {"log.md": NOTES["log.md"]}),
    "bytes": (MEMORY, {name: text[:50] for name, text in MEMORY.items()}),
    **{what: (MEMORY, {**MEMORY, "MEMORY.md": ruin(MEMORY["MEMORY.md"])}) for what, ruin in RUINS.items()},
    "the text of a folder": (folder(FACTS), folder(dict.fromkeys(FACTS, ""))),
    "two files of three": (folder({name: name for name in "abc"}), folder({"a": "a"})),
    "all of it NUL bytes": (MEMORY, {name: "\0" * len(text) for name, text in MEMORY.items()}),
}


@pytest.fixture(params=["1", "2", "signed 1", "signed 2", "encrypted", "no key"])
def options(request):
    kind = request.param
    if kind not in ("1", "signed 1") and not is_installed():
        pytest.skip("zstd is not installed")
    made = {"format": int(kind[-1]) if kind[-1].isdigit() else 2}
    if kind.startswith("signed"):
        pytest.importorskip("cryptography")
        made["signer"] = Ed25519Signer(bytes(range(32)))
    if kind in ("encrypted", "no key"):
        age_keys = pytest.importorskip("age_keys")
        pytest.importorskip("pyrage")
        made["encrypt_to"] = age_keys.RECIPIENT
        if kind == "encrypted":
            made["identities"] = age_keys.SECRET
    return made


def saved(vault, options, documents, **more):
    """Save by a client that has just started, and give its summary and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        info = ColonyMemory(backend=vault, **options).backup(documents, **more)
    return info, [str(one.message) for one in caught if "hardly anything" in str(one.message)]


@pytest.mark.parametrize(("whole", "less"), LOSSES.values(), ids=LOSSES)
def test_what_was_lost_stays_for_thirty_days_and_is_told(whole, less, options):
    if "encrypt_to" in options and "identities" not in options and less is not LOSSES["bytes"][1]:
        pytest.skip("who cannot open what it wrote judges by what is stored")
    vault = FakeVault(operations_per_hour=None)
    before, _ = saved(vault, options, whole)
    info, warned = saved(vault, options, less, prune_keep=1)
    assert [info.shrunk_from, *warned] != [None]
    assert info.shrunk_from in (None, before.snapshot_id)
    assert all(before.snapshot_id in line and "MEMORY.md" in line for line in warned)
    for day in range(4):
        info, warned = saved(vault, options, {**less, "log of the day": f"{day}\n"}, prune_keep=1)
        assert [info.shrunk_from, *warned] == [None]  # once is enough
    mem = ColonyMemory(backend=vault, **options)
    latest, kept = mem.list_snapshots()
    assert (latest.shrunk_from, kept.snapshot_id) == (before.snapshot_id, before.snapshot_id)
    assert "before-shrink" in mem.plan_prune(keep=1).reasons[before.snapshot_id]
    mem.prune(keep=1)
    assert [each.snapshot_id for each in mem.list_snapshots()] == [latest.snapshot_id]


def test_an_emptied_folder_of_which_files_go_does_not_take_the_place_of_the_text(options):
    if "encrypt_to" in options and "identities" not in options:
        pytest.skip("who cannot open what it wrote judges by what is stored")
    vault = FakeVault(operations_per_hour=None)
    whole, emptied = (
        saved(vault, options, folder(texts), prune_keep=1)[0] for texts in (FACTS, dict.fromkeys(FACTS, ""))
    )
    for left in (40, 10):
        saved(vault, options, folder(dict.fromkeys([*FACTS][:left], "")), prune_keep=1)
    listed = {each.snapshot_id for each in ColonyMemory(backend=vault, **options).list_snapshots()}
    assert {whole.snapshot_id, emptied.snapshot_id} <= listed


def test_each_snapshot_of_which_a_document_was_ruined_stays(options):
    if "encrypt_to" in options and "identities" not in options:
        pytest.skip("who cannot open what it wrote judges by what is stored")
    vault = FakeVault(operations_per_hour=None)
    memory = {f"{n}.md": random.Random(n).randbytes(1500).hex() for n in range(4)}
    whole = []
    for name in list(memory)[:3]:
        whole.append(saved(vault, options, memory, prune_keep=1)[0].snapshot_id)
        memory = {**memory, name: ""}
        saved(vault, options, memory, prune_keep=1)
        memory = {**memory, "log": f"after {name}"}
    listed = {each.snapshot_id for each in ColonyMemory(backend=vault, **options).list_snapshots()}
    assert {*whole} <= listed
    assert len(listed) == 4


def test_a_summary_counts_documents_and_names_what_was_just_saved_or_read(options):
    vault = FakeVault(operations_per_hour=None)
    mem = ColonyMemory(backend=vault, **options)
    names = sorted(MEMORY)
    opens = "encrypt_to" not in options or "identities" in options
    for info in (mem.backup(MEMORY), mem.latest(), *mem.list_snapshots(), mem.backup(MEMORY)):
        assert (info.doc_names, info.doc_count) == (names, 3)
    later = ColonyMemory(backend=vault, **options)
    (info,) = later.list_snapshots()
    assert info.doc_names == (names if options["format"] == 1 else [])
    assert info.doc_count == (None if "encrypt_to" in options else 3)
    if opens:
        assert later.restore() == MEMORY
        assert [(each.doc_names, each.doc_count) for each in later.list_snapshots()] == [(names, 3)]


@pytest.mark.parametrize(
    ("before", "now", "ruined"),
    [
        ({"a": 1000, "b": 5}, {"a": "", "b": "12345"}, ("a",)),
        ({"a": 1000, "b": 5}, {"a": "x" * 99, "b": "12345"}, ("a",)),
        ({"a": 1000, "b": 5}, {"a": "x" * 100, "b": "12345"}, ()),
        ({"a": 1000, "b": 5}, {"a": "é" * 50, "b": "12345"}, ()),
        ({"a": 1000, "b": 5}, {"a": "\0" * 1000, "b": "12345"}, ("a",)),
        ({"a": 999, "b": 5}, {"a": "", "b": "12345"}, ()),
        ({"a": 0, "b": 5}, {"a": "", "b": "12345"}, ()),  # NUL before
        ({"a": 1000, "b": 5}, {"b": "12345"}, ()),  # deleted
        ({"a": 1000, "b": 5, "c": 5}, {"a": "", "b": ""}, ()),  # as many of the others went
        ({"a": 1000, "b": 2000}, {"a": "", "b": "\0"}, ("b",)),
        ({"a": 1000}, {"a": ""}, ()),
        ({}, {"a": ""}, ()),
    ],
)
def test_a_document_is_ruined_where_hardly_anything_is_left_of_it(before, now, ruined):
    sizes = {name: document_bytes(text) for name, text in now.items()}
    assert find_ruined(before, sizes, [name for name in now if now[name] and not sizes[name]]) == ruined
