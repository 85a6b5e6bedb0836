import errno
import os
import shutil
import stat
import subprocess
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from capture_trees import files, linux, make, metadata, names, no_links, posix, root_only, traces, tree, without_staging
from cut_off import cut_off
from forks import as_user

from colony_memory._os.directory import Directory, Reach
from colony_memory._os.machine import state_directory
from colony_memory._os.paths import Identity
from colony_memory.capture import _moves, _write, read_folder, read_paths, write_folder
from colony_memory.capture._journal import ModeChange, Record, dump_journal, load_journal
from colony_memory.capture._moves import Moves
from colony_memory.capture._recover import recover
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

pytestmark = posix

OLD = {"a.md": b"old a", "b.sh": b"old b", "mine/c.md": b"old c", "mine/keep.md": b"keep", "mine/same.md": b"same"}
NEW = {"a.md": "new a", "b.sh": "new b", "mine/c.md": "new c", "mine/same.md": "same"}
NEW |= {"mine/x/d.md": "new d", "e/f/g.md": "new g"}
DOCUMENTS = {**NEW, **metadata(executable=["b.sh"], empty_dirs=["h/i"], modes={"mine/same.md": "640"})}
#: What changes its kind, from a file to a directory and back, as only a deletion allows.
OLD_KINDS = {"k": b"old k", "l/m.md": b"old m", "l/n/o.md": b"old o"}
NEW_KINDS = {"k/p/q.md": "new q", "l": "new l"}


@pytest.fixture(params=["exchange", "layers", "free", "links", "neither"])
def way(request, monkeypatch):
    """What the file system can: exchange names, but move no directory; move to a free name; give a file two names."""
    if request.param == "layers":
        move = Directory.move

        def move_file(directory, name, other, other_name):
            if (directory.path / name).is_dir() and directory.path.name != "kept":
                raise OSError(errno.EXDEV, "Invalid cross-device link")
            move(directory, name, other, other_name)

        monkeypatch.setattr(Directory, "move", move_file)
    elif request.param != "exchange":
        what = "exchange" if request.param == "free" else "_rename"
        monkeypatch.setattr(Directory, what, lambda *_: False)
    if request.param in ("free", "neither"):
        monkeypatch.setattr(os, "link", no_links)
    return str(request.param)


def prepare(where):
    shutil.rmtree(where, ignore_errors=True)
    dst = make(where / "dst", {**OLD, **OLD_KINDS})
    (dst / "a.md").chmod(0o640)
    (dst / "mine/gone").mkdir(mode=0o750)
    make(dst, {"mine/gone/e.md": b"old e"})
    return dst


def restore(dst):
    write_folder({**DOCUMENTS, **NEW_KINDS}, dst, delete=True)


def contents(root):
    return {content for _, content in tree(root).values()}


def states(tmp_path):
    dst = prepare(tmp_path / "x")
    before = tree(dst)
    restore(dst)
    assert "mine/gone" in before
    assert not {"mine/gone", "mine/keep.md"} & set(tree(dst))
    return before, tree(dst)


def every(prepared, act, *, first=1, step=1):
    """Cut ``act`` off at every change to the disk, or every few, until it comes to its end."""
    for nth in range(first, 500, step):
        dst = prepared()
        ended = cut_off(lambda: act(dst), at=nth)  # noqa: B023 - it is over before the next turn
        yield nth, ended, dst
        if ended == "done":
            return
    raise AssertionError("it never ends")


def quietly_recover(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return recover(path)


@pytest.mark.exhaustive
def test_a_restore_that_is_killed_anywhere_is_ended_by_the_next_command(tmp_path, way):
    before, after = states(tmp_path)
    seen, mixed = [], 0
    for nth, _, dst in every(lambda: prepare(tmp_path / "y"), restore):
        left = without_staging(dst)
        mixed += left not in (before, after)
        if nth % 2:
            quietly_recover(dst)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                read_folder(dst)
        found = tree(dst)
        assert found in (before, after), nth
        assert found == after or {*OLD.values(), *OLD_KINDS.values()} <= contents(dst), (
            f"an original is missing after {nth}"
        )
        assert names(tmp_path / "y") == ["dst"], nth
        assert traces() == [], nth
        seen.append(found == after)
    assert mixed > 4
    # In order: undone for as long as a file is missing, finished from then on.
    assert seen == sorted(seen)
    assert {False, True} == set(seen)


@pytest.mark.exhaustive
def test_a_recovery_that_is_killed_anywhere_is_taken_up_again(tmp_path, way):
    before, after = states(tmp_path)

    def killed_again():
        quietly_recover(tmp_path / "half/dst")
        return kill(prepare(tmp_path / "half"), "mine/c.md", restore)

    stopped = 0
    for nth, ended, dst in every(killed_again, quietly_recover):
        stopped += ended == "killed"
        assert {*OLD.values(), *OLD_KINDS.values()} <= contents(dst), nth
        quietly_recover(dst)
        assert tree(dst) == before != after
        assert traces() == []
    assert stopped > 3
    assert names(tmp_path / "half") == ["dst"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["full", "empty", "absent"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_a_fault_at_any_change_leaves_the_folder_as_before_or_as_after(tmp_path, target, error):
    def ready():
        dst = prepare(tmp_path / "y")
        if target != "full":
            shutil.rmtree(dst)
        if target == "empty":
            dst.mkdir()
        return dst

    def fail():
        raise error

    before = tree(ready().parent)
    restore(tmp_path / "y/dst")
    after = tree(tmp_path / "y")
    ends = set()
    for nth in range(1, 200):
        dst = ready()
        ended = cut_off(lambda dst=dst: restore(dst), at=nth, by=fail)
        left = traces()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if ended == "KeyboardInterrupt" else "error", ColonyMemoryWarning)
            found = without_staging(tmp_path / "y")
            if left and found != before:  # what is empty goes last
                found.pop("dst/mine/gone", None)
            assert found in (before, after), (nth, ended)
            assert found == after or ended != "done", nth
            assert not left or ended in ("KeyboardInterrupt", "done"), (nth, ended, left)
            recover(dst)
        assert not [name for name in tree(tmp_path / "y") if ".colony" in name], nth
        assert traces() == [], nth
        ends.add(ended)
        if ended == "done" and found == after and not left and nth > 40:
            break
    assert {"done", "ColonyMemoryError" if isinstance(error, OSError) else "KeyboardInterrupt"} <= ends


@pytest.fixture
def top(tmp_path, monkeypatch):
    """A place of another user: the directory of a test is closed to them."""
    write_folder(DOCUMENTS, make(tmp_path / "late", OLD))  # all that is imported late is, before they cannot
    with tempfile.TemporaryDirectory() as opened:
        state = Path(opened, "state")
        state.mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        for path in (state.parent, state):
            os.chown(path, *((1000, 1000) if os.geteuid() == 0 else (-1, -1)))
        yield state.parent


#: Of which files the directories are read-only, and the folder itself is.
CLOSED = {"a.md": b"old a", "mine/c.md": b"old c", "mine/gone/e.md": b"old e", "mine/keep.md": b"keep"}
CLOSED |= {"turn/in/f.md": b"old f"}
INTO_CLOSED = {"a.md": "new a", "mine/c.md": "new c", "mine/keep.md": "keep", "mine/x/y/d.md": "new d", "turn": "new"}


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("refused", [False, True])
def test_read_only_directories_are_lent_to_a_restore_and_given_back(top, monkeypatch, refused, step):
    documents = {**INTO_CLOSED, **metadata(empty_dirs=["h"], modes={"mine/x/": "550", "mine/x/y/": "500"})}

    def prepared():
        if dst.exists():
            for path in (dst, *dst.rglob("*/")):
                path.chmod(0o700)
            shutil.rmtree(dst)
        make(dst, CLOSED)
        for name in ("mine/gone", "mine", "turn/in", "turn", ""):
            (dst / name).chmod(0o500)
        return dst

    def look():
        return {"": stat.S_IMODE(dst.stat().st_mode), **tree(dst)}

    def write(_):
        write_folder(documents, dst, delete=True)

    def refuse(*_):
        raise ColonyMemoryError("that stays")

    def stop_anywhere():
        before = look() if prepared() else {}
        write(dst)
        after, seen = look(), set()
        assert {**before, **after} != after
        assert files(dst) == {name: text.encode() for name, text in INTO_CLOSED.items()}
        assert [after[name] for name in ("", "mine")] == [0o500, (0o40500, None)]
        if refused:  # when all is in place
            monkeypatch.setattr(Moves, "displaced", refuse)
        for nth, ended, _ in every(prepared, write, step=step):
            assert ended != "ColonyMemoryError" or look() == before
            quietly_recover(dst)
            assert look() in (before, after), nth
            assert names(top) == ["dst", "state"]
            assert traces() == [], nth
            seen.add((ended, look() == after))
            if ended == "ColonyMemoryError":
                break
        assert {("killed", False), ("ColonyMemoryError", False) if refused else ("done", True)} <= seen

    dst = top / "dst"
    assert as_user(1000, stop_anywhere) == 0


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("mode", [0o500, 0o300, 0])
def test_directories_that_a_snapshot_closes_are_made_and_cleared_away(top, there, mode, step):
    documents = {"ro/b.md": "b", "ro/in/c.md": "c", **metadata(modes=dict.fromkeys(("ro/", "ro/in/"), f"{mode:03o}"))}

    def prepared():
        for path in top.glob("dst*/**/"):
            path.chmod(0o700)
        shutil.rmtree(dst, ignore_errors=True)
        if there:
            make(dst, {"a.md": b"a"})
        return dst

    def stop_anywhere():
        for nth, _, _ in every(prepared, lambda _: write_folder(documents, dst), step=step):
            quietly_recover(dst)
            assert names(top) == (["dst", "state"] if there or (dst / "ro").exists() else ["state"]), nth
            assert not dst.exists() or set(names(dst)) <= {"a.md", "ro"}, nth
            assert traces() == [], nth
        assert stat.S_IMODE((dst / "ro").stat().st_mode) == mode

    dst = top / "dst"
    assert as_user(1000, stop_anywhere) == 0
    prepared()


def write(dst):
    write_folder(DOCUMENTS, dst)


def kill(dst, name, act=write):
    """Kill a restore as soon as ``name`` is new."""
    real = Moves._take

    def take(moves, reach, step):
        real(moves, reach, step)
        if step.name == name:
            os._exit(1)

    def killed():
        Moves._take = take
        act(dst)

    assert cut_off(killed, at=10**6) == "killed"
    return dst


@pytest.fixture
def half(tmp_path):
    """A folder whose restore was killed after ``a.md`` and ``b.sh``."""
    dst = kill(make(tmp_path / "half/dst", OLD), "b.sh")
    assert files(dst)["mine/c.md"] == b"old c"
    return dst


def test_what_was_written_since_stays_next_to_the_original_or_where_it_is(tmp_path):
    half = kill(make(tmp_path / "half/dst", OLD), "mine/x/d.md")
    since = {"a.md": b"edited since", "mine/x/d.md": b"edited since", "mine/x/mine.md": b"in a directory that was made"}
    make(half, since)
    (half / "b.sh").unlink()
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(half)
    found = files(half)
    (copy,) = [name for name in found if name.startswith("a.md.local-")]
    assert found == {**since, **OLD, copy: b"edited since"}
    assert not recover(half)


def test_a_name_beside_a_long_one_is_cut_between_letters(tmp_path):
    with Directory.open(tmp_path) as directory:
        beside = _moves._free_name(directory, "a" + "é" * 127)
    assert len(beside.encode()) == 254  # which fails where half a letter is left


def test_an_original_that_was_written_to_through_an_open_file_is_put_back(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", OLD)
    real = Moves.sync
    with (dst / "a.md").open("ab") as stream:

        def late(*args):
            monkeypatch.setattr(Moves, "sync", real)
            stream.write(b" and more")
            stream.flush()
            real(*args)

        monkeypatch.setattr(Moves, "sync", late)
        with pytest.raises(ColonyMemoryError, match=r"'a\.md'.* was changed in the meantime; nothing was written"):
            write_folder(DOCUMENTS, dst)
    assert files(dst) == {**OLD, "a.md": b"old a and more"}
    assert names(tmp_path) == ["dst"]


def test_a_restore_that_is_under_way_is_not_disturbed(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", OLD)
    refused = []
    real = Moves._take

    def meanwhile(*args):
        for act in (
            lambda: recover(dst),
            lambda: recover(dst / "mine"),
            lambda: recover(tmp_path),
            lambda: read_folder(tmp_path),
            lambda: write_folder({"z": "z"}, dst),
        ):
            with pytest.raises(ColonyMemoryError, match="is under way") as caught:
                act()
            refused.append(caught.value)
        real(*args)

    monkeypatch.setattr(Moves, "_take", meanwhile)
    write_folder({"a.md": "new a"}, dst)
    assert len(refused) == 5
    assert files(dst) == {**OLD, "a.md": b"new a"}
    assert names(tmp_path) == ["dst"]


def look_away(monkeypatch):
    """Let the next restore find nothing when it looks for unfinished ones first."""
    seen = []
    monkeypatch.setattr(_write, "recover", lambda path: recover(path) if seen else seen.append(path))


def test_two_restores_that_begin_at_once_do_not_meet(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", OLD)
    real = _write._begin
    refused = []

    def late(*args):
        monkeypatch.setattr(_write, "_begin", real)
        record = real(*args)
        # The other one has looked for unfinished restores before this one began.
        look_away(monkeypatch)
        with pytest.raises(ColonyMemoryError, match="is under way") as caught:
            write_folder({"z": "z"}, dst)
        refused.append(caught.value)
        return record

    monkeypatch.setattr(_write, "_begin", late)
    write_folder({"a.md": "new a"}, dst)
    assert refused
    assert files(dst) == {**OLD, "a.md": b"new a"}


def test_a_restore_that_was_cut_off_since_the_plan_was_made_is_undone_and_stops_it(tmp_path, monkeypatch):
    dst = kill(make(tmp_path / "dst", OLD), "mine/c.md")
    for _ in range(2):
        look_away(monkeypatch)
        with (
            pytest.warns(ColonyMemoryWarning, match="as they were before it"),
            pytest.raises(ColonyMemoryError, match="changed in the meantime; nothing was written; try again"),
        ):
            write_folder(DOCUMENTS, dst)
        assert files(dst) == OLD
        assert traces() == []
        kill(dst, "mine/c.md")


def test_locks_and_drafts_of_what_was_killed_before_it_began_go_with_the_next(tmp_path):
    dst, place, left = make(tmp_path / "dst", OLD), state_directory() / "restores", set()
    for at in range(4, 16):
        cut_off(lambda: write_folder({"a.md": "new a"}, dst), at=at)
        quietly_recover(dst)
        left |= {path.suffix for path in place.iterdir()}
        write_folder({"a.md": f"{at}"}, dst)
        assert names(place) == ["lock"], at
    assert left == {"", ".draft", ".lock"}


def test_what_is_emptied_and_stays_is_told_and_not_asked_for_again(tmp_path, monkeypatch, caplog):
    def closed(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    dst = make(tmp_path / "dst", {"a.md": b"a", "x/y.md": b"y"})
    with monkeypatch.context() as patch:
        patch.setattr("colony_memory.capture._recover.remove_empty", closed)
        write_folder({"a.md": "new a"}, dst, delete=True)
    assert "'x' could not be removed" in caplog.text
    assert traces() == []
    read_folder(dst)
    assert names(dst) == ["a.md", "x"]


def test_a_folder_that_was_moved_is_put_back_where_it_is(half):
    moved = half.rename(half.with_name("moved"))
    with pytest.warns(ColonyMemoryWarning, match=r"moved': all files are as they were before it"):
        assert recover(moved)
    assert files(moved) == OLD
    assert traces() == []


def test_what_only_has_to_be_cleared_away_is_in_nobodys_way(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", OLD)

    def is_refused(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(Directory, "remove_tree", is_refused)
        write(dst)
        assert len(traces()) == 1
        write_folder({"a.md": "newer"}, dst)
        assert len(traces()) == 2
        with pytest.warns(ColonyMemoryWarning, match="its next restore or backup removes its leftovers"):
            write_folder({"a.md": "newest"}, dst, dry_run=True)
    assert not recover(dst)
    assert files(dst) == {**OLD, **files(dst), "a.md": b"newer"}
    assert not [name for name in names(dst) if ".colony" in name]
    assert traces() == []


def test_another_folder_in_its_place_is_left_alone(half):
    moved = half.rename(half.with_name("moved"))
    make(half, {"b.md": b"another"})
    with pytest.warns(ColonyMemoryWarning, match="another folder, or none, is in its place now"):
        assert not recover(half)
    assert files(half) == {"b.md": b"another"}
    with pytest.warns(ColonyMemoryWarning, match="another folder, or none, is in its place now"):
        write_folder({"b.md": "new"}, half)
    assert files(half) == {"b.md": b"new"}
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(moved)
    assert files(moved) == OLD


def test_permissions_that_were_lent_to_a_folder_that_is_away_are_given_back_later(half):
    lent = ModeChange("/", half.stat().st_ino, 0o500, stat.S_IMODE(half.stat().st_mode))
    change_record(phase="preparing", steps=(), lent=(lent,))
    moved = half.rename(half.with_name("moved"))
    assert not recover(half)
    assert not recover(moved)
    assert stat.S_IMODE(moved.stat().st_mode) == 0o500
    assert traces() == []
    moved.chmod(0o700)


def test_another_device_number_after_a_reboot_is_no_other_folder(half, monkeypatch):
    change_record(identity=Identity(half.stat().st_dev + 1, half.stat().st_ino))
    with pytest.warns(ColonyMemoryWarning, match="another folder, or none"):
        assert not recover(half)
    change_record(boot="another")
    with pytest.warns(ColonyMemoryWarning, match="as they were before it"):
        assert recover(half)
    assert files(half) == OLD


def half_record():
    place = state_directory() / "restores"
    (name,) = [name for name in traces() if name.endswith(".json")]
    return place / name


def change_record(**changes):
    record = half_record()
    record.write_bytes(dump_journal(replace(load_journal(record.read_bytes()), **changes)))


@pytest.mark.once
@root_only
@pytest.mark.parametrize("spoil", ["owner", "mode", "second name", "link"])
def test_state_that_others_could_have_written_is_passed_over(half, spoil, caplog):
    record = half_record()
    if spoil == "owner":
        os.chown(record, 1234, 1234)
    elif spoil == "mode":
        record.chmod(0o640)
    elif spoil == "second name":
        os.link(record, record.with_suffix(".other"))
    else:
        record.symlink_to(record.rename(record.with_suffix(".other")))
    before = tree(half)
    assert not recover(half)
    assert tree(half) == before
    assert "is passed over" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o720, None])
def test_a_state_directory_that_others_can_write_to_is_not_believed_and_not_used(half, mode, caplog):
    place = half_record().parent
    # A link may be of a user in whose home root restores, and lead to a directory of root's.
    place.chmod(mode) if mode else place.symlink_to(place.rename(place.with_name("elsewhere")))
    before = tree(half)
    assert not recover(half)
    assert "others can write to it" in caplog.text
    with pytest.raises(ColonyMemoryError, match=r"cannot be kept .*set XDG_STATE_HOME.*nothing was changed"):
        write_folder({"a.md": "x"}, half)
    assert tree(half) == before
    write_folder({"a.md": "x"}, half.with_name("new"))
    assert names(half.with_name("new")) == ["a.md"]


@pytest.mark.parametrize("spoil", [lambda _: b"", lambda data: data[:-1], lambda data: data.replace(b"mine", b"..//")])
def test_state_that_makes_no_sense_stops_a_restore_and_no_backup(half, spoil):
    half_record().write_bytes(spoil(half_record().read_bytes()))
    before = tree(half)
    for act in (lambda: recover(half), lambda: write_folder({"a.md": "a"}, half)):
        with pytest.raises(ColonyMemoryError, match=r"its state .* cannot be read .*move the files in its 'kept' back"):
            act()
    with pytest.warns(ColonyMemoryWarning, match=r"its state .* cannot be read .* rm /"):
        assert "a.md" in read_folder(half).documents
    assert tree(half) == before


@pytest.mark.parametrize(
    "change",
    [
        {"folder": 1},
        {"folder": "/a\0"},
        {"place": "relative"},
        {"place": "/a/../b"},
        {"identity": (1,)},
        {"identity": ("a", 1)},
        {"staging": "notes"},
        {"staging": ".colony-memory-restoring-../x"},
        {"phase": "other"},
        {"steps": (("../x/", None, None, "0", ""),)},
        {"steps": ((1, None, None, "0", ""),)},
        {"steps": (("\ud800/", None, None, "0", ""),)},
        {"emptied": ("a/.git",)},
        {"emptied": ("/a",)},
        {"volumes": ("", "../x")},
        {"modes": (("a", 1, 2),)},
        {"modes": (("a", 1, 0o640, 0o10000),)},
        {"lent": (("../a/", 1, 0o500, 0o700),)},
        {"steps": (("../a", (1, 1, 1), None, "0", ""),)},
        {"steps": (("a", None, None, "0", ""),)},
        {"steps": (("a", (1, 1, True), None, "0", ""),)},
        {"steps": (("a", (1, 1, 1), None, "../0", ""),)},
        {"steps": (("a", (1, 1, 1), None, "0", "../a"),)},
        {"steps": (("a", (1, 1, 1)),)},
    ],
)
def test_no_path_name_or_number_of_the_state_leads_elsewhere(half, change):
    change_record(**change)
    with pytest.raises(ValueError, match=r"no restore has|not a journal|surrogates|unpack"):
        load_journal(half_record().read_bytes())
    before = tree(half.parent)
    with pytest.warns(ColonyMemoryWarning, match=r"its state .* cannot be read .* rm /"):
        assert "a.md" in read_folder(half).documents
    assert tree(half.parent) == before


def test_nothing_is_put_back_through_a_link(half, tmp_path):
    outside = make(tmp_path / "outside", {"c.md": b"outside", "keep.md": b"outside"})
    quietly_recover(half)
    half = kill(make(tmp_path / "other/dst", OLD), "mine/c.md")
    (half / "mine").rename(tmp_path / "moved")
    (half / "mine").symlink_to(outside)
    quietly_recover(half)
    assert files(outside) == {"c.md": b"outside", "keep.md": b"outside"}
    found = files(half)
    (beside,) = [name for name in found if name.startswith("c.md.local-")]
    assert found == {"a.md": b"old a", "b.sh": b"old b", "mine": str(outside), beside: b"old c"}


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def replace_by_file(path):
    remove(path)
    path.write_text("a file now")


def replace_by_link(path):
    remove(path)
    path.symlink_to("..")


def clean(path):
    """What git clean does where nothing but ``mine`` is tracked: the originals go too."""
    for each in path.parent.iterdir():
        if each.name not in ("mine", "a.md", "b.sh"):
            remove(each)


def overwrite_tree(path):
    moved = path.rename(path.with_name("moved"))
    shutil.copytree(moved, path)


#: What an agent does to a folder, and whether that takes what was there before the restore.
ACTS = {
    "mv": (lambda path: path.rename(path.with_name("moved")), False),
    "mv away": (lambda path: path.rename(path.parents[1] / "moved"), False),
    "rm": (remove, True),
    "a file": (replace_by_file, True),
    "a link": (replace_by_link, True),
    "git clean": (clean, True),
    "a copy": (overwrite_tree, False),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    ("until", "what"),
    [
        ("mine/c.md", "mine"),
        *(
            pytest.param(until, what, marks=pytest.mark.exhaustive)
            for until, what in [("a.md", "a.md"), ("a.md", "mine"), ("e/f/g.md", "e"), ("e/f/g.md", "mine")]
        ),
    ],
)
def test_whatever_became_of_the_folder_since_it_is_saved(tmp_path, until, what, act):
    dst = kill(make(tmp_path / "dst", OLD), until)
    do, takes = ACTS[act]
    if act == "a copy" and what == "a.md":
        pytest.skip("a file has no tree")
    do(dst / what)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        capture = read_folder(dst)
    assert any("a restore was cut off" in str(each.message) for each in told)
    assert capture.left_out == () or act == "a link"
    assert traces() == []
    assert not [name for name in tree(tmp_path) if ".colony-memory-restoring-" in name]
    if not takes:
        assert set(OLD.values()) <= contents(tmp_path)
    elif act != "git clean":
        # What was replaced is there; what was not yet, went by what was done since.
        assert {b"old a", b"old b"} - ({b"old a"} if what == "a.md" else set()) <= contents(tmp_path)
    assert not recover(dst)


def test_what_cannot_be_put_back_keeps_nobody_from_saving(half, monkeypatch):
    def closed(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    before = without_staging(half)
    monkeypatch.setattr("colony_memory.capture._moves._free_name", closed)
    (half / "a.md").write_text("edited since")
    for _ in range(2):
        with pytest.warns(
            ColonyMemoryWarning, match=r"'a\.md' could not be put back; the originals are in .*; .* rm /"
        ):
            assert read_folder(half).documents["a.md"] == "edited since"
    with pytest.raises(ColonyMemoryError, match=r"could not be put back; .* rm /") as caught:
        write_folder({"z": "z"}, half)
    assert before
    # What is offered works as it stands.
    subprocess.run(caught.value.message.rpartition(": ")[2], shell=True, check=True)
    assert write_folder({"z": "z"}, half).created == ("z",)


def test_a_place_that_cannot_be_looked_into_is_named(half, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Record, "locked", closed)
    with pytest.raises(ColonyMemoryError, match=r"was cut off, and cannot be put back .*Permission denied"):
        recover(half)


def test_a_folder_below_or_above_is_recovered_too_and_what_is_saved_is_never_a_mix(tmp_path):
    for near in (
        lambda dst: recover(dst / "mine"),
        lambda dst: recover(dst.parent.parent),
        read_folder,
        lambda dst: read_paths([dst.parent]),
    ):
        dst = kill(make(tmp_path / "half/dst", OLD), "b.sh")
        with pytest.warns(ColonyMemoryWarning, match="as they were before it"):
            assert near(dst)
        assert files(dst) == OLD
        assert not recover(dst)
        shutil.rmtree(dst)


def test_a_dry_run_changes_nothing_even_then(half):
    before, state = tree(half.parent), tree(state_directory())
    with pytest.warns(ColonyMemoryWarning, match="is under way or was cut off: this is the folder as it is now"):
        assert write_folder({"z.md": "z"}, half, dry_run=True).created == ("z.md",)
    assert (tree(half.parent), tree(state_directory())) == (before, state)


def test_a_dry_run_makes_no_state_directory(tmp_path):
    dst = make(tmp_path / "dst", OLD)
    before = tree(tmp_path)
    documents = {**DOCUMENTS, "A.md": "another"}
    assert write_folder(documents, dst, dry_run=True, delete=True).created
    assert write_folder(documents, tmp_path / "new/dst", dry_run=True).created
    assert tree(tmp_path) == before
    assert not state_directory().exists()


@pytest.fixture
def mounted(tmp_path):
    """Mounts something at a directory, as volumes of a container are."""
    at = []

    def mount(where, *options):
        where.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["mount", *options, where], check=False, stderr=-3).returncode:
            pytest.skip("needs to mount a file system")
        at.append(where)
        return where

    yield mount
    for each in reversed(at):
        subprocess.run(["umount", each], check=True)


BELOW = {"a.md": "new a", "vol/b.md": "new b", "vol/in/c.md": "new c", "vol/new/d.md": "d", "mine/c.md": "new c"}


@root_only
@linux
@pytest.mark.parametrize("kind", ["another file system", "a directory of this one"])
def test_volumes_below_a_folder_are_written_to_as_well(tmp_path, mounted, kind, monkeypatch):
    dst = make(tmp_path / "dst", OLD)
    other = make(tmp_path / "other", {})
    mounted(dst / "vol", *(["-t", "tmpfs", "none"] if kind == "another file system" else ["--bind", str(other)]))
    make(dst, {"vol/b.md": b"old b", "vol/in/c.md": b"old c"})
    before = tree(dst)
    with monkeypatch.context() as patch:
        patch.setattr(Reach, "sync", no_links)
        with pytest.raises(ColonyMemoryError, match="nothing was changed"):
            write_folder(BELOW, dst, delete=True)
    assert tree(dst) == before
    stopped = 0
    for at in range(20, 80, 2):
        if cut_off(lambda: write_folder(BELOW, dst, delete=True), at=at) == "done":
            break
        stopped += without_staging(dst) != before
        quietly_recover(dst)
        after = tree(dst)
        assert not [name for name in after if ".colony" in name], at
        if after != before:
            break
    assert stopped > 2
    write_folder(BELOW, dst, delete=True)
    assert files(dst) == {name: text.encode() for name, text in BELOW.items()}
    assert traces() == []


@root_only
@linux
def test_a_volume_that_a_snapshot_lacks_is_emptied_and_stays(tmp_path, mounted):
    dst = make(tmp_path / "dst", {"a.md": b"old a", "x/y/z.md": b"z"})
    other = make(tmp_path / "other", {"in/b.md": b"b"})
    mounted(dst / "x/vol", "--bind", str(other))
    written = write_folder({"a.md": "new a"}, dst, delete=True)
    assert written.removed == ("x/vol/in/", "x/vol/in/b.md", "x/y/", "x/y/z.md")
    assert set(tree(dst)) == {"a.md", "x", "x/vol"}
    assert names(other) == []
    assert traces() == []


@root_only
@linux
def test_a_volume_that_is_not_mounted_is_waited_for(tmp_path, mounted):
    dst = make(tmp_path / "dst", {"a.md": b"old a"})
    other = make(tmp_path / "other", {"b.md": b"old b"})
    mounted(dst / "vol", "--bind", str(other))
    kill(dst, "vol/b.md", lambda dst: write_folder({"a.md": "new a", "vol/b.md": "new b", "vol/c.md": "c"}, dst))
    subprocess.run(["umount", dst / "vol"], check=True)
    with pytest.raises(ColonyMemoryError, match=r"'vol/b\.md'.* could not be put back; the originals are in .*vol/"):
        recover(dst)
    with pytest.warns(ColonyMemoryWarning, match="could not be put back"):
        assert "a.md" in read_folder(dst).documents
    subprocess.run(["mount", "--bind", other, dst / "vol"], check=True)
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(dst)
    assert files(dst) == {"a.md": b"old a", "vol/b.md": b"old b"}
    assert traces() == []


@root_only
@linux
@pytest.mark.parametrize("delete", [True, False])
def test_a_volume_that_takes_nothing_refuses_all_and_leaves_nothing(tmp_path, mounted, delete):
    dst = make(tmp_path / "dst", OLD)
    make(mounted(dst / "vol", "-t", "tmpfs", "none"), {"in/b.md": b"old b"})
    subprocess.run(["mount", "-o", "remount,ro", dst / "vol"], check=True)
    before = tree(dst)
    with pytest.raises(ColonyMemoryError, match=r"Read-only file system.*nothing was changed"):
        write_folder({"a.md": "new a", "vol/new/deep/c.md": "new c"}, dst, delete=delete)
    assert tree(dst) == before
    assert traces() == []
    assert read_folder(dst).left_out == ()


def test_a_directory_that_comes_to_be_there_is_used(tmp_path, monkeypatch):
    dst = make(tmp_path / "dst", OLD)
    real = Moves.take

    def late(*args):
        (dst / "e").mkdir()
        real(*args)

    monkeypatch.setattr(Moves, "take", late)
    write_folder(NEW, dst)
    assert files(dst)["e/f/g.md"] == b"new g"
