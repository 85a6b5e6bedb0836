"""Making a vault, on purpose; and what every verb says where none was made, or a setting is none."""

import json
import shlex
import shutil

import cli_runs
import pytest
from cli_runs import save, tree

from colony_memory._format.v2.zstd import is_installed

DEFAULT = 2 if is_installed() else 1

READING = (
    ("restore", "out"),
    ("list",),
    ("show", "latest"),
    ("verify",),
    ("diff", "latest"),
    ("status",),
    ("export", "latest", "a.json"),
)
WRITING = (
    ("backup", "memory"),
    ("watch", "--once", "memory"),
    ("watch", "memory"),
    ("prune", "--keep", "1", "--yes"),
    ("delete", "latest", "--yes"),
    ("import", "in.json"),
    ("copy", "--to", "other"),
)


@pytest.fixture
def exported(cli, tmp_path):
    """The folder's snapshot in a file, and another vault to copy to."""
    cli("init", "other")
    save(cli_runs.LocalVault(tmp_path / "other"), {"a.md": "x"})
    assert cli("export", "latest", "in.json", "--vault", "other")[0] == 0


@pytest.mark.parametrize("url", ["vault", "./vault", "file://{}/vault", "~/vault", "a/b c/vault"])
def test_a_vault_is_made_once_and_used(cli, folder, tmp_path, url):
    url = url.format(tmp_path)
    (tmp_path / "home").mkdir()
    assert cli("init", url) == (0, f"made the vault {url}\n", "")
    assert cli("init", url) == (0, f"the vault {url} was there already\n", "")
    assert cli("init", url, "--quiet") == (0, "", "")
    assert cli("list", "--vault", url) == (0, "no snapshots\n", "")
    assert cli("backup", "--vault", url, folder)[0] == 0
    assert json.loads(cli("init", url, "--json")[1]) == {"vault": url, "made": False, "format": DEFAULT}
    assert json.loads(cli("init", "another", "--json")[1]) == {"vault": "another", "made": True, "format": DEFAULT}


@pytest.mark.parametrize(
    ("url", "code", "says"),
    [
        ("", 2, "empty vault URL"),
        ("backup@nas:/srv/vault", 2, "not a kind of vault"),
        ("s3://bucket?key=secret", 2, "without a user, a '?'"),
        ("memory:", 2, "is gone when"),
        ("colony:", 2, "set COLONY_API_KEY"),
        ("$HOME/vault", 2, "$HOME in"),
        ("memory/MEMORY.md", 2, "is not a directory"),
        ("export:in.json", 2, "no vault is made there"),
    ],
)
def test_what_is_no_place_for_a_vault(refused, exported, folder, tmp_path, url, code, says):
    before = tree(tmp_path)
    assert says in refused(code, "init", url)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("arguments", [*READING, *WRITING], ids=" ".join)
def test_where_none_was_made_each_verb_says_so_and_makes_none(refused, exported, folder, tmp_path, arguments):
    (tmp_path / "mnt").mkdir()
    before = sorted(each for each in tmp_path.rglob("*") if "home" not in each.parts)  # a watch records how it ended
    for place in ("mnt", "my vault"):
        line = refused(5, *arguments, "--vault", place)
        assert f"there is no vault in {tmp_path / place}: none was ever made there, or the disk" in line
        assert line.endswith(f"make one with: colony-memory init {shlex.quote(place)}")
    assert sorted(each for each in tmp_path.rglob("*") if "home" not in each.parts) == before


@pytest.mark.parametrize("arguments", [each for each in [*READING, *WRITING] if each[0] not in {"backup", "watch"}])
def test_the_vault_that_nobody_chose_is_made_by_a_backup_alone(refused, exported, tmp_path, arguments):
    line = refused(5, *arguments)
    assert "there is no vault in " in line
    assert line.endswith("the first backup makes one; set COLONY_API_KEY or --vault for another")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("options", [[], ["--quiet"], ["--json"], ["--json", "--quiet"]])
@pytest.mark.parametrize("verb", [["backup"], ["watch", "--once"]])
def test_a_vault_that_makes_itself_is_told_of_once_quiet_or_not(cli, folder, tmp_path, verb, options):
    place = tmp_path / "data" / "colony-memory" / "vault"
    code, _, err = cli(*verb, *options, folder)
    assert code == 0
    (line,) = err.splitlines()
    assert f"no vault was chosen, so one was made: the local vault {place}" in line
    assert "made" not in cli(*verb, *options, folder)[2]


def test_a_home_whose_name_looks_like_a_variable_is_a_home(cli, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a$b%c%"))
    assert cli("init", "--quiet") == (0, "", "")
    assert cli("backup", "--quiet", folder) == (0, "", "")
    assert cli("status")[0] == 0
    assert list((tmp_path / "a$b%c%" / "colony-memory" / "vault").glob("cmem.*"))


def test_a_disk_that_goes_away_is_no_first_start(cli, refused, folder, vault, tmp_path):
    assert cli("backup", folder)[0] == 0
    vault.path.rename(tmp_path / "away")
    vault.path.mkdir()
    assert "not mounted" in refused(5, "restore", "out")
    assert "not mounted" in refused(5, "backup", folder)
    shutil.rmtree(vault.path)
    (tmp_path / "away").rename(vault.path)
    assert cli("restore", "out")[0] == 0


def test_a_vault_that_was_made_on_purpose_is_not_told_again(cli, folder, monkeypatch):
    for name in ("COLONY_MEMORY_VAULT", "COLONY_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    cli("init")
    for verb in (("backup", folder), ("list",), ("status",)):
        code, out, err = cli(*verb)
        assert (code, "using the local vault" in out + err) == (0, False)
