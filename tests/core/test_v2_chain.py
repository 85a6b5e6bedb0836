import json
import random
import shutil
import subprocess
import sys

import pytest
from chains import LABEL, build_all, build_at, growing, manifest_at, read_at, snapshot_id
from frames import compress, decompress
from hypothesis import given
from hypothesis import strategies as st
from test_v2_state import MEMORY

from colony_memory import UntrustedSnapshot
from colony_memory._format.names import pack_filename
from colony_memory._format.v2 import chain as chains
from colony_memory._format.v2 import state as states
from colony_memory._format.v2 import zstd as door
from colony_memory._format.v2.zstd import TooLarge, split_lead, with_lead
from colony_memory.signing import Ed25519Signer
from colony_memory.trust import OPEN


def kinds(built):
    return "".join("b" if len(links) == 1 else "f" if links[-1].level else "p" for links in map(links_of, built))


def links_of(built):
    return built.chain.links


@given(st.lists(MEMORY.filter(bool), min_size=1, max_size=8), st.integers(2, 4))
def test_every_state_of_a_history_is_restored(history, cap):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "MAX_PACKS", cap)
        files, built = build_all(history)
    for n, documents in enumerate(history):
        chain, read = read_at(files, n)
        assert read == documents
        assert chain == built[n].chain


def test_a_long_history_takes_few_packs_and_little_room():
    history = growing(300)
    files, built = build_all(history)
    for n in range(0, 300, 13):
        assert read_at(files, n)[1] == history[n]
    assert max(len(links_of(each)) for each in built) == chains.MAX_PACKS
    assert {"b", "p", "f"} == {*kinds(built)}
    whole = sum(len(text) for documents in history for text in documents.values())
    assert sum(map(len, files.values())) < whole / 2


def test_the_last_packs_of_one_level_are_folded(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    _, built = build_all(growing(9))
    assert [[link.level for link in links_of(each)] for each in built] == [
        [0],
        [0, 0],
        [0, 0, 0],
        [0, 1],
        [0, 1, 0],
        [0, 1, 1],
        [0, 2],
        [0, 2, 0],
        [0, 2, 1],
    ]


def test_a_fold_is_made_from_what_stays_below_it(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 4)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    files, built = build_all(growing(5))
    base, fold = links_of(built[4])
    assert (fold.level, fold.pack.below) == (1, chains.Below(base.pack.pack_id, base.pack.sha256))
    # What was folded is not needed.
    needed = {*manifest_at(files, 4).part_files}
    assert needed == {pack_filename(LABEL, snapshot_id(n), 0) for n in (0, 4)}


def test_what_a_snapshot_needs_is_there_or_new():
    files, built = build_all(growing(40))
    for n, each in enumerate(built):
        manifest = manifest_at(files, n)
        assert {*manifest.part_files} == {*each.inherited, *each.files} - {each.manifest_file}
        assert len(each.files) == 2
        assert each.info.stored_bytes == sum(len(text.encode()) for text in each.files.values())
        told = [size for sizes in manifest.pack_bytes for size in sizes]
        assert told == [len(files[name].encode()) for name in manifest.part_files]


def test_a_new_base_where_a_patch_is_no_smaller():
    """Neither memory has anything of the other."""
    one, other = ({f"{n}": f"{seed * 7919 * (n + 1):x}" * 9 for n in range(50)} for seed in (11, 10**9))
    _, built = build_all([one, other, {**other, "0": "told"}])
    assert kinds(built) == "bbp"


def test_a_memory_that_grew_to_more_than_twice_and_came_back_takes_a_patch():
    first = {f"{n}.md": f"{n * 7919:x} " * 9 + f"{n * 104729:x}" for n in range(60)}
    jump = {**first, **{f"new/{n}.md": f"{n * 15485863:x} " * 9 + f"{n * 32452843:x}" for n in range(50)}}
    _, built = build_all([first, jump, first, jump, first])
    assert kinds(built)[:3] == "bbp"
    assert len(links_of(built[2])[-1].pack.frame) < 1000


def test_a_memory_that_shrank_for_good_takes_a_base():
    first = {f"{n}.md": f"{(n + 7) ** 19:x}" for n in range(400)}
    few = {name: first[name] for name in sorted(first)[:20]}
    _, built = build_all([first, few, {**few, "0.md": "new"}])
    assert kinds(built) == "bbp"


def test_a_run_that_takes_much_is_carried_and_folded_where_there_are_too_many(monkeypatch):
    monkeypatch.setattr(chains, "MAX_PACKS", 3)
    monkeypatch.setattr(chains, "MOST_PACKS", 6)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    history = growing(9)
    assert [len(links_of(each)) for each in build_all(history)[1]] == [1, 2, 3, 2, 3, 3, 2, 3, 3]
    monkeypatch.setattr(chains, "_WORTH", 0)
    monkeypatch.setattr(chains, "_SMALL", 0)
    files, built = build_all(history)
    assert [len(links_of(each)) for each in built] == [1, 2, 3, 4, 5, 6, 2, 3, 4]
    assert read_at(files, 8)[1] == history[8]


def test_a_new_base_after_so_many_snapshots(monkeypatch):
    monkeypatch.setattr(chains, "MAX_ON_BASE", 5)
    _, built = build_all(growing(12))
    assert kinds(built).count("b") == 3
    assert [each.chain.on_base for each in built[:6]] == [0, 1, 2, 3, 4, 0]


def test_a_new_base_where_a_patch_takes_two_files(monkeypatch):
    first = {f"{n}": f"{n * 7919:x}" * 9 for n in range(400)}
    later = {**first, "new": "".join(f"{n * 104729:x}" for n in range(120))}
    assert kinds(build_all([first, later])[1]) == "bp"
    monkeypatch.setattr(chains, "PACK_CHARS", 300)
    assert kinds(build_all([first, later])[1]) == "bb"


def test_a_chain_stays_within_what_readers_unpack(monkeypatch):
    monkeypatch.setattr(chains, "_LEAST_WORK", 0)
    text = "".join(f"{n * 104729:x}\n" for n in range(3000))
    history = [{"a": text, **{f"{m}": "x" for m in range(n)}} for n in range(24)]
    files, built = build_all(history, max_bytes=30_000)
    assert {*kinds(built)} == {*"bpf"}
    for n, memory in enumerate(history):
        assert sum(link.work for link in built[n].chain.links[1:]) <= 240_000
        assert read_at(files, n, max_bytes=30_000)[1] == memory


def test_a_name_as_long_as_the_line_is_refused():
    with pytest.raises(ValueError, match="names of the documents take") as raised:
        build_at(0, {"x" * 400_000: "y"}, max_bytes=10**6)
    assert "max_bytes" in str(raised.value)
    first = {f"{n:03}" + "x" * 1000: "y" for n in range(200)}
    _, built = build_all([first, {f"{n:03}" + "z" * 1000: "" for n in range(200)}], max_bytes=10**6)
    assert kinds(built) == "bb"  # as a patch, the line would name both


def test_a_large_state_is_a_prefix_in_part(monkeypatch):
    monkeypatch.setattr(states, "WHOLE", 1000)
    history = growing(30)
    files, built = build_all(history)
    leads = [split_lead(each.chain.links[-1].pack.frame)[0] for each in built]
    assert leads[0] is None  # a base has nothing below it
    taken = [sum(map(int, lead.split()[1::2])) for lead in leads if lead]
    assert len(taken) > 9
    assert all(500 < each < 2500 for each in taken)
    for n, documents in enumerate(history):
        assert read_at(files, n)[1] == documents


def noise(size):
    return random.Random(size).randbytes(size).hex()


@pytest.mark.parametrize("whole", [states.WHOLE, 1000])
def test_of_a_large_text_only_what_is_new_is_stored(monkeypatch, whole):
    monkeypatch.setattr(states, "WHOLE", whole)
    text, other = noise(200_000), noise(50_001)
    edits = [
        {"a": text, "b": other},
        {"a": f"first\n{text}", "b": other},
        {"a": f"first\n{text[:100_000]} and in between {text[100_000:]}\nlast", "b": other},
        {"a": f"{text[200_000:]}{text[:100_000]}{text[90_000:200_000]}", "b": other},  # moved about
        {"a": f"{other}{text[150_000:]}", "b": f"{text[:150_000]}{other[5:]}"},
        {"a": f"{other[:70_000]} {other[70_000:]}", "b": other},
        {"a": f"{noise(60_000)}", "b": other},
    ]
    files, built = build_all(edits)
    for n, documents in enumerate(edits):
        assert read_at(files, n)[1] == documents
    assert kinds(built[:4]) == "bppp"
    sizes = [len(each.chain.links[-1].pack.frame) for each in built]
    assert max(sizes[1:3]) < 4000
    assert sizes[3] < 20_000


def test_a_base_of_many_files(monkeypatch):
    monkeypatch.setattr(chains, "PACK_CHARS", 50)
    monkeypatch.setattr(chains, "_pays", lambda *_: True)
    history = growing(4)
    files, built = build_all(history)
    assert len(manifest_at(files, 0).part_files) > 20
    assert len(built[1].files) > 2
    for n, documents in enumerate(history):
        assert read_at(files, n)[1] == documents


def test_reading_does_not_ask_how_it_was_cut():
    """Another writer may put any packs below one another: here one that changes nothing, and one that begins empty."""
    files, _ = build_all([{"a": "1"}])
    same = build_at(1, {"a": "1"}, build_at(0, {"a": "1"}).chain)
    assert read_at({**files, **same.files}, 1)[1] == {"a": "1"}


def test_every_fact_is_in_the_manifest():
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    built = build_at(
        0,
        {"a": "b"},
        signer=signer,
        previous={"snapshot_id": "before", "manifest_sha256": "sha256:" + "0" * 64},
        stream="0" * 16,
        note="a \ud83d",
        incomplete=["sock: is a socket"],
        tags=("daily",),
    )
    info = manifest_at(built.files, 0).info
    assert (info.format, info.parent_id, info.signed, info.issuer) == ("colony-memory/2", "before", True, info.issuer)
    assert info.tags == ("daily",)
    assert (info.note, info.incomplete, info.part_count, info.doc_names) == ("a \\ud83d", ("sock: is a socket",), 0, [])
    raw = json.loads(built.files[built.manifest_file])
    OPEN.judge(raw)
    with pytest.raises(UntrustedSnapshot):
        OPEN.judge({**raw, "pack_sha256": "sha256:" + "0" * 64})


@pytest.mark.parametrize("documents", [{}, [], {"a": 1}, {1: "a"}])
def test_what_is_no_memory_is_refused(documents):
    with pytest.raises(ValueError, match=r"documents|document"):
        build_at(0, documents)


def test_more_than_the_bound_is_refused_before_it_is_compressed():
    with pytest.raises(ValueError, match="more than the") as raised:
        build_at(0, {"a": "x" * 100}, max_bytes=100)
    assert "max_bytes" in str(raised.value)
    with pytest.raises(ValueError, match="more than the"):
        build_at(0, dict.fromkeys(map(str, range(1200)), ""), max_bytes=12_000)
    built = build_at(0, {"a": "x" * 100}, max_bytes=108)
    assert read_at(built.files, 0, max_bytes=108)[1] == {"a": "x" * 100}


@pytest.mark.once
def test_a_hundred_thousand_documents():
    documents = {f"notes/{n:06}.md": f"{n}" for n in range(100_000)}
    files, _ = build_all([documents])
    assert read_at(files, 0)[1] == documents


PREFIX = b"what is there already, and said at some length " * 3


@pytest.mark.parametrize("prefix", [b"", PREFIX])
def test_how_it_is_cut_makes_no_difference(prefix):
    content = bytes(range(256)) * 1200 + PREFIX
    for size in (1, 1000, 2**17, 2**18):
        pieces = [content[at : at + size] for at in range(0, len(content), size)]
        assert door.compress(pieces, len(content), door.Prefix([prefix])) == compress(content, prefix)


@pytest.mark.parametrize("data", [b"", b"short", PREFIX])
def test_how_the_prefix_is_cut_makes_no_difference(data):
    prefix = door.Prefix([data[:3], data[3:]])
    assert prefix.size == len(data)
    assert decompress(door.compress([b"x", data], len(data) + 1, prefix), data, at_most=1000) == b"x" + data


def zstd():
    return door._zstd()


def test_a_frame_that_is_no_frame_is_refused():
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    for frame in (
        b"",
        b"no frame",
        skippable,
        compress(b"x" * 99, b"")[:-1],
        compress(b"", b"")[:-1],
        b"\x28\xb5\x2f\xfd",
    ):
        with pytest.raises(ValueError, match=r"frame|zstd"):
            decompress(frame, b"", at_most=1000)


def test_a_window_that_decoders_refuse_is_refused():
    known = zstd().CompressionParameter
    packer = zstd().ZstdCompressor(options={known.window_log: 30})
    packer.set_pledged_input_size(2**29)
    frame = packer.compress(b"x", mode=packer.FLUSH_BLOCK)
    with pytest.raises(ValueError, match="damaged"):
        decompress(frame, b"", at_most=2**29)


def test_a_bomb_inflates_no_further_than_it_says():
    bomb = compress(b"\0" * 2**26, b"")
    assert len(bomb) < 10_000
    with pytest.raises(TooLarge):
        decompress(bomb, b"", at_most=2**20)


def test_the_package_loads_no_zstd():
    code = (
        "import sys, colony_memory, colony_memory._format.v2.build; "
        "sys.exit(any('zstd' in name and 'v2' not in name for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd command")
def test_the_stock_command_opens_a_pack(tmp_path):
    """By the steps of SNAPSHOT-FORMAT.md: a base alone, a patch with the state below it."""
    _, built = build_all(growing(2))
    base, patch = built[1].chain.links
    assert split_lead(patch.pack.frame)[0] is None
    frame, state, out = tmp_path / "frame", tmp_path / "state", tmp_path / "out"
    frame.write_bytes(base.pack.frame)
    subprocess.run(["zstd", "-dq", frame, "-o", out], check=True)
    assert out.read_bytes() == decompress(base.pack.frame, b"", at_most=10**6)
    state.write_bytes(b"".join(built[0].chain.state.run()))
    frame.write_bytes(patch.pack.frame)
    subprocess.run(["zstd", "-dqf", f"--patch-from={state}", frame, "-o", out], check=True)
    assert out.read_bytes() == decompress(patch.pack.frame, state.read_bytes(), at_most=10**6)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd command")
def test_the_stock_command_passes_over_what_a_prefix_is_of(tmp_path):
    prefix, frame = tmp_path / "prefix", tmp_path / "frame"
    prefix.write_bytes(PREFIX)
    frame.write_bytes(with_lead(b"0 9", compress(PREFIX + b"and more", PREFIX)))
    done = subprocess.run(["zstd", "-dqc", f"--patch-from={prefix}", frame], check=True, capture_output=True)
    assert done.stdout == PREFIX + b"and more"


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd command")
def test_what_the_stock_command_writes_is_read(tmp_path):
    old, new, frame = tmp_path / "old", tmp_path / "new", tmp_path / "frame"
    old.write_bytes(PREFIX * 100)
    new.write_bytes(PREFIX * 100 + b"and more")
    for level in ("-1", "-19"):
        subprocess.run(["zstd", "-qf", level, f"--patch-from={old}", new, "-o", frame], check=True)
        assert decompress(frame.read_bytes(), old.read_bytes(), at_most=10**6) == new.read_bytes()
