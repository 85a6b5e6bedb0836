"""The tree of a memory: one digest of its names and their contents, in manifests of both formats."""

from __future__ import annotations

import hashlib
import json

import pytest
from snapshots import recorded

from colony_memory import SnapshotCorrupt
from colony_memory._format.payload import tree_of, tree_of_digests
from colony_memory.snapshot import build, parse

PAIR = "\ud83d" + "\ude00"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def test_a_tree_is_the_digest_of_an_object_of_digests():
    empty, one = sha256(b""), sha256(b"1")
    assert tree_of({"b": "1", "a": ""}) == sha256(f'{{"a":"{empty}","b":"{one}"}}'.encode())
    assert tree_of({"b": "1", "a": ""}) == tree_of_digests({"a": empty, "b": one})


def test_no_two_memories_have_one_tree():
    memories = [
        {},
        {"a": "b"},
        {"ab": ""},
        {"a": "", "b": ""},
        {'a":"': "b"},
        {"a\0b": ""},
        {"\U0001f600": "1"},
        {PAIR: "1"},
        {"\\ud83d": "1"},
        {"\ud83d": "1"},
        {"1": "\U0001f600"},
        {"1": PAIR},
        {"1": "\\ud83d\\ude00"},
        recorded({"a": "b"}, {}),
        recorded({}, {"a": b"b"}),
        recorded({"a": "b"}, {"a": b"b"}),
        recorded({}, {"a": b"b", "c": b""}),
    ]
    assert len({tree_of(memory) for memory in memories}) == len(memories)


def opened(built):
    return json.loads(built.files[built.manifest_file]), dict(built.files)


def snapshot(documents):
    return build(
        documents, label="default", snapshot_id="20260101T000000000000Z-000000", created_at="2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(
    ("told", "problem"),
    [(tree_of({"a": "other"}), "another tree than its"), ("sha256:0", "tree should be"), (7, "tree should be")],
)
def test_a_manifest_of_another_tree_is_damaged(told, problem):
    built = snapshot({"a": "text"})
    manifest, files = opened(built)
    assert manifest["tree"] == built.tree == tree_of({"a": "text"})
    assert parse(manifest, files) == {"a": "text"}
    with pytest.raises(SnapshotCorrupt, match=problem):
        parse({**manifest, "tree": told}, files)
