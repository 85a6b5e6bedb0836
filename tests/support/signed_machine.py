"""The state machine of two clients that sign with one key, with or without a witness."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize
from memory_machine import MemoryMachine
from signed_histories import OWN, POINTER

from colony_memory import UntrustedSnapshot


class DictWitness:
    """A witness that lasts as long as the machine."""

    def __init__(self):
        self.heads = {}

    def read(self, label):
        return self.heads.get(label)

    def record(self, label, head):
        known = self.heads.get(label)
        if known is None or int(known.partition(":")[0]) <= int(head.partition(":")[0]):
            self.heads[label] = head


class SignedMemoryMachine(MemoryMachine):
    """Nothing is refused, since nobody attacks.

    One refusal is right: where a delete removed the pointer together with the last snapshot, or died half way, nobody
    can know that it was not an attacker, until the next backup.
    """

    # A signed pointer is compared with what is newer: what a delete left may be, where clocks went back.
    after_a_backup = "ignore"
    witness = None
    deleted = False

    @initialize(watched=st.booleans())
    def choose_witness(self, watched):
        self.witness = DictWitness() if watched else None

    def options(self):
        return {"signer": OWN, "witness": self.witness}

    def restored(self, number, **options):
        try:
            return super().restored(number, **options)
        except UntrustedSnapshot:
            assert self.deleted
            assert POINTER not in self.fake.files
            return None

    def settle(self):
        self.deleted = True
        super().settle()
