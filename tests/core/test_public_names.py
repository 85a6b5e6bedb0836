import importlib
import inspect
import json
import runpy
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import colony_memory

PUBLIC = [
    "FORMAT",
    "AsyncColonyMemory",
    "AsyncVaultBackend",
    "BackupUncertain",
    "Change",
    "ColonyMemory",
    "ColonyMemoryError",
    "ColonyMemoryWarning",
    "ConflictDetected",
    "DecryptionError",
    "Ed25519Signer",
    "Event",
    "FileWitness",
    "Hint",
    "LifecycleEvent",
    "Merged",
    "Passphrase",
    "PruneIncomplete",
    "PrunePlan",
    "QuotaExceeded",
    "RateLimited",
    "Retention",
    "RollbackDetected",
    "SearchReport",
    "SecretsFound",
    "Signer",
    "SnapshotCorrupt",
    "SnapshotDiff",
    "SnapshotInfo",
    "SnapshotNotFound",
    "UnsupportedFormat",
    "UntrustedSnapshot",
    "VaultBackend",
    "VaultDenied",
    "VaultError",
    "VaultMap",
    "VaultMissing",
    "VaultUnavailable",
    "VerifyReport",
    "Witness",
    "__version__",
    "guard",
    "open_vault",
    "restore_folder",
    "save_folder",
    "save_paths",
]
#: What 0.1.1 offered.
PUBLISHED = {
    "FORMAT",
    "ColonyMemory",
    "ColonyMemoryError",
    "Ed25519Signer",
    "QuotaExceeded",
    "SnapshotNotFound",
    "SnapshotInfo",
    "__version__",
}
HEAVY = {
    "deflate",
    "asyncio",
    "backports",
    "colony_sdk",
    "concurrent.futures",
    "cryptography",
    "httpx",
    "logging",
    "obstore",
    "pyrage",
    "ssl",
    "click",
    "urllib.request",
}


def fresh(code):
    """What a new interpreter prints, with no site customisation of this one in the way."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_public_names_are_pinned_and_sorted():
    assert colony_memory.__all__ == PUBLIC
    constants = [name for name in PUBLIC if name.isupper()]
    rest = [name for name in PUBLIC if not name.isupper()]
    assert [*sorted(constants), *sorted(rest)] == PUBLIC
    assert set(PUBLIC) >= PUBLISHED


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_resolves_and_is_documented(name):
    value = getattr(colony_memory, name)
    if not isinstance(value, str):
        assert inspect.getdoc(value)
        assert value.__module__.startswith("colony_memory.")


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'colony_memory' has no attribute 'Snapshots'"):
        colony_memory.Snapshots  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Snapshots'"):
        exec("from colony_memory import Snapshots")


def test_names_that_are_loaded_late_are_the_ones_of_their_module():
    assert set(colony_memory._LATE) < set(PUBLIC)
    for name, module in colony_memory._LATE.items():
        assert getattr(colony_memory, name) is getattr(importlib.import_module(f"colony_memory.{module}"), name)


def test_a_client_is_made_without_loading_what_is_heavy():
    code = """
import sys, json
bare = set(sys.modules)
import colony_memory
from colony_memory import ColonyMemory, AsyncColonyMemory, Ed25519Signer, SnapshotInfo, open_vault
print(json.dumps(sorted(set(sys.modules) - bare)))
"""
    loaded = set(json.loads(fresh(code)))
    assert {"colony_memory", "colony_memory.client", "colony_memory.snapshot"} <= loaded
    assert {name for name in loaded if name in HEAVY or name.partition(".")[0] in HEAVY} == set()
    assert not loaded & {f"colony_memory.{module}" for module in ("app", "testing", "cli", "capture", "vaults.colony")}


def test_submodules_are_there_right_after_the_import():
    code = """
import colony_memory
assert colony_memory.snapshot.sanitize_label("A b") == "a-b"
assert colony_memory.client.ColonyMemory is colony_memory.ColonyMemory
assert colony_memory.client.VaultBackend is colony_memory.VaultBackend
assert colony_memory.exceptions.SnapshotNotFound is colony_memory.SnapshotNotFound
assert colony_memory.signing.Ed25519Signer is colony_memory.Ed25519Signer
from colony_memory import snapshot as snap
from colony_memory.client import ColonyMemory, VaultBackend
from colony_memory.exceptions import ColonyMemoryError, QuotaExceeded, SnapshotNotFound
from colony_memory.snapshot import FORMAT, LATEST_FORMAT, PART_CHARS, BuiltSnapshot, SnapshotInfo, build, parse
from colony_memory.snapshot import info_from_manifest, is_cortex_file, latest_filename, manifest_filename
from colony_memory.snapshot import part_filename, sanitize_label
print("all there")
"""
    assert fresh(code) == "all there\n"


def test_the_version_is_the_one_of_the_distribution():
    version = importlib.import_module("colony_memory._version").__version__
    assert colony_memory.__version__ == version
    major, minor = map(int, version.split(".")[:2])
    # The published plugin asks for colony-memory>=0.1.1,<1.
    assert (major, minor) >= (0, 2)
    assert major < 1


def test_the_format_is_the_one_in_the_field():
    assert colony_memory.FORMAT == "colony-memory/1"


def test_fields_of_a_snapshot_info():
    nothing = MISSING
    assert [(field.name, field.default) for field in fields(colony_memory.SnapshotInfo)] == [
        ("snapshot_id", nothing),
        ("label", nothing),
        ("created_at", nothing),
        ("doc_names", nothing),
        ("part_count", nothing),
        ("byte_size", nothing),
        ("plaintext_sha256", nothing),
        ("signed", False),
        ("issuer", None),
        ("format", "colony-memory/1"),
        ("stored_bytes", 0),
        ("parent_id", None),
        ("reused", False),
        ("head", ""),
        ("encrypted", False),
        ("diverged_from", None),
        ("note", None),
        ("pinned", False),
        ("incomplete", ()),
        ("merged", ()),
        ("tags", ()),
        ("shrunk_from", None),
        ("doc_count", None),
        ("origin", None),
        ("based_on", None),
        ("refused", False),
        ("rewrites", None),
        ("pinned_until", None),
    ]
    assert colony_memory.SnapshotInfo.__dataclass_params__.frozen


def test_the_package_says_that_it_is_typed():
    assert (Path(colony_memory.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "typing").glob("*.py")), ids=lambda path: path.stem
)
def test_what_is_type_checked_can_be_imported(path):
    assert runpy.run_path(str(path))


PROGRAMS = Path(__file__).parents[1] / "typing" / "programs"
NEEDS = {"keys": ("cryptography", "pyrage")}


@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    for name in NEEDS.get(path.stem, ()):
        pytest.importorskip(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLONY_SDK_NO_TOKEN_CACHE", "1")
    assert runpy.run_path(str(path), run_name="__main__")


def test_what_must_not_pass_names_the_error_of_each_checker():
    lines = (PROGRAMS / "refused.py").read_text(encoding="utf-8").splitlines()
    wrong = [line for line in lines if "ignore[" in line]
    assert len(wrong) > 40
    assert [line for line in wrong if line.count("# type: ignore[") != 1 or line.count("# pyright: ignore[") != 1] == []
