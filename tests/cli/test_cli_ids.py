"""Snapshots as people name them."""

from __future__ import annotations

from datetime import timedelta

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import NOON, save
from test_cli_status import snapshot

from colony_memory.cli import ids
from colony_memory.cli.errors import Failure
from colony_memory.exceptions import SnapshotNotFound

environment, vault, cli, refused = cli_runs.environment, cli_runs.vault, cli_runs.cli, cli_runs.refused

IDS = [f"2026110{day}T120000000000Z-aaaaa{day}" for day in range(1, 8)]
INFOS = [snapshot(snapshot_id=each, head="head" if each == IDS[5] else "") for each in IDS]
LATER = snapshot(snapshot_id="handmade")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (IDS[2], IDS[2]),
        (IDS[2][:8], IDS[2]),
        ("hand", "handmade"),
        ("latest", IDS[5]),
        ("latest~0", IDS[5]),
        ("latest~1", IDS[4]),
        ("latest~5", IDS[0]),
        ("latest~6", "handmade"),
    ],
)
def test_what_a_text_names(text, found):
    assert ids.resolve([*INFOS, LATER], text).snapshot_id == found


def test_an_id_that_is_the_beginning_of_another_names_itself():
    infos = [snapshot(snapshot_id="a"), snapshot(snapshot_id="ab")]
    assert ids.resolve(infos, "a").snapshot_id == "a"


def test_without_a_pointer_the_newest_is_the_latest():
    infos = [snapshot(snapshot_id=each) for each in IDS]
    assert ids.resolve(infos, "latest").snapshot_id == IDS[-1]


def test_what_names_several_is_refused_with_the_candidates():
    with pytest.raises(Failure, match=f"'2026' is the beginning of 7 ids: {', '.join(IDS[:5])} and 2 more") as error:
        ids.resolve(INFOS, "2026")
    assert error.value.code == 2
    with pytest.raises(Failure, match=f"2 ids: {IDS[0]}, {IDS[1]}$"):
        ids.resolve(INFOS[:2], "2026")


@pytest.mark.parametrize("text", ["", "../x", "latest~", "latest~-1", "late st", "a" * 65, "é"])
def test_what_is_no_name_is_refused(text):
    with pytest.raises(Failure, match="names no snapshot") as error:
        ids.resolve(INFOS, text)
    assert error.value.code == 2
    assert not ids.may_name_a_snapshot(text)


@pytest.mark.parametrize(
    ("infos", "text", "says"),
    [
        (INFOS, "2027", "no snapshot has an id that begins with '2027'"),
        (INFOS, "latest~6", "latest~6 is further back than the oldest snapshot"),
        ([], "latest", "nothing is saved yet"),
    ],
)
def test_what_is_not_there_is_not_found(infos, text, says):
    with pytest.raises(SnapshotNotFound, match=says):
        ids.resolve(infos, text)


def test_a_whole_id_needs_no_list(vault):
    assert ids.find_id(None, IDS[0], label="default") == IDS[0]


@pytest.mark.parametrize(
    "verb", [["show"], ["verify"], ["diff"], ["delete", "--yes"], ["restore", "out", "--force", "--snapshot"]]
)
def test_every_verb_takes_them(cli, refused, vault, verb):
    first = save(vault, {"a.md": "x"}, at=NOON)
    second = save(vault, {"a.md": "y"}, at=NOON + timedelta(days=1))
    assert "2 ids" in refused(2, *verb, first.snapshot_id[:6])
    assert "further back" in refused(3, *verb, "latest~2")
    if verb not in (["diff"], ["verify"]):  # to them it is a path
        assert "names no snapshot" in refused(2, *verb, "latest~")
    code, out, err = cli(*verb, "latest~1", "--json")
    assert (code, err) == (0, "")
    assert first.snapshot_id in out
    code, out, _ = cli(*verb, second.snapshot_id[:8], "--json")
    assert code == 0
    assert second.snapshot_id in out


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("verb", [["show"], ["verify"], ["delete", "--yes"], ["diff"]])
def test_a_snapshot_of_another_label_is_pointed_to(refused, vault, verb, whole):
    save(vault, {"a.md": "x"})
    info = save(vault, {"a.md": "y"}, label="other")
    text = info.snapshot_id if whole else info.snapshot_id[:-2]
    assert "there is one under 'other': add --label" in refused(3, *verb, text)
    assert "; there is one" not in refused(3, *verb, "2020")
