"""The verbs over a vault in an object store: what they ask for, and what two writers and a rollback come to."""

import pytest
from faces import with_zstd

pytest.importorskip("obstore")

import object_server

from colony_memory import ColonyMemory
from colony_memory.exceptions import PruneIncomplete
from colony_memory.vaults.objects import ObjectVault

running, server, vault = object_server.running, object_server.server, object_server.vault
NOTES = {"MEMORY.md": "two years of notes"}


def test_calls_of_the_verbs(server, vault):
    counts = {}

    def count(what, call):
        server.calls.clear()
        call()
        counts[what] = dict(sorted(server.calls.items()))

    memory = ColonyMemory(backend=ObjectVault(server.store()), format=1)
    count("first", lambda: memory.backup(NOTES))
    count("second", lambda: memory.backup({"a.md": "1"}))
    count("unchanged", lambda: memory.backup({"a.md": "1"}))
    count("restore", lambda: ColonyMemory(backend=ObjectVault(server.store())).restore())
    count("list", memory.list_snapshots)
    count("status", memory.status)
    count("prune", lambda: memory.prune(keep=1))
    assert counts == {
        "first": {"GET": 4, "LIST": 1, "PUT": 3},
        "second": {"GET": 1, "PUT": 3},
        "unchanged": {"GET": 1, "LIST": 1},
        "restore": {"GET": 4},
        "list": {"GET": 1, "LIST": 1},
        "status": {"LIST": 1},
        "prune": {"DELETE": 2, "GET": 3, "HEAD": 2, "LIST": 2, "PUT": 1},
    }


@pytest.mark.parametrize("fault", [None, "bulk", "denied", "half"])
def test_many_files_are_deleted_with_one_request_where_the_store_can(server, vault, fault):
    memory = ColonyMemory(backend=vault, format=1)
    for number in range(6):
        memory.backup({"a.md": str(number)})
    server.bulk = fault != "bulk"
    denied = object_server.error(403, "AccessDenied")
    if fault in ("denied", "half"):
        server.fault = lambda verb, key: denied if verb == "DELETE" and (fault == "denied" or "p0" in key) else None
    server.calls.clear()
    if fault in ("denied", "half"):
        with pytest.raises(PruneIncomplete) as failed:
            memory.prune(keep=1)
        assert failed.value.deleted == (0 if fault == "denied" else 5)
    else:
        assert memory.prune(keep=1) == 5
        # One for the manifests, one for the parts; where the store has none for several, each is another.
        assert server.calls["DELETE"] == (2 if fault is None else 12)
        assert len([key for key in server.objects if "p0" in key or "manifest" in key]) == 2
    assert memory.restore() == {"a.md": "5"}


@with_zstd
def test_calls_of_the_verbs_in_format_2(server, vault):
    """A base is read back; a patch costs one listing; and the packs of a chain are read at once."""
    notes = "".join(f"{n * n} is the square of {n}\n" for n in range(300))
    counts = []
    memory = ColonyMemory(backend=ObjectVault(server.store()))
    for text in (notes, notes + "more\n", notes + "more\n"):
        server.calls.clear()
        memory.backup({"a.md": text})
        counts.append(dict(sorted(server.calls.items())))
    assert counts == [{"GET": 6, "LIST": 1, "PUT": 3}, {"GET": 1, "LIST": 1, "PUT": 3}, {"GET": 1, "LIST": 1}]


def test_no_verb_of_a_label_pays_for_its_neighbours(server, vault):
    memory = ColonyMemory(backend=vault)
    memory.backup(NOTES)
    server.objects.update({f"agents/a/other/cmem.other.x.p{number}.json": b"x" for number in range(30)})
    server.page = 10
    server.calls.clear()
    memory.backup({"a.md": "1"}, prune_keep=1)
    memory.restore()
    memory.latest()
    assert server.calls["LIST"] <= 2  # of everything, one listing alone would ask four times
