"""Random schedules of one to three hosts over their folders: no line is ever out of every snapshot and every folder.

Each step is what a process of its own would do: edits, backups with a retention, restores of every kind, starts, kills
in the middle of them, and a lost state directory. What a user replaced or removed does not count. Who takes the place
of what it never held is told its id, and one user alone is never told of another.
"""

import random
import shutil
import warnings

import pytest
from capture_trees import posix
from cut_off import cut_off

from colony_memory import (
    ColonyMemory,
    ColonyMemoryError,
    ConflictDetected,
    SnapshotInfo,
    open_vault,
    restore_folder,
    save_folder,
)
from colony_memory.shell.app.run import begin

pytestmark = posix


class Hosts:
    def __init__(self, path, monkeypatch, seed, *, alone=False):
        self.path, self.monkeypatch, self.random = path, monkeypatch, random.Random(seed)
        self.url = str(path / "vault")
        open_vault(self.url, create=True)
        self.alone, self.count = alone, 1 if alone else self.random.randint(1, 3)
        self.known, self.wrong = [set() for _ in range(self.count)], []
        self.written, self.removed, self.log = set(), set(), []
        for host in range(self.count):
            (path / f"host{host}").mkdir()

    @property
    def memory(self):
        return ColonyMemory(backend=open_vault(self.url))

    def step(self):
        host = self.random.randrange(self.count)
        self.monkeypatch.setenv("XDG_STATE_HOME", str(self.path / f"state{host}"))
        folder = self.path / f"host{host}"
        acts = (
            [self.append] * 3
            + [self.replace, self.remove, self.forget, self.kill]
            + [
                getattr(self, name)
                for name in ("save", "save", "merge", "restore", "first", "old", "join", "run", "run", "anew", "go_on")
            ]
        )
        act = self.random.choice([each for each in acts if not self.alone or each != self.forget])
        self.log.append((host, act.__name__))
        before, said = self.latest(), ""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                info = act(folder)
                said = f"{info.diverged_from}" if isinstance(info, SnapshotInfo) and info.diverged_from else ""
            except (ColonyMemoryError, ValueError) as error:
                said = str(error)
                self.log.append(said[:80])
                act = None if isinstance(error, ConflictDetected) else self.append
        said += " ".join(str(each.message) for each in warned)
        self.judge(host, act, before, said)

    def judge(self, host, act, before, said):
        """Whether who was overtaken was told, and nobody else was said to be there."""
        after, known = self.latest(), self.known[host]
        if self.alone and (act is None or "another" in said):
            self.wrong.append(said)
        saves = act in (self.save, self.merge, self.anew, self.go_on)
        if saves and before and after != before and before not in known and before not in said:
            self.wrong += [(before, after)] if self.lines(before) - self.lines(after) else []
        if act is not None and (saves or act in (self.restore, self.first, self.run, self.kill)):
            known.update(filter(None, (before, after)))

    def lines(self, snapshot_id, label="default"):
        texts = self.memory.restore(label=label, snapshot_id=snapshot_id).values()
        return {line for text in texts for line in text.split("\n") if line.startswith("line")}

    def latest(self):
        latest = self.memory.latest()
        return latest and latest.snapshot_id

    def append(self, folder):
        line = f"line {len(self.written)}"
        with (folder / self.random.choice("ab")).open("a") as file:
            file.write(f"{line}\n")
        self.written.add(line)

    def replace(self, folder):
        self.remove(folder, whole=False)
        self.append(folder)

    def remove(self, folder, *, whole=True):
        path = folder / self.random.choice("ab")
        if path.exists() and (not whole or len(list(folder.iterdir())) > 1):
            self.removed.update(path.read_text().split("\n"))
            path.unlink()

    def forget(self, folder):
        shutil.rmtree(self.path / folder.name.replace("host", "state"), ignore_errors=True)

    def save(self, folder, **options):
        return save_folder(self.memory, folder, prune_keep=2, **options).info

    def merge(self, folder):
        return self.save(folder, on_conflict="merge")

    def go_on(self, folder):
        return self.save(folder, on_conflict="continue")

    def anew(self, folder):
        return self.save(folder, index=False)

    def restore(self, folder):
        restore_folder(self.memory, folder)

    def first(self, folder):
        restore_folder(self.memory, folder, snapshot_first=True)

    def old(self, folder):
        restore_folder(self.memory, folder, snapshot="latest~1")

    def join(self, folder):
        restore_folder(self.memory, folder, merge=True)

    def run(self, folder):
        begin(self.memory, folder)

    def kill(self, folder):
        act = self.random.choice([self.first, self.run, self.save])
        cut_off(lambda: act(folder), at=self.random.randint(1, 60))

    def lost(self):
        there = set()
        for path in self.path.glob("host*/**/*"):
            if path.is_file():
                there.update(path.read_text().split("\n"))
        for info in self.memory.list_snapshots():
            there |= self.lines(info.snapshot_id, info.label)
        return self.written - self.removed - there


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 200), marks=pytest.mark.long)])
def test_no_line_is_ever_out_of_every_snapshot_and_every_folder(tmp_path, monkeypatch, seeds, alone):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            (tmp_path / str(seed)).mkdir()
            hosts = Hosts(tmp_path / str(seed), monkeypatch, seed, alone=alone)
            for _ in range(18):
                hosts.step()
                assert (hosts.lost(), hosts.wrong) == (set(), []), (seed, hosts.log)
            shutil.rmtree(tmp_path / str(seed))
