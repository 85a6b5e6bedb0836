"""What becomes of a folder when an agent starts on it unattended: the table of outcomes."""

import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from capture_trees import linux, posix

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ConflictDetected,
    SnapshotCorrupt,
    VaultMissing,
    VaultUnavailable,
    open_vault,
    restore_folder,
    save_folder,
)
from colony_memory._values import replace
from colony_memory.capture._metadata import split_documents
from colony_memory.capture._moves import Moves
from colony_memory.capture._recover import Unsettled
from colony_memory.capture._write import place_documents
from colony_memory.shell.app.options import BackupOptions
from colony_memory.shell.app.run import begin
from colony_memory.testing import FaultyVault
from colony_memory.vaults.local import LocalVault

pytestmark = [posix, pytest.mark.usefixtures("quiet")]
BEFORE = "default-before-restore"


class World:
    """A vault, a folder on this host, and another host's folder."""

    def __init__(self, tmp_path, monkeypatch):
        self.path, self.monkeypatch = tmp_path, monkeypatch
        self.url = str(tmp_path / "vault")
        open_vault(self.url, create=True)
        self.here = tmp_path / "here"
        self.host("one")

    def host(self, name):
        self.monkeypatch.setenv("XDG_STATE_HOME", str(self.path / f"state-{name}"))

    @property
    def memory(self):
        return ColonyMemory(backend=open_vault(self.url))

    def write(self, **files):
        self.here.mkdir(exist_ok=True)
        for name, text in files.items():
            path = self.here / f"{name}.md"
            path.unlink(missing_ok=True) if text is None else path.write_text(text)

    def save(self, **options):
        return save_folder(self.memory, self.here, **options).info.snapshot_id

    def elsewhere(self, **files):
        """What another host saves, that has restored before."""
        self.host("two")
        there = self.path / "there"
        restore_folder(self.memory, there, force=True)
        for name, text in files.items():
            path = there / f"{name}.md"
            path.unlink() if text is None else path.write_text(text)
        own = save_folder(self.memory, there).info.snapshot_id
        self.host("one")
        return own

    def damage(self, snapshot_id):
        for part in self.path.rglob(f"*{snapshot_id}.[kp]*.json"):
            part.chmod(0o600)
            part.write_text("{}")

    def texts(self):
        return {path.stem: path.read_text() for path in sorted(self.here.iterdir()) if path.is_file()}

    def kept(self):
        """What was saved before something was put over it."""
        infos = self.memory.list_snapshots(label=BEFORE)
        return [split_documents(self.memory.restore(label=BEFORE, snapshot_id=info.snapshot_id))[0] for info in infos]


@pytest.fixture
def world(tmp_path, monkeypatch):
    return World(tmp_path, monkeypatch)


def nothing_saved(world):
    world.write(a="seed")


def no_folder(world):
    world.write(a="1\n", b="b\n")
    world.save()
    shutil.rmtree(world.here)


def emptied(world):
    no_folder(world)
    (world.here / "notes").mkdir(parents=True)


def as_saved(world):
    world.write(a="1\n", b="b\n")
    world.save()


def clean(world):
    as_saved(world)
    world.elsewhere(a="1\n2\n", b=None, c="c\n")


def ahead(world):
    as_saved(world)
    world.write(a="1\nmine\n", b=None)


def both_went_on(world):
    as_saved(world)
    world.elsewhere(a="1\ntheirs\n", b=None, c="c\n")
    world.write(a="mine\n1\n")


def both_changed_a_line(world):
    as_saved(world)
    world.elsewhere(a="theirs\n")
    world.write(a="mine\n")


def reverted(world):
    world.write(a="1\n")
    world.save()
    world.write(a="2\n")
    world.save()
    restore_folder(world.memory, world.here, snapshot="latest~1")


def reverted_and_another_went_on(world):
    reverted(world)
    world.elsewhere(b="b\n")


def a_refused_save(world):
    as_saved(world)
    world.elsewhere(a="1\ntheirs\n")
    world.write(a="mine\n1\n")
    with pytest.raises(ConflictDetected):
        world.save()


def the_basis_was_deleted(world):
    as_saved(world)
    world.write(a="1\n2\n")
    last = world.save()
    world.memory.delete_snapshot(label="default", snapshot_id=last)


def template_files(world):
    """A container's image has an older state, or a part of it."""
    world.write(a="1\n2\n", b="b\n")
    world.save()
    shutil.rmtree(world.here)
    world.write(a="1\n")


def a_lost_state_directory_ahead(world):
    as_saved(world)
    world.host("new")
    world.write(a="1\nmine\n")


def a_lost_state_directory_and_other_text(world):
    as_saved(world)
    world.host("new")
    world.write(a="other\n", b="b\n", d="d\n")


def a_damaged_latest_in_step(world):
    as_saved(world)
    world.write(a="1\n2\n")
    world.damage(world.save())


TABLE = [
    (nothing_saved, "first", {"a": "seed"}, []),
    (no_folder, "taken", {"a": "1\n", "b": "b\n"}, []),
    (emptied, "taken", {"a": "1\n", "b": "b\n"}, []),
    (as_saved, "kept", {"a": "1\n", "b": "b\n"}, []),
    (clean, "taken", {"a": "1\n2\n", "c": "c\n"}, []),
    (ahead, "kept", {"a": "1\nmine\n"}, []),
    (both_went_on, "merged", {"a": "mine\n1\ntheirs\n", "b": "b\n", "c": "c\n"}, []),
    (both_changed_a_line, "beside", {"a": "mine\n", "b": "b\n"}, []),
    (reverted, "kept", {"a": "1\n"}, []),
    (reverted_and_another_went_on, "merged", {"a": "1\n", "b": "b\n"}, []),
    (a_refused_save, "merged", {"a": "mine\n1\ntheirs\n", "b": "b\n"}, []),
    (the_basis_was_deleted, "kept", {"a": "1\n2\n", "b": "b\n"}, []),
    (template_files, "taken", {"a": "1\n2\n", "b": "b\n"}, []),
    (a_lost_state_directory_ahead, "kept", {"a": "1\nmine\n", "b": "b\n"}, []),
    (
        a_lost_state_directory_and_other_text,
        "replaced",
        {"a": "1\n", "b": "b\n", "d": "d\n"},
        [{"a.md": "other\n", "b.md": "b\n", "d.md": "d\n"}],
    ),
    (a_damaged_latest_in_step, "kept", {"a": "1\n2\n", "b": "b\n"}, []),
]


@pytest.mark.parametrize(("history", "outcome", "expected", "kept"), TABLE, ids=[each[0].__name__ for each in TABLE])
def test_what_becomes_of_a_folder_at_a_start(world, history, outcome, expected, kept):
    history(world)
    plan = begin(world.memory, world.here, dry_run=True)
    begun = begin(world.memory, world.here)
    found = world.texts()
    if outcome == "beside":
        (other,) = [name for name in found if name not in expected]
        assert found.pop(other) == "theirs\n"
    assert found == expected
    assert world.kept() == kept
    assert begun.failed is None
    assert (begun.latest is None) == (outcome == "first")
    assert (begun.restored is None) == (outcome in ("first", "kept"))
    assert (plan.restored is None, plan.latest) == (begun.restored is None, begun.latest)
    told = " ".join(begun.messages)
    assert ("are merged" in told) == (outcome in ("merged", "beside"))
    assert ("what was here is saved as" in told) == (outcome == "replaced")
    # A second start finds nothing to do, and what is saved then is the latest of the label.
    if outcome != "first":
        again = begin(world.memory, world.here)
        assert (again.restored, again.failed) == (None, None)
        world.save()
        restore_folder(world.memory, world.path / "elsewhere", fallback=True)
        assert {path.name for path in (world.path / "elsewhere").iterdir()} == {p.name for p in world.here.iterdir()}


@pytest.mark.parametrize("volume", [True, False])
def test_with_a_damaged_latest_it_starts_with_an_older_one_where_that_is_asked_for(world, volume):
    world.write(a="1\n", b="b\n")
    world.save()
    if volume:
        world.host("two")
        restore_folder(world.memory, world.path / "copy")
        world.host("one")
    world.write(a="2\n")
    latest = world.save()
    world.damage(latest)
    shutil.rmtree(world.here)
    with pytest.raises(SnapshotCorrupt):
        begin(world.memory, world.here)
    assert not world.here.exists()
    for _ in range(2):  # a container without a volume, at each start
        begun = begin(world.memory, world.here, fallback=True)
        assert begun.messages == (f"the latest snapshot {latest} is damaged",)
        assert world.texts() == {"a": "1\n", "b": "b\n"}
        shutil.rmtree(world.here)
    begin(world.memory, world.here, fallback=True)
    world.write(a="3\n")
    own = world.save()
    assert world.memory.latest().snapshot_id == own


def test_where_the_folder_cannot_be_saved_first_it_stays_and_that_is_told(world):
    a_lost_state_directory_and_other_text(world)
    (world.here / ".cmemignore").write_text("a.md\n")
    before = world.texts()
    assert not begin(world.memory, world.here, dry_run=True).restored
    assert restore_folder(world.memory, world.here, snapshot_first=True, dry_run=True).written.unsaved == ("a.md",)
    begun = begin(world.memory, world.here)
    assert "the folder's current state was not saved" in begun.failed
    assert world.texts() == before
    assert begun.latest == world.memory.latest().snapshot_id


def test_a_likely_secret_stops_the_save_before_it_and_its_forecast(world):
    a_lost_state_directory_and_other_text(world)
    world.write(a="AKIA" + "QWERTYUIOPASDFGH")
    options = BackupOptions(secrets="stop")
    plan, begun = (begin(world.memory, world.here, options=options, dry_run=dry) for dry in (True, False))
    assert "likely secret" in begun.failed
    assert plan.failed == begun.failed
    masking = replace(options, secrets="mask")
    assert begin(world.memory, world.here, options=masking, dry_run=True).restored.written.unsaved == ("a.md",)
    assert "'a.md' in " in begin(world.memory, world.here, options=masking).failed


@linux
def test_under_what_a_program_has_open_the_folder_stays_and_that_is_told(world):
    world.write(note="a")
    world.save()
    world.elsewhere(note="b")
    open_it = "import sys; f = open(sys.argv[1], 'r+b'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", open_it, world.here / "note.md"], stdin=-1, stdout=-1) as agent:
        agent.stdout.readline()
        begun = begin(world.memory, world.here)
        assert f"(process {agent.pid})" in begun.failed
        assert begin(world.memory, world.here, dry_run=True).restored.written.in_use == ("note.md",)
        agent.stdin.close()
    assert world.texts() == {"note": "a"}
    assert begin(world.memory, world.here).failed is None
    assert world.texts() == {"note": "b"}


def test_a_restore_that_cannot_be_put_back_keeps_no_agent_from_starting(world, monkeypatch):
    from colony_memory.shell.app import target

    clean(world)

    def stuck(*_):
        raise Unsettled("a restore was cut off, and 'a.md' could not be put back")

    monkeypatch.setattr(target, "recover", stuck)
    begun = begin(world.memory, world.here)
    assert "could not be put back" in begun.failed
    assert begun.latest == world.memory.latest().snapshot_id
    shutil.rmtree(world.here)
    with pytest.raises(Unsettled):
        begin(world.memory, world.here)


@pytest.mark.parametrize("there", [False, True])
def test_what_cannot_be_put_into_an_empty_folder_starts_no_agent(world, monkeypatch, there):
    clean(world)
    shutil.rmtree(world.here)
    if there:
        world.here.mkdir()

    def full(*args, dry_run=False, **options):
        if dry_run:
            return place_documents(*args, dry_run=True, **options)
        raise ColonyMemoryError("No space left on device")

    monkeypatch.setattr("colony_memory.shell.app.restore.place_documents", full)
    with pytest.raises(ColonyMemoryError, match="No space left"):
        begin(world.memory, world.here)


@pytest.mark.parametrize("times", [1, 9])
@pytest.mark.parametrize("how", ["in place", "by a rename"])
def test_what_is_written_between_the_question_and_the_answer_is_never_lost(world, monkeypatch, how, times):
    clean(world)
    real, left = Moves.take, [f"meanwhile {number}\n" for number in range(times)]

    def late(moves, *args):
        if left:
            path = world.here / ("a.md" if how == "in place" else "draft")
            path.write_text(left.pop())
            path.replace(world.here / "a.md")
        real(moves, *args)

    monkeypatch.setattr(Moves, "take", late)
    begun = begin(world.memory, world.here)
    kept = {documents["a.md"] for documents in world.kept()}
    if times == 1:
        assert begun.failed is None
        assert (world.texts()["a"], kept) == ("1\n2\n", {"meanwhile 0\n"})
    else:
        assert "was changed in the meantime" in begun.failed
        assert world.texts()["a"].startswith("meanwhile ")


def saved(vault, documents, **options):
    memory = ColonyMemory(backend=vault)
    memory._session.now = lambda: datetime.now(timezone.utc) + timedelta(minutes=1)
    return memory.backup(documents, **options)


def test_a_first_start_makes_the_folder_and_leaves_what_is_there(vault, tmp_path):
    memory = ColonyMemory(backend=vault)
    saved(vault, {"MEMORY.md": "of another"}, label="other")
    assert begin(memory, tmp_path / "a" / "b").restored is None
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "a" / "b" / "seed.md").write_text("hello")
    assert begin(memory, tmp_path / "a" / "b").restored is None
    assert (tmp_path / "a" / "b" / "seed.md").read_text() == "hello"
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file"):
        begin(memory, tmp_path / "file")


def test_no_fault_is_a_first_start(vault, tmp_path):
    saved(vault, {"MEMORY.md": "two years"})
    faulty = FaultyVault(vault)
    for verb in ("get", "*"):
        failing = faulty.fail(verb, VaultUnavailable("down"), times=None)
        with pytest.raises(VaultUnavailable):
            begin(ColonyMemory(backend=faulty), tmp_path / "new")
        assert failing.fired
        faulty.heal()
    for each in vault.vault_list_files()["items"]:
        if "latest" not in each["filename"]:
            vault.vault_upload_file(each["filename"], "{}")
    with pytest.raises(SnapshotCorrupt):
        begin(ColonyMemory(backend=vault), tmp_path / "new")
    with pytest.raises(VaultMissing):
        begin(ColonyMemory(backend=LocalVault(tmp_path / "away")), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX")
@pytest.mark.parametrize("above", [False, True], ids=["the folder", "the directory above"])
def test_a_link_that_took_the_place_of_the_folder_gets_nothing(tmp_path, above):
    memory = ColonyMemory(backend=LocalVault(tmp_path / "vault", create=True))
    place, private = tmp_path / "home" / "memory", tmp_path / "other" / "memory"
    for each in (place, private):
        each.mkdir(parents=True)
    (place / "MEMORY.md").write_text("two years")
    save_folder(memory, place)
    begin(memory, place)
    gone = place.parent if above else place
    gone.rename(tmp_path / "gone")
    gone.symlink_to(private.parent if above else private)
    for _ in range(2):
        with pytest.raises(ColonyMemoryError, match="a link has taken its place"):
            begin(memory, place)
    assert list(private.iterdir()) == []
    save_folder(memory, tmp_path / "gone" / "memory" if above else tmp_path / "gone")
    (private / "MEMORY.md").write_text("two years")
    save_folder(memory, place)  # which is meant
    assert begin(memory, place).failed is None
