"""Whatever lies in a vault in place of a snapshot: SnapshotCorrupt or UnsupportedFormat, and nothing else."""

import json
import random
import tracemalloc

import pytest
from chains import build_all, growing, manifest_at, read_at, sealed, snapshot_id, vault_of
from frames import compress
from hypothesis import given
from hypothesis import strategies as st

from colony_memory import SnapshotCorrupt, UnsupportedFormat
from colony_memory._format.v2 import build as manifests
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2.zstd import with_lead
from colony_memory.snapshot import info_from_manifest

HISTORY = growing(4, seed=5)
FILES, BUILT = build_all(HISTORY)
TOP = BUILT[-1]
NEEDED = list(manifest_at(FILES, 3).part_files)


def refuse(files, match=r".", *, n=3, **bounds):
    with pytest.raises(SnapshotCorrupt, match=match) as raised:
        read_at(files, n, **bounds)
    return raised.value


@pytest.mark.once
@pytest.mark.parametrize("file", NEEDED, ids=range(len(NEEDED)))
def test_a_flip_of_any_byte_of_a_pack_is_told(file):
    text = FILES[file]
    for at in range(len(text)):
        for other in {"A", "\0", chr(ord(text[at]) ^ 1)} - {text[at]}:
            error = refuse({**FILES, file: text[:at] + other + text[at + 1 :]})
            assert error.file == file


@pytest.mark.parametrize("file", NEEDED, ids=range(len(NEEDED)))
def test_a_pack_that_is_cut_short_or_longer_is_told(file):
    text = FILES[file]
    for cut in (*range(0, len(text), 7), len(text) - 1):
        assert refuse({**FILES, file: text[:cut]}).file == file
    assert refuse({**FILES, file: text + " "}).file == file
    assert refuse({name: kept for name, kept in FILES.items() if name != file}, "missing").file == file


def test_a_flip_of_any_byte_of_a_manifest_leads_nowhere_else():
    """Nothing but what is saved comes out of it: some of its fields say nothing of the text."""
    text = TOP.files[TOP.manifest_file]
    for at in range(len(text)):
        try:
            _, documents = read_at({**FILES, TOP.manifest_file: text[:at] + chr(ord(text[at]) ^ 1) + text[at + 1 :]}, 3)
        except ValueError:  # SnapshotCorrupt is one; JSON that is none is told by who reads the file
            continue
        assert documents == HISTORY[3]


@pytest.mark.parametrize(
    "changes",
    [
        {"packs": []},
        {"packs": [snapshot_id(0), snapshot_id(1), "../../etc", snapshot_id(3)]},
        {"pack_bytes": [[1], [1], [1], []]},
        {"pack_bytes": [[1], [1], [1], [-1]]},
        {"pack_bytes": [[1], [1], [1], [True]]},
        {"pack_bytes": [1, 1, 1, 1]},
        {"pack_bytes": [[1], [1], [1], [1] * (manifests.MAX_FILES + 1)]},
        {"pack_bytes": [[2**53], [1], [1], [1]]},
        {"pack_sha256": ...},
        {"levels": []},
        {"levels": ["0", "0", "0", "0"]},
        {"on_base": -1},
        {"on_base": ...},
        {"part_count": 1},
        {"byte_size": 10**15},
        {"created_at": None},
        {"codec": None},
    ],
)
def test_a_manifest_that_lies_is_refused(changes):
    error = refuse(sealed(FILES, TOP, **changes))
    assert not isinstance(error, UnsupportedFormat)


def test_a_manifest_of_no_label_is_refused():
    raw = json.loads(TOP.files[TOP.manifest_file])
    for changes in ({"label": "../x"}, {"label": "-"}, {"snapshot_id": "", "packs": [""]}):
        with pytest.raises(SnapshotCorrupt):
            info_from_manifest({**raw, **changes})


PUT = b'{"drop":[],"move":{},"put":{"a":1}}\nb'


def peak(run):
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_of_text_stops_at_the_bound():
    bomb = compress(b'{"drop":[],"move":{},"put":{"a":%d}}\n' % 2**26 + b"\0" * 2**26, b"")
    assert peak(lambda: refuse(vault_of(bomb), "more than", n=0, max_bytes=2**20)) < 2**22
    error = refuse(vault_of(bomb), "more than", n=0, max_bytes=2**20)
    assert "max_bytes" in str(error)


def test_a_bomb_by_way_of_the_prefix_stops_at_the_bound():
    """Each pack doubles what is below it, in some bytes."""
    frames, state, size = [], b"", 1000
    for n in range(12):
        content = b'{"drop":[],"move":{},"put":{"%d":%d}}\n' % (n, size) + (state * 2 + b"x" * size)[:size]
        frames.append(compress(content, state))
        state += b"%d\n" % n + content.partition(b"\n")[2]
        state = b"".join(sorted([state]))
        size *= 2
        if n == 8:
            break
    assert peak(lambda: refuse(vault_of(*frames), n=len(frames) - 1, max_bytes=2**15)) < 2**22


def test_a_bomb_of_names_stops_before_it_is_made_into_objects():
    many = b",".join(b'"%x":0' % n for n in range(300_000))
    bomb = compress(b'{"drop":[],"move":{},"put":{' + many + b"}}\n", b"")
    assert peak(lambda: refuse(vault_of(bomb), n=0, max_bytes=2**21)) < 2**24


def test_a_line_of_one_long_name_stops_before_it_is_text():
    for char in ("a", "\U0001f600"):
        line = b'{"drop":[],"move":{},"put":{"' + char.encode() + b"a" * 2**20 + b'":1}}'
        bomb = vault_of(compress(line + b"\nx", b""))
        assert peak(lambda bomb=bomb: refuse(bomb, "first line has", n=0, max_bytes=2**21)) < 2**22
        refuse(bomb, "more than", n=0, max_bytes=2**19)


def test_a_chain_has_a_bound_for_all_of_its_packs_together():
    size = 2**21
    put = b'{"drop":[],"move":{},"put":{"a":%d}}\n' % size
    state = b"a\n" + b"x" * size
    base, same = compress(put + b"x" * size, b""), compress(b'{"drop":[],"move":{},"put":{}}\n', state)
    anew = compress(put + b"x" * size, state)
    most = chains.most_work(3 * 2**20)
    assert most == 40 * 2**20
    for frame, of in ((same, size), (anew, 3 * size)):
        packs = -(-most // of)
        facts = {"n": packs, "max_bytes": 3 * 2**20}
        error = refuse(vault_of(base, *[frame] * packs), "chain takes more to read", **facts)
        assert "max_bytes" in str(error)
        facts["n"] = packs - 1
        refuse(vault_of(base, *[frame] * (packs - 1)), "different text", **facts)  # all of it is unpacked


def test_what_is_taken_from_below_has_that_bound_too():
    size = 2**20
    base = compress(b'{"drop":[],"move":{},"put":{"a":%d}}\n' % size + b"x" * size)
    taken = with_lead(b"", compress(b'{"drop":[],"move":{},"put":{"a":[[2,%d]]}}\n' % size))
    most = chains.most_work(2 * size) // size
    refuse(vault_of(base, *[taken] * most), "chain takes more to read", n=most, max_bytes=2 * size)
    refuse(vault_of(base, *[taken] * (most - 1)), "different text", n=most - 1, max_bytes=2 * size)


ANEW = compress(b'{"drop":[],"move":{},"put":{"a":1}}\nb')
LEADS = [b"0", b"0 ", b"0 5 1", b"-1 2", b"0 4", b"4 0", b"1.0 2", b"a b", b"\xd9\xa3 0", b"0 1\n", b"9" * 5000 + b" 0"]


@pytest.mark.parametrize("lead", [*LEADS, b"0 0 " * 2**18 + b"0 0"])
def test_a_prefix_that_is_of_nothing_below_is_refused(lead):
    assert read_at(vault_of(compress(PUT), with_lead(b"1 2", ANEW)), 1)[1] == {"a": "b"}
    refuse(vault_of(compress(PUT), with_lead(lead, ANEW)), "does not unpack", n=1)


def test_what_tells_of_a_prefix_stands_once_and_whole():
    frame = with_lead(b"0 3", ANEW)
    for wrong in (frame[:6], frame[:8], frame[:11], frame * 2, with_lead(b"0 1 0 0", frame)):
        refuse(vault_of(compress(PUT), wrong), "does not unpack", n=1)


def test_a_document_costs_more_than_its_bytes():
    names = [f"{n:x}" for n in range(3000)]
    line = b'{"drop":[],"move":{},"put":{' + b",".join(b'"%s":0' % name.encode() for name in names) + b"}}\n"
    state = "".join(f"{name}\n" for name in sorted(names)).encode()
    base, anew = compress(line, b""), compress(line, state)
    refuse(vault_of(base, *[anew] * 20), "chain takes more to read", n=20, max_bytes=2**20)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_whatever_the_frames_are(first, second):
    for frames in (
        (first,),
        (compress(PUT, b""), second),
        (compress(first, b""),),
        (compress(PUT, b""), compress(second, b"")),
    ):
        refuse(vault_of(*frames), n=len(frames) - 1)


def test_whatever_a_frame_becomes():
    chance = random.Random(3)
    frame = compress(b'{"drop":[],"move":{},"put":{"a":900}}\n' + b"some text " * 90, b"")
    for _ in range(2000):
        data = bytearray(frame)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        # Without a digest of the text, none of it could be told from another memory.
        refuse(vault_of(bytes(data)), n=0, max_bytes=10**5)
