"""The state machine of two clients that sign with one key, with or without a witness."""

from faces import DictWitness
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from memory_machine import MemoryMachine
from signed_histories import OWN


class SignedMemoryMachine(MemoryMachine):
    """Nothing is refused, since nobody attacks."""

    # A signed pointer is compared with what is newer: what a backup or a delete left may be, where clocks went back.
    after_a_backup = of_a_list = "ignore"
    witness = None

    @initialize(watched=st.booleans())
    def choose_witness(self, watched):
        self.witness = DictWitness() if watched else None

    def options(self):
        return {"signer": OWN, "witness": self.witness}
