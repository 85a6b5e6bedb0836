"""``status PATH`` tells what is not saved yet, ``list --tag`` what is filed where, and long lists are cut."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from cli_runs import NOON, POSIX, save, tree

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


def unsaved(cli, *args):
    """The lines about what is not saved."""
    _, out, _ = cli("status", *args)
    return out.partition("\n\nunsaved  ")[2].splitlines()


def test_what_is_not_saved_yet_is_told_beside_the_verdict(folder, vault, cli):
    assert unsaved(cli, folder) == ["all of it: nothing is saved under label default"]
    assert cli("status", folder)[0] == 3
    cli("backup", folder)
    first = json.loads(cli("list", "--json")[1])["snapshots"][0]["snapshot_id"]
    assert unsaved(cli, folder) == [f"nothing, since the latest of label default, {first}"]
    (folder / "MEMORY.md").write_text("three years\n")
    (folder / "notes/new.md").write_text("x")
    shutil.rmtree(folder / "logs")
    before = tree(vault.path), tree(folder)
    assert unsaved(cli, folder) == [
        f"1 added, 0 removed and 1 empty folder, 1 changed, since the latest of label default, {first}",
        "~ MEMORY.md  +1 -1 lines",
        "- logs/",
        "+ notes/new.md",
    ]
    assert (tree(vault.path), tree(folder)) == before
    code, out, _ = cli("status", folder, "--json")
    assert code == 0
    assert json.loads(out)["unsaved"] == {
        "latest": first,
        "not_compared": None,
        "added": ["notes/new.md"],
        "removed": ["logs/"],
        "changed": {"MEMORY.md": {"added": 1, "removed": 1, "exact": True}},
        "left_out": [],
    }
    assert json.loads(cli("status", "--json")[1])["unsaved"] is None
    # What is unsaved is no failure: the age of the backup is.
    assert cli("status", folder, "--max-age", "1h", "--quiet") == (0, "", "")


def test_masked_secrets_and_repositories_are_compared_as_they_were_saved(folder, vault, cli):
    (folder / "keys.md").write_text(f"x\n{TOKEN}\n")
    (folder / "open.md").write_text(f"{TOKEN}\n")
    cli("backup", folder, "--secrets", "mask", "--allow-secret", "open.md:github-token")
    assert unsaved(cli, folder)[0].startswith("nothing, since ")
    (folder / "keys.md").write_text(f"y\n{TOKEN}\n")
    assert unsaved(cli, folder)[1:] == ["~ keys.md  +1 -1 lines"]
    if not shutil.which("git"):
        return
    subprocess.run(["git", "init", "-q", folder], check=True)
    commit = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q"]
    subprocess.run([*commit, "--allow-empty", "-m", "first"], check=True)
    cli("backup", folder, "--secrets", "allow", "--git")
    assert unsaved(cli, folder)[0].startswith("nothing, since ")
    subprocess.run([*commit, "--allow-empty", "-m", "second"], check=True)
    assert unsaved(cli, folder)[1].startswith("~ .git.bundle ")


@POSIX
def test_what_cannot_be_saved_is_told_too(folder, vault, cli):
    cli("backup", folder)
    os.mkfifo(folder / "pi\x1b[2Jpe")
    assert unsaved(cli, folder)[1:] == ["1 name cannot be saved:", "pi\\x1b[2Jpe: named pipe"]


def test_bad_paths_are_refused(folder, vault, refused, tmp_path):
    before = tree(tmp_path)
    assert "no such file" in refused(2, "status", "gone")
    assert "an empty path" in refused(2, "status", "")
    assert "is inside" in refused(2, "status", tmp_path)
    assert "--exclude is for the PATHs" in refused(2, "status", "--exclude", "*.log")
    assert "is not a rule of gitignore" in refused(2, "status", folder, "--exclude", "[a")
    assert tree(tmp_path) == before


def test_a_forged_tag_cannot_command_a_terminal(vault, cli):
    info = save(vault, {"a.md": "x"}, at=NOON, tags=["good"])
    path = vault.path / f"cmem.default.{info.snapshot_id}.manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tags": ["\x1b[2J", "a\nb", "fine"]}))
    (vault.path / "cmem.default.latest.json").unlink()
    for verb in (["list"], ["show", "latest"], ["list", "--tag", "fine"]):
        out = cli(*verb)[1]
        assert "\x1b" not in out
        assert "fine" in out


def test_diff_alone_shows_what_has_changed_since(folder, vault, cli, refused, tmp_path):
    assert "nothing is saved yet" in refused(3, "diff")
    cli("backup", folder, "--exclude", "*.log")
    (folder / "new.md").write_text("one\n")
    (folder / "noise.log").write_text("no memory\n")
    code, out, err = cli("diff")
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [f"to   the folder {folder}", "+ new.md", out.splitlines()[-1]]
    assert cli("diff", "--exit-code")[0] == 1
    assert "+one" in cli("diff", "--patch")[1]
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    cli("backup", other, "--on-conflict", "continue")
    assert "saves 2 folders under label 'default': say what to compare" in refused(1, "diff")
    shutil.rmtree(other)
    assert cli("diff")[0] == 0
    shutil.rmtree(folder)
    assert "saves no folders under label 'default'" in refused(1, "diff")
