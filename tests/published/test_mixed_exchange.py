"""A label with snapshots of both formats, with 0.1.1 beside ours, which knows format 1 alone.

It lists, restores, saves, prunes and deletes. What it did not mean to delete restores, and of a chain it never gives
anything.
"""

import json

import pytest
from counts import TRIED
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from mixed_machine import Mixed, short_chains

from published.peer_client import PeerError, PublishedPeer
from published.test_stateful_exchange import ExchangeMachine

pytestmark = [pytest.mark.long, pytest.mark.network]

REFUSED = "mixed labels: chains that another client was asked for, and refused"
CHAIN = "colony-memory/2"


class MixedExchangeMachine(Mixed, ExchangeMachine):
    """Two clients of ours write both formats; the other one goes about its work as it always did."""

    # What another client deleted may have been the latest, and its pointer lists nothing.
    after_a_backup = of_a_list = "ignore"

    @property
    def pointed(self):
        return json.loads(self.fake.files.get("cmem.default.latest.json", "{}")).get("snapshot_id")

    @property
    def manifests(self):
        return {name.split(".")[2] for name in self.fake.files if name.endswith(".manifest.json")}

    @property
    def chains(self):
        return {each for each in self.manifests if CHAIN in self.fake.files[f"cmem.default.{each}.manifest.json"]}

    @rule()
    def it_restores_each_by_its_id(self):
        for snapshot_id in sorted(self.manifests & set(self.known)):
            got, kind = self.tried("restore", snapshot_id=snapshot_id)
            if snapshot_id in self.chains:
                # Refused for what it is, and not missed.
                assert (got, kind) == (None, "ValueError")
                TRIED[REFUSED] += 1
            else:
                assert (got, kind) == (self.known[snapshot_id], None)

    @rule()
    def the_published_client_restores(self):
        got, kind = self.tried("restore")
        if kind is None:
            assert got in self.heads
        elif kind == "SnapshotNotFound":
            # Without a pointer, or by one that names nothing, it takes no snapshot for the latest; ours may.
            assert self.pointed not in self.manifests
        else:
            assert kind == "ValueError"

    def tried(self, verb, **arguments):
        """What it gives, or the kind of its error."""
        try:
            return self.ask(verb, **arguments), None
        except PeerError as error:
            return None, error.kind

    @rule()
    def it_lists(self):
        assert {each["snapshot_id"] for each in self.ask("list", label="default")} <= self.manifests

    @rule(keep=st.integers(1, 3))
    def the_published_client_prunes(self, keep):
        before = sorted(self.manifests)
        packs = {name for name in self.fake.files if ".k" in name}
        self.ask("prune", label="default", keep=keep)
        assert set(before[-keep:]) <= self.manifests
        assert packs == {name for name in self.fake.files if ".k" in name}

    @rule(which=st.integers(0, 9))
    def it_deletes_one_that_is_not_the_latest(self, which):
        victims, before = sorted(self.manifests - {self.pointed}), self.manifests
        if victims:
            victim = victims[which % len(victims)]
            self.tried("delete", label="default", snapshot_id=victim)
            assert before - self.manifests <= {victim}
            self.heads += [*self.known.values(), None]
            self.settle()


def test_beside_the_published_client():
    MixedExchangeMachine.peer = peer = PublishedPeer.start()
    case = MixedExchangeMachine.TestCase
    case.settings = settings(
        max_examples=300,
        stateful_step_count=20,
        deadline=None,
        phases=[Phase.generate],  # a schedule takes too long to be made smaller
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    before = TRIED[REFUSED]
    with peer, short_chains():
        case("runTest").runTest()
    assert TRIED[REFUSED] > before
