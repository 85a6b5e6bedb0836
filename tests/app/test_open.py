"""A memory in a vault that is chosen, under the trust that is asked for."""

import os
import subprocess
import sys

import pytest

from colony_memory import ColonyMemory, ColonyMemoryError, Ed25519Signer, VaultMissing, signing
from colony_memory.shell.app.config import read_setting
from colony_memory.shell.app.keys import client_arguments
from colony_memory.shell.app.open import choose_place, refuse_vault_inside
from colony_memory.vaults.local import LocalVault
from colony_memory.vaults.memory import MemoryVault

pytest.importorskip("cryptography")

OURS, STRANGER = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(1, 33)))


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.pem"
    OURS.save(path)
    return path


def test_the_arguments_are_those_that_were_given(key, tmp_path):
    assert client_arguments() == {}
    found = client_arguments(key_file=key, witness=tmp_path / "seen.json")
    assert set(found) == {"signer", "witness"}
    assert found["signer"].did_key == OURS.did_key
    assert found["witness"].path == tmp_path / "seen.json"
    found = client_arguments(require_signature=False, accept_legacy_pointer=True)
    assert found == {"require_signature": False, "accept_legacy_pointer": True}


def test_trust_is_a_list_in_any_spelling(key):
    given = [f"{STRANGER.did_key}@20261101T120000300000Z-abcdef, did:key:b", " ", "did:key:c"]
    listed = {STRANGER.did_key: "20261101T120000300000Z-abcdef", "did:key:b": None, "did:key:c": None}
    assert client_arguments(trust=given) == client_arguments(trust=" ".join(given)) == {"trusted_issuers": listed}
    found = client_arguments(trust=given[:1], key_file=key)
    assert next(iter(found["trusted_issuers"])) == OURS.did_key
    assert client_arguments(trust=[", "]) == {}


def test_a_key_file_that_cannot_be_used_is_a_bad_argument(key, tmp_path, monkeypatch):
    (tmp_path / "empty").touch(0o600)
    for name in ("none", "empty"):
        with pytest.raises(ValueError, match=name):
            client_arguments(key_file=tmp_path / name)
    if os.name != "nt":
        key.chmod(0o644)
        with pytest.raises(ValueError, match="open to others"):
            client_arguments(key_file=key)

    def missing(why):
        raise ColonyMemoryError(f"not installed, and {why}")

    monkeypatch.setattr(signing, "require_cryptography", missing)
    with pytest.raises(ColonyMemoryError, match="not installed, and a key file is given"):
        client_arguments(key_file=key)


def test_a_vault_that_is_not_there_is_not_opened(tmp_path):
    for url in (str(tmp_path / "none"), None):
        with pytest.raises(VaultMissing):
            choose_place(url).require()
    assert not choose_place(str(tmp_path / "none")).make_unchosen()  # nobody makes what was chosen
    place = choose_place()
    assert place.make_unchosen()
    assert ColonyMemory(backend=place.backend).backup({"a.md": "x"})
    assert ColonyMemory(backend=choose_place().backend).restore() == {"a.md": "x"}


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in [each for each in os.environ if each.startswith("COLONY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def test_a_user_without_a_home_is_told(monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(ValueError, match="no home directory: set XDG_DATA_HOME"):
        choose_place()


@pytest.mark.parametrize("name", ["COLONY_API_KEY", "COLONY_MEMORY_VAULT"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_variable_is_not_one_that_is_not_set(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} is empty"):
        choose_place()
    monkeypatch.delenv(name)
    assert read_setting(name) is None


@pytest.mark.parametrize(
    ("url", "says"), [("memory:", "is gone when"), ("colony:", "needs a key"), ("ftp://x", "not a kind of vault")]
)
def test_what_cannot_be_opened(url, says):
    with pytest.raises(ValueError, match=says):
        choose_place(url)


def test_a_path_that_holds_the_vault_is_refused(tmp_path):
    vault = LocalVault(tmp_path / "memory" / "vault", create=True)
    (tmp_path / "link").symlink_to(tmp_path / "memory", target_is_directory=True)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    memory = ColonyMemory(backend=vault)
    for path in (tmp_path, "memory", tmp_path / "link", vault.path, "."):
        with pytest.raises(ValueError, match="is inside"):
            refuse_vault_inside(memory, ["elsewhere", path])
    refuse_vault_inside(memory, ["elsewhere", tmp_path / "loop", tmp_path / "memory" / "vault2"])
    refuse_vault_inside(ColonyMemory(backend=MemoryVault()), [tmp_path])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('"/w/witness.json"', "within quotes"),
        ("'/w/witness.json'", "within quotes"),
        ("/w/witness.json\r", "with a line end"),
        ("/w/witness.json\n", "with a line end"),
        ("/w/wit\x1bness.json", "another control character"),
        ("\ufeff/w/witness.json", "with a byte order mark"),
    ],
)
def test_what_another_reader_of_settings_would_take_off_is_refused_by_name(monkeypatch, value, why):
    for name in ("COLONY_MEMORY_WITNESS", "COLONY_MEMORY_VAULT", "COLONY_API_KEY"):
        monkeypatch.setenv(name, value)
        if name == "COLONY_API_KEY" and value.strip() == "/w/witness.json":
            assert read_setting(name) == value  # which is taken without it
            continue
        with pytest.raises(ValueError, match=f"{name} is given .*{why}") as caught:
            read_setting(name)
        assert "witness.json" not in str(caught.value)
    monkeypatch.setenv("COLONY_MEMORY_ENCRYPT_TO", "age1x\nage1y\t'age1z'")
    assert read_setting("COLONY_MEMORY_ENCRYPT_TO")


@pytest.mark.parametrize("value", ['"/w/witness.json"', "/w/witness.json\r", "\ufeff/w/witness.json"])
def test_no_witness_is_made_under_a_name_that_nobody_meant(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="a path is given"):
        client_arguments(witness=value)
    assert not list(tmp_path.iterdir())


CODE = """
import sys, pathlib, pkgutil, importlib
for name in ("click", "colony_memory.shell.cli"):
    sys.modules[name] = None  # as where it is not installed
import colony_memory.shell.app
for module in pkgutil.iter_modules(colony_memory.shell.app.__path__):
    importlib.import_module(f"colony_memory.shell.app.{module.name}")
from colony_memory import restore_folder, save_folder
from colony_memory import ColonyMemory
from colony_memory.shell.app.open import choose_place
from colony_memory.shell.app.protection import check_protection
here = pathlib.Path(sys.argv[1])
(here / "memory").mkdir()
(here / "memory" / "a.md").write_text("x")
choose_place(str(here / "vault")).make()
memory = ColonyMemory(backend=choose_place(str(here / "vault")).backend)
assert save_folder(memory, here / "memory")
assert restore_folder(memory, here / "again")
assert check_protection(memory)
assert (here / "again" / "a.md").read_text() == "x"
"""


def test_without_what_the_command_line_needs(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
