"""The options of a backup, as every face passes them."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from colony_memory import ColonyMemory, Retention, save_folder, save_paths
from colony_memory.app import save
from colony_memory.app.options import BackupOptions
from colony_memory.app.sources import save_sources
from colony_memory.capture import read_folder

RULES = Retention(keep_last=2)


def test_what_may_be_one_or_several_is_a_tuple_and_the_label_as_files_spell_it():
    asked = BackupOptions(label=" Notes", tags=iter(["b", "a", "b"]), exclude="*.log", allow_secrets=iter(()))
    assert (asked.label, asked.tags, asked.exclude, asked.allow_secrets) == ("notes", ("a", "b"), ("*.log",), ())
    assert dataclasses.replace(asked, note="x").exclude == ("*.log",)
    assert not asked.removes
    assert BackupOptions(prune_keep=0).removes
    assert BackupOptions(retention=RULES).removes


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"label": "Not one!"}, "label"),
        ({"prune_keep": -1}, "count"),
        ({"prune_keep": 1, "retention": RULES}, "not both"),
        ({"retention": 3}, "Retention"),
        ({"on_conflict": "ask"}, "on_conflict"),
        ({"note": "x" * 1001}, "note"),
        ({"tags": "two words"}, "tag"),
        ({"exclude": ""}, "excludes nothing"),
        ({"exclude": 5}, "exclude"),
        ({"secrets": "maybe"}, "secrets"),
        ({"allow_secrets": "a"}, "names no finding"),
    ],
)
def test_what_no_backup_could_use_is_refused_at_once(wrong, why):
    with pytest.raises(ValueError, match=why):
        BackupOptions(**wrong)


def test_each_option_is_an_argument_of_what_it_is_for():
    asked = BackupOptions()
    names = {each.name for each in dataclasses.fields(BackupOptions)}
    assert {*asked.of_snapshot, *asked.of_folder, "before"} == names
    assert set(asked.of_snapshot) <= set(inspect.signature(ColonyMemory.backup).parameters)
    assert set(asked.of_folder) - {"agent"} <= set(inspect.signature(read_folder).parameters)
    with pytest.raises(ValueError, match="no host of agents is called 'nobody'"):
        BackupOptions(agent="nobody")
    for call in (save_folder, save_paths):
        assert names - {"agent"} <= set(inspect.signature(call).parameters)
    assert set(inspect.signature(save_sources).parameters) - names == {"memory", "sources"}


@pytest.mark.parametrize("call", [save_folder, save_paths])
def test_what_a_call_is_given_is_what_is_passed_on(call, monkeypatch):
    given = {
        "label": "notes", "prune_keep": None, "retention": RULES, "on_conflict": "continue", "note": "why",
        "tags": ("a",), "git": True, "exclude": ("*.log",), "secrets": "mask", "allow_secrets": ("a.md:github-token",),
        "before": "make -C store copy",
    }  # fmt: skip
    seen = []
    monkeypatch.setattr(
        save.FolderSave, "__init__", lambda _, memory, what, asked, *, index: seen.append((asked, index))
    )
    monkeypatch.setattr(save.FolderSave, "__enter__", lambda self: self)
    monkeypatch.setattr(save.FolderSave, "__exit__", lambda *_: None)
    monkeypatch.setattr(save.FolderSave, "read", lambda _, *, on_progress: on_progress)
    monkeypatch.setattr(save.FolderSave, "save", lambda *_: None)
    call(None, "memory", index=False, **given)
    ((asked, index),) = seen
    assert (dataclasses.asdict(asked), index) == (
        given | {"retention": dataclasses.asdict(RULES), "agent": None},
        False,
    )
