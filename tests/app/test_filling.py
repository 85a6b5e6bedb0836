"""What an incomplete snapshot lacks, taken from the newest one that has it: history, folder, outcome."""

import subprocess
import sys
from dataclasses import replace

import pytest
from capture_trees import linux, make, posix

from colony_memory import ColonyMemory, ColonyMemoryError, open_vault, restore_folder, save_folder
from colony_memory._os.paths import UnfitFile
from colony_memory.capture import _reading, read_folder
from colony_memory.capture._metadata import METADATA_NAME, Metadata, dump_metadata, split_documents
from colony_memory.shell.app.run import begin

pytestmark = [posix, pytest.mark.usefixtures("quiet")]
MOVES = "never stood still"


class World:
    """A vault, what hosts save in it, and a folder."""

    def __init__(self, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        self.path, self.url, self.here = tmp_path, str(tmp_path / "vault"), tmp_path / "here"
        open_vault(self.url, create=True)

    @property
    def memory(self):
        return ColonyMemory(backend=open_vault(self.url))

    def saved(self, files, *, unread=(), why=MOVES, can_be_had=True, label="default"):
        """A snapshot of these files that lacks others."""
        contents = {name: text for name, text in files.items() if isinstance(text, str)}
        metadata = Metadata(
            files={name: data for name, data in files.items() if isinstance(data, bytes)},
            left_out=dict.fromkeys(unread, why),
            unread=frozenset(unread if can_be_had else ()),
        )
        documents = {**contents, METADATA_NAME: dump_metadata(metadata)} if metadata else contents
        lines = [f"{name}: {why}" for name in unread]
        return self.memory.backup(documents, label=label, incomplete=lines, on_conflict="continue").snapshot_id

    def files(self):
        found = split_documents(read_folder(self.here, secrets="allow").documents)[0]
        return {
            name: text if isinstance(text, str) else text.removeprefix(b"\xff").decode() for name, text in found.items()
        }


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def b(text):
    return b"\xff" + text.encode()


ONE = {"a.md": "1", "store/x": b("x1"), "store/y": b("y1")}
TWO = {"a.md": "2", "store/x": b("x2"), "store/z": b("z2")}
LATEST = {"a.md": "3"}
TOP = {"a.md": "1", "m.duckdb": b("db1"), "m.duckdb.wal": b("wal1"), "m2.md": "m"}
ALL_OF_TWO = {"a.md": "3", "store/x": "x2", "store/z": "z2"}


@pytest.mark.parametrize(
    ("history", "expected", "source"),
    [
        ([(ONE, ()), (TWO, ()), (LATEST, ["store/"])], ALL_OF_TWO, 1),
        # Never of two: what the second lacks is not looked for in it.
        ([(ONE, ()), ({"a.md": "2", "store/x": b("x2")}, ["store/y"]), (LATEST, ["store/"])], {**ONE, "a.md": "3"}, 0),
        ([(ONE, ()), (LATEST, ["store/"]), (LATEST, ["store/"])], {**ONE, "a.md": "3"}, 0),
        # Somebody deleted it, and made it anew.
        ([(ONE, ()), ({"a.md": "2"}, ()), (LATEST, ["store/"])], {"a.md": "3"}, None),
        ([(LATEST, ["store/"])], {"a.md": "3"}, None),
        ([(TOP, ()), (LATEST, ["m.duckdb"])], {"a.md": "3", "m.duckdb": "db1", "m.duckdb.wal": "wal1"}, 0),
        (
            [(TOP, ()), (LATEST, ["m.duckdb", "m.duckdb.wal"])],
            {"a.md": "3", "m.duckdb": "db1", "m.duckdb.wal": "wal1"},
            0,
        ),
        (
            [(TOP, ()), ({**LATEST, "m.duckdb.wal": b("wal3")}, ["m.duckdb"])],
            {"a.md": "3", "m.duckdb.wal": "wal3"},
            None,
        ),
        ([(TOP, ()), ({**LATEST, "m2.md.bak": "3"}, ["m2.md"])], {"a.md": "3", "m2.md": "m", "m2.md.bak": "3"}, 0),
        ([(ONE, ()), (LATEST, [f"store/{n}" for n in range(30)] + ["store/x"])], {"a.md": "3", "store/x": "x1"}, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["restore", "run"])
def test_what_is_lacking_comes_from_the_newest_that_has_it(world, history, expected, source, how):
    ids = [world.saved(files, unread=unread) for files, unread in history]
    expected = {name: text if isinstance(text, str) else text[1:].decode() for name, text in expected.items()}
    if how == "restore":
        plan = restore_folder(world.memory, world.here, dry_run=True)
        done = restore_folder(world.memory, world.here)
        assert plan.filled == done.filled
        assert plan.written.created == done.written.created
    else:
        begun = begin(world.memory, world.here)
        done = begun.restored
        assert begun.messages == tuple(map(str, done.filled))
    assert world.files() == expected
    assert [each.snapshot_id for each in done.filled if not each.left] == ([] if source is None else [ids[source]])
    if source is not None:
        assert f"from snapshot {ids[source]} of 20" in str(done.filled[0])
    # It is not of the latest: the next save has all of it.
    if source is not None:
        saved = save_folder(world.memory, world.here)
        assert not saved.info.reused
        assert not saved.info.incomplete


@pytest.mark.parametrize(
    ("options", "files", "filled"),
    [({"fill": False}, {"a.md"}, 0), ({"only": "a.md"}, {"a.md"}, 0), ({"only": "store/*"}, {"store/x", "store/z"}, 1)],
)
def test_only_what_is_asked_for(world, options, files, filled):
    for each in (ONE, TWO):
        world.saved(each)
    world.saved(LATEST, unread=["store/"])
    assert len(restore_folder(world.memory, world.here, **options).filled) == filled
    assert set(world.files()) == files


def test_few_snapshots_are_read(world, monkeypatch):
    from colony_memory.shell.app.target import Target

    for number in range(9):
        world.saved({"a.md": str(number), "store/x": "x"}, unread=[f"store/{each}" for each in range(40)])
    world.saved(LATEST, unread=["other/"])
    read, real = [], Target.documents_of
    monkeypatch.setattr(Target, "documents_of", lambda self, one: read.append(one) or real(self, one))
    assert restore_folder(world.memory, world.here).filled == ()
    assert len(read) == 1  # what is complete but for something else says that it was deleted
    for number in range(9):
        world.saved({"a.md": f"n{number}"}, unread=[*(f"other/{each}" for each in range(40)), "store/"])
    read.clear()
    restore_folder(world.memory, world.here)
    assert len(read) <= 5


@pytest.mark.parametrize(
    ("edit", "expected", "left"),
    [
        ({}, ALL_OF_TWO, ""),  # as it was saved: all of the newer set, and nothing of the older
        ({"store/x": b("mine")}, {"a.md": "3", "store/x": "mine", "store/y": "y1"}, "what is here is saved nowhere"),
        (
            {"store/new": b("mine")},
            {"a.md": "3", "store/x": "x1", "store/y": "y1", "store/new": "mine"},
            "saved nowhere",
        ),
    ],
    ids=["clean", "changed", "more"],
)
@pytest.mark.parametrize("how", ["restore", "run"])
def test_what_the_folder_has_of_it(world, edit, expected, left, how):
    world.saved(ONE)
    restore_folder(world.memory, world.here)
    make(world.here, edit)
    world.saved(TWO)
    world.saved(LATEST, unread=["store/"])
    done = restore_folder(world.memory, world.here) if how == "restore" else begin(world.memory, world.here).restored
    assert world.files() == expected
    assert left in done.filled[0].left
    assert bool(done.filled[0].left) == bool(left)


def test_a_set_that_is_open_stays_and_the_rest_is_restored(world, monkeypatch):
    from colony_memory.capture import _plan

    world.saved(ONE)
    restore_folder(world.memory, world.here)
    world.saved(TWO)
    world.saved(LATEST, unread=["store/"])
    real = _plan.find_users

    def users(reach, changing, databases):
        found = real(reach, changing, databases)
        return found | {name: "agent (process 7)" for name in changing if name.startswith("store/")}

    monkeypatch.setattr(_plan, "find_users", users)
    done = restore_folder(world.memory, world.here)
    assert done.filled[0].left == "open in agent (process 7)"
    assert world.files() == {"a.md": "3", "store/x": "x1", "store/y": "y1"}


@linux
@pytest.mark.parametrize("first", [False, True])
def test_what_is_saved_nowhere_and_open_asks_to_stop_the_program(world, first):
    own = world.saved(ONE)
    restore_folder(world.memory, world.here)
    make(world.here, {"store/x": b("mine"), "a.md": b"mine"})
    world.saved(TWO)
    script = "import sys; f = open(sys.argv[1], 'r+b'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script, world.here / "store/x"], stdin=-1, stdout=-1) as agent:
        agent.stdout.readline()
        plan = restore_folder(world.memory, world.here, dry_run=True)
        assert {"store/x"} <= set(plan.written.in_use)
        assert plan.written.unsaved == ("a.md",)
        with pytest.raises(ColonyMemoryError, match=r"store/x.*stop what has it open") as caught:
            restore_folder(world.memory, world.here, snapshot=own, snapshot_first=first)
        assert caught.value.hint is None
        agent.stdin.close()
    restore_folder(world.memory, world.here, snapshot_first=True)
    assert world.files()["store/x"] == "x2"


@pytest.mark.parametrize("kept", ["store/x", "store/"])
def test_what_a_safety_copy_lacks_is_not_replaced(world, monkeypatch, kept):
    from colony_memory.capture.folder import LeftOut
    from colony_memory.shell.app import restore

    world.saved(ONE)
    restore_folder(world.memory, world.here)
    make(world.here, {"store/x": b("mine")})
    world.saved(TWO)
    real = restore._require_saved

    def lacking(capture, needed):
        real(replace(capture, left_out=(LeftOut(kept, MOVES),)), needed)

    monkeypatch.setattr(restore, "_require_saved", lacking)
    with pytest.raises(ColonyMemoryError, match=f"'store/x' would be replaced but is not in that save .{MOVES}"):
        restore_folder(world.memory, world.here, snapshot_first=True)
    assert world.files()["store/x"] == "mine"


def filled_folder(world):
    world.saved(ONE)
    world.saved(LATEST, unread=["store/"])
    restore_folder(world.memory, world.here)


@pytest.mark.parametrize(
    ("newer", "unread", "expected"),
    [
        ({"a.md": "4", "store/x": b("x4")}, (), {"a.md": "4", "store/x": "x4"}),
        ({"a.md": "4"}, ("store/",), {"a.md": "4", "store/x": "x1", "store/y": "y1"}),
        ({"a.md": "4"}, (), {"a.md": "4"}),  # others have deleted it
    ],
)
@pytest.mark.parametrize("how", ["restore", "run"])
def test_a_folder_that_was_filled_is_as_it_was_restored(world, newer, unread, expected, how):
    filled_folder(world)
    world.saved(newer, unread=unread)
    if how == "run":
        begun = begin(world.memory, world.here)
        assert begun.failed is None
        assert begun.restored.before is None
    else:
        restore_folder(world.memory, world.here, delete=True)
    assert world.files() == expected


def test_what_was_written_after_it_was_filled_is_never_lost(world):
    filled_folder(world)
    make(world.here, {"store/x": b("mine")})
    world.saved({"a.md": "4", "store/x": b("x4"), "store/y": b("y1")})
    with pytest.raises(ColonyMemoryError, match=r"store/x.* saved nowhere"):
        restore_folder(world.memory, world.here)
    begin(world.memory, world.here)
    assert {"mine", "x4"} <= set(world.files().values())
    assert world.files()["store/x"] == "mine"


def test_of_a_host_s_memory_no_set_takes_the_place_of_another(world):
    from colony_memory.shell.app.agents import AGENTS, Host

    def restore(folder):
        return restore_folder(world.memory, folder, host=Host(AGENTS["openclaw"], str(folder)))

    world.saved(ONE)
    restore(world.here)
    world.saved(TWO)
    world.saved(LATEST, unread=["store/"])
    assert restore(world.here).filled[0].left == "another is here"
    assert world.files()["store/x"] == "x1"
    assert restore(world.path / "other").filled[0].left == ""
    assert (world.path / "other/store/z").exists()


@pytest.mark.parametrize(
    ("error", "unread"),
    [
        (PermissionError(), True),
        (OSError(5, "Input/output error"), True),
        (FileNotFoundError(), False),  # somebody has deleted it
        (UnfitFile(0, "x"), False),
    ],
)
def test_a_save_says_what_could_not_be_read(world, monkeypatch, error, unread):
    make(world.here, {"a.md": b"a", "store/x": b"\xffx"})
    save_folder(world.memory, world.here)
    real = _reading.read_contents

    def closed(place, name, **options):
        if name == "x":
            raise error
        return real(place, name, **options)

    with monkeypatch.context() as patched:
        patched.setattr(_reading, "read_contents", closed)
        make(world.here, {"a.md": b"b", "store/x": b"\xffx2"})
        saved = save_folder(world.memory, world.here)
    metadata = split_documents(saved.capture.read().documents)[1]
    assert set(metadata.left_out) == {"store/x"}
    assert metadata.unread == ({"store/x"} if unread else set())
    assert bool(restore_folder(world.memory, world.path / "other").filled) == unread
    assert (world.path / "other/store/x").exists() == unread
