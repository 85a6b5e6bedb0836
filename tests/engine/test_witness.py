"""What is remembered outside the vault: heads, and the file that keeps them."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colony_memory import ColonyMemoryError
from colony_memory import witness as witness_module
from colony_memory._format.names import Head, read_head, write_head
from colony_memory.witness import FileWitness

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions, links and signals")

# Records rising generations of a label until it is told to stop, or killed.
RECORDER = """
import sys
from colony_memory.witness import FileWitness

witness, label, turns = FileWitness(sys.argv[1]), sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
for turn in range(1, turns + 1):
    witness.record(label, f"{turn}:{turn:016x}")
    witness.record("shared", f"{turn}:{turn:016x}")
"""


def head(generation, digits="0123456789abcdef"):
    return f"{generation}:{digits}"


@pytest.fixture
def witness(tmp_path):
    return FileWitness(tmp_path / "witness.json")


def heads_in(path):
    return json.loads(path.read_text())["heads"]


# --- heads


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 2**53 - 1), st.binary(min_size=32, max_size=32))
def test_a_head_is_read_as_it_was_written(generation, digest):
    written = write_head(generation, f"sha256:{digest.hex()}")
    assert written == f"{generation}:{digest.hex()[:16]}"
    assert read_head(written) == Head(generation, digest.hex()[:16])
    assert read_head(f"{written}:0123456789abcdef").stream == "0123456789abcdef"


@pytest.mark.parametrize(
    "given_head",
    [
        True,
        2**53,
        pytest.param(10**5000, id="of 5,001 digits"),
        None,
        b"42",
        [42],
        "+1",
        "042",
        "42\n",
        "42:",
        "0:0123456789abcdef",
        "42:0123456789abcdef0",
        "42:0123456789ABCDEF",
        "42:0123456789abcdef\n",
        "\N{ARABIC-INDIC DIGIT SIX}",
        pytest.param("9" * 100_000, id="100,000 nines"),
    ],
)
def test_what_is_no_head_is_refused_briefly(given_head):
    with pytest.raises(ValueError, match="is not a head: a head is '42:0123456789abcdef' or a generation") as caught:
        read_head(given_head)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("generation", [True, 0, -1, 2**53, 1.0, "1", None])
def test_a_generation_is_a_positive_integer(generation):
    with pytest.raises(ValueError, match="a generation is a positive integer"):
        write_head(generation, "sha256:" + "0" * 64)


@pytest.mark.parametrize("digest", ["", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "A" * 64, "sha512:" + "0" * 64, 7])
def test_a_digest_is_that_of_a_manifest(digest):
    with pytest.raises(ValueError, match="a manifest_sha256 is 'sha256:' and 64 hex digits"):
        write_head(1, digest)


# --- the file


def test_what_is_recorded_is_read_by_whoever_opens_the_file(witness):
    witness.record("default", head(1))
    witness.record("work", head(7))
    again = FileWitness(str(witness.path))
    assert (again.read("default"), again.read("work"), again.read("other")) == (head(1), head(7), None)
    assert json.loads(witness.path.read_text()) == {
        "format": "colony-memory/witness/1",
        "heads": {"default": head(1), "work": head(7)},
    }
    assert repr(witness) == f"FileWitness({str(witness.path)!r})"


def test_a_head_that_is_known_is_not_written_again(witness, monkeypatch):
    witness.record("default", head(9))

    def refuse(*args, **kwargs):
        raise AssertionError("written")

    monkeypatch.setattr(witness_module, "replace_file", refuse)
    monkeypatch.setattr(witness_module, "locked", refuse)
    witness.record("default", head(9))
    witness.record("default", head(3))


def test_a_label_is_one_in_every_spelling_that_backup_takes(witness):
    witness.record(" Work", head(1))
    assert witness.read("work") == witness.read("WORK ") == head(1)
    for label in ("a b", "", None, 7):
        with pytest.raises(ValueError, match="label"):
            witness.read(label)
        with pytest.raises(ValueError, match="label"):
            witness.record(label, head(1))


@pytest.mark.parametrize("given_head", ["42", 42, None, "", "0:0123456789abcdef", "42:0123"])
def test_only_a_whole_head_is_recorded(witness, given_head):
    with pytest.raises(ValueError, match=r"'42:0123456789abcdef'"):
        witness.record("default", given_head)
    assert not witness.path.exists()


@on_posix
def test_the_file_and_its_directory_are_for_their_owner_alone(tmp_path):
    witness = FileWitness(tmp_path / "state" / "witness.json")
    before = os.umask(0)
    try:
        for generation in (1, 2):
            witness.record("default", head(generation))
            assert stat.S_IMODE(witness.path.parent.stat().st_mode) == 0o700
            assert {stat.S_IMODE(path.stat().st_mode) for path in witness.path.parent.iterdir()} == {0o600}
    finally:
        os.umask(before)
    assert sorted(path.name for path in witness.path.parent.iterdir()) == [".witness.json.lock", "witness.json"]


def test_the_witness_stays_where_it_was_when_the_working_directory_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    witness = FileWitness("witness.json")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    witness.record("default", head(1))
    assert heads_in(tmp_path / "witness.json") == {"default": head(1)}


@on_posix
def test_of_a_link_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "witness.json"
    link.symlink_to(tmp_path / "far" / "w.json")
    with pytest.raises(ColonyMemoryError, match="a link to nothing"):
        FileWitness(link).read("default")
    with pytest.raises(ColonyMemoryError, match="a link to nothing"):
        FileWitness(link).record("default", head(1))
    FileWitness(tmp_path / "far" / "w.json").record("default", head(1))
    FileWitness(link).record("default", head(2))
    assert link.is_symlink()
    assert heads_in(tmp_path / "far" / "w.json") == {"default": head(2)}


GOOD = {"format": "colony-memory/witness/1", "heads": {"default": head(5)}}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        json.dumps(GOOD).encode()[:-1],
        json.dumps(GOOD).encode() + b"x",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": "colony-memory/witness/1"}',
        b'{"format": "colony-memory/witness/1", "heads": {"a": "1:0123456789abcdef", "a": "2:0123456789abcdef"}}',
        json.dumps({**GOOD, "format": "colony-memory/witness/2"}).encode(),
        *(
            json.dumps({**GOOD, "heads": heads}).encode()
            for heads in (
                None,
                {"default": None},
                {"default": "5"},
                {"default": head(5).upper()},
                {"Default": head(5)},
                {"a b": head(5)},
            )
        ),
    ],
)
def test_a_garbled_file_never_passes_for_nothing_seen(witness, content):
    witness.path.write_bytes(content)
    for call in (lambda: witness.read("other"), lambda: witness.record("other", head(1))):
        with pytest.raises(
            ColonyMemoryError,
            match=r"cannot be read: it is not a witness file.* Mend that, or put a good copy of it back",
        ):
            call()
    assert witness.path.read_bytes() == content


def test_a_file_of_any_size_is_refused_before_it_is_taken_in(witness):
    with witness.path.open("wb") as stream:
        stream.truncate(10**12)
    with pytest.raises(ColonyMemoryError, match="larger than 4194304 bytes"):
        witness.read("default")


@on_posix
def test_what_is_no_plain_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "file").write_text("x")
    for name, reason in (("pipe", "a named pipe, not a plain file"), ("file/below", "Not a directory")):
        with pytest.raises(ColonyMemoryError, match=f"cannot be read: {reason}"):
            FileWitness(tmp_path / name).read("default")
    later = FileWitness(tmp_path / "later")
    later.path.mkdir()
    with pytest.raises(ColonyMemoryError, match=r"cannot be read: a directory, not a plain file\. Mend"):
        later.record("default", head(1))


def test_a_failing_disk_is_told_from_nothing_seen(witness, monkeypatch):
    witness.record("default", head(1))

    def refuse(*args, **kwargs):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ColonyMemoryError, match="cannot be read: Input/output error"):
        witness.read("default")


@pytest.mark.parametrize(("place", "step"), [(os, "fsync"), (os, "replace")])
def test_a_record_that_cannot_be_written_leaves_what_was_there(witness, monkeypatch, place, step):
    witness.record("default", head(1))

    def refuse(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(ColonyMemoryError) as caught:
        patch.setattr(place, step, refuse)
        witness.record("default", head(2))
    for part in (str(witness.path), "No space left", "'default' is at 2:0123456789abcdef", "would not be noticed"):
        assert part in str(caught.value)
    assert sorted(path.name for path in witness.path.parent.iterdir()) == [".witness.json.lock", "witness.json"]
    assert witness.read("default") == head(1)
    witness.record("default", head(2))
    assert witness.read("default") == head(2)


def test_a_lock_that_is_held_for_ever_is_told(witness, monkeypatch):
    witness.record("default", head(1))
    monkeypatch.setattr(witness_module, "_LOCK_PATIENCE", 0.02)
    with witness_module.locked(witness.path.with_name(".witness.json.lock")):
        with pytest.raises(ColonyMemoryError, match="could not be written: locked by another process"):
            witness.record("default", head(2))
        assert witness.read("default") == head(1)


# --- threads and processes


def test_a_writer_that_was_overtaken_while_it_waited_changes_nothing(witness):
    witness.record("default", head(1))
    lock = witness.path.with_name(".witness.json.lock")
    waiting = threading.Thread(target=witness.record, args=("default", head(2)))
    with witness_module.locked(lock):
        waiting.start()
        time.sleep(0.05)
        # As another process does that got the lock first.
        witness.path.write_text(json.dumps({**GOOD, "heads": {"default": head(3)}}))
    waiting.join(10)
    assert not waiting.is_alive()
    assert witness.read("default") == head(3)


def test_processes_lose_nothing_to_each_other(witness):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", RECORDER, str(witness.path), f"p{number}", "20"], stdout=subprocess.PIPE
        )
        for number in range(3)
    ]
    for process in running:
        process.communicate(timeout=60)
    assert [process.returncode for process in running] == [0, 0, 0]
    last = f"20:{20:016x}"
    assert heads_in(witness.path) == {"p0": last, "p1": last, "p2": last, "shared": last}


@on_posix
def test_a_killed_writer_leaves_a_whole_file_and_no_lock(witness):
    reached = 0
    for turn in range(5):
        arguments = [sys.executable, "-c", RECORDER, str(witness.path), "killed", "1000000"]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(0.02 + 0.01 * turn)
            process.send_signal(signal.SIGKILL)
        seen = witness.read("killed")
        generation = 0 if seen is None else read_head(seen)[0]
        assert generation >= reached
        reached = generation
    assert reached > 0
    witness.record("after", head(1))
    assert witness.read("after") == head(1)
