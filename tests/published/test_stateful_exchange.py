"""The same state machine with the published client as one of the writers, in its own environment."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from memory_machine import DOCUMENTS, JUMPS, START, MemoryMachine

from published.peer_client import PeerError, PublishedPeer

pytestmark = pytest.mark.network


class ExchangeMachine(MemoryMachine):
    """0.1.1 saves and prunes in the same vault, by a clock of its own."""

    peer: PublishedPeer

    def __init__(self):
        super().__init__()
        self.peer_skew = START - START

    def ask(self, verb, **arguments):
        self.now = self.now.replace(microsecond=(self.now.microsecond + 1) % 1_000_000)
        given = {"now": self.now + self.peer_skew, **arguments}
        reply = self.peer.call(verb, dict(self.fake.files), **given)
        for name in set(self.fake.files) - set(reply.files):
            self.fake.vault_delete_file(name)
        for name, text in reply.files.items():
            if self.fake.files.get(name) != text:
                self.fake.vault_upload_file(name, text)
        return reply.result

    def pointer(self):
        return json.loads(self.fake.files["cmem.default.latest.json"])

    @rule(documents=DOCUMENTS, keep=st.sampled_from([None, None, 2]))
    def the_published_client_backs_up(self, documents, keep):
        result = self.ask("backup", documents=documents, prune_keep=keep)
        self.known[result["snapshot_id"]] = documents
        self.heads = [documents]
        assert self.client(0).restore() == documents

    @rule(keep=st.integers(1, 3))
    def the_published_client_prunes(self, keep):
        self.ask("prune", label="default", keep=keep)

    @rule()
    def the_published_client_restores(self):
        if any(name.endswith("latest.json") for name in self.fake.files):
            try:
                assert self.ask("restore") in self.heads
            except PeerError as error:
                # A label that was emptied on purpose. What a save stored since that died before its pointer, only this
                # package finds.
                assert error.kind == "SnapshotNotFound"  # noqa: PT017 - most of them are no error
                assert self.pointer()["snapshot_id"] == ""
                assert self.restored(0) in self.heads

    @rule(jump=JUMPS)
    def its_clock_jumps(self, jump):
        self.peer_skew = jump


def test_a_vault_shared_with_the_published_client():
    with PublishedPeer.start() as peer:
        ExchangeMachine.peer = peer
        case = ExchangeMachine.TestCase
        case.settings = settings(
            max_examples=120,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
        case("runTest").runTest()
