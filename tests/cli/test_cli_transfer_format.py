"""copy and import of snapshots of format 2, and --format."""

from __future__ import annotations

import json

import needs_zstd  # noqa: F401 - skips this module where there is none
import pytest
from cli_runs import cli, environment, folder, refused, vault

from colony_memory import ColonyMemory, Ed25519Signer
from colony_memory.vaults.local import LocalVault

__all__ = ["cli", "environment", "folder", "refused", "vault"]


def made(path):
    LocalVault(path, create=True)
    return path


def formats(path):
    return [info.format[-1] for info in ColonyMemory(backend=LocalVault(path)).list_snapshots()]


def saved(vault, **options):
    mem = ColonyMemory(backend=vault, format=2, **options)
    return [mem.backup({"a": f"text {n}", "b": "the same"}).snapshot_id for n in range(3)]


def test_chains_are_copied_as_they_are_or_converted(cli, vault, tmp_path):
    ids = saved(vault)
    assert cli("copy", "--to", made(tmp_path / "same"))[0] == 0
    assert formats(tmp_path / "same") == ["2"] * 3
    code, out, err = cli("copy", "--to", made(tmp_path / "one"), "--format", "1")
    assert (code, err) == (0, "")
    assert out.startswith("copied 3 snapshots to ")
    assert formats(tmp_path / "one") == ["1"] * 3
    code, out, _ = cli("copy", "--from", tmp_path / "one", "--to", made(tmp_path / "two"), "--format", "2", "--json")
    assert (code, [each["snapshot_id"] for each in json.loads(out)["copied"]]) == (0, ids)
    assert formats(tmp_path / "two") == ["2"] * 3


def test_an_export_of_a_chain_is_imported(cli, vault, tmp_path):
    saved(vault)
    assert cli("export", "latest", "chain.json")[0] == 0
    for number, args in (("2", ()), ("1", ("--format", "1"))):
        assert cli("import", "--vault", made(tmp_path / number), "chain.json", *args)[0] == 0
        assert formats(tmp_path / number) == [number]


def test_what_was_signed_is_converted_with_a_key(cli, vault, tmp_path):
    pytest.importorskip("cryptography")
    signer = Ed25519Signer.generate()
    signer.save(tmp_path / "key")
    saved(vault, signer=signer)
    code, _, err = cli("copy", "--to", made(tmp_path / "one"), "--format", "1")
    assert code == 1
    assert "converting it takes a signer" in err
    assert cli("copy", "--to", tmp_path / "one", "--format", "1", "--key-file", tmp_path / "key")[0] == 0
    assert ColonyMemory(backend=LocalVault(tmp_path / "one"), trusted_issuers=signer.did_key).verify()


@pytest.mark.parametrize("verb", [("copy", "--to", "elsewhere"), ("import", "file.json")])
def test_another_word_is_refused(refused, vault, verb):
    assert "1" in refused(2, *verb, "--format", "3")
