"""The configuration file under every verb, and the verb ``config``."""

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


def listed(cli, *more):
    code, out, _ = cli("list", "--json", *more)
    assert code == 0
    found = json.loads(out)["snapshots"]
    return [(each["label"], [name for name in each["doc_names"] if name != ATTRIBUTES_NAME]) for each in found]


@pytest.fixture
def page(configure, folder, tmp_path):
    """A file of which every setting holds for all commands."""
    LocalVault(tmp_path / "vault", create=True, format=1)
    (folder / "draft.tmp").write_text("x\n")
    return configure(
        """
        vault = "HERE/vault"
        label = "diary"
        secrets = "mask"
        exclude = ["*.tmp"]
        keep = 2
        """
    )


def test_init_makes_the_vault_that_the_file_names(cli, configure, tmp_path):
    configure('vault = "HERE/disk/vault"')
    assert cli("init")[:2] == (0, f"made the vault {tmp_path}/disk/vault\n")
    assert cli("list")[0] == 0


def test_the_file_gives_what_options_give(cli, page, folder, refused, tmp_path):
    (folder / "keys.md").write_text(TOKEN)
    with page.open("a") as file:
        file.write(f'witness = "{tmp_path.as_posix()}/witness.json"')
    code, out, _ = cli("backup", "--json", folder)
    assert (code, json.loads(out)["masked"]) == (0, ["keys.md"])
    (folder / "keys.md").unlink()
    assert (tmp_path / "witness.json").exists()
    for number in range(3):
        (folder / "plan.md").write_text(f"plan {number}\n" * 20)
        assert cli("backup", folder, "--exclude", "notes/")[0] == 0
    found = listed(cli)
    assert [label for label, _ in found] == ["diary", "diary"]
    assert {"plan.md"} <= set(found[0][1])
    assert not {"draft.tmp", "notes/a.md"} & set(found[0][1])
    assert cli("prune", "--yes")[1] == "label diary: 0 snapshots deleted, 2 kept\n"
    assert cli("prune", "--keep-yearly", "1", "--yes")[1] == "label diary: 1 snapshot deleted, 1 kept\n"
    assert cli("prune", "--leftovers", "--yes")[0] == 0
    assert "--delete would remove what a backup of this folder leaves out" in refused(2, "restore", "--delete", folder)


def test_what_is_for_saving_changes_nothing_that_was_saved(cli, page, folder, tmp_path):
    """An exclusion takes nothing out of snapshots, and a label keeps no other out of a copy."""
    (folder / "draft.tmp").write_text("alpha\n")
    for label in ("diary", "other"):
        cli("backup", "--exclude", "!*.tmp", "--label", label, folder)
    (folder / "draft.tmp").write_text("beta\n")
    (folder / "MEMORY.md").unlink()
    (tmp_path / "texts").write_text("alpha==>beta\n")
    code, _, err = cli("rewrite", "--replace-text", tmp_path / "texts", "--exclude", "MEMORY.md", "--yes")
    assert code == 0, err
    LocalVault(tmp_path / "usb", create=True, format=1)
    assert cli("copy", "--to", tmp_path / "usb")[0] == 0
    for label in ("diary", "other"):
        ((_, names),) = listed(cli, "--vault", tmp_path / "usb", "--label", label)
        assert ("draft.tmp" in names, "MEMORY.md" in names) == (True, False)


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


def test_a_variable_may_begin_with_the_home(cli, page, folder, tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("COLONY_MEMORY_WITNESS", "~/wit.json")
    for at in ("home", "memory"):
        monkeypatch.chdir(tmp_path / at)
        assert cli("backup", "--label", at, folder)[0] == 0
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == [".wit.json.lock", "wit.json"]


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


def test_config_shows_what_counts_and_where_it_comes_from(cli, page, monkeypatch, tmp_path):
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
        ("label", "diary", "file:", "label"),
        ("exclude", "*.tmp", "file:", "exclude"),
        ("keep", "2", "file:", "keep"),
    } <= rows
    found = json.loads(cli("config", "--json")[1])
    assert found["settings"]["label"] == {"value": "diary", "sources": ["label"]}
    assert found["settings"]["max_age"] == {"value": None, "sources": ["default"]}
    assert (found["path"], found["api_key"], found["exists"]) == (str(page), "set", True)
    assert json.loads(cli("config", "--path", "--json")[1]) == {"path": str(page), "exists": True}


@POSIX
def test_a_restore_never_writes_the_file_that_is_obeyed(cli, page, refused, tmp_path, monkeypatch):
    before = page.read_text()
    evil = tmp_path / "evil" / "colony-memory"
    evil.mkdir(parents=True)
    (evil / "config.toml").write_text('before = "touch /tmp/owned"\n')
    cli("backup", tmp_path / "evil", "--label", "evil", "--quiet")
    line = refused(1, "restore", "--label", "evil", "--force", tmp_path / "config")
    assert "'colony-memory/config.toml' is where the configuration of this program is kept; nothing was written" in line
    assert page.read_text() == before
    monkeypatch.setenv("COLONY_MEMORY_CONFIG", str(tmp_path / "mine" / "colony-memory" / "config.toml"))
    (tmp_path / "mine" / "colony-memory").mkdir(parents=True)
    page.replace(tmp_path / "mine" / "colony-memory" / "config.toml")
    assert "is where the configuration" in refused(1, "restore", "--label", "evil", "--force", tmp_path / "mine")
    assert cli("restore", "--label", "evil", tmp_path / "look")[0] == 0
