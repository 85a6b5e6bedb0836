"""Which vault a URL names."""

import os
from pathlib import Path

import pytest

from colony_memory import vaults as open_module
from colony_memory.vaults import open_vault
from colony_memory.vaults.colony import ColonyVault
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

on_posix = pytest.mark.skipif(os.name == "nt", reason="POSIX paths")


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@on_posix
@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///srv/vault", "/srv/vault"),
        ("FILE:///srv/vault", "/srv/vault"),
        ("file:/srv/vault", "/srv/vault"),
        ("file://localhost/srv/vault", "/srv/vault"),
        ("file:///srv/a%20b%2Fc%25/%C3%A9%3F%23", "/srv/a b/c%/é?#"),
        ("file:///srv/%24HOME/%25APPDATA%25", "/srv/$HOME/%APPDATA%"),
        ("file:///srv/%C3%A9%D3", "/srv/é\udcd3"),
        ("file:///%7Eme/vault", "/~me/vault"),
        ("/srv/vault", "/srv/vault"),
        ("/srv/a%20b:c", "/srv/a%20b:c"),
        ("vault", "vault"),
        ("vault/sub:dir", "vault/sub:dir"),
        ("./backup@nas:/srv/vault", "backup@nas:/srv/vault"),
        ("cash$", "cash$"),
        ("$1/a%b/100%", "$1/a%b/100%"),
        ("./s3:vault", "s3:vault"),
        ("~/vault", "home/vault"),
        ("~", "home"),
        ("./~/vault", "~/vault"),
        ("./C:\\vault", "C:\\vault"),
    ],
)
def test_directories(url, path, tmp_path):
    vault = open_vault(url)
    assert isinstance(vault, LocalVault)
    assert str(vault.path) == os.path.normpath(tmp_path / path)


@pytest.mark.parametrize("url", ["memory:", "MEMORY:", "memory://"])
def test_memory(url):
    first, second = open_vault(url), open_vault(url)
    assert isinstance(first, MemoryVault)
    first.vault_upload_file("x.json", "x")
    assert second.vault_list_files()["items"] == []


@pytest.mark.parametrize("url", ["colony:", "Colony:", "colony://"])
def test_the_hosted_vault_with_key_and_address_from_the_environment(url, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_test")
    monkeypatch.setenv("COLONY_BASE_URL", "http://127.0.0.1:9/api/v1")
    vault = open_vault(url)
    assert isinstance(vault, ColonyVault)
    assert repr(vault) == "ColonyVault(base_url='http://127.0.0.1:9/api/v1')"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        ("export:", "an empty path"),
        ("nas:/srv/vault", "nas: is not a kind of vault"),
        ("me:secret@nas:/srv/vault", "./me:"),
        ("backup@nas:/srv/vault", "an address on a host is not a kind of vault"),
        ("[::1]:/srv/vault", "an address on a host"),
        ("C:\\vault", "./C:"),
        ("2024:vault", "./…"),
        ("$HOME/vault", "$HOME in"),
        ("/srv/${AGENT}/vault", "${AGENT} in"),
        ("%APPDATA%/vault", "%APPDATA% in"),
        ("C:\\%USERNAME%\\vault", "C:"),
        ("./$AGENT", "%24"),
        ("file:///srv/$AGENT", "$AGENT in"),
        ("file:///%USERPROFILE%/vault", "%USERPROFILE% in"),
        ("file:///~/vault", "%7E"),
        ("export:$AGENT.json", "$AGENT in"),
        ("file:", "absolute path"),
        ("file:relative", "absolute path"),
        ("file://relative/path", "absolute path of this host"),
        ("file:///srv/vault?x=1", "%3F"),
        ("file:///srv/vault#x", "%23"),
        ("file:///srv/%00", "not a path"),
        ("colony:col_secret", "nothing after the colon"),
        ("memory:name", "nothing after the colon"),
        ("https://me:col_secret@thecolony.ai", "https: is not a kind of vault"),
        ("backup:today", "./backup:"),
        ("~nobody-of-this-name/vault", "no home directory"),
    ],
)
def test_what_is_refused(url, words):
    for create in (False, True):
        with pytest.raises(ValueError) as caught:
            open_vault(url, create=create)
        assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert list(Path.cwd().iterdir()) == []


def test_nothing_is_made_of_what_needs_no_making(tmp_path, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_test")
    assert isinstance(open_vault("colony:", create=True), ColonyVault)
    assert isinstance(open_vault("memory:", create=True), MemoryVault)
    with pytest.raises(ValueError, match="no vault is made there"):
        open_vault("export:a.json", create=True)
    assert list(tmp_path.iterdir()) == []


@on_posix
@pytest.mark.parametrize("home", ["", "relative"])
def test_a_home_that_is_none_is_not_the_root(monkeypatch, home):
    monkeypatch.setenv("HOME", home)
    with pytest.raises(ValueError, match="no home directory is known"):
        open_vault("~/vault")


def test_which_paths_need_no_url():
    for path in ("/srv/vault", "vault", "./a:b"):
        assert open_module.is_path(path)
    for path in ("~/vault", "a:b", "/srv/a$b", ""):
        assert not open_module.is_path(path)


def test_drives_on_windows(monkeypatch):
    opened = []

    monkeypatch.setattr("colony_memory.vaults.local.LocalVault", lambda path, **options: opened.append(path))
    monkeypatch.setattr(open_module.os, "name", "nt")
    for url in ("C:\\vault", "c:/vault", "\\\\nas\\vault"):
        open_vault(url)
    assert opened == ["C:\\vault", "c:/vault", "\\\\nas\\vault"]
    for url in ("C:vault", "nas:/vault"):
        with pytest.raises(ValueError, match="not a kind of vault"):
            open_vault(url)
