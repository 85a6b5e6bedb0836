"""The machine, its memory, and the homes of a user's files, as the system tells them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_LINUX = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_IN_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/run/systemd/container"))
_MOUNTS = Path("/proc/self/mounts")
_HEX = re.compile(rb"[0-9a-f]{32}")


def origin_of(label: str, *more: str) -> str | None:
    """16 hex digits for what this account of this machine saves under a label, from which neither can be told."""
    key = machine_id()
    if key is None:  # also in a container, whose id is of its image or drawn at each start
        return None
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    text = "\0".join(("colony-memory", label, user, *more))
    import hmac

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def machine_id() -> bytes | None:
    """The id that the system keeps of this machine, None in a container or without one."""
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        try:
            import winreg

            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
                return str(winreg.QueryValueEx(key, "MachineGuid")[0]).encode()
        except (ImportError, OSError):
            return None
    if sys.platform == "darwin":  # pragma: no cover - chosen by the platform
        import ctypes

        out, wait = ctypes.create_string_buffer(16), (ctypes.c_long * 2)(1, 0)  # seconds and nanoseconds
        try:
            return None if ctypes.CDLL(None).gethostuuid(out, wait) else out.raw
        except (AttributeError, OSError):
            return None
    if is_container():
        return None
    for path in _LINUX:
        try:
            text = path.read_bytes().strip()
        except OSError:
            continue
        if _HEX.fullmatch(text) and text.strip(b"0"):
            return text
    return None


def is_container() -> bool:
    """In a container, as far as the system shows."""
    if os.environ.get("container") or os.environ.get("KUBERNETES_SERVICE_HOST"):  # noqa: SIM112 - it is spelt so
        return True
    if any(path.exists() for path in _IN_CONTAINER):
        return True
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    return any(mount[1:3] == ["/", "overlay"] for mount in mounts)


_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
#: Names, in the second version of control groups and in the first, of a limit, of what is in use, and of what of that
#: is only files read, which the system takes back.
_NAMES = (("memory.max", "memory.current", ""), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"))


def free_memory() -> int | None:
    """Bytes that the machine, the control groups of this process and its own limits leave, as far as they tell."""
    told = _numbers(_PROC / "meminfo")
    found = [_of_process(), *_of_groups()]
    if "MemAvailable:" in told:
        found.append((told["MemAvailable:"] + told.get("SwapFree:", 0)) * 1024)
    return min((each for each in found if each is not None), default=None)


def _of_process() -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft = [resource.getrlimit(each)[0] for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limits = [each for each in soft if each != resource.RLIM_INFINITY]
    if not limits:
        return None
    used = 0
    with contextlib.suppress(OSError, ValueError):
        used = int((_PROC / "self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return max(0, min(limits) - used)


def _of_groups() -> list[int | None]:
    out = list[int | None]()
    with contextlib.suppress(OSError):
        for line in (_PROC / "self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds not in ("", "memory"):
                continue
            root = _GROUPS / kinds
            place = root / path.lstrip("/")
            out += [_of_group(each) for each in (place, *place.parents) if each == root or root in each.parents]
    return out


def _of_group(place: Path) -> int | None:
    for limit, current, total in _NAMES:
        with contextlib.suppress(OSError, ValueError):
            most, used = (int((place / name).read_text()) for name in (limit, current))
            files = _numbers(place / "memory.stat")
            return max(0, most - used + sum(files.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive")))
    return None


def _numbers(path: Path) -> dict[str, int]:
    """Of each line of a file that is a word and a number, the number."""
    with contextlib.suppress(OSError):
        lines = [line.split() for line in path.read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
    return {}


_NAME = "colony-memory"


def data_directory() -> Path:
    """The directory of this user's data, there or not, as the two below."""
    return _directory("XDG_DATA_HOME", ".local/share")


def state_directory() -> Path:
    return _directory("XDG_STATE_HOME", ".local/state")


def config_directory() -> Path:
    return _directory("XDG_CONFIG_HOME", ".config")


def _directory(variable: str, usual: str) -> Path:
    given = Path(os.environ.get(variable, "").strip())
    if given.is_absolute():
        base = given
    elif sys.platform == "win32":  # pragma: no cover - chosen by the platform
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / _NAME
    else:
        base = home_directory(variable) / ("Library/Application Support" if sys.platform == "darwin" else usual)
    return base / _NAME


def home_directory(instead: str = "HOME") -> Path:
    """The user's home, also where ``HOME`` is empty or no path; an OSError names the variable to set ``instead``."""
    given = Path(os.environ.get("HOME", ""))
    if given.is_absolute():
        return given
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return Path.home()
    import pwd

    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        raise FileNotFoundError(f"this user has no home directory: set {instead}") from None


def expanded(path: str) -> str:
    """The path with the home directory in the place of ``~``; any other is as it is."""
    return f"{home_directory()}{path[1:]}" if path == "~" or path.startswith("~/") else path


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that began a session of its own, with what it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or going
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
