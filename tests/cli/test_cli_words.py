"""Words of other programs, and mistyped ones, get the command that was meant."""

from __future__ import annotations

import json
import shlex

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import save

from colony_memory.cli import app, foreign
from colony_memory.cli.commands import PROGRAM
from colony_memory.cli.words import Grammar, answer

environment, vault, cli, refused = cli_runs.environment, cli_runs.vault, cli_runs.cli, cli_runs.refused

#: What the verbs take, as far as these tests need it; they do not change when a verb gets another option.
PLACE = {"--vault": True, "--label": True, "--json": False, "-q": False, "--quiet": False, "-h": False, "--help": False}
VERBS = {
    "init": Grammar(PLACE, ("[URL]",)),
    "backup": Grammar({**PLACE, "--note": True, "--keep": True, "--on-conflict": True}, ("PATH...",)),
    "restore": Grammar(
        {**PLACE, "--only": True, "--dry-run": False, "-n": False, "--force": False, "--at": True}, ("[ID]", "DIR")
    ),
    "list": Grammar(PLACE),
    "show": Grammar(PLACE, ("ID",)),
    "cat": Grammar(PLACE, ("[ID]", "NAME")),
    "verify": Grammar(PLACE, ("[ID]",)),
    "diff": Grammar(PLACE, ("A", "[B]")),
    "prune": Grammar(
        {**PLACE, "--keep": True, "--keep-daily": True, "--leftovers": False, "--yes": False, "--dry-run": False}
    ),
    "delete": Grammar({**PLACE, "--yes": False, "-y": False}, ("ID",)),
    "pin": Grammar(PLACE, ("ID",)),
    "status": Grammar(PLACE),
    "copy": Grammar({**PLACE, "--from": True, "--to": True}),
    "keygen": Grammar(PLACE, ("[FILE]",)),
    "watch": Grammar(PLACE, ("PATH...",)),
}
ID = "20261101T120000300000Z-abcdef"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        # restic
        ("snapshots", "list"),
        ("-r /srv/vault snapshots", "list --vault /srv/vault"),
        ("-r/srv/vault snapshots --json", "list --vault /srv/vault --json"),
        ("--repo=/srv/vault snapshots", "list --vault /srv/vault"),
        (f"snapshots {ID}", f"show {ID}"),
        ("ls", "list"),
        ("ls latest", "show latest"),
        ("forget --keep-last 3", "prune --keep 3"),
        ("forget -l 3 --keep-daily 7 --prune", "prune --keep 3 --keep-daily 7"),
        ("forget", "prune --keep 5 --dry-run"),
        (f"forget {ID}", f"delete {ID}"),
        ("check --read-data", "verify"),
        ("check --read-data-subset 5%", "verify"),
        ("dump latest MEMORY.md", "cat latest MEMORY.md"),
        ("restore latest --target 'my memory'", "restore latest 'my memory'"),
        ("restore latest -t out --include '*.md'", "restore --only '*.md' latest out"),
        ("init --repo /srv/vault", "init --vault /srv/vault"),
        ("-r /srv/vault backup notes", "backup --vault /srv/vault notes"),
        ("stats", "status"),
        # borg
        ("create /srv/vault::monday notes", "backup --vault /srv/vault notes"),
        ("create -m 'before the move' notes", "backup --note 'before the move' notes"),
        ("extract /srv/vault::monday", "restore --vault /srv/vault DIR"),
        (f"extract /srv/vault::{ID} out", f"restore --vault /srv/vault {ID} out"),
        (f"info {ID}", f"show {ID}"),
        ("compact", "prune --leftovers"),
        # git
        ("commit -m note notes", "backup --note note notes"),
        ("commit", "backup PATH"),
        ("commit -am note", "backup PATH"),
        ("stash pop", "backup PATH"),
        ("add .", "backup ."),
        ("push origin main", "backup PATH"),
        ("pull origin main", "restore DIR"),
        ("clone /srv/vault", "restore DIR"),
        ("checkout main", "restore DIR"),
        (f"checkout {ID}", f"restore {ID} DIR"),
        ("fsck", "verify"),
        ("gc --aggressive", "prune --leftovers"),
        ("reflog", "list"),
        ("rm latest", "delete latest"),
        ("merge other", "backup --on-conflict merge PATH"),
        # others
        ("sync a b", "copy --to URL"),
        ("serve --port 80", "watch PATH"),
        ("keys", "keygen"),
        ("protect latest", "pin latest"),
        ("help", "--help"),
        ("help restore", "restore --help"),
        ("help snapshots", "--help"),
        ("version", "--version"),
        ("snapshots --help", "list --help"),
        # mistyped
        ("bakcup --note x notes", "backup --note x notes"),
        ("Restore out", "restore out"),
        ("del latest", "delete latest"),
        ("snapshosts", "list"),
        ("restore --dry-rnu out", "restore --dry-run out"),
        ("restore --at=-x --dry-rnu out", "restore --at=-x --dry-run out"),
        ("list --lable research", "list --label research"),
        # before the verb
        ("--json list", "list --json"),
        ("--vault x -q restore -- -out", "restore --vault x -q -- -out"),
        ("--json show --help", "show --help"),
        # arguments where there are none
        ("list latest", "show latest"),
        # names of the library
        ("show --snapshot-id latest", "show latest"),
    ],
)
def test_what_was_meant(asked, meant):
    found = answer(shlex.split(asked), VERBS)
    assert found.command == f"{PROGRAM} {meant}"
    assert found.what


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("frob", "there is no command 'frob'"),
        ("f" * 200, f"there is no command '{'f' * 40}\u2026'"),
        ("bakcup x", "there is no command 'bakcup', the nearest is 'backup'"),
        ("list --keep-daily 3", "'list' has no option --keep-daily, 'prune' has it"),
        ("list --keep 3", "'list' has no option --keep, 'backup' and 'prune' have it"),
        ("list --frob", "'list' has no option --frob"),
        ("list latest", "'list' takes no arguments"),
        ("--vault x list", "--vault stands after the command"),
        ("", "a command is missing"),
        ("--json", "a command is missing before --json"),
        ("--help", "a command is missing"),
    ],
)
def test_what_is_said_of_it(asked, says):
    assert answer(shlex.split(asked), VERBS).what == says


@pytest.mark.parametrize(
    "asked", ["list", "restore out --dry-run", "restore", "list --label", "show a b", "restore -nq out", "list --help"]
)
def test_what_is_wrong_in_no_such_way_gets_no_answer(asked):
    assert answer(shlex.split(asked), VERBS) is None


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        # A filter that is dropped would make the rest delete more than was asked for.
        ("forget --host laptop --keep-last 1", "prune --keep 5 --dry-run"),
        ("forget --keep-last=1 --host laptop --vault x", "prune --vault x --keep 5 --dry-run"),
        ("forget latest --tag old", "delete latest"),
        ("create --password hunter2 notes", "backup PATH"),
        ("extract --strip-components=1 notes", "restore DIR"),
        ("delete --host laptop latest", "delete --help"),
        # Nobody but the user answers the question beforehand.
        ("forget --keep-last 1 --yes", "prune --keep 1"),
        ("del -y latest", "delete latest"),
    ],
)
def test_what_was_not_understood_takes_the_rest_with_it(asked, meant):
    assert answer(shlex.split(asked), VERBS).command == f"{PROGRAM} {meant}"


def test_a_word_that_has_become_a_verb_is_that_verb():
    now = {**VERBS, "log": Grammar(PLACE, ("NAME",)), "grep": Grammar(PLACE, ("PATTERN",)), "ls": Grammar(PLACE)}
    assert answer(["blame", "a.md"], VERBS).command == f"{PROGRAM} list"
    assert answer(["blame", "a.md"], now).command == f"{PROGRAM} log NAME"
    assert answer(["history", "a.md"], now).command == f"{PROGRAM} log a.md"
    assert answer(["find", "x"], now).command == f"{PROGRAM} grep PATTERN"
    assert answer(["log", "a.md"], now) is None
    assert answer(["ls"], now) is None
    assert answer(["create", "--tag", "a", "notes"], VERBS).command == f"{PROGRAM} backup PATH"
    tagging = {**now, "backup": Grammar({**PLACE, "--tag": True}, ("PATH...",))}
    assert answer(["create", "--tag", "a", "notes"], tagging).command == f"{PROGRAM} backup --tag a notes"


def test_what_is_too_long_to_paste_is_not_repeated():
    assert answer(["bakcup", "x" * 5000], VERBS).command == f"{PROGRAM} backup --help"
    assert answer(["backup", "--frob" + "x" * 5000], VERBS).what == f"'backup' has no option --frob{'x' * 34}\u2026"


def test_an_argument_that_is_no_option_stays_one_in_every_shell():
    assert answer(["create", "--", "-notes", "a\nb"], VERBS).command == f"{PROGRAM} backup -- -notes $'a\\x0ab'"


#: What stands for a value that only the user knows.
VALUES = {"ID": "latest", "DIR": "out", "PATH": "memory", "NAME": "a.md", "URL": "elsewhere", "PATTERN": "x"}


@pytest.mark.parametrize("word", foreign.WORDS)
def test_each_answer_is_a_command_that_there_is(refused, cli, vault, word):
    """It may find nothing, but it is understood."""
    save(vault, {"a.md": "x"})
    if word in app.VERBS:
        assert answer([word], {word: Grammar({})}) is None
        return
    line = refused(2, word)
    command = shlex.split(line.partition("try: ")[2])
    assert command[0] == PROGRAM
    assert command[1] in app.VERBS
    _, _, err = cli(*(VALUES.get(each, each) for each in command[1:]), "--json")
    assert "UsageError" not in err
    assert app.VERBS[command[1]]


@pytest.mark.parametrize("word", foreign.WORDS)
def test_no_verb_of_ours_is_taken_for_one_of_another(word):
    assert word not in app.VERBS or word in foreign.WORDS[word].verbs


def test_programs_get_the_command_as_the_hint(cli):
    code, out, err = cli("snapshots", "--json")
    assert (code, out) == (2, "")
    assert json.loads(err) == {
        "error": "there is no command 'snapshots'",
        "kind": "UsageError",
        "code": 2,
        "hint": "colony-memory list --json",
    }


def test_what_the_verbs_take_is_read_from_them():
    grammars = app.grammars()
    assert set(grammars) == set(app.VERBS)
    assert grammars["restore"].arguments == ("[ID]", "DIR")
    assert grammars["diff"].arguments == ("A", "[B]")
    assert grammars["backup"].arguments == ("PATH...",)
    assert grammars["list"].arguments == ()
    assert grammars["restore"].options["--at"] is True
    assert grammars["restore"].options["-n"] is False
    assert grammars["prune"].options["--keep-daily"] is True
