"""Encryption on the command line: options, variables, key files, exit codes."""

import json

import age_keys as keys
import pytest
from age_files import quick_passphrases
from cli_runs import tree

from colony_memory import ColonyMemory

__all__ = ["quick_passphrases"]


@pytest.fixture
def identity(tmp_path):
    return written(tmp_path / "identity.txt", keys.SECRET)


def written(path, text):
    path.write_text(f"{text}\n")
    path.chmod(0o600)
    return path


def test_a_round_trip_by_options(cli, folder, vault, identity, tmp_path):
    code, out, err = cli("backup", folder, "--encrypt-to", keys.RECIPIENT, "--note", "private")
    assert (code, err) == (0, "")
    assert all(b"private" not in text for text in tree(vault.path).values())
    assert cli("restore", tmp_path / "out", "--identity", identity)[0] == 0
    assert (tmp_path / "out" / "MEMORY.md").read_bytes() == b"two years\r\n"
    listed = cli("list")[1]
    assert "encrypted" in listed
    assert "unknown" in listed
    assert "private" not in listed
    assert "note       private" in cli("show", "latest", "--identity", identity)[1]
    assert cli("status", "--identity", identity)[1].startswith("protected: ")
    assert cli("status")[1].startswith("saved (encrypted, and no identity opens it here")
    assert cli("verify", "--identity", identity)[0] == 0
    code, out, _ = cli("verify")
    assert code == 1
    assert "encrypted and was not checked" in out


@pytest.mark.parametrize("verb", [("restore", "out"), ("cat", "MEMORY.md"), ("log", "MEMORY.md"), ("grep", "two")])
def test_without_a_key_it_is_code_4_and_says_what_is_missing(cli, folder, vault, verb):
    assert cli("backup", folder, "--encrypt-to", keys.RECIPIENT)[0] == 0
    code, _, err = cli(*verb)
    line = err.splitlines()[-1]
    assert code == 4
    assert "is encrypted, and no identity is given" in line
    assert "corrupt" not in line
    assert line.endswith("--identity FILE")
    code, _, err = cli(*verb, "--json")
    error = json.loads(err.splitlines()[-1])
    assert (error["kind"], error["code"]) == ("DecryptionError", 4)
    assert error["hint"].endswith("--identity FILE")


def test_variables_say_the_same(cli, folder, vault, identity, tmp_path, monkeypatch):
    pub = tmp_path / "their keys.pub"
    pub.write_text(f"# ours\n{keys.SSH_RECIPIENT} me@host\n")
    monkeypatch.setenv("COLONY_MEMORY_ENCRYPT_TO", f"{keys.RECIPIENT} {keys.SSH_RECIPIENT}")
    monkeypatch.setenv("COLONY_MEMORY_IDENTITY", str(identity))
    assert cli("backup", folder)[0] == 0
    assert cli("backup", folder)[1].startswith("unchanged")
    assert cli("restore", tmp_path / "out")[0] == 0
    assert ColonyMemory(backend=vault, identities=keys.SSH_SECRET).restore()
    # A file of recipients is the same as what is in it.
    monkeypatch.delenv("COLONY_MEMORY_ENCRYPT_TO")
    assert cli("backup", folder, "--encrypt-to", keys.RECIPIENT, "--encrypt-to", pub)[1].startswith("unchanged")


@pytest.mark.usefixtures("quick_passphrases")
def test_a_passphrase_comes_from_a_file(cli, folder, vault, tmp_path):
    words = written(tmp_path / "words", "correct horse")
    asked = ["--passphrase-file", words]
    assert cli("backup", folder, "--encrypt-to", "passphrase", *asked)[0] == 0
    assert cli("backup", folder, "--encrypt-to", "passphrase", *asked)[1].startswith("unchanged")
    assert cli("restore", tmp_path / "out", *asked)[0] == 0
    wrong = written(tmp_path / "wrong", "another")
    code, _, err = cli("restore", tmp_path / "no", "--passphrase-file", wrong)
    assert code == 4
    assert "needs its passphrase" in err
    assert "another" not in err


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_keys_that_windows_wrote_are_the_same_keys(cli, folder, vault, tmp_path, encoding):
    to, key = written(tmp_path / "to", ""), written(tmp_path / "key", "")
    to.write_bytes(f"\ufeff# of the agent\r\n{keys.RECIPIENT}\r\n".encode(encoding))
    key.write_bytes(f"\ufeff# of the agent\r\n{keys.SECRET}\r\n".encode(encoding))
    assert cli("backup", folder, "--encrypt-to", to)[0] == 0
    assert cli("restore", tmp_path / "out", "--identity", key)[0] == 0
    to.write_bytes(b"\xff\xfea")
    code, _, err = cli("backup", folder, "--encrypt-to", to)
    assert (code, "is not text" in err) == (2, True)


@pytest.mark.usefixtures("quick_passphrases")
def test_a_passphrase_is_asked_for_once(cli, folder, vault, tmp_path, monkeypatch):
    from colony_memory.shell.cli import call

    said = iter(["correct horse", "correct horse", "correct horse", "other", "one more"])
    monkeypatch.setattr("getpass.getpass", lambda *_: next(said))
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    call._ask.cache_clear()
    assert cli("backup", folder, "--encrypt-to", "passphrase")[0] == 0
    assert cli("backup", folder, "--encrypt-to", "passphrase")[1].startswith("unchanged")
    assert cli("restore", tmp_path / "out", "--identity", "passphrase")[0] == 0
    call._ask.cache_clear()
    code, _, err = cli("backup", folder, "--encrypt-to", "passphrase")
    assert (code, "the passphrases differ" in err) == (2, True)
    call._ask.cache_clear()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--encrypt-to", "nowhere.pub"], "neither a recipient"),
        (["--encrypt-to", "age1qqq"], "is not a recipient"),
        (["--encrypt-to", "open.txt"], "holds a private key"),
        (["--encrypt-to", keys.SECRET], "a private key was given to encrypt to"),
        (["--encrypt-to", "passphrase"], "no terminal to ask"),
        (["--encrypt-to", keys.RECIPIENT, "--format", "3"], "format"),
        (["--identity", keys.SECRET], "put it into a file"),
        (["--identity", "open.txt"], "is open to others"),
        (["--identity", "nowhere.txt"], "nowhere.txt cannot be read"),
        (["--identity", "empty.txt"], "no key in it"),
        (["--passphrase-file", "empty.txt"], "is empty"),
    ],
    ids=range(11),
)
def test_what_cannot_be_used_is_code_2_and_not_repeated(refused, folder, vault, tmp_path, options, why):
    (tmp_path / "open.txt").write_text(keys.SECRET)
    (tmp_path / "open.txt").chmod(0o644)
    written(tmp_path / "empty.txt", "")
    line = refused(2, "backup", folder, *options)
    assert why in line
    assert keys.SECRET not in line
    assert not [*vault.path.glob("cmem.*")]


def test_keygen_makes_an_identity(cli, refused, folder, vault, tmp_path):
    place = tmp_path / "keys" / "agent.txt"
    code, out, _ = cli("keygen", "--age", place)
    lines = out.splitlines()
    recipient = lines[1].split()[-1]
    assert code == 0
    assert f"  export COLONY_MEMORY_ENCRYPT_TO={recipient}" in lines
    assert f"  export COLONY_MEMORY_IDENTITY={place}" in lines
    assert "SECRET" not in out
    assert "is not overwritten" in refused(1, "keygen", "--age", place)
    assert cli("backup", folder, "--encrypt-to", recipient)[0] == 0
    assert cli("restore", tmp_path / "out", "--identity", place)[0] == 0
    answer = json.loads(cli("keygen", "--age", "--json", tmp_path / "other.txt")[1])
    assert answer.keys() == {"key_file", "recipient"}


@pytest.mark.parametrize(
    ("place", "says"),
    [("$HOME/key", "not expanded"), ("${HOME}/key", "not expanded"), ("s3://bucket/key", "not an address")],
)
def test_keygen_takes_no_variable_and_no_address_for_a_path(refused, tmp_path, monkeypatch, place, says):
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--age"]):
        assert says in refused(2, "keygen", *options, place)
    assert not list(tmp_path.iterdir())
