"""Signing, trusting and witnessing on the command line."""

import shlex
import shutil

import pytest

pytest.importorskip("cryptography")

from cli_runs import save

from colony_memory import ColonyMemory, Ed25519Signer

OURS, STRANGER = Ed25519Signer(bytes(range(32))), Ed25519Signer(bytes(range(1, 33)))


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key.pem"
    OURS.save(path)
    return path


def test_trust_by_the_environment_refuses_the_unsigned(cli, refused, vault, tmp_path, monkeypatch):
    save(vault, {"a.md": "x"})
    monkeypatch.setenv("COLONY_MEMORY_TRUST", f"{OURS.did_key},{STRANGER.did_key}")
    line = refused(4, "restore", tmp_path / "out")
    assert "--accept-unsigned" in line
    assert cli("restore", "--accept-unsigned", tmp_path / "out")[0] == 0
    code, out, _ = cli("verify")
    assert code == 4
    assert "label default: 0 of 1 snapshot good, pointer missing, rollback unchecked" in out.splitlines()
    out = cli("status")[1]
    assert out.startswith("not protected: no good backup")
    assert "mend it  colony-memory backup --on-conflict merge --key-file FILE " in out


def test_after_a_rollback_list_and_status_tell_how_to_get_what_is_left(cli, refused, folder, vault, tmp_path):
    pinned = ("--witness", tmp_path / "seen.json")
    assert cli("backup", folder, *pinned)[0] == 0
    assert cli("backup", folder, "--label", "other", *pinned)[0] == 0
    shutil.copytree(vault.path, tmp_path / "before")
    (folder / "MEMORY.md").write_text("more")
    assert cli("backup", folder, *pinned)[0] == 0
    assert cli("list", *pinned)[1].endswith("3 snapshots; * is the latest, which restore gives\n")
    shutil.rmtree(vault.path)
    shutil.copytree(tmp_path / "before", vault.path)
    left, other = ColonyMemory(backend=vault).list_snapshots(label="default") + ColonyMemory(
        backend=vault
    ).list_snapshots(label="other")

    code, out, err = cli("list", *pinned)
    assert code == 0
    assert "was rolled back" in err
    assert "colony-memory list" not in err
    assert f"* {other.snapshot_id}" in out
    assert f"* {left.snapshot_id}" not in out
    code, out, err = cli("list", "--label", "default", *pinned)
    *_, footer, told = out.splitlines()
    assert footer == "1 snapshot"
    restore = shlex.split(told.partition(" by its id: ")[2])
    assert restore[:4] == ["colony-memory", "restore", left.snapshot_id, "DIR"]
    assert cli(*restore[1:3], tmp_path / "out", *restore[4:])[0] == 0
    assert (tmp_path / "out" / "MEMORY.md").read_text() != "more"

    code, out, _ = cli("status", *pinned)
    assert out.startswith("at risk: last good backup")
    assert "latest refused" in out
    assert "broken" not in out
    assert shlex.split(out.partition("mend it  ")[2].splitlines()[0]) == restore


def test_a_rewrite_leaves_out_nothing_that_is_not_trusted_and_says_what_takes_it_along(cli, refused, vault, key):
    rewrite = ("rewrite", "--sign", "--key-file", key)
    save(vault, {"a.md": "x"})
    for way in ("--dry-run", "--yes"):
        assert refused(4, *rewrite, way).rstrip().endswith("--accept-unsigned")
    ColonyMemory(backend=vault, signer=STRANGER).backup({"a.md": "y"}, label="other")
    assert refused(4, *rewrite, "--label", "other", "--yes").rstrip().endswith("--trust DID")
    ColonyMemory(backend=vault, signer=OURS).backup({"a.md": "z"}, label="signed")
    assert cli(*rewrite, "--label", "signed", "--yes")[0] == 0
    for way in ("--dry-run", "--yes"):
        assert "label 'default'" in refused(4, *rewrite, way)  # what would be left out may hold the text
    assert cli(*rewrite, "--yes", "--accept-unsigned", "--trust", STRANGER.did_key)[0] == 0
    assert {info.issuer for info in ColonyMemory(backend=vault, signer=OURS).list_snapshots()} == {OURS.did_key}
    # What is older than signing is one's own, perhaps: it need not be deleted.
    ColonyMemory(backend=vault).backup({"a.md": "old"}, label="both")
    with pytest.warns(match="older than signing"):
        ColonyMemory(backend=vault, signer=OURS).backup({"a.md": "new"}, label="both")
    assert refused(4, *rewrite, "--yes").rstrip().endswith("--accept-unsigned")


@pytest.mark.parametrize(
    "verb", ["restore x", "show latest", "list", "list --label default", "verify", "status", "status --max-age 1h"]
)
def test_an_emptied_vault_is_told_by_all_that_have_a_witness_of_it(cli, refused, folder, vault, tmp_path, verb):
    pinned = ("--witness", tmp_path / "seen.json")
    assert cli("backup", folder, *pinned)[0] == 0
    for file in vault.path.glob("cmem.*"):
        file.unlink()
    code, out, err = cli(*verb.split(), *pinned)
    assert (code, "back up a folder that has" in out + err, "restore a snapshot" in err) == (4, True, False)
    assert (cli("backup", folder, *pinned)[0], cli(*verb.split(), *pinned)[0]) == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--key-file", "nowhere.pem"], "nowhere.pem"),
        (["--key-file", "empty.pem"], "empty.pem"),
        (["--trust", "z6Mk"], "'z6Mk' is not a did:key"),
        (["--witness", "."], "is a directory"),
    ],
)
def test_what_is_not_usable_is_code_2_and_one_line(refused, vault, tmp_path, arguments, says):
    (tmp_path / "empty.pem").write_bytes(b"")
    (tmp_path / "empty.pem").chmod(0o600)
    assert says in refused(2, "list", *arguments)


def test_without_the_extra_for_signatures_it_says_what_to_install(refused, vault, key, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    line = refused(1, "list", "--key-file", key)
    assert "colony-memory[sign]" in line
