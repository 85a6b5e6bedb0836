"""What is saved of a folder was all there at one moment, whatever moves in it."""

import os
import sys
import time

import pytest
from capture_trees import contents, crash_log, make, posix, running

from colony_memory import ColonyMemory, open_vault, save_folder
from colony_memory.capture import _moment, _reading, _walk, read_folder
from colony_memory.capture._moment import NEVER_STILL
from colony_memory.exceptions import ColonyMemoryError

pytestmark = posix


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(_moment, "APART", 0.001)
    monkeypatch.setattr(_moment, "LOG_SECONDS", 0.01)


def at_each_file(monkeypatch, act):
    """Call ``act`` with a number and the name, after each file that was read."""
    real, count = _reading.read_contents, iter(range(10**6))

    def reading(place, name, **more):
        found = real(place, name, **more)
        act(next(count), name)
        return found

    monkeypatch.setattr(_reading, "read_contents", reading)


def put(path, text):
    """As careful writers do it."""
    path.with_name(f"{path.name}.tmp").write_text(text)
    path.with_name(f"{path.name}.tmp").replace(path)


def pair(folder, number):
    put(folder / "index", f"{number}")
    put(folder / "texts", f"{number}")


def rewritten(folder, number):
    """In place, and with the size and times that they had."""
    for name in ("index", "texts"):
        before = (folder / name).stat()
        (folder / name).write_text(f"{number % 10}")
        os.utime(folder / name, ns=(before.st_atime_ns, before.st_mtime_ns))


def in_place(folder, number):
    for name in ("index", "texts"):
        (folder / name).write_text(f"{number} " * 9_000)


def segments(folder, number):
    """A new segment, named by the index; the old one goes."""
    (folder / f"segment-{number}").write_text("x")
    put(folder / "index", f"{number}")
    (folder / f"segment-{number - 1}").unlink(missing_ok=True)


def checkpoint(folder, number):
    """What was in the log goes into the data."""
    with (folder / "log").open("a") as log:
        log.write(f"{number}\n")
    if number % 2:
        put(folder / "data", (folder / "data").read_text() + (folder / "log").read_text())
        (folder / "log").write_text("")


def renamed(folder, number):
    """A log gets another name, and a new one its own."""
    (folder / "log").rename(folder / "log.1")
    (folder / "log").write_text(f"{number}\n")
    put(folder / "index", f"{number - 1} {number}")


def same(files):
    return files["index"] == files["texts"]


def named(files):
    return f"segment-{files['index']}" in files


def in_order(files):
    lines = (files["data"] + files["log"]).split()
    return lines == [str(number) for number in range(len(lines))]


def linked(files):
    before, now = files["index"].split()
    return files["log"].strip() == now and files["log.1"].strip() == before


STORES = {
    "pair": (pair, {"index": b"0", "texts": b"0"}, same),
    "rewritten": (rewritten, {"index": b"0", "texts": b"0"}, same),
    "in place": (in_place, {"index": b"0", "texts": b"0"}, same),
    "segments": (segments, {"index": b"0", "segment-0": b"x"}, named),
    "checkpoint": (checkpoint, {"data": b"", "log": b"0\n"}, in_order),
    "renamed": (renamed, {"log": b"1\n", "log.1": b"0\n", "index": b"0 1"}, linked),
}
START = {"renamed": 2}


@pytest.mark.parametrize("times", [1, 3, 7])
@pytest.mark.parametrize("store", STORES)
def test_a_store_that_moves_between_its_files_is_saved_as_it_was_once(tmp_path, monkeypatch, store, times):
    step, files, holds = STORES[store]
    make(tmp_path, {f"s/{name}": data for name, data in files.items()} | {"MEMORY.md": b"m"})
    left = list(range(START.get(store, 1), START.get(store, 1) + times))

    def move(_, name):
        if left and name in files:
            step(tmp_path / "s", left.pop(0))

    at_each_file(monkeypatch, move)
    capture = read_folder(tmp_path)
    assert (left, capture.left_out) == ([], ())
    assert holds({name.removeprefix("s/"): text for name, text in capture.documents.items()})


@pytest.mark.parametrize("place", ["store/", "a/b/store/"])
def test_what_never_stands_still_is_left_out_with_its_directory(tmp_path, monkeypatch, place):
    make(tmp_path, {f"{place}{name}": b"0" for name in ("index", "texts", "deep/more", "still.md")} | {"a.md": b"a"})
    at_each_file(monkeypatch, lambda number, _: pair(tmp_path / place, number))
    client = ColonyMemory(backend=open_vault("memory:"))
    saved = save_folder(client, tmp_path)
    assert not saved
    assert [str(each) for each in saved.left_out] == [f"{place}: {NEVER_STILL}"]
    assert saved.info.incomplete == (f"{place}: {NEVER_STILL}",)
    assert saved.contents is not None
    assert (saved.contents.texts, saved.contents.empty_dirs) == (("a.md",), ())
    assert save_folder(client, tmp_path).info.reused  # the reason is no news


def test_a_database_that_moves_with_what_is_beside_it_goes_with_it(tmp_path, monkeypatch):
    make(tmp_path, {"store/vectors/data.bin": b"0", "other/x.bin": b"0", "a.md": b"a"})
    crash_log(tmp_path / "store/m.db", rows=3)
    crash_log(tmp_path / "quiet.db", rows=3)

    def move(number, _):
        put(tmp_path / "store/vectors/data.bin", str(number))
        with (tmp_path / "store/m.db-wal").open("ab") as log:
            log.write(bytes(24))

    at_each_file(monkeypatch, move)
    capture = read_folder(tmp_path)
    assert [each.name for each in capture.left_out] == ["store/"]
    assert set(contents(capture)) == {"a.md", "other/x.bin", "quiet.db"}


def test_what_is_empty_beside_a_database_is_not_left_out_with_what_moves(tmp_path, monkeypatch):
    make(tmp_path, {"code/__init__.py": b"", "code/tool.py": b"x", "store/index": b"0", "store/texts": b"0"})
    crash_log(tmp_path / "a.db", rows=3)
    time.sleep(0.05)
    at_each_file(monkeypatch, lambda number, _: pair(tmp_path / "store", number))
    capture = read_folder(tmp_path)
    assert [each.name for each in capture.left_out] == ["store/"]
    assert {"code/__init__.py", "code/tool.py"} <= set(contents(capture))


def test_a_database_that_moves_alone_is_whole_by_itself(tmp_path, monkeypatch):
    make(tmp_path, {"a.md": b"a"})
    crash_log(tmp_path / "m.db", rows=3)

    def move(_, __):
        with (tmp_path / "m.db-wal").open("ab") as log:
            log.write(bytes(24))

    at_each_file(monkeypatch, move)
    assert read_folder(tmp_path).left_out == ()


@pytest.mark.parametrize(
    ("still", "left"),
    [
        ("s/more", "s/x/"),  # more of it has moved
        ("s/b.md", "s/x/"),
        ("s/x/b.md", "s/x/data/"),  # somebody keeps notes there
        ("s/more", "s/x.lance/"),  # it is named like a file
    ],
)
def test_a_store_of_several_directories_is_one_set(tmp_path, monkeypatch, still, left):
    store = "s/x.lance" if "lance" in left else "s/x"
    make(tmp_path, dict.fromkeys([f"{store}/data/1", f"{store}/versions/1", still, "a.md", "a.png"], b"0"))

    def move(number, _):
        put(tmp_path / store / "data/1", str(number))
        if number < 6 and store == "s/x":
            put(tmp_path / store / "versions/1", str(number))

    at_each_file(monkeypatch, move)
    capture = read_folder(tmp_path)
    assert [each.name for each in capture.left_out] == [left]
    assert {still, "a.md", "a.png"} <= set(contents(capture))


def test_at_the_top_a_store_whose_files_come_and_go_is_one_set(tmp_path, monkeypatch):
    make(tmp_path, {"meta.json": b"0", "a1.idx": b"0", "b2.store": b"0", "a.md": b"a", "notes/b.md": b"b"})
    crash_log(tmp_path / "m.db", rows=3)

    def move(number, _):
        (tmp_path / f"c{number}.idx").write_bytes(b"0")
        (tmp_path / f"c{number - 1}.idx").unlink(missing_ok=True)
        put(tmp_path / "meta.json", str(number))

    at_each_file(monkeypatch, move)
    capture = read_folder(tmp_path)
    assert {"a1.idx", "b2.store", "meta.json"} <= {each.name for each in capture.left_out}
    assert set(contents(capture)) == {"a.md", "m.db", "notes/b.md"}


REGULAR = [("s/index", 0.0005), ("s/texts", 0.02)] * 20
STALLED = [("s/index", 0.02), ("s/texts", 0.02)] * 20
SLOWLY = [("s/texts", 0.008), ("s/texts", 0.02)] * 20


@pytest.mark.parametrize(
    ("states", "quiet", "crowded"),
    [
        ([*REGULAR, ("s/texts", 0.0)], 0.01, 0.021),
        ([*REGULAR, ("s/index", 0.0)], 1.0, 1.0),  # the texts come next
        ([*STALLED, ("s/texts", 0.0)], 0.1, 0.3),  # it may be either that comes last
        ([*SLOWLY, ("s/texts", 0.0)], 0.1, 0.3),  # it may be in the middle of them
        ([*REGULAR[:30], ("s/texts", 0.0)], 0.1, 0.3),
        ([*REGULAR[:15], ("s/texts", 0.0)], 0.1, 0.3),
        ([("s/texts", 0.0)], 0.1, 0.1),
        ([*[("s/a", 0.0002), ("s/b", 0.002)] * 30, ("s/b", 0.0)], 0.003, 0.021),
        ([*[(f"s/{n:08x}-{n}.idx", 0.06) for n in range(40)], ("s/1.idx", 0.0)], 1.0, 1.0),
        ([*[(f"s/{n:08x}.idx", 0.06) for n in range(40)], ("s/0a0b0c0d.idx", 0.0)], 0.03, 0.048),
        ([*[("s/log", 0.5)] * 40, ("s/log", 0.0)], 0.1, 0.3),
    ],
)
def test_a_writer_is_done_by_the_pauses_that_it_makes(monkeypatch, states, quiet, crowded):
    monkeypatch.setattr(_moment, "QUIET", 0.1)
    rhythm, at = _moment.Rhythm(), 10**18
    for name, seconds in states:
        for part in (0, 0.5, 1):
            status = os.stat_result([33188, *[0] * 9], {"st_mtime_ns": at, "st_ctime_ns": at})
            rhythm.observe({name: status}, at + int(part * seconds * 1e9))
        at += int(seconds * 1e9) + 1
    for load, expected in ((1.0, quiet), (3.0, crowded)):
        monkeypatch.setattr(_moment, "_load", lambda load=load: load)
        assert rhythm.quiet() == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("names", "stores"),
    [
        ({"s/.managed.json", "s/meta.json", "s/0a.idx", "s2/0a.idx", "s3/.managed.json"}, {"s"}),
        ({"s/db/MANIFEST-01", "s/db/CURRENT", "t/MANIFEST-01"}, {"s/db"}),
        ({"s/_MAIN_1.toc", "s/MAIN_0.seg"}, {"s"}),
        ({"s/x.lance/_versions/1.manifest", "s/x.lance/data/1.lance"}, {"s/x.lance"}),
        ({"m.duckdb", "m.duckdb.wal", "n.duckdb", "o.kuzu", "o.kuzu.wal"}, {"m.duckdb", "m.duckdb.wal"}),
        ({"top/_MAIN_1.toc", ".managed.json", "meta.json", "_versions/1"}, set()),
    ],
)
def test_stores_that_are_whole_at_each_instant(names, stores):
    contents = {name: b"12345678DUCK" if "duckdb" in name else b"" for name in names}
    assert _moment._crash_safe(names, contents, {"", "top"}) == stores


def test_a_store_that_is_whole_at_each_instant_needs_no_pause(tmp_path, monkeypatch):
    monkeypatch.setattr(_moment, "QUIET", 10.0)
    make(tmp_path, {"s/meta.json": b"0", "s/.managed.json": b"[]", "s/0.idx": b"0"})
    left = [1, 2, 3]

    def move(_, name):
        if left:
            number = left.pop(0)
            (tmp_path / f"s/{number}.idx").write_bytes(b"0")
            put(tmp_path / "s/meta.json", str(number))

    at_each_file(monkeypatch, move)
    capture = read_folder(tmp_path)
    assert (capture.left_out, capture.documents["s/meta.json"], capture.documents["s/3.idx"]) == ((), "3", "0")


def test_a_file_that_is_short_before_its_time_changes_counts_as_changed(tmp_path, monkeypatch):
    """The system cuts a file first, and notes the time afterwards."""
    monkeypatch.setattr(_moment, "QUIET", 0.1)
    index = make(tmp_path, {"index": b"11", "a.md": b"a"}) / "index"
    first, cut = index.stat(), list[float]()
    times = {"st_mtime_ns": first.st_mtime_ns, "st_ctime_ns": first.st_ctime_ns}
    real = _walk.Walk.look

    def looking(*args, **more):
        if not cut:
            cut.append(time.monotonic())
            index.write_bytes(b"")
        elif not index.read_bytes() and time.monotonic() - cut[0] > 0.05:
            index.write_bytes(b"22")
        real(*args, **more)

    def told(call):
        def tell(*args, **more):
            status = call(*args, **more)
            is_cut = status.st_ino == first.st_ino and status.st_size == 0
            return os.stat_result(status[:10], times) if is_cut else status

        return tell

    monkeypatch.setattr(_walk.Walk, "look", looking)
    monkeypatch.setattr(os, "stat", told(os.stat))
    monkeypatch.setattr(os, "fstat", told(os.fstat))
    time.sleep(0.08)
    assert contents(read_folder(tmp_path))["index"] == "22"


def test_where_nothing_is_left_it_is_no_usage_error(tmp_path, monkeypatch):
    make(tmp_path, {"mem.duckdb": b"0"})
    at_each_file(monkeypatch, lambda number, _: put(tmp_path / "mem.duckdb", str(number)))
    with pytest.raises(ColonyMemoryError, match=r"nothing could be saved: 'mem\.duckdb' was left out \(kept changing"):
        read_folder(tmp_path)


def test_several_logs_are_cut_at_one_instant(tmp_path, monkeypatch):
    """What one points to is in the other: it is written first."""
    make(tmp_path, {"data.log": b"0\n", "index.log": b"0\n"})
    real, lines = _walk.Walk.look, iter(range(1, 10**6))

    def looking(*args, **more):
        line = f"{next(lines)}\n"
        for name in ("data.log", "index.log"):
            with (tmp_path / name).open("a") as log:
                log.write(line)
        real(*args, **more)

    monkeypatch.setattr(_walk.Walk, "look", looking)
    capture = read_folder(tmp_path)
    assert capture.left_out == ()
    assert capture.documents["data.log"] == capture.documents["index.log"]
    assert len(capture.notes) == 2


def test_what_is_written_anew_is_no_log(tmp_path, monkeypatch):
    monkeypatch.setattr(_moment, "LOG_SECONDS", 0.05)
    make(tmp_path, {"s/texts": b"00", "s/index": b"0", "a.md": b"a"})
    real = _walk.Walk.look
    steps = iter([{"texts": ""}, {"texts": "1"}, {"texts": "11", "index": "1"}])

    def looking(*args, **more):
        for name, text in next(steps, {}).items():
            with (tmp_path / "s" / name).open("r+") as file:  # the same file, with other bytes
                file.truncate(0)
                file.write(text)
        real(*args, **more)

    monkeypatch.setattr(_walk.Walk, "look", looking)
    capture = read_folder(tmp_path)
    assert (capture.documents["s/index"], capture.documents["s/texts"]) == ("1", "11")


def test_a_file_that_is_cut_is_waited_for_though_its_time_does_not_show_that_yet(tmp_path, monkeypatch):
    folder = make(tmp_path / "f", {"s/index": b"", "s/texts": b"1"})
    real, looks = _walk.Walk.look, []
    monkeypatch.setattr(_moment, "QUIET", 0.1)
    time.sleep(0.15)

    def looking(*args, **more):
        looks.append(len(looks))
        if len(looks) == 3:
            (folder / "s/index").write_text("1")
        real(*args, **more)

    monkeypatch.setattr(_walk.Walk, "look", looking)
    assert contents(read_folder(folder)) == {"s/index": "1", "s/texts": "1"}


RACES = {
    "goes": lambda link: link.unlink(),
    "is a file now": lambda link: (link.unlink(), link.write_text("f")),
    "is a directory now": lambda link: (link.unlink(), link.mkdir()),
    "says something else": lambda link: (link.unlink(), link.symlink_to("b.md")),
}


@pytest.mark.parametrize("call", ["stat", "readlink"])
@pytest.mark.parametrize("race", RACES)
def test_a_link_that_changes_while_it_is_listed_ends_nothing(tmp_path, monkeypatch, race, call):
    folder = make(tmp_path / "f", {"sub/a.md": b"a", "sub/b.md": b"b"})
    link = folder / "sub/.#a.md"
    link.symlink_to("a.md")
    real, asked = getattr(os, call), []

    def racing(path, *args, **more):
        if path == b".#a.md" and not asked:
            asked.append(path)
            RACES[race](link)
        return real(path, *args, **more)

    monkeypatch.setattr(os, call, racing)
    capture = read_folder(folder)
    assert asked
    assert capture.left_out == ()
    assert {"sub/a.md", "sub/b.md"} <= set(contents(capture))
    assert (contents(capture).get("sub/.#a.md") == "f") == (race == "is a file now")


def test_a_link_that_comes_and_goes_at_each_look_ends_nothing(tmp_path, monkeypatch):
    """As an editor's lock does."""
    folder = make(tmp_path / "f", {"sub/a.md": b"a"})
    real, link = _walk.Walk.look, folder / "sub/.#a.md"

    def looking(*args, **more):
        link.unlink() if link.is_symlink() else link.symlink_to("somebody@host.1234:1")
        real(*args, **more)

    monkeypatch.setattr(_walk.Walk, "look", looking)
    capture = read_folder(folder)
    assert set(contents(capture)) == {"sub/a.md"}
    assert [each.name for each in capture.left_out] in ([], ["sub/.#a.md"])


WRITER = """
import os, sys, time
folder, kind, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
sys.path[:0] = sys.argv[4:]
from pathlib import Path
from test_capture_moment import START, STORES
step, number = STORES[kind][0], START.get(kind, 1)
with open("steps", "w", buffering=1) as steps:
    print("ready", flush=True)
    while True:
        began = time.monotonic()
        step(Path(folder), number)
        print(began, time.monotonic(), file=steps)
        number += 1
        time.sleep(pause)
"""


def was_interrupted(steps, began):
    """The writer was held up in a step for as long as it pauses, since then: no reader can tell the two apart."""
    ended = time.monotonic()
    while (
        not (lines := [tuple(map(float, line.split())) for line in steps.read_text().splitlines()])
        or lines[-1][1] < ended
    ):
        time.sleep(0.05)
    return any(last - first >= _moment.QUIET for first, last in lines if last >= began)


@pytest.mark.parametrize(
    ("saves", "pause"), [(2, 0.3), *(pytest.param(12, pause, marks=pytest.mark.once) for pause in (0.3, 0.02))]
)
@pytest.mark.parametrize("kind", ["pair", "in place", "segments", "checkpoint", "renamed"])
def test_no_save_is_torn_while_another_process_writes(tmp_path, monkeypatch, kind, pause, saves):
    monkeypatch.setattr(_moment, "QUIET", 0.1)
    monkeypatch.setattr(_moment, "SECONDS_IN_ALL", 10.0)
    _, files, holds = STORES[kind]
    monkeypatch.chdir(tmp_path)  # where the writer notes its steps
    folder = make(
        tmp_path / "f", {f"s/{name}": data for name, data in files.items()} | {f"{n}.md": b"m" for n in range(50)}
    )
    whole = 0
    with running(WRITER, folder / "s", kind, pause, *sys.path, kill=True):
        for _ in range(saves):
            began = time.monotonic()
            capture = read_folder(folder, secrets="allow")
            names = {name.removeprefix("s/"): text for name, text in capture.documents.items()}
            whole += not capture.left_out
            if [each.name for each in capture.left_out] != ["s/"] and not holds(names):
                assert was_interrupted(tmp_path / "steps", began)
    assert whole >= 0.3 * saves
