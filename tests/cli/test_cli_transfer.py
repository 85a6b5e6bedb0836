"""export, import and copy on the command line."""

import io
import json
import subprocess
import sys

import cli_runs
import pytest
from cli_runs import POSIX, damage, process, save, tree

from colony_memory import ColonyMemory, Ed25519Signer
from colony_memory.transfer import load_export
from colony_memory.vaults.local import LocalVault

vault = cli_runs.vault_of_1
NOTES = {"MEMORY.md": "two years of notes"}


def made(path):
    """A directory that is a vault now."""
    LocalVault(path, create=True)
    return path


# --- export and import


def test_a_snapshot_goes_through_a_file(cli, vault, tmp_path):
    save(vault, {"a": "older"}, label="research")
    info = save(vault, NOTES, label="research")
    code, out, err = cli("export", "latest", "research.json", "--label", "research")
    assert (code, err) == (0, "")
    assert out.startswith(f"exported snapshot {info.snapshot_id} of label research, made ")
    assert out.endswith(" to research.json\n")
    assert load_export("research.json").snapshot_id == info.snapshot_id
    named = f"snapshot {info.snapshot_id} of label research"
    code, out, _ = cli("import", "--dry-run", "--vault", made(tmp_path / "other"), "research.json")
    assert (code, out.startswith(f"would import {named}, "), out.endswith("; nothing written\n")) == (0, True, True)
    code, out, err = cli("import", "--vault", tmp_path / "other", "research.json")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"imported snapshot {info.snapshot_id} of label research, ")
    assert second == "it is the latest of its label"
    assert ColonyMemory(backend=LocalVault(tmp_path / "other")).restore(label="research") == NOTES
    code, out, err = cli("import", "--vault", tmp_path / "other", "research.json")
    assert out.splitlines()[0] == f"snapshot {info.snapshot_id} of label research was there already; nothing written"


def test_through_a_pipe(vault, tmp_path):
    save(vault, NOTES)
    done = process("export", "latest", "-")
    assert done.returncode == 0
    assert json.loads(done.stdout)["label"] == "default"
    assert done.stderr.startswith("exported snapshot ")
    taken = subprocess.run(
        [sys.executable, "-m", "colony_memory", "import", "--vault", str(made(tmp_path / "other")), "-"],
        input=done.stdout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (taken.returncode, taken.stderr) == (0, "")
    assert ColonyMemory(backend=LocalVault(tmp_path / "other")).restore() == NOTES


@POSIX
def test_a_file_that_is_there_stays(cli, refused, vault, tmp_path):
    save(vault, NOTES)
    (tmp_path / "precious.json").write_text("precious")
    assert "already exists" in refused(1, "export", "latest", "precious.json")
    assert (tmp_path / "precious.json").read_text() == "precious"
    assert cli("export", "latest", "precious.json", "--force")[0] == 0
    assert (tmp_path / "precious.json").stat().st_mode & 0o777 == 0o600


def test_bad_export(refused, vault, tmp_path):
    assert "nothing is saved yet" in refused(3, "export", "latest", "a.json")
    info = save(vault, NOTES)
    assert "begins with '1999'" in refused(3, "export", "1999", "a.json")
    assert "an empty path" in refused(2, "export", "latest", "")
    assert "--json and -" in refused(2, "export", "latest", "-", "--json")
    assert "cannot be written: No such file" in refused(1, "export", "latest", "no/such/a.json")
    damage(vault, info)
    assert info.snapshot_id in refused(4, "export", "latest", "a.json")
    assert [path.name for path in tmp_path.iterdir()] == ["vault"]


def test_bad_import(refused, vault, tmp_path, monkeypatch):
    save(vault, NOTES, label="research")
    before = tree(vault.path)
    assert "'missing.json': no such file" in refused(2, "import", "missing.json")
    assert "a directory, not a plain file" in refused(1, "import", ".")
    assert "an empty path" in refused(2, "import", "")
    (tmp_path / "note.json").write_text("{}")
    assert "note.json: not an exported snapshot" in refused(4, "import", "note.json")
    assert process("export", "latest", "a.json", "--label", "research").returncode == 0
    assert "restore it, and back that up under 'home'" in refused(2, "import", "a.json", "--label", "home")
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace("H4sI", "AAAA"))
    assert "a.json" not in refused(4, "import", "a.json")
    assert tree(vault.path) == before
    monkeypatch.setattr(sys, "stdin", None)
    assert "no standard input" in refused(1, "import", "-")

    class Closed(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, _):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Closed())))
    assert "standard input cannot be read: Input/output error" in refused(1, "import", "-")


# --- verify


def test_a_file_is_verified_without_a_vault(cli, refused, vault, tmp_path, monkeypatch):
    info = save(vault, NOTES, label="research")
    assert cli("export", "latest", "a.json", "--label", "research")[0] == 0
    monkeypatch.delenv("COLONY_MEMORY_VAULT")
    code, out, err = cli("verify", "a.json")
    assert (code, err) == (0, "")
    assert info.snapshot_id in out
    code, out, err = cli("verify", "./a.json", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["labels"][0]["label"]) == (0, True, "research")
    (check,) = told["labels"][0]["snapshots"]
    assert (check["snapshot_id"], check["manifest"], check["parts"], check["digest"]) == (info.snapshot_id, *["ok"] * 3)
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace("H4sI", "AAAA"))
    code, out, _ = cli("verify", "a.json", "--json")
    assert (code, json.loads(out)["labels"][0]["snapshots"][0]["digest"]) == (4, "bad")
    (tmp_path / "a.json").write_text(text[:-9])
    assert "a.json: not an exported snapshot" in refused(4, "verify", "a.json")
    assert "'b.json': no such file" in refused(2, "verify", "b.json")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli("verify", "-", "--quiet") == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "vault"]


def test_a_file_is_verified_against_a_signer(cli, vault):
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    ColonyMemory(backend=vault, signer=signer).backup(NOTES)
    assert cli("export", "latest", "a.json", "--trust", signer.did_key)[0] == 0
    assert cli("verify", "a.json", "--trust", signer.did_key, "--quiet") == (0, "", "")
    assert cli("verify", "a.json", "--trust", Ed25519Signer(bytes(32)).did_key)[0] == 4
    save(vault, {"a": "not signed"}, label="open")
    assert cli("export", "latest", "b.json", "--label", "open")[0] == 0
    assert cli("verify", "b.json", "--trust", signer.did_key)[0] == 4


# --- copy


def test_a_vault_is_copied(cli, vault, tmp_path):
    save(vault, {"a": "older"})
    newest = save(vault, NOTES)
    save(vault, {"b": "c"}, label="research")
    made(tmp_path / "other")
    code, out, _ = cli("copy", "-n", "--to", tmp_path / "other")
    assert (code, out.startswith("would copy "), out.endswith("\nnothing written\n")) == (0, True, True)
    code, out, err = cli("copy", "--to", tmp_path / "other")
    assert (code, err) == (0, "")
    first, *latest = out.splitlines()
    assert first.startswith(f"copied 3 snapshots to the vault {tmp_path / 'other'}, ")
    assert first.endswith("; 0 there already")
    assert latest[0] == f"latest of label default: {newest.snapshot_id}"
    assert {
        name: data for name, data in tree(tmp_path / "other").items() if "latest" not in name and name[0] != "."
    } == {name: data for name, data in tree(vault.path).items() if "latest" not in name and name[0] != "."}
    code, out, err = cli("copy", "--from", tmp_path / "other", "--json")
    told = json.loads(out)
    assert (code, err, told["copied"], len(told["already"]), told["left_out"]) == (0, "", [], 3, [])
    assert told["from"] == str(tmp_path / "other")
    assert told["latest"]["default"] == newest.snapshot_id
    code, out, err = cli("copy", "--to", made(tmp_path / "third"), "--label", "research", "--quiet")
    assert (code, out, err) == (0, "", "")
    assert [info.label for info in ColonyMemory(backend=LocalVault(tmp_path / "third")).list_snapshots()] == [
        "research"
    ]


def test_no_variable_keeps_labels_out_of_a_copy_or_a_secret_in_them(cli, vault, tmp_path, monkeypatch):
    labels = ("default", "research")
    for label in labels:
        save(vault, {"a.md": "the word", "b.md": "more"}, label=label)
    monkeypatch.setenv("COLONY_MEMORY_LABEL", "default")
    other = LocalVault(made(tmp_path / "other"))
    assert cli("copy", "--to", other.path)[0] == 0
    assert [ColonyMemory(backend=other).restore(label=label)["b.md"] for label in labels] == ["more", "more"]
    assert cli("rewrite", "--exclude", "a.md", "--yes")[0] == 0
    assert [[*ColonyMemory(backend=vault).restore(label=label)] for label in labels] == [["b.md"], ["b.md"]]
    cli("export", "latest", "research.json", "--label", "research")
    assert cli("import", "research.json")[0] == 0


def test_what_is_left_out_is_named(cli, vault, tmp_path):
    broken = save(vault, {"a": "older"})
    save(vault, NOTES)
    damage(vault, broken)
    code, out, err = cli("copy", "--to", made(tmp_path / "other"))
    assert code == 1
    assert "0 there already, 1 left out" in out
    assert err.startswith(f"left out: cmem.default.{broken.snapshot_id}.manifest.json: ")
    code, out, err = cli("copy", "--to", tmp_path / "other", "--json")
    assert (code, json.loads(out)["left_out"][0]["name"].split(".")[2]) == (1, broken.snapshot_id)
    assert json.loads(err)["warning"].startswith("left out: ")


def test_bad_copy(refused, vault, server, tmp_path):
    assert "give --from, --to" in refused(2, "copy")
    assert "no snapshot to copy" in refused(3, "copy", "--to", made(tmp_path / "other"))
    save(vault, NOTES)
    assert "nothing is saved yet under label 'home'; there is 'default', in the vault " in refused(
        3, "copy", "--to", tmp_path / "other", "--label", "home"
    )
    for url in (vault.path, tmp_path / "x" / ".." / "vault", f"file://{vault.path}"):
        assert "are the same vault" in refused(2, "copy", "--to", url)
    assert "not a kind of vault" in refused(2, "copy", "--to", "ftp:x")
    assert "are the same vault" in refused(2, "copy", "--from", "colony:", "--to", "colony:/")


def test_a_signed_label_is_signed_there_too(cli, vault, tmp_path):
    pytest.importorskip("cryptography")
    signer = Ed25519Signer(bytes(range(32)))
    signer.save(tmp_path / "key")
    ColonyMemory(backend=vault, signer=signer).backup(NOTES)
    for target, options in (("one", []), ("two", ["--key-file", "key", "--witness", "witness.json"])):
        code, _, err = cli("copy", "--to", made(tmp_path / target), *options)
        assert (code, err) == (0, "")
        there = ColonyMemory(backend=LocalVault(tmp_path / target), trusted_issuers=signer.did_key)
        assert there.restore() == NOTES
        assert there.verify()
    # The witness is that of the vault that was copied from.
    assert cli("verify", "--key-file", "key", "--witness", "witness.json")[0] == 0
