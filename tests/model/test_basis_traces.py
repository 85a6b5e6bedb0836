"""No schedule of honest hosts loses a line, overtakes anybody in silence, or cries wolf."""

import pytest
from basis_world import Scenario, World

SCENARIOS = {
    "alone": Scenario(hosts=1, events=("restore", "back", "names"), crashes=2),
    "alone, things happen": Scenario(
        hosts=1, events=("restore", "back", "index", "delete", "prune"), crashes=1, losses=2
    ),
    "two, raise": Scenario(),
    "two, any policy": Scenario(policies=("raise", "continue", "merge")),
    "two, piling up": Scenario(policies=("continue",), edits=("append",), events=(), keep=1, cap=3),
    "two, refused": Scenario(edits=("append",), cap=4),
    "two, going back": Scenario(policies=("raise", "merge"), events=("restore", "back"), edits=("append",)),
    "two, parts": Scenario(events=("restore", "names")),
    "two, killed": Scenario(policies=("raise", "merge"), crashes=2),
    "two, things happen": Scenario(events=("restore", "index", "delete", "prune"), losses=2),
    "two, pruned": Scenario(policies=("raise", "continue"), keep=3, events=("restore", "prune"), losses=1),
    "by value": Scenario(hosts=1, by_value=True, edits=("replace",), events=(), keep=1, cap=2),
    "two by value": Scenario(by_value=True, edits=("replace",), events=(), keep=1, cap=5),
    "two, merging by hand": Scenario(policies=("raise", "continue"), events=("restore", "join")),
    "three": Scenario(hosts=3, policies=("raise", "merge"), edits=("append",)),
    "three, continue": Scenario(hosts=3, policies=("continue", "merge"), steps=16),
}


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(6, 300), marks=pytest.mark.long)])
@pytest.mark.parametrize("name", SCENARIOS)
def test_schedules(name, seeds):
    for seed in seeds:
        World(SCENARIOS[name], seed).run()
