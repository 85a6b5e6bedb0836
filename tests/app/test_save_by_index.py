"""A folder saved again: what is opened and searched of it, by what has changed and by what its index says."""

import contextlib
import itertools
import os
import shutil
import sqlite3
import time
import warnings
from bisect import bisect_right

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, restore_folder, save_folder, save_paths
from colony_memory._format.v2.zstd import is_installed
from colony_memory._os.directory import Directory
from colony_memory._os.files import Files
from colony_memory._os.machine import state_directory
from colony_memory.capture import _survey
from colony_memory.capture import folder as reading
from colony_memory.capture._metadata import METADATA_NAMES
from colony_memory.capture.index import open_index
from colony_memory.exceptions import ColonyMemoryWarning
from colony_memory.shell.app import save as saving_module
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.save import FolderSave

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX")
ROOT = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="root alone works for others")
TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
TEXT, ALL = "a.md", frozenset({"a.md", "b.md", "face.png", "facts.db", "run.sh"})
NONE = frozenset()


@pytest.fixture
def place(tmp_path):
    made = tmp_path / "memory"
    made.mkdir()
    (made / "a.md").write_text("two years\n")
    (made / "b.md").write_text("of notes\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "face.png").write_bytes(b"\x89PNG\0\xff" * 100)
    with contextlib.closing(sqlite3.connect(made / "facts.db")) as database:
        database.execute("create table facts (id integer)")
        database.commit()
    time.sleep(0.03)  # a kernel's tick and more
    return made


class Seen:
    """Which files of the folder were opened, and which were searched for secrets."""

    def __init__(self, monkeypatch):
        self.opened, self.searched, self.reads, self.writes = set(), set(), 0, 0
        real, judge = Directory.file, _survey.judge_secrets

        def file(directory, name):
            self.opened.add(name)
            return real(directory, name)

        def search(contents, *args, **options):
            self.searched |= set(contents)
            return judge(contents, *args, **options)

        monkeypatch.setattr(Directory, "file", file)
        monkeypatch.setattr(_survey, "judge_secrets", search)

    def on_event(self, event):
        if event.action in ("created", "reused"):
            self.reads, self.writes = event.reads, event.writes

    def forget(self):
        self.opened, self.searched = set(), set()


@pytest.fixture
def seen(monkeypatch):
    return Seen(monkeypatch)


def save(vault, place, seen=None, **options):
    """By a client of its own, as each command has one."""
    memory = ColonyMemory(backend=vault, on_event=None if seen is None else seen.on_event)
    return save_folder(memory, place, **options)


def rewritten(place):
    before = (place / TEXT).stat()
    (place / TEXT).write_text("TWO YEARS\n")
    os.utime(place / TEXT, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(place):
    before = (place / TEXT).stat()
    shutil.copy2(place / TEXT, place.parent / "other")
    (place.parent / "other").replace(place / TEXT)
    os.utime(place / TEXT, ns=(before.st_atime_ns, before.st_mtime_ns))


def appended(place):
    with (place / TEXT).open("a") as file:
        file.write("more\n")


def one_fact_more(place):
    with contextlib.closing(sqlite3.connect(place / "facts.db")) as database:
        database.execute("insert into facts values (1)")
        database.commit()


def no_index(_place):
    shutil.rmtree(state_directory() / "folders")


def no_rows(_place):
    for each in (state_directory() / "folders").glob("*.rows"):
        each.unlink()


def garbled(_place):
    for each in (state_directory() / "folders").iterdir():
        each.write_bytes(b"\0" * 100)


def made_anew(place):
    shutil.copytree(place, place.with_name("copy"))
    shutil.rmtree(place)
    place.with_name("copy").rename(place)


# What was done -> what is searched for secrets, and whether a new snapshot is made.
CHANGES = {
    "nothing": (lambda _: None, NONE, False),
    "written with its time put back": (rewritten, {TEXT}, True),
    "appended to": (appended, {TEXT}, True),
    "touched": (lambda place: (place / TEXT).touch(), {TEXT}, False),
    "from the future": (lambda place: os.utime(place / TEXT, (2**33, 2**33)), {TEXT}, False),
    "replaced by its equal": (replaced, {TEXT}, False),
    "executable": (lambda place: (place / TEXT).chmod(0o755), {TEXT}, True),
    "another mode": (lambda place: (place / TEXT).chmod(0o600), {TEXT}, True),
    "renamed": (lambda place: (place / TEXT).rename(place / "c.md"), {"c.md"}, True),
    "added": (lambda place: (place / "c.md").write_text("c"), {"c.md"}, True),
    "an empty directory": (lambda place: (place / "later").mkdir(), NONE, True),
    "removed": (lambda place: (place / TEXT).unlink(), NONE, True),
    "a picture": (lambda place: (place / "face.png").write_bytes(b"\xff\0" * 100), {"face.png"}, True),
    "a fact": (one_fact_more, {"facts.db"}, True),
    "the index is gone": (no_index, ALL, False),
    "its rows are gone": (no_rows, ALL, False),
    "it is damaged": (garbled, ALL, False),
    "the folder is another": (made_anew, ALL, False),
}


def damaged(vault, place):
    for file in (vault.path).glob("*.k0.json"):
        file.write_text(file.read_text().replace("A", "B"))


def saved_otherwise(vault, place):
    ColonyMemory(backend=vault).backup({"other.md": "another memory"}, on_conflict="continue")


@POSIX
@pytest.mark.filterwarnings("ignore::colony_memory.exceptions.ColonyMemoryWarning")
@pytest.mark.parametrize("act", [damaged, saved_otherwise])
def test_what_the_snapshot_to_go_on_from_does_not_give_is_read(place, vault, seen, act, tmp_path):
    save(vault, place)
    act(vault, place)
    appended(place)
    seen.forget()
    save(vault, place, seen, on_conflict="continue")
    assert seen.opened & ALL == ALL
    back = tmp_path / "back"
    restore_folder(ColonyMemory(backend=vault), back)
    assert {each.name: each.read_bytes() for each in back.iterdir()} == {
        each.name: each.read_bytes() for each in place.iterdir()
    }


@POSIX
@pytest.mark.parametrize("change", CHANGES)
def test_what_is_read_again_and_saved(place, vault, seen, change, tmp_path):
    if not is_installed():
        pytest.skip("format 1 has no text to go on from, so that all is read where anything changed")
    act, searched, new = CHANGES[change]
    first = save(vault, place).info
    seen.forget()
    act(place)
    saved = save(vault, place, seen)
    assert seen.searched == searched
    assert (not saved.info.reused, saved.info.snapshot_id != first.snapshot_id) == (new, new)
    assert seen.opened & ALL == ALL & searched
    if not searched and not new:
        assert (seen.reads, seen.writes) == (2, 0)
        assert (seen.opened, saved.capture.documents) == (set(), {})
    assert set(saved.contents.files) == {each.name for each in place.iterdir() if each.is_file()}
    back = tmp_path / "back"
    restore_folder(ColonyMemory(backend=vault), back)
    assert {each.name: each.read_bytes() for each in back.iterdir() if each.is_file()} == {
        each.name: each.read_bytes() for each in place.iterdir() if each.is_file()
    }
    # And it is known from then on, but for what is as young as the future.
    time.sleep(0.03)
    save(vault, place)
    seen.forget()
    assert save(vault, place).info.reused
    assert seen.searched == ({TEXT} if change == "from the future" else NONE)


def test_what_is_as_young_as_the_look_at_it_is_read_again(place, vault, seen, monkeypatch):
    real = time.time_ns
    began = (place / TEXT).stat().st_ctime_ns + 1
    monkeypatch.setattr(reading.time, "time_ns", lambda: began)
    save(vault, place)
    monkeypatch.setattr(reading.time, "time_ns", real)
    seen.forget()
    assert save(vault, place).info.reused
    assert TEXT in seen.searched


@pytest.mark.parametrize("choice", ["warn", "mask", "allowed"])
def test_what_holds_a_secret_is_searched_each_time(place, vault, seen, choice):
    (place / TEXT).write_text(f"{TOKEN}\n")
    time.sleep(0.03)
    options = {"secrets": "warn", "allow_secrets": "a.md:github-token"} if choice == "allowed" else {"secrets": choice}
    told = contextlib.nullcontext() if choice != "warn" else pytest.warns(UserWarning, match="likely secret is saved")
    for _ in range(2):
        seen.forget()
        with told:
            saved = save(vault, place, **options)
        assert TEXT in seen.searched
    assert (saved.info.reused, seen.searched) == (True, {TEXT})
    assert saved.capture.masked == ((TEXT,) if choice == "mask" else ())
    assert (TOKEN in ColonyMemory(backend=vault).restore()[TEXT]) == (choice != "mask")
    with pytest.raises(ColonyMemoryError, match="1 likely secret"):
        save(vault, place, secrets="stop")


@pytest.mark.parametrize("choice", ["warn", "mask"])
def test_of_a_large_file_only_the_pieces_that_changed_are_searched(place, vault, monkeypatch, choice):
    """Also beside a likely secret in another piece, and where one lies across two pieces."""
    from colony_memory.capture import _secret_views as views

    looked, size, real = [], 128 * 1024, views.find

    def find(text, *near):
        looked.append(len(text))
        return real(text, *near)

    monkeypatch.setattr(views, "find", find)
    monkeypatch.setattr(views, "_SIZE", size)
    lines = [f"line {number:06} of notes that say nothing secret\n" for number in range(5 * size // 46)]
    lines[10] = f"{TOKEN}\n"

    def searched(*changes):
        for at, line in changes:
            lines[at] = line.ljust(len(lines[at]) - 1)[: len(lines[at]) - 1] + "\n"
        (place / TEXT).write_text("".join(lines))
        time.sleep(0.03)
        looked.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            saved = save(vault, place, secrets=choice)
        told = [str(each.message) for each in caught] if choice == "warn" else saved.capture.secrets
        return sum(each >= size for each in looked), len(told)

    assert searched()[1] == 1
    again, found = searched((7_500, "a word more"))
    assert again <= 2 + 6 * (choice == "mask")  # the piece with the token, which is never clean, and that of the word
    assert found == 1
    across = bisect_right([*itertools.accumulate(map(len, lines))], 3 * size)
    assert searched((across, "x " + TOKEN[:-1] + "H"))[1] == 2
    assert searched((across, "nothing"))[1] == 1


@POSIX
def test_a_database_counts_by_its_file_and_its_log(place, vault, seen):
    with contextlib.closing(sqlite3.connect(place / "facts.db")) as database:
        database.execute("pragma journal_mode=wal")
        database.execute("insert into facts values (1)")
        database.commit()
        time.sleep(0.03)
        save(vault, place)
        seen.forget()
        assert save(vault, place).info.reused
        assert seen.opened & ALL == set()
        database.execute("insert into facts values (2)")
        database.commit()
        assert not save(vault, place).info.reused
        assert seen.searched == {"facts.db"}
    time.sleep(0.03)
    save(vault, place)  # the log is a part of the file by now
    seen.forget()
    with contextlib.closing(sqlite3.connect(f"file:{place}/facts.db?mode=ro", uri=True)) as reader:
        assert reader.execute("select count(*) from facts").fetchone() == (2,)
        assert save(vault, place).info.reused
    assert save(vault, place).info.reused
    assert set(ColonyMemory(backend=vault).latest().doc_names) <= {"a.md", "b.md", "run.sh", *METADATA_NAMES}


def test_the_proof_of_stored_bytes_outlives_the_process_for_a_day(place, vault, monkeypatch):
    info = save(vault, place).info
    part = next(each for each in vault.path.iterdir() if info.snapshot_id in each.name and "manifest" not in each.name)
    part.write_text(part.read_text().swapcase())
    assert save(vault, place).info.reused
    for each in (state_directory() / "folders").glob("*.json"):
        each.write_text(each.read_text().replace(f'"{info.created_at[:4]}-', '"2001-'))
    with pytest.warns(UserWarning, match="saved anew"):
        assert not save(vault, place).info.reused


def test_a_folder_without_any_file_of_its_basis_has_none(place, vault):
    first = save(vault, place).info
    for each in place.iterdir():
        each.unlink()
    (place / "new.md").write_text("begun anew")
    with pytest.warns(UserWarning, match="has text that this memory lacks"):
        save(vault, place)
    with open_index([place], vault=vault.identity(), label="default") as index:
        assert first.snapshot_id not in (index.read().snapshot_id, *index.read().pending)


# --- more than one, and kills


def test_two_folders_of_one_label_by_one_client_at_once(place, vault, tmp_path):
    memory, other = ColonyMemory(backend=vault), tmp_path / "other"
    shutil.copytree(place, other)
    (other / "c.md").write_text("c")
    with FolderSave(memory, place, BackupOptions()) as one, FolderSave(memory, other, BackupOptions()) as two:
        one.save(one.read())
        two.save(two.read())
    first, second = (open_index([each], vault=vault.identity(), label="default") for each in (place, other))
    with first as mine, second as theirs:
        assert mine.read().snapshot_id != theirs.read().snapshot_id
        assert memory.latest().snapshot_id == theirs.read().snapshot_id


class Killed(BaseException):
    """The process is no more."""


def killing(real, stop, after):
    """Write an index's files until one is too much; whether it came to that is in the second thing given."""
    count = [0]

    def replace(files, name, data, **options):
        if files.path.name != "folders":
            return real(files, name, data, **options)
        count[0] += 1
        if count[0] < stop or after:
            real(files, name, data, **options)
        if count[0] == stop:
            raise Killed
        return None

    return replace, count


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_write_of_the_index_costs_nothing(place, vault, monkeypatch, after):
    save(vault, place)
    real = Files.replace
    for stop in range(1, 20):
        (place / TEXT).write_text(f"draft {stop}\n")
        replace, count = killing(real, stop, after)
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(Files, "replace", replace)
            save(vault, place)
        (place / TEXT).write_text(f"final {stop}\n")
        assert not save(vault, place).info.reused  # and nothing is told: warnings are errors
        assert ColonyMemory(backend=vault).restore()[TEXT] == f"final {stop}\n"
        if count[0] < stop:
            break
    assert 3 < stop < 19


# --- where it is


@POSIX
def test_what_runs_unattended_refuses_a_link_that_took_the_place_of_the_folder(place, vault, tmp_path):
    def unattended():
        with FolderSave(ColonyMemory(backend=vault), [place], BackupOptions(), unattended=True) as saving:
            return saving.save(saving.read())

    unattended()
    moved = place.rename(tmp_path / "moved")
    private = tmp_path / "private"
    private.mkdir()
    (private / "key.md").write_text("private")
    place.symlink_to(private)
    with pytest.raises(ColonyMemoryError, match="a link has taken its place"):
        unattended()
    assert "key.md" not in ColonyMemory(backend=vault).restore()
    place.unlink()
    place.symlink_to(moved)
    with pytest.raises(ColonyMemoryError, match="a link has taken its place"):
        unattended()
    save_paths(ColonyMemory(backend=vault), [place])  # which is meant
    assert unattended().info.reused


@POSIX
def test_a_link_that_comes_while_nobody_looks_saves_nothing(place, vault, tmp_path, monkeypatch):
    real = saving_module.read_by_index

    def swapped(*args, **choices):
        place_read = real(*args, **choices)
        place.rename(tmp_path / "moved")
        place.symlink_to(tmp_path / "moved")
        return place_read

    monkeypatch.setattr(saving_module, "read_by_index", swapped)
    saving = FolderSave(ColonyMemory(backend=vault), place, BackupOptions(), unattended=True)
    with saving, pytest.raises(ColonyMemoryError, match="a link has taken its place"):
        saving.read()
    assert ColonyMemory(backend=vault).list_snapshots() == []


@ROOT
@pytest.mark.parametrize("trap", [None, "a link", "another's", "no account"])
def test_root_keeps_it_in_the_home_of_the_folder_s_owner(place, vault, tmp_path, monkeypatch, trap):
    import pwd

    owner, home = 54321, tmp_path / "home"
    home.mkdir()
    os.chown(home, owner, owner)
    os.chown(place, owner, owner)
    if trap == "a link":
        (home / ".local").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").mkdir()
    if trap == "another's":
        (home / ".local").mkdir()

    def account(uid):
        if uid != owner or trap == "no account":
            raise KeyError(uid)
        return pwd.struct_passwd(("ada", "x", owner, owner, "", str(home), ""))

    monkeypatch.setattr(pwd, "getpwuid", account)
    save(vault, place)
    with FolderSave(ColonyMemory(backend=vault), place, BackupOptions()) as saving:
        assert (saving.index.problem is None) == (trap is None)
        assert saving.save(saving.read()).info.reused
    made = list((home / ".local" / "state" / "colony-memory" / "folders").glob("*")) if trap is None else []
    assert {each.suffix for each in made} == ({".json", ".rows", ".lock", ".given"} if trap is None else set())
    assert {each.stat().st_uid for each in (*made, *home.glob(".local/*"))} <= {owner}
    assert not (state_directory() / "folders").exists()
    assert list(tmp_path.glob("elsewhere/*")) == []


def test_without_a_state_directory_each_folder_of_a_host_is_a_writer_of_its_own(place, vault, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "a.md"))
    monkeypatch.setattr("colony_memory._os.machine.machine_id", lambda: b"of this machine")
    other = shutil.copytree(place, tmp_path / "other")
    (other / "a.md").write_text("theirs\n")
    theirs = save_folder(ColonyMemory(backend=vault), other).info.snapshot_id
    with pytest.warns(ColonyMemoryWarning, match=f"not based on snapshot {theirs} of label 'default'"):
        mine = save_folder(ColonyMemory(backend=vault), place).info
    (place / "b.md").write_text("more\n")
    assert (mine.diverged_from, save_folder(ColonyMemory(backend=vault), place).info.diverged_from) == (theirs, None)


def test_a_disk_that_is_full_refuses_no_save_for_an_own_one(place, vault, monkeypatch):
    save_folder(ColonyMemory(backend=vault), place)
    (place / "a.md").write_text("while the disk was full\n")
    replace = Files.replace

    def full(files, *args, **options):
        if files.path == state_directory() / "folders":
            raise OSError(28, "No space left on device")
        replace(files, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "replace", full)
        mine = save_folder(ColonyMemory(backend=vault), place).info.snapshot_id
    (place / "a.md").write_text("and after it\n")
    with pytest.warns(ColonyMemoryWarning, match=f"snapshot {mine} of"):  # nobody knows any more whose that is
        last = save_folder(ColonyMemory(backend=vault), place).info
    assert ColonyMemory(backend=vault).latest().snapshot_id == last.snapshot_id > mine
