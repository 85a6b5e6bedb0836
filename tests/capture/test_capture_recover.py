from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from capture_trees import files, linux, make, metadata, names, posix, tree
from cut_off import cut_off

from colony_memory.capture import _recover, _staging, _swap
from colony_memory.capture._recover import recover, recover_in
from colony_memory.capture.folder import read_folder, read_paths, write_folder
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = posix

OLD = {"a.md": b"old a", "b.sh": b"old b", "mine/c.md": b"old c", "mine/keep.md": b"keep"}
NEW = {"a.md": "new a", "b.sh": "new b", "mine/c.md": "new c", "mine/x/d.md": "new d", "e/f/g.md": "new g"}
DOCUMENTS = {**NEW, **metadata(executable=["b.sh"], empty_dirs=["h/i"])}


def no_links(*args: object, **more: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=["links", "no links", "inside"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the file system can: names beside each other, one name for a file, nothing beside the folder."""
    if request.param == "no links":
        monkeypatch.setattr(os, "link", no_links)
    if request.param == "inside":
        monkeypatch.setattr(_swap, "beside", _staging.inside)
    return str(request.param)


def prepare(where: Path) -> Path:
    shutil.rmtree(where, ignore_errors=True)
    dst = make(where / "dst", OLD)
    (dst / "a.md").chmod(0o640)
    return dst


def restore(dst: Path) -> None:
    write_folder(DOCUMENTS, dst, keep_local=True)


def without_copies(root: Path) -> dict[str, object]:
    return {name: each for name, each in tree(root).items() if ".local-" not in name}


def contents(root: Path) -> set[object]:
    return {content for _, content in tree(root).values()}


def states(tmp_path: Path) -> tuple[dict[str, object], dict[str, object]]:
    dst = prepare(tmp_path / "x")
    before = without_copies(dst)
    restore(dst)
    assert len(tree(dst)) == len(without_copies(dst)) + 3
    return before, without_copies(dst)


def every(
    prepared: Callable[[], Path], act: Callable[[Path], object], *, first: int = 1, step: int = 1
) -> Iterator[tuple[int, str, Path]]:
    """Cut ``act`` off at every change to the disk, or every few, until it comes to its end."""
    for nth in range(first, 500, step):
        dst = prepared()
        ended = cut_off(lambda: act(dst), at=nth)  # noqa: B023 - it is over before the next turn
        yield nth, ended, dst
        if ended == "done":
            return
    raise AssertionError("it never ends")


def quietly_recover(path: Path) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        return recover(path)


@pytest.mark.exhaustive
def test_a_restore_that_is_killed_anywhere_is_ended_by_the_next_command(tmp_path: Path, way: str) -> None:
    before, after = states(tmp_path)
    seen, mixed = [], 0
    for nth, _, dst in every(lambda: prepare(tmp_path / "y"), restore, step=1 if way == "links" else 3):
        mixed += without_copies(dst) not in (before, after)
        assert set(OLD.values()) <= contents(tmp_path / "y"), f"an original is missing after {nth}"
        if nth % 2:
            quietly_recover(dst)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ColonyMemoryWarning)
                assert write_folder({"other/z.md": "z"}, dst, dry_run=True).created
        found = without_copies(dst)
        assert found in (before, after), nth
        assert len(tree(dst)) == len(found) + (3 if found == after else 0), nth
        assert names(tmp_path / "y") == ["dst"], nth
        seen.append(found == after)
    assert mixed > 4
    # In order: undone for as long as a file is missing, finished from then on.
    assert seen == sorted(seen)
    assert {False, True} == set(seen)


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", ["links", "no links"], indirect=True)
def test_a_recovery_that_is_killed_anywhere_is_taken_up_again(tmp_path: Path, way: str) -> None:
    before, after = states(tmp_path)
    for _, _, dst in every(lambda: prepare(tmp_path / "half"), restore, first=30):
        if files(dst).get("mine/c.md") == b"new c":
            break
    stopped = 0
    for nth, ended, dst in every(lambda: copied(tmp_path), quietly_recover):
        stopped += ended == "killed"
        assert set(OLD.values()) <= contents(tmp_path / "z"), nth
        quietly_recover(dst)
        assert tree(dst) == before != after
    assert stopped > 5
    assert names(tmp_path / "z") == ["dst"]


def copied(tmp_path: Path) -> Path:
    """What a kill has left, with files of two names in it."""
    shutil.rmtree(tmp_path / "z", ignore_errors=True)
    subprocess.run(["cp", "-a", tmp_path / "half", tmp_path / "z"], check=True)
    return tmp_path / "z/dst"


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["full", "empty", "absent"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device"), PermissionError(errno.EPERM, "no")]
)
def test_a_fault_at_any_change_leaves_the_folder_as_before_or_as_after(
    tmp_path: Path, target: str, error: BaseException
) -> None:
    def ready() -> Path:
        dst = prepare(tmp_path / "y")
        if target != "full":
            shutil.rmtree(dst)
        if target == "empty":
            dst.mkdir()
        return dst

    def fail() -> None:
        raise error

    before = without_copies(ready().parent)
    restore(tmp_path / "y/dst")
    after = without_copies(tmp_path / "y")
    ends = set()
    for nth in range(1, 200, 3 if isinstance(error, PermissionError) else 1):
        dst = ready()
        ended = cut_off(lambda dst=dst: restore(dst), at=nth, by=fail)  # type: ignore[misc]
        left = [name for name in names(tmp_path / "y") if name != "dst"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore" if ended == "KeyboardInterrupt" else "error", ColonyMemoryWarning)
            found = {name: each for name, each in without_copies(tmp_path / "y").items() if name.startswith("dst")}
            assert found in (before, after), (nth, ended)
            assert (found == after) or ended != "done", (nth, ended)
            assert not left or ended in ("KeyboardInterrupt", "done"), (nth, ended, left)
            recover(dst)
        assert [name for name in names(tmp_path / "y") if name != "dst"] == [], nth
        ends.add(ended)
        if ended == "done" and found == after and not left and nth > 40:
            break
    assert "done" in ends
    # What is not permitted in one way is done in another.
    stops = {errno.ENOSPC: "ColonyMemoryError"}.get(getattr(error, "errno", 0), "KeyboardInterrupt")
    assert stops in ends or isinstance(error, PermissionError)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a restore was killed after ``a.md`` and ``b.sh``."""
    where = tmp_path_factory.mktemp("killed")
    for _, _, dst in every(lambda: prepare(where), lambda dst: write_folder(DOCUMENTS, dst), first=25):
        if files(dst)["b.sh"] == b"new b":
            assert files(dst)["mine/c.md"] == b"old c"
            return where
    raise AssertionError("it is never half done")


@pytest.fixture
def half(killed: Path, tmp_path: Path) -> Path:
    """The folder, for one test alone."""
    subprocess.run(["cp", "-a", killed, tmp_path / "half"], check=True)
    return tmp_path / "half" / "dst"


def test_what_was_written_since_stays_next_to_the_original_or_where_it_is(half: Path) -> None:
    (half / "a.md").write_text("edited since")
    (half / "b.sh").unlink()
    make(half, {"mine/x/mine.md": b"in a directory that was made"})
    with pytest.warns(ColonyMemoryWarning, match="all files are as they were before it"):
        assert recover(half)
    found = files(half)
    (copy,) = [name for name in found if name.startswith("a.md.local-")]
    assert found == {**OLD, copy: b"edited since", "mine/x/mine.md": b"in a directory that was made"}
    assert not recover(half)


def test_a_new_file_that_was_edited_since_stays(tmp_path: Path) -> None:
    for _, _, dst in every(lambda: prepare(tmp_path / "y"), lambda dst: write_folder(DOCUMENTS, dst), first=30):
        if "mine/x/d.md" in files(dst):
            break
    (dst / "mine/x/d.md").write_text("edited since")
    quietly_recover(dst)
    assert files(dst) == {**OLD, "mine/x/d.md": b"edited since"}


def test_an_original_that_was_written_to_through_an_open_file_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dst = make(tmp_path / "dst", OLD)
    real = _swap.sync_directory
    with (dst / "a.md").open("ab") as stream:

        def late(path: Path) -> None:
            if path == dst:
                stream.write(b" and more")
                stream.flush()
            real(path)

        monkeypatch.setattr(_swap, "sync_directory", late)
        with pytest.raises(ColonyMemoryError, match=r"'a\.md'.* was changed in the meantime; nothing was written"):
            write_folder(DOCUMENTS, dst)
    assert files(dst) == {**OLD, "a.md": b"old a and more"}
    assert names(tmp_path) == ["dst"]


def test_a_restore_that_is_under_way_is_not_disturbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dst = make(tmp_path / "dst", OLD)
    refused = []
    real = _swap._take

    def meanwhile(*args: object) -> None:
        for act in (
            lambda: recover(dst),
            lambda: recover(dst / "mine"),
            lambda: recover_in(tmp_path, names(tmp_path)),
            lambda: write_folder({"z": "z"}, dst),
        ):
            with pytest.raises(ColonyMemoryError, match="is under way") as caught:
                act()
            refused.append(caught.value)
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(_swap, "_take", meanwhile)
    write_folder({"a.md": "new a"}, dst)
    assert len(refused) == 4
    assert files(dst) == {**OLD, "a.md": b"new a"}
    assert names(tmp_path) == ["dst"]


def test_a_lock_that_was_left_alone_is_taken_away(tmp_path: Path) -> None:
    dst = make(tmp_path / "dst", OLD)
    lock = _staging._lock_of(_staging.beside(dst))
    lock.touch()
    assert not recover(dst)
    assert names(tmp_path) == ["dst"]


def test_a_lock_whose_file_was_removed_is_taken_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    real, calls = _staging._is_free, []

    def late(lock: object) -> bool:
        calls.append(lock)
        free = real(lock)  # type: ignore[arg-type]
        if len(calls) == 1:
            _staging._lock_of(place).unlink()
        return free

    monkeypatch.setattr(_staging, "_is_free", late)
    with _staging.held(place, folder=tmp_path):
        assert names(tmp_path) == ["place.lock"]
    assert len(calls) == 2
    assert names(tmp_path) == []

    def fails(lock: object) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_staging, "_is_free", fails)
    with pytest.raises(OSError, match="No locks"), _staging.held(place, folder=tmp_path):
        pass
    with pytest.raises(ColonyMemoryError, match=r"cannot be written \(No locks available\); nothing was changed"):
        write_folder({"a": "a"}, make(tmp_path / "dst", OLD))
    monkeypatch.undo()
    assert not recover(tmp_path / "dst")


def test_a_lock_that_cannot_be_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Path.unlink

    def unlink(path: Path, **more: bool) -> None:
        if path.name.endswith(".lock"):
            raise PermissionError(errno.EACCES, "Permission denied")
        real(path, **more)

    monkeypatch.setattr(Path, "unlink", unlink)
    write_folder({"a.md": "a"}, tmp_path / "dst")
    assert "could not be removed" in caplog.text


def test_a_folder_that_is_gone_leaves_its_originals(half: Path) -> None:
    half.rename(half.with_name("moved"))
    with pytest.warns(ColonyMemoryWarning, match="not there any more: what it had replaced is in"):
        write_folder({"a.md": "a"}, half)
    assert files(half) == {"a.md": b"a"}
    (aside,) = [path for path in half.parent.iterdir() if path.name.startswith(".colony")]
    assert files(aside / "kept") == {name: data for name, data in OLD.items() if "keep" not in name}
    assert not recover(half)
    assert not recover_in(half.parent, names(half.parent))
    assert aside.exists()


@linux
def test_only_who_restored_puts_back(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(ColonyMemoryError, match="another user's restore into"):
        recover(half)
    real, place = _staging.look, _staging.beside(half)

    def strange(path: Path) -> os.stat_result | None:
        there = real(path)
        if there is None or not path.name.startswith(place.name):
            return there
        return os.stat_result((*there[:4], user + 2, *there[5:]))

    monkeypatch.setattr(_staging, "look", strange)
    before = tree(half.parent)
    assert not recover(half)
    assert tree(half.parent) == before


@pytest.mark.parametrize(
    "journal",
    [
        "",
        "[]",
        "{}",
        '{"format": "colony-memory/restore-journal/2"}',
        *(
            json.dumps(
                {"format": "colony-memory/restore-journal/1", "directories": [], "steps": [], "target": "dst"} | odd
            )
            for odd in (
                {"target": ".."},
                {"target": "a/b"},
                {"target": 1},
                {"directories": ["../x"]},
                {"directories": [1]},
                {"steps": [{"name": "a", "new": [1], "old": None, "copy_of": None}]},
                {"steps": [{"name": "a", "new": None, "old": None, "copy_of": None}]},
                {"steps": [{"name": "/a", "new": [1, 1], "old": None, "copy_of": None}]},
                {"steps": [{"name": "a", "new": [1, 1], "old": None, "copy_of": "../b"}]},
            )
        ),
    ],
)
def test_a_journal_that_cannot_be_read_stops_whoever_comes(tmp_path: Path, journal: str) -> None:
    dst = make(tmp_path / "dst", OLD)
    make(_staging.beside(dst), {"journal.json": journal.encode(), "kept/a.md": b"a"})
    before = tree(tmp_path)
    for act in (lambda: recover(dst), lambda: write_folder({"a.md": "a"}, dst)):
        with pytest.raises(ColonyMemoryError, match=r"cannot be read.*the originals are in .*kept"):
            act()
    assert tree(tmp_path) == before


def test_nothing_is_put_back_through_a_link(half: Path, tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", {"c.md": b"outside", "keep.md": b"outside"})
    (half / "mine").rename(tmp_path / "moved")
    (half / "mine").symlink_to(outside)
    with pytest.raises(ColonyMemoryError, match=r"'mine/c\.md' could not be put back; the originals are in"):
        recover(half)
    assert files(outside) == {"c.md": b"outside", "keep.md": b"outside"}
    (half / "mine").unlink()
    (tmp_path / "moved").rename(half / "mine")
    quietly_recover(half)
    assert files(half) == OLD


def test_a_place_that_cannot_be_looked_into_is_named(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(_recover, "held", closed)
    with pytest.raises(ColonyMemoryError, match=r"was cut off, and cannot be put back .*Permission denied"):
        recover(half)


def test_a_folder_below_or_above_is_recovered_too(half: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ColonyMemoryWarning)
        copy = half.parent.with_name("copy")
        subprocess.run(["cp", "-a", half.parent, copy], check=True)
        assert recover(half / "mine")
        assert files(half) == OLD
        assert recover_in(copy, names(copy))
        assert files(copy / "dst") == OLD
        assert not recover_in(copy, names(copy))
    assert names(copy) == ["dst"]


def test_what_is_saved_is_never_a_mix(half: Path) -> None:
    copy = half.parent.with_name("copy")
    subprocess.run(["cp", "-a", half.parent, copy], check=True)
    old = {name: data.decode() for name, data in OLD.items()}
    with pytest.warns(ColonyMemoryWarning, match="as they were before it"):
        assert read_folder(half).documents == old
    with pytest.warns(ColonyMemoryWarning, match="as they were before it"):
        capture = read_paths([copy])
    assert capture.documents == {f"dst/{name}": text for name, text in old.items()}
    assert capture.left_out == ()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to mount a file system")
@linux
def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=False, stderr=-3).returncode:
        pytest.skip("needs to mount a file system")
    try:
        for target in ("full", "absent", "."):
            make(disk / "full", OLD)
            before = tree(disk)
            with pytest.raises(ColonyMemoryError, match=r"'big\.md'.*No space left on device.*nothing was changed"):
                write_folder({**NEW, "big.md": "x" * 300_000}, disk / target)
            assert tree(disk) == before
        write_folder(NEW, disk / "full")
        assert files(disk / "full") == {name: text.encode() for name, text in NEW.items()} | {"mine/keep.md": b"keep"}
        assert names(disk) == ["full"]
    finally:
        subprocess.run(["umount", disk], check=True)


@linux
def test_a_process_that_stands_in_an_empty_folder_stays_in_it(tmp_path: Path) -> None:
    dst = tmp_path / "dst"
    dst.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", "import os; input(); print(sorted(os.listdir()))"],
        cwd=dst,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        write_folder({"a.md": "a"}, dst)
        assert process.communicate("\n")[0].strip() == "['a.md']"


@pytest.mark.parametrize("what", ["directory", "link"])
def test_a_directory_that_comes_to_be_there_is_used_and_a_link_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    dst = make(tmp_path / "dst", OLD)
    real = _swap.Journal.write

    def late(journal: _swap.Journal) -> None:
        real(journal)
        if what == "directory":
            (dst / "e").mkdir()
        else:
            (dst / "e").symlink_to("mine")

    monkeypatch.setattr(_swap.Journal, "write", late)
    if what == "directory":
        write_folder(NEW, dst)
        assert files(dst)["e/f/g.md"] == b"new g"
        return
    with pytest.raises(ColonyMemoryError, match=r"'e/'.* was changed in the meantime"):
        write_folder(NEW, dst)
    assert files(dst) == {**OLD, "e": "mine"}


def test_a_copy_goes_again_though_it_was_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dst = make(tmp_path / "dst", OLD)
    real = _swap._take

    def late(step: _swap.Step, journal: _swap.Journal) -> None:
        if step.name == "a.md":
            # Through an open file, say: for now it is one file with two names.
            (dst / "a.md").write_bytes(b"old a and more")
        real(step, journal)

    monkeypatch.setattr(_swap, "_take", late)
    with pytest.raises(ColonyMemoryError, match=r"'a\.md'.* was changed in the meantime"):
        restore(dst)
    assert files(dst) == {**OLD, "a.md": b"old a and more"}


@linux
def test_elsewhere_than_on_linux_only_the_own_directory_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not _swap._is_current(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert _swap._is_current(tmp_path)
