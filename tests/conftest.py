"""Fixtures of the whole suite."""

import functools
import itertools
import os
import signal
import ssl
import sys

import pytest
from counts import TRIED
from faces import FACES, PlainVault
from hypothesis import settings

from colony_memory import snapshot
from colony_memory.testing import FakeVault

_NUMBERS = itertools.count()

# For the quick set; --hypothesis-profile=default tries them all, with new draws each time, and ci with the same draws.
settings.register_profile("few", settings(max_examples=settings().max_examples // 5))
settings.load_profile("few")


def pytest_configure():
    """What a shell or nohup has the tests ignore, every process of a test would ignore too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT", "SIGTERM"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch, tmp_path_factory):
    """No test sees the keys, vaults, cached tokens, configuration or state of whoever runs it."""
    for name in os.environ:
        if name.startswith("COLONY_"):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLONY_SDK_NO_TOKEN_CACHE", "1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    number = str(next(_NUMBERS))
    monkeypatch.setattr("colony_memory._os.machine.machine_id", lambda: None)  # as in a container
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state" / number))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config" / number))
    monkeypatch.setattr("colony_memory.capture._moment.QUIET", 0.0)  # tests save what they wrote just before
    monkeypatch.setattr("colony_memory.capture._moment.SECONDS_IN_ALL", 1.0)


@pytest.fixture(scope="module")
def one_tls_context():
    """Each httpx client makes a TLS context, which takes longer than a whole boot over 127.0.0.1 and is not used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
        yield


@pytest.fixture(
    params=[
        ("sync", "full"),
        ("async", "plain"),
        pytest.param(("sync-in-loop", "plain"), marks=pytest.mark.exhaustive),
        pytest.param(("async-plain-vault", "full"), marks=pytest.mark.exhaustive),
    ],
    ids="-".join,
)
def face_and_kind(request):
    """Each face and each kind of vault, not each pair of them."""
    return request.param


@pytest.fixture
def open_memory(face_and_kind):
    """Opens a memory over a plain vault."""
    return FACES[face_and_kind[0]]


@pytest.fixture
def vault(face_and_kind):
    """A faithful vault, with and without the optional methods."""
    fake = FakeVault(operations_per_hour=None)
    return fake if face_and_kind[1] == "full" else PlainVault(fake)


@pytest.fixture
def without_cryptography(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)


@pytest.fixture
def small_parts(monkeypatch):
    """Snapshots of many parts without megabytes of text."""
    monkeypatch.setattr(snapshot, "PART_CHARS", 64)


def pytest_terminal_summary(terminalreporter):
    """Tell how many fault schedules were tried: a number that falls is a test that was lost."""
    if TRIED:
        terminalreporter.section("fault schedules tried")
        for what, number in sorted(TRIED.items()):
            terminalreporter.write_line(f"{number:7} {what}")
