import asyncio
import hashlib
import importlib.util
import json
import re
import warnings
from pathlib import Path

import pytest
from colony_sdk import ColonyNotFoundError

import colony_memory
from colony_memory import (
    AsyncColonyMemory,
    ColonyMemory,
    DecryptionError,
    Passphrase,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
)
from colony_memory._format.v2.zstd import is_installed

HERE = Path(__file__).parents[1]
REPOSITORY = HERE.parent
VECTORS = sorted((HERE / "vectors" / "v1").glob("*.json"))
CHAINS = sorted((HERE / "vectors" / "v2").glob("*.json")) if is_installed() else []
PAGES = sorted((HERE / "vectors" / "pages").glob("*.json"))
SHARED = REPOSITORY.parent / "shared" / "vectors" / "v1"
REFUSALS = {
    "not_found": SnapshotNotFound,
    "corrupt": SnapshotCorrupt,
    "unsupported": UnsupportedFormat,
    "untrusted": UntrustedSnapshot,
}
# Of format 2 alone.
ENCRYPTED = {"encrypted": DecryptionError}
CAN_VERIFY = importlib.util.find_spec("cryptography") is not None


def sdk_absence(filename):
    return ColonyNotFoundError(f"no such file: {filename}", 404, {}, "NOT_FOUND")


def bare_absence(filename):
    return RuntimeError("not found")


class SealedVault:
    """Holds a vector's files, and remembers every attempt to change them."""

    def __init__(self, files, absence):
        self._files = files
        self._absence = absence
        self.writes = []

    def vault_status(self):
        used = sum(len(content.encode("utf-8")) for content in self._files.values())
        quota = 10_000_000 if self._files else 0
        return {
            "quota_bytes": quota,
            "used_bytes": used,
            "available_bytes": max(0, quota - used),
            "file_count": len(self._files),
        }

    def vault_list_files(self):
        items = [
            {"filename": name, "content_size": len(content.encode("utf-8"))}
            for name, content in sorted(self._files.items())
        ]
        return {"items": items, "total": len(items), "next_cursor": None}

    def vault_get_file(self, filename):
        if filename not in self._files:
            raise self._absence(filename)
        return {"filename": filename, "content": self._files[filename]}

    def vault_upload_file(self, filename, content):
        self.writes.append(f"PUT {filename}")
        raise PermissionError("sealed")

    def vault_delete_file(self, filename):
        self.writes.append(f"DELETE {filename}")
        raise PermissionError("sealed")


def restore_sync(vault, options, call):
    return ColonyMemory(backend=vault, **options).restore(**call)


def restore_async(vault, options, call):
    async def run():
        return await AsyncColonyMemory(backend=vault, **options).restore(**call)

    return asyncio.run(run())


def digest(documents):
    canonical = json.dumps(documents, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def client_options(vector):
    """The constructor's arguments that the vector's request asks for; skips what cannot be asked for here."""
    request = vector["request"]
    options = {key: request[key] for key in ("trusted_issuers", "max_bytes") if request.get(key) is not None}
    keys = [*request.get("identities", ()), *map(Passphrase, filter(None, [request.get("passphrase")]))]
    if keys:
        pytest.importorskip("pyrage")
        options["identities"] = keys
    signed = any('"signature"' in content for content in vector["files"].values())
    if not CAN_VERIFY and (signed or options.get("trusted_issuers")):
        pytest.skip("a signature cannot be checked without the sign extra")
    return options


@pytest.mark.parametrize(
    ("restore", "absence"), [(restore_sync, sdk_absence), (restore_async, bare_absence)], ids=["sync-sdk", "async-bare"]
)
@pytest.mark.parametrize("path", VECTORS + CHAINS + PAGES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_vector(path, absence, restore):
    vector = json.loads(path.read_text(encoding="utf-8"))
    options = client_options(vector)
    vault = SealedVault(vector["files"], absence)
    call = {"label": vector["request"]["label"], "snapshot_id": vector["request"]["snapshot_id"]}
    with warnings.catch_warnings():
        # A reader may well warn where it had to work around something; any other warning stays an error.
        warnings.simplefilter("ignore", colony_memory.ColonyMemoryWarning)
        if vector["expect"] == "ok":
            documents = restore(vault, options, call)
            if "documents" in vector:
                assert documents == vector["documents"]
            else:
                assert digest(documents) == vector["documents_sha256"]
        else:
            refusal = (REFUSALS | ENCRYPTED)[vector["expect"]]
            with pytest.raises(refusal) as caught:
                restore(vault, options, call)
            if vector["expect"] == "corrupt":
                assert not isinstance(caught.value, UnsupportedFormat)
            assert str(caught.value)
    assert vault.writes == []


def test_every_vector_is_seen():
    assert len(VECTORS) == 54
    vectors = [json.loads(path.read_text(encoding="ascii")) for path in VECTORS]
    assert [vector["name"] for vector in vectors] == [path.stem for path in VECTORS]
    assert {vector["expect"] for vector in vectors} == {"ok", *REFUSALS}
    for vector in vectors:
        answers = {"documents", "documents_sha256"} & set(vector)
        assert len(answers) == (vector["expect"] == "ok"), vector["name"]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no shared vectors beside this checkout")
def test_vectors_are_the_shared_ones():
    assert {path.name for path in SHARED.glob("*.json")} == {path.name for path in VECTORS}
    for path in VECTORS:
        assert path.read_bytes() == (SHARED / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    "path", [path for path in CHAINS if path.stem.startswith("sealed")], ids=lambda path: path.stem
)
def test_a_vector_that_is_encrypted_has_a_verdict_without_a_key(path):
    vector = json.loads(path.read_text(encoding="ascii"))
    options = client_options(vector)
    options.pop("identities", None)
    request = {"label": vector["request"]["label"], "snapshot_id": vector["request"]["snapshot_id"]}
    with (
        warnings.catch_warnings(),
        pytest.raises((REFUSALS | ENCRYPTED)[vector.get("expect_without", vector["expect"])]),
    ):
        warnings.simplefilter("ignore", colony_memory.ColonyMemoryWarning)
        restore_sync(SealedVault(vector["files"], bare_absence), options, request)


@pytest.mark.skipif(not CHAINS, reason="needs zstd")
def test_every_answer_of_format_2_is_there_and_told():
    vectors = [json.loads(path.read_text(encoding="ascii")) for path in CHAINS]
    assert [vector["name"] for vector in vectors] == [path.stem for path in CHAINS]
    assert {vector["expect"] for vector in vectors} == {"ok", *REFUSALS, *ENCRYPTED} - {"not_found"}
    text = (REPOSITORY / "SNAPSHOT-FORMAT.md").read_text(encoding="utf-8")
    section = text[text.index("## 19. Format `colony-memory/2`") :]
    told = re.findall(r"`(\w+)`", section[section.index("| found | result | vectors |") :])
    assert sorted(told) == [path.stem for path in CHAINS]
