"""A stand-in of huggingface_hub's interface, and the vault over it put to the test; run where that is installed."""

import inspect
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RemoteEntryNotFoundError, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "recipes"))

from hugging_face_vault import DatasetVault

from colony_memory import ColonyMemory, ColonyMemoryError, SnapshotNotFound
from colony_memory.testing import VaultBackendTests

REPOSITORY = "me/memory"


def answer(kind, status):
    """An error as the Hub's client raises it."""
    try:
        import httpx2 as httpx  # which the client uses from 2.0 on
    except ImportError:
        import httpx

    request = httpx.Request("GET", "https://hub.invalid")
    return kind(f"{status}", response=httpx.Response(status, request=request))


class Hub:
    """One dataset, whose every write is a commit."""

    def __init__(self):
        self.commits = [{}]
        self.lock = threading.Lock()
        self.fault = None

    def _at(self, repo_id, repo_type, revision=None):
        if self.fault is not None:
            raise self.fault
        if (repo_id, repo_type) != (REPOSITORY, "dataset"):
            raise answer(RepositoryNotFoundError, 404)
        return self.commits[-1 if revision is None else int(revision)]

    def repo_info(self, repo_id, *, repo_type=None):
        with self.lock:
            self._at(repo_id, repo_type)
            return SimpleNamespace(sha=str(len(self.commits) - 1))

    def get_paths_info(self, repo_id, paths, *, revision=None, repo_type=None):
        with self.lock:
            there = self._at(repo_id, repo_type, revision)
            return [self._file(path, there[path]) for path in paths if path in there]

    def list_repo_tree(self, repo_id, path_in_repo=None, *, expand=False, repo_type=None):
        with self.lock:
            there = self._at(repo_id, repo_type)
            found = [self._file(p, c) for p, c in there.items() if p.startswith(f"{path_in_repo}/")]
            if not found:
                raise answer(RemoteEntryNotFoundError, 404)
        yield from found

    def hf_hub_download(self, repo_id, filename, *, repo_type=None, revision=None, local_dir=None):
        with self.lock:
            there = self._at(repo_id, repo_type, revision)
            if filename not in there:
                raise answer(RemoteEntryNotFoundError, 404)
            target = Path(local_dir, filename)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(there[filename][0])
            return str(target)

    def upload_file(self, *, path_or_fileobj, path_in_repo, repo_id, repo_type=None, commit_message=None):
        with self.lock:
            there = self._at(repo_id, repo_type)
            self.commits.append({**there, path_in_repo: (path_or_fileobj, datetime.now(timezone.utc))})

    def delete_file(self, path_in_repo, repo_id, *, repo_type=None, commit_message=None):
        with self.lock:
            there = self._at(repo_id, repo_type)
            if path_in_repo not in there:
                raise answer(RemoteEntryNotFoundError, 404)
            self.commits.append({path: content for path, content in there.items() if path != path_in_repo})

    @staticmethod
    def _file(path, stored):
        data, at = stored
        last = {"id": "0", "title": "", "date": at.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        return RepoFile(path=path, size=len(data), oid="0", lastCommit=last)


@pytest.mark.parametrize("name", [name for name in vars(Hub) if not name.startswith("_")])
def test_the_stand_in_takes_what_the_real_one_takes(name):
    real, ours = (inspect.signature(getattr(kind, name)).parameters for kind in (HfApi, Hub))
    for parameter in ours.values():
        assert parameter.name in real
        assert parameter.kind == real[parameter.name].kind or parameter.kind.name == "KEYWORD_ONLY", parameter


class TestDatasetVault(VaultBackendTests):
    @pytest.fixture
    def vault(self):
        return DatasetVault(Hub(), REPOSITORY)


def test_memory_in_a_dataset():
    hub = Hub()
    ColonyMemory(backend=DatasetVault(hub, REPOSITORY)).backup({"MEMORY.md": "two years of notes"})
    assert all(path.startswith("vault/cmem.default.") for path in hub.commits[-1])
    assert ColonyMemory(backend=DatasetVault(hub, REPOSITORY)).restore() == {"MEMORY.md": "two years of notes"}


@pytest.mark.parametrize(
    "fault", [answer(RepositoryNotFoundError, 404), answer(HfHubHTTPError, 401), answer(HfHubHTTPError, 503)]
)
def test_no_fault_is_a_first_start(fault):
    hub = Hub()
    assert ColonyMemory(backend=DatasetVault(hub, REPOSITORY)).restore(default=None) is None
    hub.fault = fault
    with pytest.raises(ColonyMemoryError) as raised:
        ColonyMemory(backend=DatasetVault(hub, REPOSITORY)).restore(default=None)
    assert not isinstance(raised.value, SnapshotNotFound)
    hub.fault = None
    with pytest.raises(ColonyMemoryError) as raised:
        ColonyMemory(backend=DatasetVault(hub, "me/misspelt")).restore(default=None)
    assert not isinstance(raised.value, SnapshotNotFound)
