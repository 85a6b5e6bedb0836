"""The machine, its memory, and the directories of a user's files, as the system reports them."""

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
    """16 hex digits that identify this account on this machine for a label, and reveal neither of them."""
    key = machine_id()
    if key is None:  # also in a container, whose id is the image's or new at each start
        return None
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    text = "\0".join(("colony-memory", label, user, *more))
    import hmac

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def machine_id() -> bytes | None:
    """The system's id of this machine; None in a container, or if it has none."""
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
    """True in a container, as far as the system shows."""
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
#: Files of a control group with its limit and its use, in version 2 and in version 1; and the prefix in ``memory.stat``
#: for the part of that use which is cached files, and which the system takes back.
_NAMES = (("memory.max", "memory.current", ""), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"))


def free_memory() -> int | None:
    """Bytes of memory left by the machine, and by this process's control groups and limits; None if unknown."""
    meminfo = _numbers(_PROC / "meminfo")
    sizes = [_of_process(), *_of_groups()]
    if "MemAvailable:" in meminfo:
        sizes.append((meminfo["MemAvailable:"] + meminfo.get("SwapFree:", 0)) * 1024)
    return min((size for size in sizes if size is not None), default=None)


def _of_process() -> int | None:
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    limits = [limit for limit in soft if limit != resource.RLIM_INFINITY]
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
            out += [_of_group(group) for group in (place, *place.parents) if group == root or root in group.parents]
    return out


def _of_group(group: Path) -> int | None:
    for limit, current, total in _NAMES:
        with contextlib.suppress(OSError, ValueError):
            most, used = (int((group / name).read_text()) for name in (limit, current))
            files = _numbers(group / "memory.stat")
            return max(0, most - used + sum(files.get(f"{total}{kind}_file", 0) for kind in ("active", "inactive")))
    return None


def _numbers(path: Path) -> dict[str, int]:
    """The number in each line of a file that is a word and a number, by the word."""
    with contextlib.suppress(OSError):
        lines = [line.split() for line in path.read_text().splitlines()]
        return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdecimal()}
    return {}


_NAME = "colony-memory"


def data_directory() -> Path:
    """The directory of this user's data, existing or not, as the two below."""
    return _directory("XDG_DATA_HOME", ".local/share")


def state_directory() -> Path:
    return _directory("XDG_STATE_HOME", ".local/state")


def config_directory() -> Path:
    return _directory("XDG_CONFIG_HOME", ".config")


def _directory(variable: str, default: str) -> Path:
    path = Path(os.environ.get(variable, "").strip())
    if path.is_absolute():
        base = path
    elif sys.platform == "win32":  # pragma: no cover - chosen by the platform
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / _NAME
    else:
        base = home_directory(variable) / ("Library/Application Support" if sys.platform == "darwin" else default)
    return base / _NAME


def home_directory(instead: str = "HOME") -> Path:
    """The user's home, also if ``HOME`` is empty or relative; an OSError names the variable to set ``instead``."""
    home = Path(os.environ.get("HOME", ""))
    if home.is_absolute():
        return home
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return Path.home()
    import pwd

    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        raise FileNotFoundError(f"this user has no home directory: set {instead}") from None


def expanded(path: str) -> str:
    """The path, with the home directory in place of a leading ``~``."""
    return f"{home_directory()}{path[1:]}" if path == "~" or path.startswith("~/") else path


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a session of its own, with all that it has started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it is gone, or going
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
