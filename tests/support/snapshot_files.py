"""Snapshots of awkward texts as files, for tests of the format."""

import importlib.util
import json
from contextlib import contextmanager
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st

from colony_memory import snapshot
from colony_memory._format.manifest import read_documents
from colony_memory.trust import OPEN

# A busy machine is no failure.
unhurried = settings(deadline=None)

AWKWARD = '\ud800\udbff\udc00\udfff\ud83d\ude00😀\\"/\0\x1f\x7f\u2028\ufeff\r\nu0d8é項'
CHARACTERS = st.one_of(st.sampled_from(AWKWARD), st.characters())
TEXTS = st.text(CHARACTERS, max_size=12)
DOCUMENTS = st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(snapshot.FORMAT),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)

LABEL, ID, CREATED = "work", "20260102T030405000006Z-abcdef", "2026-01-02T03:04:05Z"
MANIFEST = f"cmem.{LABEL}.{ID}.manifest.json"
MEMORY = {"MEMORY.md": "two years of notes\n", "日記.md": "一\r\n二\0", "half\ud83d": "\ude00 of \ud83d\ude00"}
CAN_SIGN = importlib.util.find_spec("cryptography") is not None


@contextmanager
def part_size(characters):
    with mock.patch.object(snapshot, "PART_CHARS", characters):
        yield


def built(documents, *, part_chars=700_000, **more):
    with part_size(part_chars):
        return snapshot.build(documents, label=LABEL, snapshot_id=ID, created_at=CREATED, **more)


def fields(made):
    raw = json.loads(made.files[made.manifest_file])
    assert isinstance(raw, dict)
    return raw


def restored(files, *, verify=True):
    """What a client does with the files of a snapshot."""
    manifest = snapshot.read_manifest(files[MANIFEST], label=LABEL, snapshot_id=ID)
    OPEN.judge(manifest.raw, verify=verify)
    return read_documents(manifest, files, max_bytes=1_000_000)
