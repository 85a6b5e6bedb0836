"""The same vault over servers that others wrote: moto for S3, Azurite for Azure.

Each lives in an environment of its own under ``.cache``, made once. For Google's store there is no server of this kind
that keeps etags and generations.
"""

import base64
import functools
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import time
from datetime import datetime, timezone
from urllib.parse import urlencode

import pytest

pytest.importorskip("obstore")

from documentation_pages import ROOT
from obstore.store import AzureStore, S3Store
from published.environments import CACHE, environment, keep_first, scratch
from unmade import UnmadeVaultTests

from colony_memory import ColonyMemory, ColonyMemoryWarning, ConflictDetected
from colony_memory.exceptions import VaultDenied
from colony_memory.testing import VaultBackendTests
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
# A user for each policy, and from then on nothing that no policy allows.
_USERS = """
import json, sys, urllib.request
import boto3
address, policies = sys.argv[1], json.loads(sys.argv[2])
session = boto3.Session("a", "b", region_name="us-east-1")
iam = session.client("iam", endpoint_url=address)
keys = []
for number, policy in enumerate(policies):
    iam.create_user(UserName=f"user-{number}")
    iam.put_user_policy(UserName=f"user-{number}", PolicyName="p", PolicyDocument=json.dumps(policy))
    made = iam.create_access_key(UserName=f"user-{number}")["AccessKey"]
    keys.append((made["AccessKeyId"], made["SecretAccessKey"]))
print(json.dumps(keys))
"""
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(bytes(64)).decode()


def _serve(command, port, tmp, **extra):
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
    open_.python = python
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

    def open_(container="", **credentials):
        if container and not credentials:
            _make_container(port, container)
        return AzureStore(
            container or "not-there",
            prefix="agents/a",
            account_name=ACCOUNT,
            **(credentials or {"account_key": ACCOUNT_KEY}),
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


# The smallest rights, as the page has them


def _page():
    return (ROOT / "docs" / "object-stores.md").read_text(encoding="utf-8")


def test_the_policy_of_the_page_is_enough_and_nothing_in_it_too_much(s3):
    policy = json.loads(re.search(r"^```json\n(.*?)^```", _page(), re.MULTILINE | re.DOTALL)[1])
    objects, listing = policy["Statement"]
    less = [{**objects, "Action": [each for each in objects["Action"] if each != gone]} for gone in objects["Action"]]
    policies = [
        policy,
        *({**policy, "Statement": [each, listing]} for each in less),
        {**policy, "Statement": [objects]},
    ]
    address = f"http://127.0.0.1:{s3.port}"
    told = [s3.python, "-c", _USERS, address, json.dumps(policies)]
    keys = json.loads(subprocess.run(told, capture_output=True, encoding="utf-8", check=True).stdout)
    _request(s3.port, "PUT", "/my-bucket")
    _without_rights(s3.port, "0")
    try:

        def open_(number, prefix="agents/anna"):
            config = dict(zip(("access_key_id", "secret_access_key"), keys[number], strict=True))
            options = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
            return S3Store("my-bucket", prefix=prefix, region="us-east-1", endpoint=address, **config, **options)

        _use(ObjectVault(open_(0), create=True))
        with pytest.raises(VaultDenied):
            ObjectVault(open_(0, "agents/bob"), create=True)
        for number, may in ((1, "get"), (2, "put"), (4, "list")):
            with pytest.raises(VaultDenied):
                _save_and_list(ObjectVault(open_(number)), may)
        with pytest.warns(ColonyMemoryWarning, match="may not delete"):
            ColonyMemory(backend=ObjectVault(open_(3))).backup({"a.md": "delete"}, prune_keep=1)
    finally:
        _without_rights(s3.port, "inf")


def _use(vault):
    memory = ColonyMemory(backend=vault)
    assert memory.restore(default={}) == {}
    for number in range(4):
        memory.backup({"a.md": str(number)}, prune_keep=2)
    assert memory.restore() == {"a.md": "3"}
    assert len(memory.list_snapshots()) == 2


def _save_and_list(vault, text):
    memory = ColonyMemory(backend=vault)
    memory.backup({"a.md": text})
    memory.list_snapshots()


def _without_rights(port, after):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/moto-api/reset-auth", after, {"Content-Type": "text/plain"})
    assert connection.getresponse().status == 200
    connection.close()


def test_the_signature_of_the_page_is_enough(azure, fresh):
    rights = re.search(r"--permissions (\w+)", _page())[1]
    azure(fresh)
    _use(ObjectVault(azure(fresh, sas_key=_signature(fresh, rights)), create=True))
    for gone in "rwl":
        with pytest.raises(VaultDenied):
            ColonyMemory(backend=ObjectVault(azure(fresh, sas_key=_signature(fresh, rights.replace(gone, ""))))).backup(
                NOTES
            )


def _signature(container, rights):
    """As the service makes it of a container: https://learn.microsoft.com/rest/api/storageservices/create-service-sas."""
    begin, end, version = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00Z", "2021-08-06"
    fields = [rights, begin, end, f"/blob/{ACCOUNT}/{container}", "", "", "", version, "c", "", "", "", "", "", "", ""]
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), "\n".join(fields).encode(), hashlib.sha256).digest()
    signed = base64.b64encode(digest).decode()
    return urlencode({"sp": rights, "st": begin, "se": end, "sv": version, "sr": "c", "sig": signed})
