"""What the tests of this folder rest on fails where it should. Nothing here needs a network."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from published import environments
from published.peer_client import LineProcess
from published.strict_vault import StrictVault

if TYPE_CHECKING:
    from collections.abc import Callable


def test_altered_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    (tmp_path / f"{environments.CORE}.tar.gz").write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="pinned is 4a6f7438"):
        environments.sdist.__wrapped__(environments.CORE)


def as_link(member: tarfile.TarInfo) -> None:
    member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0


def as_escape(member: tarfile.TarInfo) -> None:
    member.name = f"{environments.CORE}/tests/../../../evil.py"


@pytest.mark.parametrize("alter", [as_link, as_escape])
def test_archive_cannot_write_elsewhere(
    alter: Callable[[tarfile.TarInfo], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, target = tmp_path / "a.tar.gz", tmp_path / "a" / "b" / "target"
    with tarfile.open(archive, "w:gz") as made:
        member = tarfile.TarInfo(f"{environments.CORE}/tests/test_a.py")
        member.size = 1
        alter(member)
        made.addfile(member, io.BytesIO(b"x"))
    monkeypatch.setattr(environments, "sdist", lambda release: archive)
    with pytest.raises(RuntimeError, match="not a plain file"):
        environments.unpack(environments.CORE, "tests", target)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [archive]


def test_a_command_that_fails_says_what_it_wrote() -> None:
    with pytest.raises(RuntimeError, match=r"ended with 3:\nno such thing"):
        environments.run(sys.executable, "-c", "import sys; print('no such thing'); sys.exit(3)")


@pytest.mark.once
def test_environment_that_fails_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    with pytest.raises(RuntimeError, match="not-a-file"):
        environments.environment("broken", ("--no-index", "./not-a-file.whl"))
    assert list(tmp_path.iterdir()) == []


def test_nothing_foreign_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLONY_API_KEY", "COVERAGE_PROCESS_START", "PYTEST_ADDOPTS", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PIP_KEPT", "x")
    environ = environments.clean_environ(COLONY_API_KEY="given")
    assert environ["COLONY_API_KEY"] == "given"
    assert environ["PIP_KEPT"] == "x"
    assert not {"COVERAGE_PROCESS_START", "PYTEST_ADDOPTS", "PYTHONPATH", "VIRTUAL_ENV"} & set(environ)


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(text, encoding="utf-8")
    return str(path)  # absolute, so that it is found as it is


def test_process_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys\nsys.stdin.readline()\nsys.exit('the peer is gone')")
    with LineProcess(Path(sys.executable), path) as process:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="ended with 1: the peer is gone"):
                process.ask({"verb": "hello"})
    process.close()


def test_process_that_stays_silent_is_ended(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\ntime.sleep(60)")
    with (
        LineProcess(Path(sys.executable), path, timeout=0.3) as process,
        pytest.raises(RuntimeError, match="ended with -"),
    ):
        process.ask({"verb": "hello"})


def test_strict_vault_refuses() -> None:
    vault = StrictVault()
    assert vault.vault_status()["quota_bytes"] == 0
    with pytest.raises(RuntimeError, match="not found"):
        vault.vault_get_file("a.json")
    with pytest.raises(RuntimeError, match="not found"):
        vault.vault_delete_file("a.json")
    with pytest.raises(ValueError, match="refused filename"):
        vault.vault_upload_file("a.bin", "x")
    with pytest.raises(ValueError, match="does not fit"):
        vault.vault_upload_file("a.json", "é" * 500_001)
    for number in range(10):
        vault.vault_upload_file(f"{number}.json", "x" * 1_000_000)
    with pytest.raises(ValueError, match="does not fit"):
        vault.vault_upload_file("one-more.json", "x")
    assert vault.vault_upload_file("0.json", "y" * 1_000_000)["content_size"] == 1_000_000
    assert len(vault.files) == 10
