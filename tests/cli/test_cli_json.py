"""What programs get from each verb: the fields that are documented, and for every fault one line and a code."""

import itertools
import json
import re
import shutil
from dataclasses import fields

import cli_runs
import pytest
from cli_runs import POSIX
from documentation_pages import ROOT, read

from colony_memory import SnapshotInfo
from colony_memory.reports import Change, Match, SearchReport, VaultMap, VerifyReport
from colony_memory.shell.cli import app

vault = cli_runs.vault_of_1

ARGUMENTS = {
    "init": ["elsewhere"],
    "backup": ["memory"],
    "restore": ["out"],
    "list": [],
    "show": ["latest"],
    "cat": ["MEMORY.md"],
    "log": ["MEMORY.md"],
    "grep": ["two"],
    "verify": [],
    "diff": ["latest"],
    "prune": ["--keep", "1", "--yes"],
    "delete": ["latest", "--yes"],
    "rewrite": ["--exclude", "none", "--yes"],
    "pin": ["latest"],
    "unpin": ["latest"],
    "tag": ["--add", "a", "latest"],
    "status": [],
    "config": [],
    "report": ["--html", "report.html"],
    "export": ["latest", "out.json"],
    "import": ["in.json"],
    "copy": ["--to", "elsewhere"],
    "watch": ["memory", "--once"],
}
INFO = {each.name for each in fields(SnapshotInfo)}


def documented():
    page = read(ROOT / "docs" / "command-line.md").partition("## For programs")[2]
    table = page[page.index("|---|---|") :].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    told = {verb: set(re.findall(r"`(\w+)`", text.partition(": for each")[0])) for verb, text in rows.items()}
    told["grep"] = told["grep"] - {"SearchReport"} | {each.name for each in fields(SearchReport)}
    told["status"] = told["status"] - {"VaultMap"} | {each.name for each in fields(VaultMap)}
    return told


TOLD = documented()


def test_every_verb_is_documented_and_tried():
    assert set(TOLD) | {"watch", "run", "guard", "hook", "mcp"} == set(app.VERBS)
    assert set(ARGUMENTS) | {"keygen", "run", "guard", "hook", "mcp"} == set(app.VERBS)


@pytest.mark.parametrize("verb", [verb for verb in ARGUMENTS if verb != "watch"])
def test_the_fields_are_those_that_are_told(cli, vault, folder, tmp_path, verb):
    cli("backup", folder)
    if verb == "import":
        cli("export", "latest", "in.json")
        shutil.rmtree(vault.path)
    if verb == "copy":
        cli("init", "elsewhere")
    if verb == "import":
        cli("init")
    code, out, err = cli(verb, *ARGUMENTS[verb], "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert set(answer) == TOLD[verb]
    for info in [answer.get("snapshot"), answer.get("newest"), *answer.get("snapshots", []), *answer.get("copied", [])]:
        assert info is None or (set(info) == INFO and info["stored_bytes"])
    if verb == "log":
        assert {each for change in answer["changes"] for each in change} == {each.name for each in fields(Change)}
    if verb == "grep":
        assert set(answer["matches"][0]) == {each.name for each in fields(Match)}
    if verb == "verify":
        assert set(answer["labels"][0]) == {"ok", *(each.name for each in fields(VerifyReport))}


FAULTS = {
    "down": ({"status": 500}, "this says nothing about what is stored"),
    "limited": ({"status": 429, "code": "RATE_LIMITED", "retry_after": 0}, "try again"),
    "refused": ({"status": 403, "code": "KARMA_TOO_LOW"}, "karma"),
}


@pytest.mark.parametrize(
    ("verb", "fault"),
    [*zip((verb for verb in ARGUMENTS if verb not in ("init", "watch", "copy", "config")), itertools.cycle(FAULTS))],
)
def test_a_vault_that_refuses_is_code_5_and_one_line(cli, server, folder, verb, fault):
    cli("backup", folder)
    cli("export", "latest", "in.json")
    options, says = FAULTS[fault]
    server.fault("*", "status", times=None, **options)
    code, out, err = cli(verb, *ARGUMENTS[verb])
    assert (code, out, len(err.splitlines())) == (5, "", 1), err
    assert not (folder.parent / "out").exists()
    assert err.startswith("error: ")
    assert says in err


@POSIX
def test_an_error_is_told_by_a_public_name(cli, vault, folder):
    assert json.loads(cli("backup", "--json", "--before", "false", folder)[2])["kind"] == "ColonyMemoryError"
