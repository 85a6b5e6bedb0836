"""Random schedules of one to three hosts over their folders: no line is ever out of every snapshot and every folder.

Each step is what a process of its own would do: edits, backups with a retention, restores of every kind, starts, kills
in the middle of them, and a lost state directory. What a user replaced or removed does not count.
"""

from __future__ import annotations

import random
import shutil
import warnings

import pytest
from capture_trees import posix
from cut_off import cut_off

from colony_memory import ColonyMemory, ColonyMemoryError, open_vault, restore_folder, save_folder
from colony_memory.app.begin import begin

pytestmark = posix


class Hosts:
    def __init__(self, path, monkeypatch, seed):
        self.path, self.monkeypatch, self.random = path, monkeypatch, random.Random(seed)
        self.url = str(path / "vault")
        open_vault(self.url, create=True)
        self.count = self.random.randint(1, 3)
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
                for name in ("save", "save", "merge", "restore", "first", "old", "join", "run", "run")
            ]
        )
        act = self.random.choice(acts)
        self.log.append((host, act.__name__))
        try:
            act(folder)
        except (ColonyMemoryError, ValueError) as error:
            self.log.append(str(error)[:80])

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
        save_folder(self.memory, folder, prune_keep=2, **options)

    def merge(self, folder):
        self.save(folder, on_conflict="merge")

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
        memory = self.memory
        for info in memory.list_snapshots():
            for text in memory.restore(label=info.label, snapshot_id=info.snapshot_id).values():
                there.update(text.split("\n"))
        return self.written - self.removed - there


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 200), marks=pytest.mark.exhaustive)])
def test_no_line_is_ever_out_of_every_snapshot_and_every_folder(tmp_path, monkeypatch, seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            (tmp_path / str(seed)).mkdir()
            hosts = Hosts(tmp_path / str(seed), monkeypatch, seed)
            for _ in range(18):
                hosts.step()
                assert hosts.lost() == set(), (seed, hosts.log)
            shutil.rmtree(tmp_path / str(seed))
