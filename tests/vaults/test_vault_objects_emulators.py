"""The same vault over servers that others wrote: moto for S3, Azurite for Azure.

Each lives in an environment of its own under ``.cache``, made once. For Google's store there is no server of this kind
that keeps etags and generations.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import pytest

pytest.importorskip("obstore")

from obstore.store import AzureStore, S3Store
from published.environments import CACHE, environment, keep_first, scratch

from colony_memory import ColonyMemory, ConflictDetected, open_vault
from colony_memory.exceptions import VaultDenied, VaultMissing
from colony_memory.testing import UnmadeVaultTests, VaultBackendTests
from colony_memory.vaults.objects import ObjectVault

pytestmark = [pytest.mark.long, pytest.mark.network]

NOTES = {"MEMORY.md": "two years of notes"}
AZURITE = "azurite@3.37.0"
# One request at a time: of two on a condition that meet, its own threads let both through.
_MOTO = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(bytes(64)).decode()


def _serve(command, port, tmp, **extra):
    """Start a server and wait until its port is open."""
    with (tmp / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp, stdout=log, stderr=log, env={**os.environ, **extra})
    while True:
        assert process.poll() is None, (tmp / "log").read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _stop(process):
    process.kill()
    process.wait()


def _request(port, method, path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, path, headers={"Content-Length": "0", **headers})
    status = connection.getresponse().status
    connection.close()
    assert status in {200, 201}, status


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A way to open a new bucket of moto's S3; without a name, one that is not there."""
    python = environment("moto", ("moto[server]>=5,<6",))
    port = _free_port()
    process = _serve([python, "-c", _MOTO, str(port)], port, tmp_path_factory.mktemp("moto"))

    def open_(bucket="", **config):
        if bucket:
            _request(port, "PUT", f"/{bucket}")
        settings = {"endpoint": f"http://127.0.0.1:{port}", "access_key_id": "a", "secret_access_key": "b"}
        options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 5}}
        return S3Store(bucket or "not-there", prefix="agents/a", region="us-east-1", **settings, **options, **config)

    open_.port = port
    yield open_
    _stop(process)


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    """A way to open a new container of Azurite; without a name, one that is not there."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm is missing")
    place = CACHE / AZURITE.replace("@", "-")
    if not place.is_dir():
        with scratch() as making:
            options = ("--no-audit", "--no-fund", "--silent", "--ignore-scripts")
            subprocess.run([npm, "install", *options, "--prefix", making / "it", AZURITE], check=True)
            keep_first(making / "it", place)
    port, tmp = _free_port(), tmp_path_factory.mktemp("azurite")
    script = place / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    flags = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location", str(tmp)]
    process = _serve(
        [node, script, "--blobHost", "127.0.0.1", "--blobPort", str(port), *flags],
        port,
        tmp,
        AZURITE_ACCOUNTS=f"{ACCOUNT}:{ACCOUNT_KEY}",
    )

    def open_(container="", key=ACCOUNT_KEY):
        if container:
            _make_container(port, container)
        return AzureStore(
            container or "not-there",
            prefix="agents/a",
            account_name=ACCOUNT,
            account_key=key,
            endpoint=f"http://127.0.0.1:{port}/{ACCOUNT}",
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )

    yield open_
    _stop(process)


def _make_container(port, name):
    date, version = f"{datetime.now(timezone.utc):%a, %d %b %Y %H:%M:%S} GMT", "2021-08-06"
    signed = (
        "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    )
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
    }
    _request(port, "PUT", f"/{ACCOUNT}/{name}?restype=container", **headers)


@functools.cache
def _number():
    return iter(range(10**6))


@pytest.fixture
def fresh():
    """A name that no bucket has yet."""
    return f"bucket-{next(_number())}"


class TestS3(VaultBackendTests):
    @pytest.fixture
    def vault(self, s3, fresh):
        return ObjectVault(s3(fresh), create=True)


class TestNoneInS3(UnmadeVaultTests):
    @pytest.fixture(params=["bucket", "no bucket"])
    def unmade(self, s3, fresh, request):
        return ObjectVault(s3(fresh if request.param == "bucket" else ""))


class TestAzure(VaultBackendTests):
    @pytest.fixture
    def vault(self, azure, fresh):
        return ObjectVault(azure(fresh), create=True)


class TestNoneInAzure(UnmadeVaultTests):
    @pytest.fixture(params=["container", "no container"])
    def unmade(self, azure, fresh, request):
        return ObjectVault(azure(fresh if request.param == "container" else ""))


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_the_verbs(request, kind, fresh):
    store = request.getfixturevalue(kind)(fresh)
    one = ColonyMemory(backend=ObjectVault(store, create=True))
    two = ColonyMemory(backend=ObjectVault(store))
    one.backup(NOTES)
    assert two.restore() == NOTES
    for number in range(4):
        one.backup({"a.md": str(number)}, prune_keep=2)
    with pytest.raises(ConflictDetected):
        two.backup({"a.md": "theirs"})
    assert one.restore() == {"a.md": "3"}
    assert one.verify()


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_more_keys_than_a_page(request, kind, fresh):
    vault = ObjectVault(request.getfixturevalue(kind)(fresh), create=True)
    names = {f"cmem.default.x.p{number}.json" for number in range(1100)}
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: vault.vault_upload_file(name, ""), names))
    assert {item["filename"] for item in vault.vault_list_prefix("cmem.default.")["items"]} == names


def test_a_versioned_bucket(s3, fresh):
    """Its states are known by e_tag and version, and a deleted object is gone."""
    store = s3(fresh)
    body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    connection = http.client.HTTPConnection("127.0.0.1", s3.port)
    connection.request("PUT", f"/{fresh}?versioning", body)
    assert connection.getresponse().status == 200
    connection.close()
    vault = ObjectVault(store, create=True)
    assert store.put("x", b"1")["version"]
    suite = VaultBackendTests()
    store.delete("x")
    suite.test_conditional_upload_on_the_etag(vault)
    vault.vault_delete_file("pointer.json")
    suite.test_delete_is_final(vault)


def test_wrong_credentials(azure, fresh):
    ObjectVault(azure(fresh), create=True)
    wrong = ObjectVault(AzureStore(**_settings(azure(), fresh), account_key=base64.b64encode(b"x" * 64).decode()))
    with pytest.raises(VaultDenied):
        ColonyMemory(backend=wrong).restore(default={})


def _settings(store, container):
    settings = {name: value for name, value in store.config.items() if name not in {"account_key", "container_name"}}
    options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    return {"container_name": container, "prefix": "agents/a", **settings, **options}


def test_by_url(s3, fresh, monkeypatch):
    s3(fresh)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3.port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(VaultMissing):
        ColonyMemory(backend=open_vault(f"s3://{fresh}/x")).restore(default={})
    ColonyMemory(backend=open_vault(f"s3://{fresh}/x", create=True)).backup(NOTES)
    assert ColonyMemory(backend=open_vault(f"s3://{fresh}/x/")).restore() == NOTES
