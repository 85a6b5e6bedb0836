"""show, verify, diff, prune, delete, pin, tag and rewrite."""

import json
import os
import re
import time
import warnings
from datetime import timedelta

import pytest
from cli_runs import NOON, damage, fails, process, save

from colony_memory import ColonyMemory
from colony_memory.exceptions import ColonyMemoryWarning
from colony_memory.shell import words as text
from colony_memory.shell.cli.verbs.tidy import read_replacements
from colony_memory.vaults.local import LocalVault


@pytest.fixture
def three(vault, monkeypatch):
    """Three snapshots, two days apart; it is the day after the newest."""
    monkeypatch.setattr(text, "_clock", lambda: NOON + timedelta(days=5))
    return [
        save(vault, {"a.md": "x\n" * 10 + f"{round_}\n", f"{round_}.md": "x"}, at=NOON + timedelta(days=2 * round_))
        for round_ in range(3)
    ]


def listed(vault, label="default"):
    return [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots(label=label)]


# --- show


def test_show_tells_what_is_known(cli, three):
    code, out, err = cli("show", "latest")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"snapshot   {three[2].snapshot_id}, the latest"
    assert lines[1:4] == ["label      default", "made       2026-11-05 12:00 UTC (1d ago)", "signed by  nobody"]
    assert lines[4].startswith("size       55 B, stored as ")
    assert lines[5] == f"sha256     {three[2].plaintext_sha256.removeprefix('sha256:')}"
    assert lines[6:] == [
        f"format     {three[2].format}",
        f"after      {three[1].snapshot_id}",
        "",
        "2 files:",
        "2.md",
        "a.md",
    ]
    assert "after" not in cli("show", three[0].snapshot_id)[1]
    answer = json.loads(cli("show", "latest", "--json")[1])
    assert answer["snapshot"]["doc_names"] == three[2].doc_names


# --- verify


def test_verify_says_what_does_not_hold_and_is_code_4(cli, vault, three):
    damage(vault, three[1])
    code, out, err = cli("verify", "--quiet")
    assert (code, err) == (4, "")
    lines = out.splitlines()
    assert lines[0].split() == [*("id", "manifest", "parts", "digest", "signature", "trust", "catalog", "chain")]
    assert lines[1].split() == [three[2].snapshot_id, "ok", "ok", "ok", "missing", "unchecked", "ok", "ok"]
    assert lines[2].split()[:2] == [three[1].snapshot_id, "ok"]
    assert "bad" in lines[2]
    assert lines[-2].startswith("problem  ")
    assert lines[-1] == "label default: 2 of 3 snapshots good, pointer unchecked, rollback unchecked"
    code, out, _ = cli("verify", "--json")
    assert (code, json.loads(out)["ok"]) == (4, False)
    assert cli("verify", "latest")[0] == 0
    assert cli("verify", "latest~1")[0] == 4
    (vault.path / "cmem.default.latest.json").write_text("{")
    assert cli("verify", "--label", "default")[1].count("problem  ") == 2


# --- diff


def test_diff_shows_each_name(cli, three):
    code, out, err = cli("diff", "latest~1")
    assert (code, err) == (0, "")
    old, new = three[1].snapshot_id, three[2].snapshot_id
    assert out.splitlines() == [
        f"from snapshot {old}",
        f"to   snapshot {new}",
        "- 1.md",
        "+ 2.md",
        "~ a.md  +1 -1 lines",
        "1 added, 1 removed, 1 changed, 0 the same",
    ]
    answer = json.loads(cli("diff", "latest~1", "latest", "--json")[1])
    assert answer == {
        "a": old,
        "b": new,
        "differs": True,
        "added": ["2.md"],
        "removed": ["1.md"],
        "changed": {"a.md": {"added": 1, "removed": 1, "exact": True}},
        "patch": None,
        "unchanged": 0,
    }
    assert cli("diff", "latest~1", "--exit-code")[0] == 1
    assert cli("diff", "latest", "--exit-code")[0] == 0


def test_diff_with_a_folder_compares_files(cli, folder, vault):
    cli("backup", folder)
    code, out, err = cli("diff", "latest", "memory", "--exit-code")
    assert (code, err) == (0, "")
    assert out.endswith("\nto   the folder memory\n0 added, 0 removed, 0 changed, 2 the same\n")
    (folder / "notes" / "caf\u00e9.md").write_bytes(b"caf\xe8\n")
    (folder / "logs" / "x.log").write_bytes(b"")
    (folder / "link").symlink_to("/etc/hostname")
    code, out, err = cli("diff", "latest", f"{folder}/", "--exit-code")
    assert (code, err) == (
        1,
        "left out: link: is a link to '/etc/hostname', which is not a path from its own place on; it is not followed\n",
    )
    assert out.splitlines()[2:5] == ["- logs/", "+ logs/x.log", "~ notes/caf\u00e9.md  +1 -1 lines"]


# --- prune and delete


def test_prune_deletes_what_no_rule_keeps(cli, vault, three):
    code, out, err = cli("prune", "--keep", "1", "--dry-run")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"keep    {three[2].snapshot_id} (1d ago): last, newest, latest",
        f"delete  {three[1].snapshot_id} (3d ago)",
        f"delete  {three[0].snapshot_id} (5d ago)",
        "label default: 1 to keep, 2 to delete",
        "nothing deleted",
    ]
    none = cli("prune", "--keep", "1", "--dry-run", "--quiet", "--label", "none")[1]
    assert none.startswith("nothing is saved yet under label 'none'")
    assert len(listed(vault)) == 3
    code, out, err = cli("prune", "--keep", "2", "--yes", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["deleted"], answer["remove"]) == (1, [three[0].snapshot_id])
    assert set(answer) == {"label", "dry_run", "deleted", "keep", "remove", "reasons", "unread", "orphans"}
    code, out, err = cli("prune", "--keep", "1", "--yes")
    assert (code, out.splitlines()[0], err) == (0, "label default: 1 snapshot deleted, 1 kept", "")
    assert cli("prune", "--keep", "1", "--quiet") == (0, "", "")
    assert listed(vault) == [three[2].snapshot_id]


def test_prune_wants_a_rule(refused, vault):
    assert "say what to keep" in refused(2, "prune", "--yes")
    assert "without a rule" in refused(2, "prune", "--leftovers", "--keep", "1")
    assert "is not a length of time" in refused(2, "prune", "--keep-within", "x")


def test_prune_of_leftovers_keeps_every_snapshot(cli, vault, three):
    (vault.path / "cmem.default.20200101T000000000000Z-abcdef.p0.json").write_text("x")
    os.utime(vault.path / "cmem.default.20200101T000000000000Z-abcdef.p0.json", (0, 0))
    memory = ColonyMemory(backend=vault)
    memory.backup(memory.restore(), tags=["r1"], note="equal to the one before it", skip_unchanged=False)
    (vault.path / f"cmem.default.{three[0].snapshot_id}.manifest.json").write_text("{")
    out = cli("prune", "--leftovers", "-n")[1]
    assert "delete  cmem.default.20200101T000000000000Z-abcdef.p0.json (left over)" in out.splitlines()
    assert "(cannot be read or is not trusted)" in out
    assert "3 to keep, 1 leftover file to delete" in out
    assert cli("prune", "--leftovers", "--yes")[0] == 0
    assert not list(vault.path.glob("*20200101*"))
    with pytest.warns(ColonyMemoryWarning, match="left out of the list"):
        assert len(listed(vault)) == 3


@pytest.mark.parametrize("verb", [["prune", "--keep", "1"], ["delete", "latest"]])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_without_a_terminal_nothing_is_deleted_unless_yes(vault, three, verb, more):
    done = process(*verb, *more)
    what = "nothing was deleted: there is no terminal to ask on"
    assert fails(done, 2).startswith(f"error: {what}")
    if more:
        assert json.loads(done.stderr) == {"error": what, "kind": "Failure", "code": 2, "hint": "add --yes"}
    else:
        assert done.stderr == f"error: {what}; add --yes\n"
    assert len(listed(vault)) == 3


def test_delete_goes_by_one_id(cli, refused, vault, three):
    assert json.loads(cli("delete", "latest", "--dry-run", "--json")[1])["deleted"] == three[-1].snapshot_id
    assert cli("delete", "latest", "-n")[1].endswith("of label default; nothing deleted\n")
    code, out, err = cli("delete", "--yes", "latest")
    line, told = out.splitlines()
    assert (code, line, err) == (0, f"deleted snapshot {three[2].snapshot_id} of label default", "")
    assert re.match(r"1 file may hold it until \S+: then run colony-memory prune --leftovers --yes", told)
    answer = json.loads(cli("delete", "-y", three[0].snapshot_id, "--json")[1])
    assert answer == {"label": "default", "deleted": three[0].snapshot_id, "dry_run": False}
    assert listed(vault) == [three[1].snapshot_id]
    assert "no snapshot" in refused(3, "delete", "-y", three[0].snapshot_id)


# --- keygen


def test_keygen_makes_a_key_that_signs_and_is_trusted(cli, refused, folder, vault, tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    code, out, err = cli("keygen")
    place = tmp_path / "config" / "colony-memory" / "signing.pem"
    assert (code, err) == (0, "")
    did = out.splitlines()[1].split()[-1]
    assert out.splitlines()[0] == f"key file    {place}"
    assert did.startswith("did:key:z6Mk")
    assert f"  export COLONY_MEMORY_KEY_FILE={place}" in out.splitlines()
    assert f"  export COLONY_MEMORY_TRUST={did}" in out.splitlines()
    if os.name == "posix":
        assert place.stat().st_mode & 0o777 == 0o600
    before = place.read_bytes()
    assert "is not overwritten" in refused(1, "keygen")
    assert place.read_bytes() == before
    monkeypatch.setenv("COLONY_MEMORY_KEY_FILE", str(place))
    assert cli("backup", folder)[0] == 0
    monkeypatch.delenv("COLONY_MEMORY_KEY_FILE")
    assert json.loads(cli("show", "latest", "--json")[1])["snapshot"]["issuer"] == did
    answer = json.loads(cli("keygen", tmp_path / "other.pem", "--json")[1])
    assert set(answer) == {"key_file", "did_key"}
    assert cli("keygen", "--quiet", "~/mine.pem") == (0, "", "")
    assert (tmp_path / "home" / "mine.pem").is_file()


# --- pins


def test_what_is_pinned_stays_until_it_is_unpinned(cli, vault):
    first = save(vault, {"a.md": "1"}, at=NOON)
    save(vault, {"a.md": "2"})
    assert cli("pin", "latest~1") == (0, f"pinned snapshot {first.snapshot_id} of label default\n", "")
    assert cli("pin", first.snapshot_id, "--quiet") == (0, "", "")
    assert cli("list")[1].splitlines()[2].endswith("  pinned")
    assert "pinned     kept until it is unpinned" in cli("show", first.snapshot_id)[1]
    assert cli("prune", "--keep", "1", "--yes")[0] == 0
    assert [info.pinned for info in ColonyMemory(backend=vault).list_snapshots()] == [False, True]
    answer = {"label": "default", "unpinned": first.snapshot_id}
    assert json.loads(cli("unpin", first.snapshot_id, "--json")[1]) == answer
    assert cli("unpin", first.snapshot_id)[0] == 0
    assert cli("prune", "--keep", "1", "--yes")[0] == 0
    assert len(ColonyMemory(backend=vault).list_snapshots()) == 1


def test_tags_are_given_and_taken_afterwards(cli, vault, refused):
    info = save(vault, {"a.md": "1"}, at=NOON)
    save(vault, {"a.md": "2"})
    assert cli("tag", "--add", "good", "--add", "v1", "latest~1")[1].endswith(" has the tags: good, v1\n")
    assert cli("list", "--tag", "v1", "--json")[1].count(info.snapshot_id)
    assert "tags       good, v1" in cli("show", "latest~1")[1]
    answer = {"label": "default", "tagged": info.snapshot_id, "tags": ["good"]}
    assert json.loads(cli("tag", "--remove", "v1", info.snapshot_id, "--json")[1]) == answer
    assert cli("tag", "--remove", "good", info.snapshot_id)[1].endswith(" has the tags: none\n")
    assert "say which tags" in refused(2, "tag", "latest")
    assert "is not a tag" in refused(2, "tag", "latest", "--add", "a b")
    code, _, err = cli("tag", "latest", "--add", "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE5fG7")
    assert (code, "likely secret: tag: GitHub token" in err) == (1, True)


# --- another client that saves in between


@pytest.fixture
def raced(vault, monkeypatch):
    """While the command line uploads, another client saves; gives what that saved."""
    put, theirs = LocalVault.vault_upload_file, []

    def upload(self, name, content, *args, **options):
        done = put(self, name, content, *args, **options)
        if name.endswith(".manifest.json") and not theirs:
            theirs.append(None)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the other one is told
                theirs[0] = save(vault, {"MEMORY.md": "theirs\n", "other.md": "x\n"})
        return done

    monkeypatch.setattr(LocalVault, "vault_upload_file", upload)
    return theirs


def test_a_backup_goes_on_where_that_was_asked_for(cli, folder, vault, raced):
    code, out, err = cli("backup", folder, "--on-conflict", "continue")
    assert (code, out.startswith("saved ")) == (0, True)
    other = f"snapshot {raced[0].snapshot_id}, which another client saved meanwhile\n"
    latest = ColonyMemory(backend=vault).latest()
    assert (err, latest.snapshot_id) == (f"warning: saved, and the latest is {other}", raced[0].snapshot_id)


def test_of_nothing_new_it_is_said_that_the_latest_is_anothers(cli, folder, vault):
    cli("backup", folder)
    memory = ColonyMemory(backend=vault)
    documents, mine = memory.restore(), memory.latest()
    theirs = memory.backup({**documents, "theirs.md": "theirs\n"})
    code, out, err = cli("backup", folder)
    assert (code, out.splitlines()[1]) == (0, f"saved as snapshot {mine.snapshot_id} of label default")
    assert err == f"warning: nothing here is new, and the latest is snapshot {theirs.snapshot_id}; restore to get it\n"


SECRET = "hunter2-secret-word"


@pytest.fixture
def memory_dir(tmp_path, cli, vault_of_1):
    path = tmp_path / "agent"
    path.mkdir()
    (path / "MEMORY.md").write_text(f"line\n{SECRET}\n")
    (path / "keys.md").write_text(f"{SECRET}\n")
    assert cli("backup", path, "--quiet")[0] == 0
    return path


def replacements(tmp_path, text):
    (tmp_path / "texts.txt").write_text(text)
    return tmp_path / "texts.txt"


def test_the_plan_is_shown_and_nothing_is_written(cli, memory_dir, tmp_path):
    before = sorted((tmp_path / "vault").iterdir())
    code, out, err = cli("rewrite", "--replace-text", replacements(tmp_path, f"{SECRET}\n"), "--dry-run")
    assert out.startswith("label default: 3 files to write, ")
    assert out.endswith("0 snapshots stay as they are\nnothing written\n")
    assert (code, err.count("still holds it")) == (1, 2)
    assert sorted((tmp_path / "vault").iterdir()) == before


def test_a_text_and_a_file_go_and_folders_that_hold_them_are_named(cli, refused, memory_dir, tmp_path):
    arguments = ("rewrite", "--replace-text", replacements(tmp_path, f"{SECRET}==>***\n"), "--exclude", "keys.md")
    line = refused(2, *arguments)
    assert line.startswith("error: nothing was rewritten: there is no terminal to ask on; add --yes")
    code, out, err = cli(*arguments, "--yes")
    assert (code, out) == (1, "label default: 1 snapshot saved anew, 1 snapshot deleted\n")
    held = [str(memory_dir / name) for name in ("MEMORY.md", "keys.md")]
    assert all(f"{name} on this host still holds it" in err for name in held)
    mem = ColonyMemory(backend=LocalVault(tmp_path / "vault"))
    assert mem.restore()["MEMORY.md"] == "line\n***\n"
    assert "keys.md" not in mem.restore()
    (memory_dir / "keys.md").unlink()
    (memory_dir / "MEMORY.md").write_text("line\n***\n")
    code, out, err = cli(*arguments, "--yes", "--json")
    found = json.loads(out)
    assert (code, err, found["held_by"]) == (0, "", [])
    assert [(each["label"], each["unchanged"], each["deleted"]) for each in found["rewritten"]] == [("default", 1, 0)]
    assert cli("backup", memory_dir, "--quiet")[0] == 0  # its basis was rewritten, which is no conflict


def test_what_is_no_list_of_texts_is_refused(refused, memory_dir, tmp_path):
    for given, told in (("", "no text to replace"), ("regex:a+\n", "not patterns"), ("==>x\n", "no text to replace")):
        assert told in refused(2, "rewrite", "--replace-text", replacements(tmp_path, given), "--yes")
    assert "cannot be read" in refused(2, "rewrite", "--replace-text", tmp_path / "none", "--yes")
    assert "nothing to do" in refused(2, "rewrite", "--yes")
    assert read_replacements(str(replacements(tmp_path, "a\nliteral:b==>c\n\nd==>\n"))) == {
        "a": "***REMOVED***",
        "b": "c",
        "d": "",
    }


def test_delete_and_prune_say_what_stays_in_packs(cli, vault, tmp_path):
    path = tmp_path / "agent"
    path.mkdir()
    lines = "".join(f"line {n}\n" for n in range(3000))
    for n in range(4):
        (path / "MEMORY.md").write_text(f"{lines}{n}\n")
        assert cli("backup", path, "--quiet")[0] == 0
    ids = [info.snapshot_id for info in ColonyMemory(backend=vault).list_snapshots()]
    _, out, _ = cli("delete", ids[-1], "--yes")
    assert f"what {ids[-1]} held stays readable in packs that other snapshots share" in out
    for file in (tmp_path / "vault").iterdir():
        os.utime(file, (time.time() - 10_800,) * 2)
    (path / "MEMORY.md").write_text(f"{lines}later\n")
    assert cli("backup", path, "--quiet")[0] == 0
    _, out, _ = cli("prune", "--keep", "1", "--yes")
    assert "to take a text out: colony-memory rewrite" in out
    assert cli("rewrite", "--exclude", "nothing", "--yes")[0] == 0
