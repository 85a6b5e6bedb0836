from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest
from chains import build_all, growing, manifest_at
from frames import compress, decompress

from colony_memory import ColonyMemoryError, UnsupportedFormat
from colony_memory._format.v2 import zstd as door
from colony_memory._format.v2.build import build, read_chain
from colony_memory._format.v2.zstd import WANTED, TooLarge, split_lead, with_lead

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


def test_a_frame_that_does_not_tell_its_size_is_refused():
    packer = zstd().ZstdCompressor(options={zstd().CompressionParameter.content_size_flag: 0})
    with pytest.raises(ValueError, match="tells its size"):
        decompress(packer.compress(b"x" * 100) + packer.flush(), b"", at_most=1000)


@pytest.mark.parametrize("more", [b"\0", b"\x28\xb5\x2f\xfd", compress(b"again", b"")])
def test_more_than_one_frame_is_refused(more):
    with pytest.raises(ValueError, match="more than one frame"):
        decompress(compress(b"once", b"") + more, b"", at_most=1000)


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


@pytest.fixture
def _no_zstd(monkeypatch):
    door._zstd.cache_clear()
    for name in ("backports", "backports.zstd", "compression", "compression.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    yield
    monkeypatch.undo()
    door._zstd.cache_clear()


@pytest.mark.usefixtures("_no_zstd")
def test_without_zstd_a_writer_says_what_to_install():
    with pytest.raises(ColonyMemoryError, match=re.escape(WANTED)):
        build({"a": "b"}, label="default", snapshot_id="one", created_at="2026-01-01T00:00:00Z")


def test_without_zstd_a_reader_says_what_to_install(request):
    files, _ = build_all([{"a": "b"}])
    manifest = manifest_at(files, 0)
    request.getfixturevalue("_no_zstd")
    with pytest.raises(UnsupportedFormat, match=re.escape(WANTED)) as raised:
        read_chain(manifest, dict(files))
    assert raised.value.file.endswith(".manifest.json")


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
