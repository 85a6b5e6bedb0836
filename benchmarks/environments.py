"""Two environments of equal shape: one with the published release, one with the wheel of this tree.

They are built once below ``.cache/bench``. The wheel is built and installed again when a file that goes into it has
changed; an editable install would add a path hook to every start of the interpreter and distort import times.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent
CACHE = REPOSITORY / ".cache" / "bench"

PUBLISHED = "0.1.1"
_HASHES = (
    "cfe5f9c34c1a50424a9c51997db4071ab393ecd3174074afb2a708954f11588f",  # wheel
    "4a6f7438dcb3557dde5ca29706fa7dab664d2ef5b2b9a981516be4efcfbbd8d5",  # sdist
)
# Both sides get the same releases of what they stand on: chosen once, then pinned.
_COMMON = ("colony-sdk>=1.35,<2", "cryptography>=42")
# Only ours is ever asked to use them, and only where that is measured.
_EXTRAS = ("cli", "fast", "zstd")
# What a child must not inherit: it would change what is imported or measured.
_FOREIGN = ("COLONY_", "COV", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "__PYVENV")


class Sides(NamedTuple):
    """The interpreters of both environments."""

    published: Path
    ours: Path


def clean_environ() -> dict[str, str]:
    """The environment variables of this process without those that steer Python or the package."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other run in this tree goes on: they would disturb each other, and change the environments."""
    try:
        import fcntl
    except ImportError:  # on Windows, whoever starts two runs at once has to know
        yield
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Unprepared(Exception):
    """The environments cannot be built here, and why."""


def prepare() -> Sides:
    """Build what is missing or out of date.

    Raises:
        Unprepared: This Python lacks what builds them, or pip failed, as without a package index.
    """
    missing = [name for name in ("venv", "ensurepip", "pydoc_data") if find_spec(name) is None]
    if missing:
        raise Unprepared(f"this Python lacks {', '.join(missing)}, which builds the environments to measure in")
    try:
        return _prepare()
    except RuntimeError as error:
        raise Unprepared(f"the environments to measure in cannot be built: {error}") from error


def _prepare() -> Sides:
    CACHE.mkdir(parents=True, exist_ok=True)
    place = CACHE / f"env-{sys.version_info.major}.{sys.version_info.minor}"
    key = _digest(sys.version, str(place), *_COMMON, *_EXTRAS, *_HASHES)
    if _read(place / "key") != key:
        shutil.rmtree(place, ignore_errors=True)
        _build(place)
        (place / "key").write_text(key, encoding="utf-8")
    tree = _tree_digest()
    if _read(place / "tree") != tree:
        (place / "tree").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            _pip(_python(place / "ours"), "wheel", "--no-deps", "-w", scratch, str(REPOSITORY))
            (wheel,) = Path(scratch).glob("*.whl")
            _pip(_python(place / "ours"), "install", "--no-deps", "--force-reinstall", str(wheel))
            _pip(_python(place / "ours"), "install", f"{wheel}[{','.join(_EXTRAS)}]")
        (place / "tree").write_text(tree, encoding="utf-8")
    return Sides(_python(place / "published"), _python(place / "ours"))


def _build(place: Path) -> None:
    place.mkdir(parents=True)
    pins = place / "pins.txt"
    for side in Sides._fields:
        _run(sys.executable, "-m", "venv", str(place / side))
        python = _python(place / side)
        wanted = ["-r", str(pins)] if pins.exists() else list(_COMMON)
        _pip(python, "install", *wanted)
        pins.write_text(_run(str(python), "-m", "pip", "freeze"), encoding="utf-8")
    release = place / "published.txt"
    hashes = " ".join(f"--hash=sha256:{each}" for each in _HASHES)
    release.write_text(f"colony-memory=={PUBLISHED} {hashes}\n", encoding="utf-8")
    _pip(_python(place / "published"), "install", "--no-deps", "-r", str(release))


def source_of(requirement: str, digest: str, into: Path) -> Path:
    """The source archive of a release that has this SHA-256, downloaded into a directory."""
    wanted = into / "requirement.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{digest}\n", encoding="utf-8")
    python = Path(sys.executable)
    _pip(python, "download", "--no-deps", "--no-binary", ":all:", "-d", str(into), "-r", str(wanted))
    (archive,) = into.glob("*.tar.gz")
    return archive


def _tree_digest() -> str:
    """Changes with every file that goes into the wheel."""
    files = [path for path in (REPOSITORY / "colony_memory").rglob("*") if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    files += [path for name in ("pyproject.toml", "README.md", "LICENSE") if (path := REPOSITORY / name).exists()]
    return _digest(*(f"{path} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in sorted(files)))


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode("utf-8")).hexdigest()


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _python(environment: Path) -> Path:
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _pip(python: Path, verb: str, *arguments: str) -> None:
    _run(str(python), "-m", "pip", verb, "-q", "--disable-pip-version-check", "--no-input", *arguments)


def _run(*command: str) -> str:
    """Run a command that must succeed, and give its output."""
    done = subprocess.run(
        command, env=clean_environ(), stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        msg = f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        raise RuntimeError(msg)
    return done.stdout
