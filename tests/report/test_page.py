"""The page of a report: what is in it, and that nothing in a vault can act in it."""

import hashlib
import json
import re
from base64 import b64encode
from datetime import datetime, timezone

import pytest

from colony_memory import ColonyMemory
from colony_memory.shell.report import look_over, render
from colony_memory.testing import FakeVault

NOW = datetime(2026, 11, 28, 12, tzinfo=timezone.utc)
HOSTILE = "</script><script>alert(1)</script><!--"


@pytest.fixture
def vault():
    return FakeVault(operations_per_hour=None)


def page_of(vault, **given):
    memory = ColonyMemory(backend=vault)
    checked, labels = look_over(memory, url="memory:", now=NOW, **given)
    return render(labels, status={"state": checked.verdict.state}, now=NOW)


def data_of(page):
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_it_tells_all_that_there_is(vault):
    memory = ColonyMemory(backend=vault)
    first = memory.backup({"a.md": "1\n", "b.md": "x\n"}, note="the first")
    second = memory.backup({"a.md": "1\n2\n"})
    document = data_of(page_of(vault))
    (label,) = document["labels"]
    newest, oldest = label["snapshots"]
    assert [newest["snapshot_id"], oldest["snapshot_id"]] == [second.snapshot_id, first.snapshot_id]
    assert (newest["changes"], oldest["changes"]) == ([0, 1, 1], [2, 0, 0])
    assert (newest["latest"], oldest["latest"]) == (True, False)
    assert (newest["check"]["good"], newest["check"]["trust"]) == (True, "unchecked")
    assert oldest["note"] == "the first"
    names = {entry["name"]: entry for entry in label["documents"]}
    assert [change["kind"] for change in names["b.md"]["changes"]] == ["removed", "added"]
    assert "+2\n" in names["a.md"]["changes"][0]["patch"]
    assert document["made"] == "2026-11-28T12:00:00Z"


def test_reading_can_be_left_out(vault):
    ColonyMemory(backend=vault).backup({"a.md": "a thing\n"})
    (label,) = data_of(page_of(vault, quick=True))["labels"]
    assert (label["documents"], label["snapshots"][0]["check"]) == ([], None)


def test_what_is_damaged_is_told_and_stops_nothing(vault):
    memory = ColonyMemory(backend=vault)
    memory.backup({"a.md": "1\n"})
    bad = memory.backup({"a.md": "2\n"}, label="other")
    vault.files[f"cmem.other.{bad.snapshot_id}.p0.json"] = "{}"
    found = {label["label"]: label for label in data_of(page_of(vault))["labels"]}
    assert found["default"]["problem"] is None
    other = found["other"]
    assert other["problem"]
    assert [each["check"]["good"] for each in (*other["snapshots"], *other["others"])] == [False]


def test_nothing_from_a_vault_is_markup_or_program(vault):
    ColonyMemory(backend=vault).backup({HOSTILE: f"{HOSTILE}\u2028\ud800\n"}, note=HOSTILE, label="default")
    page = page_of(vault)
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 2
    (label,) = data_of(page)["labels"]
    assert label["documents"][0]["name"] == HOSTILE
    page.encode("ascii")


def test_the_policy_lets_no_other_script_run_and_nothing_be_asked_for(vault):
    page = page_of(vault)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert data_of(page)["labels"] == []
    assert data_of(page)["next"] == []
