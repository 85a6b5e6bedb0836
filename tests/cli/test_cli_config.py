"""The configuration file under every verb, and the verb ``config``."""

from __future__ import annotations

import json
import sys

import pytest

if sys.version_info < (3, 11):
    pytest.importorskip("tomli")

from cli_runs import POSIX

from colony_memory._format.record import ATTRIBUTES_NAME
from colony_memory.vaults.local import LocalVault

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"


@pytest.fixture
def configure(tmp_path, monkeypatch):
    """Write the configuration file, in which HERE is the directory of the test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "config" / "colony-memory" / "config.toml"

    def write(text):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("HERE", tmp_path.as_posix()))
        return place

    return write


@pytest.fixture
def two(configure, folder, tmp_path):
    """Two sets in one vault."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "monday.md").write_text("rain\n")
    (tmp_path / "journal" / "draft.tmp").write_text("x\n")
    LocalVault(tmp_path / "vault", create=True, format=1)
    return configure(
        """
        vault = "here"
        [vaults]
        here = "HERE/vault"
        [sets.agent]
        paths = ["HERE/memory"]
        [sets.journal]
        paths = ["HERE/journal"]
        label = "diary"
        exclude = ["*.tmp"]
        [retention.diary]
        keep = 2
        """
    )


def listed(cli, *more):
    code, out, _ = cli("list", "--json", *more)
    assert code == 0
    found = json.loads(out)["snapshots"]
    return [(each["label"], [name for name in each["doc_names"] if name != ATTRIBUTES_NAME]) for each in found]


def test_a_label_that_no_set_has_is_said(refused, two):
    line = refused(2, "backup", "--label", "other")
    assert line == "error: no set has the label 'other': name a path, or a set with --set, agent or journal"
    assert "no set has the label 'other'" in refused(2, "restore", "--label", "other")


def test_one_that_fails_does_not_keep_the_others_from_being_saved(cli, two, tmp_path, folder):
    folder.rename(tmp_path / "gone")
    code, out, err = cli("backup")
    assert code == 2
    assert err.splitlines()[0] == f"error: agent: '{folder}': no such file or directory"
    assert [label for label, _ in listed(cli)] == ["diary"]
    code, out, err = cli("backup", "--json")
    assert code == 2
    found = json.loads(out)["sets"]
    assert found["agent"]["kind"] == "ValueError"
    assert found["journal"]["snapshot"]["reused"]
    assert json.loads(err)["error"].startswith("agent: ")


def test_a_hint_for_one_of_several_names_it(cli, two, folder):
    (folder / "keys.md").write_text(TOKEN)
    code, _, err = cli("backup")
    assert code == 1
    assert "error: agent: " in err
    assert "--secrets mask --set agent" in err


def test_a_restore_goes_where_the_set_is(cli, two, refused, tmp_path):
    cli("backup")
    (tmp_path / "journal" / "monday.md").unlink()
    assert refused(2, "restore") == "error: there are several sets: say which with --set, agent or journal"
    assert cli("restore", "--set", "journal")[0] == 0
    assert (tmp_path / "journal" / "monday.md").read_text() == "rain\n"
    assert (tmp_path / "journal" / "draft.tmp").exists()
    assert cli("restore", "--set", "journal", "latest", "--dry-run")[0] == 0
    assert cli("restore", "--set", "journal", tmp_path / "else")[0] == 0
    assert (tmp_path / "else" / "monday.md").exists()
    assert "--delete would remove what a backup of this folder leaves out" in refused(
        2, "restore", "--set", "journal", "--delete"
    )
    assert (tmp_path / "journal" / "draft.tmp").exists()


def test_what_is_saved_before_a_restore_lacks_what_a_backup_lacks(cli, two, tmp_path):
    cli("backup")
    (tmp_path / "journal" / "monday.md").write_text("sun\n")
    assert cli("restore", "--set", "journal", "--force", "--snapshot-first")[0] == 0
    assert dict(listed(cli))["diary-before-restore"] == ["monday.md"]


def test_a_prune_is_by_the_retention_of_its_label(cli, two, refused):
    cli("backup")
    assert cli("prune", "--set", "journal", "--yes")[1] == "label diary: 0 snapshots deleted, 1 kept\n"
    assert cli("prune", "--label", "diary", "--dry-run")[0] == 0
    assert "say what to keep" in refused(2, "prune", "--set", "agent", "--yes")


@POSIX
def test_run_restores_the_set_and_saves_it(cli, two, tmp_path):
    cli("backup")
    (tmp_path / "journal" / "monday.md").unlink()
    script = f"test -f {tmp_path}/journal/monday.md && echo sun > {tmp_path}/journal/tuesday.md"
    code, _, err = cli("run", "--set", "journal", "--", "sh", "-c", script)
    assert code == 0, err
    assert listed(cli)[0] == ("diary", ["monday.md", "tuesday.md"])


VARIABLES = {
    "COLONY_MEMORY_WITNESS": "wit.json",
    "COLONY_MEMORY_KEY_FILE": "key.pem",
    "COLONY_MEMORY_PASSPHRASE_FILE": "words.txt",
    "COLONY_MEMORY_IDENTITY": "key.txt",
    "COLONY_MEMORY_ENCRYPT_TO": "to.txt",
    "COLONY_MEMORY_VAULT": "vault",
    "COLONY_MEMORY_CONFIG": "config.toml",
    "CODEX_HOME": "codex",
}


@pytest.mark.parametrize("value", ["{}", "./{}", "$HOME/{}", "http://host/{}", "export:{}", "~no-such-user/{}"])
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_variable_means_the_same_in_every_directory_or_is_refused(
    refused, folder, tmp_path, monkeypatch, variable, value
):
    LocalVault(tmp_path / "vault", create=True)
    for name in VARIABLES.values():
        (tmp_path / name).touch()
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv(variable, value.format(VARIABLES[variable]))
    verb = ("hook", "install", "codex") if variable == "CODEX_HOME" else ("backup",)
    line = refused(2, *verb, *([] if variable == "COLONY_MEMORY_VAULT" else ["--vault", "vault"]), folder)
    assert variable in line or "http" in line or "home directory" in line
    assert sorted(tmp_path.rglob("*")) == before


def test_a_variable_may_begin_with_the_home_or_name_a_vault_of_the_file(cli, two, folder, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("COLONY_MEMORY_WITNESS", "~/wit.json")
    monkeypatch.setenv("COLONY_MEMORY_VAULT", "here")
    for at in ("home", "journal"):
        monkeypatch.chdir(tmp_path / at)
        assert cli("backup", "--label", at, folder)[0] == 0
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == [".wit.json.lock", "wit.json"]


def test_a_copy_is_of_the_set_that_is_named(cli, two, tmp_path):
    LocalVault(tmp_path / "usb", create=True, format=1)
    cli("backup")
    assert cli("copy", "--set", "journal", "--to", tmp_path / "usb")[0] == 0
    assert [label for label, _ in listed(cli, "--vault", tmp_path / "usb")] == ["diary"]


def test_the_file_gives_what_options_give(cli, configure, folder, tmp_path):
    LocalVault(tmp_path / "vault", create=True, format=1)
    (folder / "keys.md").write_text(TOKEN)
    configure(
        "vault = 'HERE/vault'\nsecrets = 'mask'\nwitness = 'HERE/witness.json'\nexclude = ['*.tmp']\n"
        "[sets.agent]\npaths = ['HERE/memory', 'HERE/one.md']\n"
    )
    (tmp_path / "one.md").write_text("1")
    code, out, _ = cli("backup", "--json")
    assert (code, json.loads(out)["masked"]) == (0, ["memory/keys.md"])
    assert (tmp_path / "witness.json").exists()
    (tmp_path / "one.md").unlink()
    assert cli("restore", "--force", "--only", "one.md")[0] == 0
    assert (tmp_path / "one.md").read_text() == "1"


def test_where_a_set_is_cannot_always_be_told(cli, configure, refused, tmp_path):
    vault = LocalVault(tmp_path / "vault", create=True, format=1)
    assert vault
    configure("vault = 'HERE/vault'\n[sets.a]\npaths = ['HERE/x/a', 'HERE/y/b']\n")
    assert "lie in several folders: say with DIR" in refused(2, "restore")
    configure("vault = 'HERE/vault'\n[sets.a]\npaths = ['HERE/MEMORY.md']\n")
    assert "may have been a file: say with DIR" in refused(2, "restore")
    (tmp_path / "MEMORY.md").write_text("x\n")
    assert cli("backup")[0] == 0
    (tmp_path / "MEMORY.md").write_text("y\n")
    assert cli("restore", "--force")[0] == 0
    assert (tmp_path / "MEMORY.md").read_text() == "x\n"


def test_a_mistake_in_the_file_is_one_line_and_exit_code_2(refused, configure):
    place = configure("valut = 'x'\n")
    assert refused(2, "list") == f"error: configuration file {place}: valut is not known; did you mean vault?"
    assert refused(2, "list", "--json") == f"error: configuration file {place}: valut is not known; did you mean vault?"
    configure("a = 1\nb = [\n")
    assert "it is not TOML" in refused(2, "backup")
    assert (
        refused(2, "list", "--config", "nowhere.toml")
        == "error: configuration file nowhere.toml: there is no such file"
    )


def test_help_and_the_place_need_no_file_that_is_right(cli, configure):
    place = configure("valut = 'x'\n")
    assert cli("list", "--help")[0] == 0
    assert cli("config", "--path")[:2] == (0, f"{place}\n")


def test_config_shows_what_counts_and_where_it_comes_from(cli, two, monkeypatch, tmp_path):
    monkeypatch.setenv("COLONY_MEMORY_TRUST", "did:key:x")
    monkeypatch.setenv("COLONY_API_KEY", "col_secret")
    code, out, err = cli("config", "--witness", "w.json")
    assert (code, err) == (0, "")
    assert "col_secret" not in out
    rows = {tuple(line.split()) for line in out.splitlines()}
    assert {
        ("vault", (tmp_path / "vault").as_posix(), "file:", "vault"),
        ("api_key", "set", "COLONY_API_KEY"),
        ("trust", "did:key:x", "COLONY_MEMORY_TRUST"),
        ("witness", "w.json", "--witness"),
        ("every", "15m", "default"),
        ("label", "diary", "file:", "sets.journal"),
        ("exclude", "*.tmp", "file:", "sets.journal.exclude"),
        ("retention", "diary:", "keep", "2"),
    } <= rows
    code, out, _ = cli("config", "--json", "--set", "journal")
    found = json.loads(out)
    assert list(found["sets"]) == ["journal"]
    assert found["sets"]["journal"]["settings"]["label"] == {"value": "diary", "sources": ["sets.journal"]}
    assert (found["api_key"], found["exists"]) == ("set", True)


def test_config_tells_of_an_agent_and_of_one_thing_at_a_time(cli, refused, two):
    code, out, _ = cli("config", "--agent", "codex", "--json")
    assert (code, json.loads(out)["sets"]["codex"]["agent"]) == (0, "codex")
    assert json.loads(cli("config", "--path", "--json")[1]) == {"path": str(two), "exists": True}
    assert "give one of them" in refused(2, "config", "--agent", "codex", "--set", "agent")
    assert refused(2, "config", "--set", "nobody").endswith("; sets are agent, journal")


@POSIX
def test_a_restore_never_writes_the_file_that_is_obeyed(cli, two, refused, tmp_path, monkeypatch):
    before = two.read_text()
    evil = tmp_path / "evil" / "colony-memory"
    evil.mkdir(parents=True)
    (evil / "config.toml").write_text('on_error = "touch /tmp/owned"\n')
    cli("backup", tmp_path / "evil", "--label", "evil", "--quiet")
    line = refused(1, "restore", "--label", "evil", "--force", tmp_path / "config")
    assert "'colony-memory/config.toml' is where the configuration of this program is kept; nothing was written" in line
    assert two.read_text() == before
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", str(tmp_path / "mine" / "colony-memory" / "config.toml"))
    (tmp_path / "mine" / "colony-memory").mkdir(parents=True)
    two.replace(tmp_path / "mine" / "colony-memory" / "config.toml")
    assert "is where the configuration" in refused(1, "restore", "--label", "evil", "--force", tmp_path / "mine")
    assert cli("restore", "--label", "evil", tmp_path / "look")[0] == 0
