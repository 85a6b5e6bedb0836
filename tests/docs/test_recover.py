"""What Recover has to be typed, typed where somebody is who reads it, ends where the page says."""

import json
import re
import shlex
import shutil

import pytest
from documentation_pages import ROOT, read, read_blocks

pytest.importorskip("click")

from cli_runs import cli, server, tree

from colony_memory import ColonyMemory
from colony_memory.vaults.local import LocalVault

__all__ = ["cli", "server"]

PAGE = ROOT / "docs" / "recover.md"
_ID = re.compile(r"\b\d{8}T\d{12}Z-[0-9a-f]{6}\b")


def typed(heading, **instead):
    """The commands of a section, with what stands there for something of the reader's."""
    text = "\n".join(block.text for block in read_blocks(PAGE) if block.heading == heading)
    lines = re.findall(r"^(?:\$ )?colony-memory ([^|\n]*)", text, re.MULTILINE)
    assert lines
    for line in lines:
        words = shlex.split(line, comments=True)
        yield [instead.get("id", word) if _ID.fullmatch(word) else instead.get(word, word) for word in words]


@pytest.fixture
def place(tmp_path, monkeypatch, cli):
    """A host whose memory is saved in a vault that each command is told of."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("COLONY_MEMORY_VAULT", str(tmp_path / "vault"))
    monkeypatch.delenv("COLONY_API_KEY", raising=False)
    write(tmp_path / "memory", "what I know\n" * 100)
    assert cli("init", "--quiet", "vault")[0] == 0
    return tmp_path


def write(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "MEMORY.md").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("length", [20, None], ids=["seen by its size", "seen by reading alone"])
def test_damaged(place, cli, length):
    assert cli("backup", "--quiet", "memory")[0] == 0
    whole = tree(place / "memory")
    write(place / "memory", "what I know\n" * 100 + "and more")
    assert cli("backup", "--quiet", "memory")[0] == 0
    damaged = latest(place).snapshot_id
    (newest,) = (place / "vault").glob(f"**/*{damaged}.[kp]*")
    newest.write_text("x" * (length or newest.stat().st_size), encoding="utf-8")
    code, _, err = cli("restore", "memory-again")
    assert (code, "recover#damaged" in err) == (4, True)
    for words in typed("Damaged"):
        assert cli(*words)[0] == 0
    assert tree(place / "intact") == whole
    (place / "intact" / "NEW.md").write_text("since then", encoding="utf-8")
    code, _, err = cli("backup", "--quiet", "intact")
    assert (code, damaged in err) == (0, True)
    said = cli("status")[1]
    assert f"delete {damaged}" in said
    assert "--merge" not in err + said  # nothing can be merged with what is damaged
    assert cli("delete", damaged, "--yes")[0] == 0
    assert cli("status", "--max-age", "1h")[0] == 0


def latest(place):
    return ColonyMemory(backend=LocalVault(place / "vault")).latest()


def test_set_back_with_a_witness_and_without(place, cli):
    assert cli("backup", "--quiet", "memory")[0] == 0
    shutil.copytree(place / "vault", place / "older")
    old = latest(place).snapshot_id
    write(place / "memory", "what I know\n" * 100 + "and more")
    assert cli("backup", "--quiet", "memory")[0] == 0
    for words in typed("It is old"):
        assert cli(*words)[0] == 0
    shutil.rmtree(place / "vault")
    (place / "older").rename(place / "vault")
    out = cli("status")[1]
    assert out.startswith("protected")  # as the page says: nothing in the vault shows it
    code, _, err = cli("restore", "--witness", "seen.json", "elsewhere")
    assert (code, "recover#rolled-back" in err) == (4, True)
    code, out, _ = cli("verify", "--witness", "seen.json", "--json")
    assert (code, json.loads(out)["labels"][0]["rollback"]) == (4, "bad")
    for words in typed("Rolled back", id=old):
        assert cli(*words, "--witness", "seen.json")[0] == 0
    assert (place / "recovered-by-id" / "MEMORY.md").read_text() == "what I know\n" * 100
    code, _, err = cli("backup", "--witness", "seen.json", "recovered-by-id")
    assert (code, "warning: " in err) == (0, True)
    assert cli("restore", "--witness", "seen.json", "--quiet", "after")[0] == 0


def test_full(place, cli):
    for number in range(22):
        write(place / "memory", f"{number}\n" * 100)
        assert cli("backup", "--quiet", "memory")[0] == 0
    before = latest(place).snapshot_id
    for words in typed("Vault full"):
        assert cli(*words)[0] == 0
    memory = ColonyMemory(backend=LocalVault(place / "vault"))
    assert len(memory.list_snapshots(label="default")) == 20
    assert memory.latest().snapshot_id == before


def test_a_lost_key(place, cli):
    pytest.importorskip("cryptography")
    assert cli("keygen", "old.pem")[0] == 0
    assert cli("backup", "--quiet", "--key-file", "old.pem", "memory")[0] == 0
    whole = tree(place / "memory")
    (place / "old.pem").unlink()
    shown = cli("show", "latest", "--trust", latest(place).issuer)[1]
    key = re.search(r"did:key:\w+", shown)[0]
    shutil.rmtree(place / "memory")
    for words in typed("Lost key", **{"did:key:z6Mk…": key}):
        code, _, err = cli(*words)
        assert code == 0, err
        assert tree(place / "memory") == whole
    write(place / "memory", "signed anew")
    assert cli("backup", "--quiet", "--key-file", "new.pem", "--trust", key, "memory")[0] == 0
    assert latest(place).issuer != key


def test_encrypted(place, cli):
    pytest.importorskip("pyrage")
    shown = cli("keygen", "--age", "identity.txt")[1]
    recipient = re.search(r"age1\w+", shown)[0]
    assert cli("backup", "--quiet", "memory", "--encrypt-to", recipient, "--identity", "identity.txt")[0] == 0
    whole = tree(place / "memory")
    code, _, err = cli("restore", "elsewhere")
    assert (code, "recover#encrypted" in err) == (4, True)
    words = next(typed("Encrypted"))
    shutil.rmtree(place / "memory")
    assert cli(*words)[0] == 0
    assert tree(place / "memory") == whole


@pytest.mark.parametrize(
    ("code", "heading", "words"),
    [
        (3, "nothing-saved-yet", ["restore", "--label", "defualt", "elsewhere"]),
        (5, "no-vault", ["list", "--vault", "./vault-2"]),
    ],
)
def test_what_is_wrongly_named_is_said_with_the_part_that_helps(place, cli, code, heading, words):
    assert cli("backup", "--quiet", "memory")[0] == 0
    got, _, err = cli(*words)
    assert (got, f"recover#{heading}" in err or heading == "nothing-saved-yet") == (code, True)
    assert f"](#{heading})" in read(PAGE)
    if code == 3:
        assert "there is 'default'" in err


# --- not trusted: the three causes that the page names


def refused_as_untrusted(cli, *words):
    code, _, err = cli(*words)
    assert (code, "recover#not-trusted" in err) == (4, True)
    return err


@pytest.fixture
def key(place, cli):
    pytest.importorskip("cryptography")

    def make(name):
        return re.search(r"did:key:\w+", "".join(cli("keygen", name)[1:]))[0]

    return make


def test_what_is_older_than_signing_is_accepted_once(place, cli, key):
    assert cli("backup", "--quiet", "memory")[0] == 0
    key("agent.pem")
    err = refused_as_untrusted(cli, "restore", "--key-file", "agent.pem", "recovered")
    assert "older than signing" in err
    assert cli(*shlex.split(err.strip().rpartition("try: colony-memory ")[2]))[0] == 0
    assert tree(place / "recovered") == tree(place / "memory")
    assert cli("backup", "--quiet", "--key-file", "agent.pem", "memory")[0] == 0
    assert cli("restore", "--key-file", "agent.pem", "after")[0] == 0


def test_what_another_host_signed_is_read_by_the_key_that_this_host_says(place, cli, key):
    key("mine.pem")
    theirs = key("theirs.pem")
    assert cli("backup", "--quiet", "--key-file", "theirs.pem", "memory")[0] == 0
    assert theirs in refused_as_untrusted(cli, "restore", "--key-file", "mine.pem", "recovered")
    assert cli("restore", "--key-file", "mine.pem", "--trust", theirs, "recovered")[0] == 0
    assert tree(place / "recovered") == tree(place / "memory")


def test_what_somebody_wrote_is_told_from_what_is_trusted(place, cli, key):
    mine = key("mine.pem")
    strange = key("strange.pem")
    assert cli("backup", "--quiet", "--key-file", "mine.pem", "memory")[0] == 0
    whole, good = tree(place / "memory"), latest(place).snapshot_id
    write(place / "memory", "what a stranger says\n" * 100)
    assert cli("backup", "--quiet", "--key-file", "strange.pem", "memory")[0] == 0
    bad = latest(place).snapshot_id
    code, _, err = cli("restore", "recovered", "--trust", mine)
    assert (code, strange in err) == (0, True)  # passed over, and said
    assert tree(place / "recovered") == whole
    assert "`colony-memory verify`" in read(PAGE)
    code, out, _ = cli("verify", "--trust", mine)
    trusted = {line.split()[0]: line.split()[5] for line in out.splitlines() if line.startswith(("2", "id"))}
    assert (code, trusted) == (4, {"id": "trust", good: "ok", bad: "bad"})
    assert cli("restore", good, "by-id", "--trust", mine)[0] == 0
    assert tree(place / "by-id") == whole


# --- no answer: what stands in its table


def refused_without_an_answer(cli, *words):
    code, _, err = cli(*words)
    assert (code, "recover#no-answer" in err) == (5, True), err
    return err


@pytest.fixture
def hosted(place, cli, server, monkeypatch):
    """The same host, with its memory in the hosted vault."""
    monkeypatch.delenv("COLONY_MEMORY_VAULT")
    assert cli("backup", "--quiet", "memory")[0] == 0
    return server


def test_a_backup_that_got_no_answer_is_made_again(place, cli, hosted):
    write(place / "memory", "what I know\n" * 100 + "and more")
    hosted.fault("PUT", "applied", path="latest")
    hosted.fault("GET", "status", status=500, path="latest", skip=1, times=None)
    refused_without_an_answer(cli, "backup", "memory")
    hosted.heal()
    assert cli("backup", "--quiet", "memory")[0] == 0
    assert cli("restore", "--quiet", "recovered")[0] == 0
    assert tree(place / "recovered") == tree(place / "memory")


def test_a_wrong_key_says_nothing_of_what_is_stored(place, cli, hosted, monkeypatch):
    monkeypatch.setenv("COLONY_API_KEY", "col_wrong")
    assert "key" in refused_without_an_answer(cli, "restore", "recovered")
    monkeypatch.setenv("COLONY_API_KEY", "col_test")
    assert cli("restore", "--quiet", "recovered")[0] == 0


def test_too_little_karma_restores_and_saves_elsewhere(place, cli, hosted):
    hosted.vault.karma_ok = False
    write(place / "memory", "what I know\n" * 100 + "and more")
    refused_without_an_answer(cli, "backup", "memory")
    assert cli("restore", "--quiet", "recovered")[0] == 0
    assert cli("backup", "--quiet", "--vault", str(place / "vault"), "memory")[0] == 0


def test_the_limit_on_writes_stops_no_restore(place, cli, hosted):
    write(place / "memory", "what I know\n" * 100 + "and more")
    hosted.vault.operations_per_hour = 0
    assert re.search(r"\d+ ?(s|min|second|minute)", refused_without_an_answer(cli, "backup", "memory"))
    assert cli("restore", "--quiet", "recovered")[0] == 0


def test_a_redirect_is_no_answer_until_the_address_is_right(place, cli, hosted, monkeypatch):
    hosted.fault("GET", "status", status=302, times=None)
    assert "redirect" in refused_without_an_answer(cli, "restore", "recovered")
    hosted.heal()
    monkeypatch.setenv("COLONY_BASE_URL", hosted.url)
    assert cli("restore", "--quiet", "recovered")[0] == 0
