"""Format 2: writers, a pruner and deleters at once, their vault calls in any order, and hours between any two of them.

What has to hold after every call is said in chain_schedules. Each rule of writing and deleting is left out once, and
then this finds what is lost.
"""

import itertools
from dataclasses import replace

import pytest
from chain_schedules import (
    HISTORY,
    SCENES,
    Turn,
    World,
    is_there,
    losses,
    play,
    restores,
    save,
    signer_of,
    small_chains,  # noqa: F401 - a fixture
)

from colony_memory._engine import files
from colony_memory._engine import judge as judging
from colony_memory._engine import prune as pruning
from colony_memory._engine.backup import save as saving
from colony_memory._engine.label import LabelFiles

KIND = "interleavings: format 2, clients in any order"
TOGETHER = [
    ("write", "write and prune", "delete the latest"),
    ("write and prune", "write or raise", "delete all", "prune"),
    ("write", "write or raise", "delete all"),
    ("write", "write or raise", "prune"),
    ("write", "write and prune", "prune some"),
    ("write", "prune", "delete the latest"),
    ("write", "write or raise"),
]


@pytest.mark.parametrize(
    ("verbs", "seeds"),
    [
        *((verbs, range(8)) for verbs in TOGETHER[:2]),
        *(pytest.param(verbs, range(100, 125), marks=pytest.mark.exhaustive) for verbs in TOGETHER),
    ],
)
def test_nothing_is_lost(verbs, seeds):
    assert not list(losses(verbs, SCENES, seeds, kind=KIND))


@pytest.mark.exhaustive
@pytest.mark.long
@pytest.mark.parametrize("signs", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("verbs", TOGETHER, ids="-".join)
def test_nothing_is_lost_in_many_schedules(verbs, signs):
    seeds = range(1000, 1300 if signs else 2000)
    assert not list(losses(verbs, SCENES, seeds, kind=KIND, signer=signer_of(signs)))


#: A writer's pack is hours old when its manifest comes, and a pruner that listed before that is about to delete it. A
#: third client meets the manifest, at once or hours later, when a fourth one has saved.
OVERTAKEN = ("write", "prune", "prune some", "write or raise")


def overtaken(hours):
    return [
        Turn(0, 99, 0, ("upload", ".manifest.json")),
        Turn(1, 99, 2, ("delete", ".k0.json")),
        Turn(0, 1, 0),
        *([Turn(3, 99, hours)] if hours else []),
        Turn(2, 99, 0),
        Turn(1, 99, 0),
    ]


@pytest.mark.parametrize("hours", [0, 2])
def test_what_may_be_on_its_way_out_is_not_listed(hours):
    world, listed, _ = play(World("base"), OVERTAKEN, overtaken(hours))
    restores(world, listed)


def test_what_is_older_than_every_row_is_not_listed_either(monkeypatch):
    """All else was deleted, and another client has saved since. Nobody was told of what is listed here, and broken."""
    monkeypatch.setitem(SCENES, "one", 1)
    turns = [
        Turn(0, 99, 0, ("upload", ".manifest.json")),
        Turn(1, 4, 2),  # the pointer, the manifest, and a list that shows that it is gone
        Turn(1, 99, 0, ("delete", ".k0.json")),
        Turn(0, 1, 0),
        Turn(2, 99, 2),
        Turn(3, 99, 0),
        Turn(1, 99, 0),
    ]
    start = World("one")
    start.first = frozenset()
    play(start, ("write", "delete all", save(HISTORY[7]), save(HISTORY[6], prune_keep=9)), turns)


_remove = files.remove_snapshots


async def _as_listed_before(session, listed, *given, **more):
    """With the listing of before the deletions, without the manifests that were deleted since."""

    async def before(prefix):
        there = session.vault.backend.files
        left = {name: file for name, file in listed.files.items() if ".manifest." not in name or name in there}
        return replace(listed.listing, files=left)

    session.vault.list = before
    try:
        return await _remove(session, listed, *given, **more)
    finally:
        del session.vault.list


def _commit_all(*given):
    found = _mark_committed(*given)
    return replace(found, committed=found.counted)


async def _take_back_at_once(session, built, why=None):
    await files.discard(session, built, why)


def _aged_or_a_pack(there, own, names, *, now):
    return all(".k" in name for name in names) or _is_aged(there, own, names, now=now)


_mark_committed, _is_aged = judging.mark_committed, LabelFiles.is_aged
#: How each rule is left out, and clients, scene and seed of a schedule that loses something then.
RULES = {
    "one listing after the manifests are gone": (
        [(place, "remove_snapshots", _as_listed_before) for place in (pruning, saving)],
        (TOGETHER[1], "patch", 4),
    ),
    "packs go once they are a grace period old": (
        [(LabelFiles, "is_aged", _aged_or_a_pack)],
        (TOGETHER[4], "patch", 16),
    ),
    "proof after the upload": (
        [(saving, "prove", is_there), (saving, "still_there", lambda *_: True)],
        (TOGETHER[2], "patch", 2),
    ),
    "a manifest is taken back as any other is deleted": (
        [(saving, "give_up", _take_back_at_once)],
        (TOGETHER[2], "patch", 5),
    ),
}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_without_a_rule_something_is_lost(rule, monkeypatch):
    changes, (verbs, scene, seed) = RULES[rule]
    for place, name, other in changes:
        monkeypatch.setattr(place, name, other)
    seeds = itertools.chain([seed], range(500))
    _, _, lost = next(losses(verbs, [scene], seeds, kind=KIND))
    assert "is listed, and" in lost


@pytest.mark.parametrize(
    ("hours", "place", "name", "other"),
    [(0, judging, "mark_committed", _commit_all), (2, judging, "_unproven", lambda *_: set())],
)
def test_without_the_rule_of_what_is_committed_something_is_lost(hours, place, name, other, monkeypatch):
    monkeypatch.setattr(judging, "_unproven", lambda *_: set())
    monkeypatch.setattr(place, name, other)
    with pytest.raises(AssertionError, match="is listed, and needs"):
        play(World("base"), OVERTAKEN, overtaken(hours))
