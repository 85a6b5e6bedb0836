"""The state machine of a label in which snapshots of both formats stand side by side."""

import json
import random
from contextlib import contextmanager

import needs_zstd  # noqa: F401 - skips what imports this where there is none
import pytest
from hypothesis.stateful import initialize
from memory_machine import MemoryMachine

from colony_memory._format.v2 import chain as chains
from colony_memory.testing import FakeVault

#: What makes a change small beside the memory, so that it is written as a patch.
BULK = {"bulk.md": "".join(f"{random.Random(1).getrandbits(32):x} {n}\n" for n in range(150))}


@contextmanager
def short_chains():
    """Chains that are folded at the third pack, and on which five snapshots stand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "MAX_PACKS", 3)
        patch.setattr(chains, "MAX_ON_BASE", 5)
        yield


class Mixed:
    """Clients that write either format into one label, for a state machine before which it stands."""

    formats = (1, 2, 2)

    def filled(self, documents):
        return {**documents, **BULK}

    @initialize()
    def open_vault(self):
        self.vault = self.fake = FakeVault(operations_per_hour=None, clock=lambda: self.now.timestamp())  # noqa: PLW0108

    def nothing_is_left_over(self):
        needed = set()
        for name, text in self.fake.files.items():
            if name.endswith(".manifest.json"):
                manifest = json.loads(text)
                label, snapshot_id = manifest["label"], manifest["snapshot_id"]
                packs = (
                    [
                        (each, "k", len(sizes))
                        for each, sizes in zip(manifest["packs"], manifest["pack_bytes"], strict=True)
                    ]
                    if "packs" in manifest
                    else [(snapshot_id, "p", manifest["part_count"])]
                )
                needed |= {f"cmem.{label}.{each}.{kind}{n}.json" for each, kind, count in packs for n in range(count)}
        assert {name for name in self.fake.files if not name.endswith(("latest.json", "manifest.json"))} == needed


class MixedMachine(Mixed, MemoryMachine):
    """Two clients, either of which writes either format."""
