"""Import and copy are stopped at every vault call: nothing is lost, and doing it again completes it."""

import contextlib
import itertools
import warnings

import pytest
from counts import TRIED
from faces import PlainVault, copy_of
from test_crash_points import STOPS, WAYS, is_over
from transfers import LARGE, PART_CHARS, VERSIONS, backend_of, contents, fake, files, filled, hours_later, no_pointers

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ColonyMemoryWarning,
    ConflictDetected,
    Ed25519Signer,
    VaultUnavailable,
    snapshot,
)
from colony_memory.testing import FaultyVault
from colony_memory.testing.faults import ProcessDied
from colony_memory.transfer import copy

pytest.importorskip("cryptography")


@pytest.fixture(autouse=True)
def _three_parts(monkeypatch):
    monkeypatch.setattr(snapshot, "PART_CHARS", PART_CHARS)


# --- stopped anywhere

SCENES = {
    "import of a first": ("import", [], 1),
    "import of a newer": ("import", ["older", "old"], 1),
    "import of an older": ("import", ["newer"], 1),
    "copy into an empty vault": ("copy", [], 1),
    "copy onto an older copy": ("copy", ["copied"], 1),
}


def scene(name):
    """The source, the vault to write to, what was there and what is to be the latest."""
    kind, there, _ = SCENES[name]
    target = fake()
    owner = ColonyMemory(backend=target)
    if "older" in there:
        filled([{"own": each} for each in there], vault=target)
    source, _ids = filled(VERSIONS if kind == "copy" else [LARGE])
    if "newer" in there:
        filled([{"own": each} for each in there], vault=target)
    if "copied" in there:
        copy(ColonyMemory(backend=backend_of(source)), owner)
        source.backup({"MEMORY.md": "version 3"})
        source.backup({"MEMORY.md": "version 4"})
    before = owner.restore(default=None)
    after = before if "newer" in there else source.restore()
    return kind, source, target, before, after


def run(kind, source, memory):
    return memory.import_snapshot(source.export_snapshot()) if kind == "import" else copy(source, memory)


# Conditions matter where the pointer is written: a few ways show that for vaults without them.
KINDS = [*((way, False) for way in STOPS), ("dies after", True), ("fails once after", True)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("way", "plain"), KINDS)
@pytest.mark.parametrize("name", sorted(SCENES))
def test_stopped_at_every_call_nothing_is_lost(name, way, plain):
    kind, source, start, before, after = scene(name)
    held = contents(ColonyMemory(backend=start))
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 80, "the verb never comes to its end"
        TRIED[f"stops: {name}"] += 1
        target = copy_of(start)
        vault = FaultyVault(PlainVault(target) if plain else target)
        struck = WAYS[way](vault, n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            try:
                done = run(kind, source, ColonyMemory(backend=vault))
            except (ColonyMemoryError, ProcessDied) as error:
                done = error
        finished = is_over(way, struck, vault.count, n)
        new = ColonyMemory(backend=target)
        found = contents(new)  # a warning would be an error: nothing listed may be broken
        assert [each for each in held if each not in found] == []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if before is None else "error", ColonyMemoryWarning)
            now = new.restore(default=None)
        assert now in ((after,) if not isinstance(done, BaseException) else (before, after, *found))
        assert now == before or now not in held  # as far as it came, and never back
        redo(kind, source, target)
        assert ColonyMemory(backend=target).restore() == after
        assert set(no_pointers(files(source))) <= set(target.files)
        assert target.files.items() >= no_pointers(files(source)).items()


def redo(kind, source, target):
    """Doing it again completes it, once what was left there is old and pruned."""
    done = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        with contextlib.suppress(ConflictDetected):
            done = run(kind, source, ColonyMemory(backend=target))
        if not done:
            hours_later(target)
            ColonyMemory(backend=target).prune(keep=99)
            assert run(kind, source, ColonyMemory(backend=target))


@pytest.mark.parametrize("way", ["dies before", "fails once before", "is down from then on"])
def test_a_source_that_stops_is_no_loss(way):
    n, finished = 0, False
    while not finished:
        n += 1
        source, _ids = filled()
        vault, target = FaultyVault(backend_of(source)), fake()
        WAYS[way](vault, n)
        with contextlib.suppress(VaultUnavailable, ProcessDied):
            copy(ColonyMemory(backend=vault), ColonyMemory(backend=target))
            finished = vault.count < n
        assert all(each in VERSIONS for each in contents(ColonyMemory(backend=target)))
        redo("copy", source, target)
        assert ColonyMemory(backend=target).restore() == VERSIONS[2]


# --- a reader that pins, wherever it stops

AGENT = Ed25519Signer(bytes(range(32)))
OLD, NEW = VERSIONS[:2], [{"MEMORY.md": f"new {n}"} for n in range(3)]


def _agent(vault):
    return ColonyMemory(backend=vault, signer=AGENT)


def _legacy(target):
    """0.1.1 wrote the pointer there until yesterday, and the manifests."""
    from signed_histories import as_0_1_1_leaves_them

    as_0_1_1_leaves_them(target, AGENT)


def _emptied(target):
    memory = _agent(target)
    for info in memory.list_snapshots():
        memory.delete_snapshot(label="default", snapshot_id=info.snapshot_id)


#: What is done, and how the destination is prepared after a first copy; None where there was none.
SIGNED = {
    "import of the next": ("import the next", lambda target: None),
    "import of the next but two": ("import", lambda target: None),
    "copy of three": ("copy", lambda target: None),
    "copy with a gap": ("copy", lambda target: None),
    "copy into an empty vault": ("copy", None),
    "copy with a gap into an empty vault": ("copy", None),
    "import into an empty vault": ("import", None),
    "import where everything was deleted": ("import", _emptied),
    "import where 0.1.1 was at work": ("import", _legacy),
}


def signed_scene(name):
    what, prepare = SIGNED[name]
    source, _ = filled(OLD, signer=AGENT)
    target = fake()
    if prepare is not None:
        copy(source, _agent(target))
        prepare(target)
    ids = [source.backup(docs).snapshot_id for docs in (NEW[:1] if what == "import the next" else NEW)]
    if "gap" in name:
        # What is brought was made upon a snapshot that the destination never had.
        source.delete_snapshot(label="default", snapshot_id=ids[1])
    return what.split()[0], source, target


def read_as(memory):
    """What a client is given, and whether it is told of anything."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return memory.restore(default=None), [str(each.message) for each in told]


#: A few are tried with every run.
QUICK = ("import of the next but two", "copy with a gap into an empty vault")


def marks(name, way, plain):
    if way == "dies after":
        return () if name in QUICK and not plain else pytest.mark.exhaustive
    return [pytest.mark.exhaustive, *[pytest.mark.long] * plain]


@pytest.mark.parametrize(("name", "way", "plain"), [
    pytest.param(*case, marks=marks(*case))
    for case in itertools.product(SIGNED, ["dies after", "fails once after", "is down from then on"],
                                  [False, True])
])  # fmt: skip
def test_a_reader_that_pins_is_never_refused(name, way, plain, monkeypatch):
    """What is on its way is no sign of a pointer that was put back, and nobody is given less than there was."""
    pytest.importorskip("cryptography")
    from signed_histories import check_each_signature_once

    check_each_signature_once(monkeypatch)
    what, source, start = signed_scene(name)
    after = source.restore()
    calls = calls_of(what, source, start, plain)
    n, finished = 0, False
    while not finished:
        n += 1
        assert n < 80, "the verb never comes to its end"
        TRIED[f"stops: signed {name}"] += 1
        target = copy_of(start)
        readers = [ColonyMemory(backend=target, trusted_issuers=AGENT.did_key) for _ in range(2)]
        before, _ = read_as(readers[0])  # it remembers what it has seen, and the other one has seen nothing
        vault, moments = FaultyVault(PlainVault(target) if plain else target), []
        WAYS[way](vault, n)
        injected = vault.count

        def look(vault=vault, reader=readers[0], moments=moments, n=n):
            if vault.count >= n or n > calls:  # what comes before is the same each time
                moments.append(read_as(reader)[0])

        vault.hook("*", look, times=None)
        with warnings.catch_warnings(), contextlib.suppress(ColonyMemoryError, ProcessDied):
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            run(what, source, _agent(vault))
        finished = vault.count - injected < n
        for reader in readers:
            now, told = read_as(reader)
            assert now == after if finished else now in (before, after, *VERSIONS, *NEW)
            assert now is not None or before is None
            assert not finished or not told, told
            # Whoever is given less than lies there is told so.
            assert told or now == after or after not in every(target)
        if before is not None:
            assert all(each in (before, now, *NEW) for each in moments)
        report = verified(_agent(target))
        assert (report.removed, report.forged) == ((), ())
        assert report.rollback != "bad"
        hours_later(target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ColonyMemoryWarning)
            _agent(target).prune(keep=99)
            assert run(what, source, _agent(target))
        assert [read_as(reader) for reader in readers] == [(after, [])] * 2
        assert verified(readers[0])


def calls_of(what, source, start, plain):
    """How many calls a verb makes where nothing fails."""
    target = copy_of(start)
    vault = FaultyVault(PlainVault(target) if plain else target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        run(what, source, _agent(vault))
    return vault.count


def verified(memory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return memory.verify()


def every(target):
    """What each whole snapshot holds, whether a pointer lists it or not."""
    ids = {name.split(".")[2] for name in target.files if name.endswith(".manifest.json")}
    return [ColonyMemory(backend=target).restore(snapshot_id=each) for each in ids]
