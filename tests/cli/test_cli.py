"""The command line as a process, and what holds for every verb."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import POSIX, process, save, tree

from colony_memory import ColonyMemory, __version__
from colony_memory.__main__ import main

# --- as processes


def test_a_folder_comes_back_byte_for_byte(folder, vault, tmp_path):
    done = process("backup", folder)
    (info,) = ColonyMemory(backend=vault).list_snapshots()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == f"saved snapshot {info.snapshot_id} of label default"
    assert done.stdout.splitlines()[1].startswith("2 files, 1 empty folder, ")
    done = process("restore", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == ["created  MEMORY.md", "created  notes/caf\u00e9.md", "created  logs/"]
    assert tree(tmp_path / "out") == tree(folder)
    assert (tmp_path / "out" / "logs").is_dir()


def test_over_http_a_folder_comes_back_byte_for_byte(cli, folder, server, tmp_path):
    assert cli("backup", folder)[0] == 0
    server.expire_tokens()
    assert process("restore", tmp_path / "out").returncode == 0
    assert tree(tmp_path / "out") == tree(folder)
    assert [bool(each["head"]) for each in json.loads(cli("list", "--json")[1])["snapshots"]] == [True]
    code, out, err = cli("status")
    assert (code, err) == (0, "")
    assert re.match(
        r"protected: last good backup \S+ (?:ago|now) \(.* UTC\), unsigned, not encrypted, 10.0 MB free\n", out
    )
    assert "of 10.0 MB (0 %)" in out


def test_the_module_is_the_same_program(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["x", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(sys.modules[main.__module__].__file__, run_name="__main__")
    assert (stop.value.code, capsys.readouterr().out) == (0, f"colony-memory {__version__}\n")


@pytest.mark.parametrize(
    ("befall", "code", "says"),
    [
        (lambda server: server.close(), 5, ""),
        (lambda server: server.fault("GET", "drop", times=None), 5, ""),
        (lambda server: server.fault("GET", "expired", times=None), 5, ""),
        (lambda server: server.fault("*", "status", status=429, retry_after=0, times=None), 5, "try again"),
        (lambda server: setattr(server.vault, "karma_ok", False), 5, "karma"),
        (lambda server: setattr(server.vault, "quota_bytes", 300), 1, ""),
    ],
    ids=["nobody listens", "dropped", "an expired key", "too many operations", "too little karma", "full"],
)
def test_a_backup_that_fails_has_its_code_and_writes_nothing(refused, folder, server, befall, code, says):
    befall(server)
    assert says in refused(code, "backup", folder)
    assert server.vault.files == {}


@POSIX
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"]])
def test_a_reader_that_went_away_is_one_line(vault, arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert done.returncode == 1
    what = "the output was closed before it was written"
    if "--json" in arguments:
        assert json.loads(done.stderr)["error"] == what
    else:
        assert done.stderr == f"error: {what}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_takes_nothing_is_one_line(vault):
    with Path("/dev/full").open("w") as full:
        done = process("list", stdout=full)
    assert (done.returncode, done.stderr) == (1, "error: the output could not be written: No space left on device\n")


@POSIX
@pytest.mark.parametrize("redirect", [">&-", "2>&-", "2>/dev/full"])
def test_without_a_place_to_write_to_the_code_is_still_right(vault, redirect):
    if "/dev/full" in redirect and not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    script = f'"$0" -m colony_memory restore out {redirect}'
    done = subprocess.run(
        ["/bin/sh", "-c", script, sys.executable], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3
    assert "Traceback" not in done.stderr


HOSTILE = {
    "[bold]b[bold] :smile:.md": "x",
    "esc\x1b[31mred.md": "x",
    "line\nbreak.md": "x",
    "half\ud83d.md": "x",
    "\u202egpj.md": "x",
    "\u65e5\u672c.md": "x",
}
SHOWN = ["created  [bold]b[bold] :smile:.md", r"created  esc\x1b[31mred.md", r"created  line\nbreak.md"]


@pytest.mark.once
@POSIX
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_hostile_names_do_no_harm_in_any_encoding(vault, tmp_path, encoding):
    documents = {name: value for name, value in HOSTILE.items() if "\ud83d" not in name}
    save(vault, documents)
    env = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    done = process("restore", tmp_path / "out", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    japanese = "\u65e5\u672c.md" if encoding == "utf-8" else r"\u65e5\u672c.md"
    assert done.stdout.splitlines()[:5] == [*SHOWN, r"created  \u202egpj.md", f"created  {japanese}"]
    save(vault, HOSTILE)
    for verb in (["list"], ["status"], ["restore", "--only", "*b*", tmp_path / "other"]):
        done = process(*verb, env=env)
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
    assert len(json.loads(process("show", "latest", "--json", env=env).stdout)["files"]) == len(HOSTILE)


# --- which vault


def test_without_a_key_the_local_vault_is_used_and_named(cli, refused, folder, tmp_path):
    place = tmp_path / "data" / "colony-memory" / "vault"
    another = "set COLONY_API_KEY or --vault for another"
    code, out, err = cli("backup", folder)
    made = "no vault was chosen, so one was made: the local vault"
    assert (code, err) == (0, f"warning: {made} {place}; {another}\n")
    assert out.startswith("saved ")
    code, out, err = cli("backup", folder)
    assert (code, err) == (0, f"using the local vault {place}; {another}\n")
    line = refused(3, "restore", tmp_path / "out", "--label", "other")
    there = "nothing is saved yet under label 'other'; there is 'default'"
    assert line == f"error: {there}, in the local vault {place}; {another}"
    assert cli("list", "--quiet")[2] == ""
    assert cli("list", "--json")[2] == ""


@POSIX
def test_without_a_home_all_works_with_one_variable_and_reading_with_none(cli, refused, folder, tmp_path, monkeypatch):
    import pwd

    for name in ("HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    where = ["--vault", tmp_path / "v"]
    assert cli("init", tmp_path / "v")[0] == 0
    code, _, err = cli("backup", *where, folder)
    assert (code, "no index of this is kept" in err) == (0, True)
    for verb in (
        ["list"],
        ["show", "latest"],
        ["status", folder],
        ["verify"],
        ["diff", folder],
        ["restore", tmp_path / "out"],
    ):
        assert cli(verb[0], *where, *verb[1:])[0] == 0, verb
    (folder / "MEMORY.md").write_text("changed")
    assert "set XDG_STATE_HOME" in refused(1, "restore", *where, "--force", folder)
    assert "set XDG_DATA_HOME" in refused(2, "backup", folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cli("restore", *where, "--force", folder)[0] == 0
    assert cli("run", *where, folder, "--", sys.executable, "-c", "")[0] == 0
    assert "no index" not in cli("backup", *where, folder)[2]


def test_a_key_that_leads_away_from_what_is_saved_locally_is_said(cli, refused, server, folder, tmp_path, monkeypatch):
    place = tmp_path / "data" / "colony-memory" / "vault"
    said = "COLONY_API_KEY leads to the hosted vault, while the local one has"
    assert said not in cli("list")[2]
    key = os.environ["COLONY_API_KEY"]
    monkeypatch.delenv("COLONY_API_KEY")
    cli("backup", folder)
    monkeypatch.setenv("COLONY_API_KEY", key)
    line = refused(3, "restore", tmp_path / "out", "--label", "default")
    assert line.endswith(f"in the hosted vault; {said} label default: --vault {place} is that")
    assert f"{said} label default: --vault {place} is that\n" in cli("backup", folder)[2]
    assert f"{said} 1 label: " in cli("list")[2]
    for quiet in (
        ("backup", folder, "--quiet"),
        ("backup", folder, "--label", "other"),
        ("list", "--vault", "colony:"),
    ):
        assert said not in cli(*quiet)[2]
    assert len(cli("list", "--vault", place, "--quiet")[1].splitlines()) == 3


# --- the rest of the interface


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (KeyboardInterrupt(), "error: interrupted", 130),
        (OSError(5, "Input/output error", "x"), "error: OSError: [Errno 5] Input/output error: 'x'", 1),
        (AssertionError(), "error: AssertionError", 1),
        (ValueError(), "error: ValueError", 2),
        (RecursionError("too\ndeep\x1b[0m"), r"error: RecursionError: too\ndeep\x1b[0m", 1),
    ],
)
def test_what_nobody_foresaw_is_one_line_too(refused, vault, monkeypatch, error, line, code):
    def fail(self, **_):
        raise error

    monkeypatch.setattr(ColonyMemory, "list_snapshots", fail)
    assert refused(code, "list") == line
