"""The published releases: their sources, checked against pinned digests, and environments to run them in.

Everything lands in `.cache/published` of the checkout and is used again. An environment is made under a name of its
own and renamed when it is complete, so that a half-made one is never used and two runs may make it at once.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
CACHE = REPOSITORY / ".cache" / "published"

CORE = "colony_memory-0.1.1"
PLUGIN = "colony_memory_hermes-0.2.0"
SHA256 = {
    CORE: "4a6f7438dcb3557dde5ca29706fa7dab664d2ef5b2b9a981516be4efcfbbd8d5",
    PLUGIN: "56d083caa893b769d9f119c83f97b7ec145fcb85fd673550c88748238d643c92",
}
# What an environment must not inherit: it would change what is imported, measured or talked to.
FOREIGN = ("COLONY_", "COV", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "__PYVENV")


def clean_environ(**extra):
    """This process's environment variables without those that steer Python, pytest, coverage or the package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
    return {**kept, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1", **extra}


def run(*command):
    """Run a command that must succeed; its output is in the error if it does not."""
    done = subprocess.run(
        [str(part) for part in command],
        env=clean_environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")


def pip(*arguments):
    run(sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--no-input", *arguments)


def python_of(environment):
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@contextmanager
def scratch():
    CACHE.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=".making-", dir=CACHE))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def environment(name, *installs):
    """The Python of an environment in which pip was run with each of these lists of arguments."""
    facts = [sys.version, str(REPOSITORY), *(str(argument) for install in installs for argument in install)]
    if any("-e" in install for install in installs):
        facts.append((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    key = hashlib.sha256("\n".join(facts).encode("utf-8")).hexdigest()[:12]
    target = CACHE / f"{name}-{sys.version_info.major}.{sys.version_info.minor}-{key}"
    if not target.is_dir():
        with scratch() as making:
            # Without a pip of its own, which takes longer than the rest: this one's installs there.
            run(sys.executable, "-m", "venv", "--without-pip", making / "env")
            for install in installs:
                pip("--python", python_of(making / "env"), "install", *install)
            keep_first(making / "env", target)
    return python_of(target)


def keep_first(made, target):
    """Rename ``made`` to ``target`` unless another run was faster."""
    try:
        made.rename(target)
    except OSError:
        if not target.exists():
            raise


@cache
def sdist(release):
    """The release's source archive as published; pip and this function both check its digest."""
    archive = CACHE / f"{release}.tar.gz"
    if not archive.is_file():
        name, _, version = release.rpartition("-")
        name = name.replace("_", "-")
        with scratch() as making:
            wanted = making / "requirements.txt"
            wanted.write_text(f"{name}=={version} --hash=sha256:{SHA256[release]}\n", encoding="utf-8")
            pip("download", "--no-deps", "--no-binary", name, "-d", making, "-r", wanted)
            keep_first(making / archive.name, archive)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256[release]:
        raise RuntimeError(f"{archive} has sha256 {found}, pinned is {SHA256[release]}; remove it and try again")
    return archive


def unpack(release, folder, target):
    """Write the regular files below ``folder`` in the release's archive to ``target``; the paths written."""
    written = []
    with tarfile.open(sdist(release)) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if path.parts[:2] != (release, folder) or member.isdir():
                continue
            inside = path.relative_to(release)
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or ".." in inside.parts:
                raise RuntimeError(f"{release} holds {member.name!r}, which is not a plain file below it")
            place = target / inside
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.read())
            written.append(place)
    return written


@cache
def published_python():
    """The Python of an environment that holds the published package and plugin, as they are in the field."""
    return environment("published", ("colony-sdk>=1.35,<2", "cryptography"), ("--no-deps", sdist(CORE), sdist(PLUGIN)))


@cache
def our_python():
    """The Python of an environment that holds this package in place of the published one, and the plugin."""
    return environment("ours", ("pytest<9", "-e", f"{REPOSITORY}[sign]"), ("--no-deps", sdist(PLUGIN)))
