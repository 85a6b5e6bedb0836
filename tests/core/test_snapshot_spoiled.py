from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from snapshot_files import CAN_SIGN, JSON_VALUES, MANIFEST, MEMORY, TEXTS, built, fields, restored, unhurried

from colony_memory import snapshot
from colony_memory.exceptions import SnapshotCorrupt, UntrustedSnapshot
from colony_memory.signing import Ed25519Signer


def spoiled(draw: st.DrawFn, text: str) -> str:
    """One edit of a text."""
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + draw(st.sampled_from([0, 1, 2, 70, 10_000])))))
    kind = draw(st.sampled_from(["replace", "cut", "double", "insert", "truncate"]))
    if kind == "truncate":
        return text[:start]
    if kind == "double":
        return text[:end] + text[start:end] + text[end:]
    insert = "" if kind == "cut" else draw(st.one_of(TEXTS, st.text('0123456789abcdef"{}[]:,=+/ \n', max_size=4)))
    return text[:start] + insert + text[start if kind == "insert" else end :]


@st.composite
def spoiled_files(draw: st.DrawFn, files: dict[str, str], *, keep: tuple[str, ...] = ()) -> dict[str, str]:
    """The files of a snapshot after a few accidents or attacks."""
    files = dict(files)
    spoilable = sorted(set(files) - set(keep))
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(spoilable))
        kind = draw(st.sampled_from(["text", "text", "field", "field", "drop field", "swap", "lose"]))
        if kind == "text":
            files[name] = spoiled(draw, files[name])
        elif kind == "swap":
            other = draw(st.sampled_from(spoilable))
            files[name], files[other] = files[other], files[name]
        elif kind == "lose" and name != MANIFEST:
            files[name] = ""
        else:
            try:
                raw = json.loads(files[name])
                target = draw(st.sampled_from([raw, *(each for each in raw.values() if isinstance(each, dict))]))
                key = draw(st.sampled_from(sorted(target)))
            except (ValueError, AttributeError, RecursionError, TypeError):
                continue
            if kind == "drop field":
                del target[key]
            else:
                target[key] = draw(JSON_VALUES)
            files[name] = json.dumps(raw)
    return files


PLAIN = built(MEMORY, part_chars=64)


@given(spoiled_files(PLAIN.files))
@settings(unhurried, max_examples=4 * settings().max_examples)
def test_a_spoiled_snapshot_gives_its_documents_or_is_refused(files: dict[str, str]) -> None:
    for verify in (False, True):
        try:
            documents = restored(files, verify=verify)
        except SnapshotCorrupt as error:
            str(error).encode("utf-8")
        except UntrustedSnapshot:
            assert verify
        else:
            assert documents == MEMORY


@pytest.mark.skipif(not CAN_SIGN, reason="needs the sign extra")
@given(st.data())
@settings(unhurried, max_examples=4 * settings().max_examples)
def test_a_spoiled_signed_snapshot_gives_its_documents_or_is_refused(data: st.DataObject) -> None:
    made = built(MEMORY, part_chars=64, signer=Ed25519Signer(bytes(range(32))))
    files = data.draw(spoiled_files(made.files))
    try:
        documents = restored(files)
    except (SnapshotCorrupt, UntrustedSnapshot) as error:
        str(error).encode("utf-8")
        return
    assert documents == MEMORY
    left = json.loads(files[MANIFEST])
    # What a signature covers is what was signed, unless the signature is gone; who requires one is asked elsewhere.
    assert left == fields(made) or left.get("signature") is None


@given(spoiled_files(PLAIN.files))
@settings(unhurried, max_examples=2 * settings().max_examples)
def test_parse_of_any_json_object_gives_its_documents_or_refuses(files: dict[str, str]) -> None:
    try:
        raw = json.loads(files[MANIFEST])
    except (ValueError, RecursionError):
        return
    if not isinstance(raw, dict):
        return
    try:
        documents = snapshot.parse(raw, files, verify_signature=True, max_bytes=1_000_000)
    except (SnapshotCorrupt, UntrustedSnapshot):
        return
    assert documents == MEMORY


@unhurried
@given(st.dictionaries(st.sampled_from(sorted(fields(PLAIN))), JSON_VALUES))
def test_a_summary_of_any_json_object_is_given_or_refused(changed: dict[str, Any]) -> None:
    try:
        info = snapshot.info_from_manifest({**fields(PLAIN), **changed})
    except SnapshotCorrupt:
        return
    assert isinstance(info, snapshot.SnapshotInfo)
    assert all(isinstance(name, str) for name in info.doc_names)
