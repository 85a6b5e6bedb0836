"""Every option of every verb with values that are wrong, empty and hostile: one line, a right code, nothing changed."""

import json
import os
import re
import shutil
from dataclasses import fields

import pytest
from cli_runs import NOON, save

from colony_memory import ColonyMemory
from colony_memory.shell.cli import app, program
from colony_memory.shell.cli.app import CommonOptions
from colony_memory.transfer import save_export

#: Arguments with which the verb would do something.
ARGUMENTS = {
    "ID": "latest",
    "DIR": "out",
    "PATH": "memory",
    "NAME": "MEMORY.md",
    "FILE": "in.json",
    "A": "latest",
    "PATTERN": "2",
    "COMMAND": "true",
}
#: What starts a command, which has the output.
STARTING = ("run", "guard")
#: What they write to stderr for programs beside errors and warnings: of each run, and the way back.
TOLD = ({"when", "ok", "message", "snapshot_id", "next_run", "pid"}, {"snapshot", "exit_code", "way_back"})
HOSTILE = {
    "empty": "",
    "blank": " ",
    "control": "a\x1b[31m\r\nb\x07",
    "long": "x" * 100_000,
    "bytes": os.fsdecode(b"\xff\xfe"),
    "reordered": "\u202e\u2066x",
    "option": "--frob",
    "end": "--",
    "dash": "-",
    "deep": "no/such/directory/x",
    "number": "-1",
    "huge": "9" * 400,
    "shell": "$(touch owned)",
    "format": "{0.__class__}%s%n",
    "nul": "a\0b",
}


def options():
    """Each option that takes a value, of each verb, as the commands themselves have them.

    But of ``hook``, whose codes are those that hosts want, and which has tests of its own.
    """
    for verb in app.VERBS:
        for each in program.verb_of(verb).params if verb != "hook" else ():
            if each.param_type_name == "option" and not each.is_flag:
                yield verb, max(each.opts, key=len)


OPTIONS = sorted(set(options()))
#: In the quick set the options that several verbs have are tried with one of them.
COMMON = {f"--{field.name.replace('_', '-')}" for field in fields(CommonOptions)}
QUICK = [
    (verb, option)
    for verb, option in OPTIONS
    if (option not in COMMON or verb == "restore") and (verb not in STARTING or (verb, option) == ("run", "--every"))
]
#: Those of guard are those of run.
OTHERS = [each for each in OPTIONS if each not in QUICK and not (each[0] == "guard" and each[1] not in COMMON)]


def arguments(verb):
    command = program.verb_of(verb)
    needed = [each.replace("...", "") for each in app.arguments_of(verb).split() if not each.startswith("[")]
    flags = {flag for each in command.params for flag in each.opts}
    needed = ["PATH" if verb == "guard" and each == "DIR" else each for each in needed]
    pair = {"copy": ["--from=vault", "--to=vault"], "tag": ["--add=release"]}.get(verb, [])
    return [*(ARGUMENTS[each] for each in needed), *pair, *({"--yes", "--once"} & flags)]


def contents(path):
    return {each: each.read_bytes() if each.is_file() else None for each in path.rglob("*")}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where the furnished place is kept: it is made once."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def furnished(vault, folder, tmp_path, kept):
    if any(kept.iterdir()):
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
        return tmp_path
    for day in range(3):
        info = save(vault, {"MEMORY.md": f"{day}"}, at=NOON.replace(day=day + 1))
    save_export(ColonyMemory(backend=vault).export_snapshot(label="default", snapshot_id=info.snapshot_id), "in.json")
    shutil.copytree(tmp_path, kept, dirs_exist_ok=True)
    return tmp_path


pytestmark = pytest.mark.usefixtures("child")


@pytest.fixture
def tried(cli, furnished, kept):
    """Run a verb with each hostile value, in a furnished place each time."""

    def run(verb, option, *more, kinds=HOSTILE):
        before = contents(furnished)
        for kind in kinds:
            yield kind, *cli(verb, *arguments(verb), f"{option}={HOSTILE[kind]}", *more), contents(furnished) == before
            if contents(furnished) != before:
                for each in furnished.iterdir():
                    shutil.rmtree(each) if each.is_dir() else each.unlink()
                shutil.copytree(kept, furnished, dirs_exist_ok=True)

    return run


def check_people(tried, verb, option, **kinds):
    for kind, code, out, err, unchanged in tried(verb, option, **kinds):
        case = f"{verb} {option} {kind}: {code} {err[:500]}"
        lines = err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert code in (0, 1, 2, 3, 4, 5), case
        assert all(line.isprintable() for line in [*lines, *out.splitlines()]), case
        assert max(map(len, [*lines, ""])) < 8000, case
        if code:
            assert len(errors) == 1 or (verb, code) == ("verify", 4), case
            # Somebody has foreseen it.
            assert not any(re.match(r"error: [A-Z]\w+(Error|Exception|Warning)\b", line) for line in errors), case
        if code == 2:
            assert (out, len(lines), unchanged) == ("", 1, True), case
        if kind in ("empty", "blank"):
            assert code == 2, case


def check_programs(tried, verb, option, **kinds):
    for kind, code, out, err, _ in tried(verb, option, "--json", **kinds):
        case = f"{verb} {option} {kind}: {code} {err[:500]}"
        found = [json.loads(line) for line in err.splitlines()]
        found = [each for each in found if verb not in STARTING or set(each) not in TOLD]
        keys = [set(each) - {"help"} for each in found]
        assert all(each in ({"error", "kind", "code", "hint"}, {"warning", "hint"}) for each in keys), case
        silent = not out and (code or verb not in STARTING)
        assert [each["code"] for each in found if "error" in each] == ([code] if silent else []), case
        if out:
            json.loads(out)


def every_third(options, verb, option):
    """Some of the values, other ones from option to option."""
    return [*HOSTILE][options.index((verb, option)) % 3 :: 3]


def test_there_are_options_to_try():
    assert len(OPTIONS) > 90
    assert ("restore", "--at") in QUICK
    assert ("restore", "--vault") in QUICK


@pytest.mark.parametrize(("verb", "option"), QUICK, ids=lambda each: each.lstrip("-"))
def test_a_hostile_value_is_understood_or_refused(tried, verb, option):
    """A few of them each, in turn: every value meets many options."""
    check_people(tried, verb, option, kinds=[*HOSTILE][QUICK.index((verb, option)) % 5 :: 5])


@pytest.mark.once
@pytest.mark.parametrize(("verb", "option"), QUICK, ids=lambda each: each.lstrip("-"))
def test_every_hostile_value(tried, verb, option):
    check_people(tried, verb, option)
    check_programs(tried, verb, option, kinds=every_third(QUICK, verb, option))


@pytest.mark.exhaustive
@pytest.mark.parametrize("check", [check_people, pytest.param(check_programs, marks=pytest.mark.long)])
@pytest.mark.parametrize(("verb", "option"), OTHERS, ids=lambda each: each.lstrip("-"))
def test_the_common_options_of_every_verb(tried, verb, option, check):
    check(tried, verb, option, kinds=every_third(OTHERS, verb, option))
