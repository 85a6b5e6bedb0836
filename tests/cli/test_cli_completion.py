"""What shells are told of the vault that the command line names."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
import sys
import time
from datetime import timedelta

import pytest

pytest.importorskip("typer")

import cli_runs
from cli_runs import NOON, POSIX, save, tree

from colony_memory.__main__ import main
from colony_memory.cli import completion
from colony_memory.vaults.local import LocalVault

environment, vault, server = cli_runs.environment, cli_runs.vault, cli_runs.server


@pytest.fixture
def complete(monkeypatch, capsys):
    """Ask as fish does: gives each candidate and, after a tab, what is said of it."""

    def ask(line):
        monkeypatch.setenv("_COLONY_MEMORY_COMPLETE", "complete_fish")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"colony-memory {line}")
        with pytest.raises(SystemExit):
            main([])
        monkeypatch.delenv("_COLONY_MEMORY_COMPLETE")
        logging.disable(logging.NOTSET)
        out, err = capsys.readouterr()
        assert err == ""
        return out.strip("\n").splitlines()

    return ask


@pytest.fixture
def saved(vault):
    first = save(vault, {"a.md": "x"}, at=NOON)
    second = save(vault, {"a.md": "y"}, at=NOON + timedelta(days=1))
    other = save(vault, {"a.md": "z"}, at=NOON, label="research")
    return first.snapshot_id, second.snapshot_id, other.snapshot_id


def values(lines):
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize("verb", ["show", "verify", "delete", "pin", "unpin", "export", "diff", "diff latest", "cat"])
def test_ids_are_those_of_the_label(complete, saved, verb):
    first, second, other = saved
    offered = values(complete(f"{verb} "))
    assert [each for each in offered if each != "vault/"] == ["latest", second, first]
    assert values(complete(f"{verb} 20261101")) == [first]
    assert values(complete(f"{verb} --label research "))[:2] == ["latest", other]
    assert values(complete(f"{verb} --label nobody ")) == []
    assert complete(f"{verb} {second}")[0].endswith(" ago")
    assert complete(f"{verb} la") == ["latest\twhat restore gives"]


@pytest.mark.parametrize("option", ["--snapshot ", "--snapshot="])
def test_an_option_that_takes_an_id_offers_them(complete, saved, option):
    assert values(complete(f"restore {option}")) == ["latest", saved[1], saved[0]]


@pytest.mark.parametrize("verb", ["list", "backup", "restore", "status", "watch", "copy --from {} --to x"])
def test_labels_are_those_of_the_vault(complete, saved, vault, monkeypatch, verb):
    monkeypatch.delenv("COLONY_MEMORY_VAULT") if "{}" in verb else None
    assert values(complete(f"{verb.format(vault.path)} --label ")) == ["default", "research"]
    assert values(complete(f"{verb.format(vault.path)} --label re")) == ["research"]


def test_the_vault_is_the_one_that_the_line_names(complete, saved, tmp_path):
    elsewhere = LocalVault(tmp_path / "elsewhere", create=True)
    info = save(elsewhere, {"a.md": "x"}, label="other")
    assert values(complete("list --vault elsewhere --label ")) == ["other"]
    assert values(complete(f"show --vault file://{tmp_path}/elsewhere --label=other ")) == ["latest", info.snapshot_id]


def test_what_may_be_a_path_offers_paths_beside_ids(complete, saved, tmp_path):
    for name in ("2026-notes", "memory", "with blank", "$(touch x)"):
        (tmp_path / name).mkdir()
    (tmp_path / "2026.json").write_text("")
    first, second, _ = saved
    assert values(complete("restore ")) == ["latest", second, first, "2026-notes/", "memory/", "vault/"]
    assert values(complete("restore 2026")) == [second, first, "2026-notes/"]
    assert values(complete("diff 2026")) == [second, first, "2026-notes/", "2026.json"]
    assert values(complete("verify 2026")) == [second, first, "2026.json"]
    # The shell does that better.
    for line in ("restore mem", "restore latest ", "backup ", "show mem", "list --vault ", "list --key-file "):
        assert complete(line) == []


def test_sets_and_lenses_are_those_of_the_configuration_file(complete, saved, vault, tmp_path, monkeypatch):
    if sys.version_info < (3, 11):
        pytest.importorskip("tomli")
    monkeypatch.delenv("COLONY_MEMORY_VAULT")
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", str(tmp_path / "c.toml"))
    (tmp_path / "c.toml").write_text(
        f'[vaults]\nhere = "{vault.path.as_posix()}"\n[lenses]\nnotes = ["n/*"]\n'
        '[sets.research]\npaths = ["/x"]\nvault = "here"\n[sets.other]\npaths = ["/y"]\n'
    )
    assert complete("backup --set ") == ["research", "other"]
    assert complete("restore --lens ") == ["notes"]
    assert values(complete("list --vault here --label ")) == ["default", "research"]
    assert values(complete("list --set research --label ")) == ["default", "research"]
    (tmp_path / "c.toml").write_text("valut = 1")
    assert complete("backup --set ") == []


def test_choices_are_those_of_the_help(complete, vault):
    assert complete("backup --secrets ") == ["stop", "warn", "mask", "allow"]
    assert complete("backup --on-conflict m") == ["merge"]


def test_verbs_and_options_complete_as_before(complete, saved):
    assert values(complete("res")) == ["restore"]
    assert values(complete("restore --sn")) == ["--snapshot", "--snapshot-first"]


def test_only_what_has_a_manifest_is_offered(complete, saved, vault):
    first, second, _ = saved
    (vault.path / f"cmem.default.{second}.manifest.json").unlink()
    (vault.path / "cmem.ghost.latest.json").write_text("{}")
    assert values(complete("show ")) == ["latest", first]
    assert values(complete("list --label ")) == ["default", "research"]


HOSTILE = [
    "$(touch owned)",
    "`touch owned`",
    "a;touch owned",
    "*",
    "a b",
    "a:b",
    "a'b",
    'a"b',
    "a\nb",
    "\x1b[31m",
    "-rf",
]


@POSIX
def test_names_that_a_shell_would_obey_are_not_offered(complete, saved, vault, tmp_path):
    for name in HOSTILE:
        (vault.path / f"cmem.{name}.20261101T120000300000Z-abcdef.manifest.json").write_text("{}")
        (vault.path / f"cmem.default.{name}.manifest.json").write_text("{}")
        (tmp_path / name).mkdir()
    assert values(complete("list --label ")) == ["default", "research"]
    assert values(complete("restore ")) == ["latest", saved[1], saved[0], "vault/"]


@pytest.mark.parametrize(
    "line",
    [
        "show --vault nowhere ",
        "show --vault gopher://x ",
        "show --vault '' ",
        "show --vault colony: ",
        "show --vault s3://x/y ",
        "show --vault memory: ",
        "show --label 'a b' ",
        "show --frob ",
        "list --label --vault ",
        "copy --label ",
        "show ",
    ],
)
def test_nothing_is_said_of_what_is_wrong_and_nothing_is_made(complete, line, tmp_path):
    assert complete(line) == []
    assert list(tmp_path.iterdir()) == []


def test_a_list_costs_one_request(complete, server):
    save(server.vault, {"a.md": "x"})
    server.calls.clear()
    assert values(complete("show "))[0] == "latest"
    assert [method for method, path, *_ in server.calls if "vault" in path] == ["GET"]


def test_a_vault_that_fails_offers_nothing(complete, server):
    save(server.vault, {"a.md": "x"})
    server.fault("*", "status", status=500, times=None)
    assert complete("show ") == []


def test_a_vault_that_does_not_answer_holds_nobody_up(complete, server, monkeypatch):
    monkeypatch.setattr(completion, "PATIENCE", 0.2)
    server.fault("*", "delay", seconds=5.0, times=None)
    assert complete("show ") == []
    assert complete("list --label ") == []


@pytest.mark.once
def test_a_process_ends_although_the_vault_does_not_answer(server):
    server.fault("*", "delay", seconds=30.0, times=None)
    asked = {"_TYPER_COMPLETE_ARGS": "colony-memory show ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "colony_memory"],
        env={**os.environ, **asked, "_COLONY_MEMORY_COMPLETE": "complete_fish"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
    assert time.monotonic() - began < 25  # long before the vault would


def test_a_completion_writes_nothing_into_the_vault(complete, saved, vault):
    before = tree(vault.path)
    complete("show ")
    complete("list --label ")
    assert tree(vault.path) == before


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("colony-memory|show|", "colony-memory|show|"),
        ("colony-memory|show", "colony-memory|show"),
        ("c|list|--vault|=|v|--label|", "c|list|--vault=v|--label|"),
        ("c|list|--vault|file|:|///v|--label|=|re", "c|list|--vault|file:///v|--label|re"),
        ("c|list|--vault|=|file|:|///v|x", "c|list|--vault=file:///v|x"),
        ("c|list|--vault|file|:|///v", "c|list|--vault|file:///v"),
        ("c|list|--vault|colony|:|--label|x", "c|list|--vault|colony:|--label|x"),
        ("c|show|--vault|colony|:|la", "c|show|--vault|colony:|la"),
        ("c|list|--trust|did|:|key|:|z6|x", "c|list|--trust|did:key:z6|x"),
        ("c|list|--vault|export|:|-x|x", "c|list|--vault|export:|-x|x"),
        (":|=|x", ":|=|x"),
    ],
)
def test_what_bash_takes_apart_is_put_together(words, whole):
    given = words.split("|")
    joined, at = completion.rejoined(given, len(given) - 1)
    assert "|".join(joined) == whole
    assert at == len(joined) - 1


def test_a_word_that_is_not_begun_yet_is_empty():
    assert completion.rejoined(["colony-memory", "show"], 2) == (["colony-memory", "show", ""], 2)


def test_without_what_bash_sets_nothing_is_changed(monkeypatch):
    monkeypatch.delenv("COMP_WORDS", raising=False)
    completion.join_bash_words()
    monkeypatch.setenv("COMP_WORDS", "a\n=\nb")
    monkeypatch.setenv("COMP_CWORD", "x")
    completion.join_bash_words()
    assert os.environ["COMP_WORDS"] == "a\n=\nb"


# --- in the shells themselves


@pytest.fixture
def program(vault, tmp_path):
    place = tmp_path / "bin"
    place.mkdir()
    script = place / "colony-memory"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m colony_memory "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{place}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


def shell(name, script, env, *options):
    found = shutil.which(name) or pytest.skip(f"needs {name}")
    done = subprocess.run(
        [found, *options, "-c", script], env=env, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.once
@POSIX
def test_bash_completes_ids_and_labels(program, saved, vault, tmp_path):
    script = """
        eval "$(_COLONY_MEMORY_COMPLETE=source_bash colony-memory)"
        ask() {
            COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); _colony_memory_completion colony-memory; echo "${COMPREPLY[*]}"
        }
        ask colony-memory show ''
        ask colony-memory list --label re
        unset COLONY_MEMORY_VAULT
        ask colony-memory list --vault = "$0" --label = r
        ask colony-memory list --vault file : "//$0" --label ''
    """
    found = shutil.which("bash") or pytest.skip("needs bash")
    done = subprocess.run(
        [found, "-c", script, str(vault.path)], env=program, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""
    ids = f"latest {saved[1]} {saved[0]}"
    assert done.stdout.splitlines() == [ids, "research", "research", "default research"]


@pytest.mark.once
@POSIX
def test_fish_completes_ids_and_labels(program, saved):
    script = """
        _COLONY_MEMORY_COMPLETE=source_fish colony-memory | source
        complete -C 'colony-memory show 2026'
        complete -C 'colony-memory list --label '
    """
    assert values(shell("fish", script, program)) == [*sorted(saved[:2]), "default", "research"]


@pytest.mark.once
@POSIX
def test_zsh_completes_ids_and_labels(program, saved):
    """In a terminal of its own, as zsh completes nowhere else."""
    script = r"""
        zmodload zsh/zpty
        zpty asked zsh -f -i
        zpty -w asked "PS1= PROMPT= RPROMPT= ; stty -echo; autoload -Uz compinit && compinit -u -D"
        zpty -w asked 'eval "$(_COLONY_MEMORY_COMPLETE=source_zsh colony-memory)"'
        zpty -w asked 'LISTMAX=1000; print rea''dy'
        while zpty -r asked line; do [[ $line == *ready* ]] && break; done
        zpty -n -w asked $'colony-memory show --label research 2\t --END\n'
        while zpty -r asked line; do print -r -- $line; [[ $line == *END* ]] && break; done
    """
    sent = "\n".join(shell("zsh", script, program, "-f"))
    assert f"show --label research {saved[2]}" in sent


@POSIX
def test_zsh_is_told_what_it_can_take(program, saved):
    env = {**program, "_COLONY_MEMORY_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "colony-memory show "}
    done = subprocess.run(
        [sys.executable, "-m", "colony_memory"], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == '_arguments \'*: :(("latest":"what restore gives"'
    assert lines[1].startswith(f'"{saved[1]}":"')
