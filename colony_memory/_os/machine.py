"""Which machine this is: what a host's saves by value have in common, of which nothing is written to a disk."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_LINUX = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_IN_CONTAINER = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/run/systemd/container"))
_MOUNTS = Path("/proc/self/mounts")
_HEX = re.compile(rb"[0-9a-f]{32}")


def origin_of(label: str, *more: str) -> str | None:
    """16 hex digits for what this account of this machine saves under a label, from which neither can be told.

    None in a container, whose id is a copy of its image's or drawn at each start, and where the machine has no id.

    Args:
        label: The label.
        more: What else tells apart who saves, such as the path of a folder that no index can be kept of.
    """
    key = machine_id()
    if key is None:
        return None
    user = str(os.getuid()) if hasattr(os, "getuid") else ""
    text = "\0".join(("colony-memory", label, user, *more))
    import hmac

    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def machine_id() -> bytes | None:
    """The id that the system keeps of this machine, None in a container or without one."""
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return _of_windows()
    if sys.platform == "darwin":  # pragma: no cover - chosen by the platform
        return _of_macos()
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
    """Whether this runs in a container, as far as the system shows."""
    if os.environ.get("container") or os.environ.get("KUBERNETES_SERVICE_HOST"):  # noqa: SIM112 - it is spelt so
        return True
    if any(path.exists() for path in _IN_CONTAINER):
        return True
    try:
        mounts = [line.split() for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return False
    return any(mount[1:3] == ["/", "overlay"] for mount in mounts)


if sys.platform == "win32":  # pragma: no cover - chosen by the platform

    def _of_windows() -> bytes | None:
        try:
            import winreg

            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SOFTWARE\Microsoft\Cryptography") as key:
                return str(winreg.QueryValueEx(key, "MachineGuid")[0]).encode()
        except (ImportError, OSError):
            return None


if sys.platform == "darwin":  # pragma: no cover - chosen by the platform

    def _of_macos() -> bytes | None:
        import ctypes

        out = ctypes.create_string_buffer(16)
        wait = (ctypes.c_long * 2)(1, 0)  # seconds and nanoseconds
        try:
            failed = ctypes.CDLL(None).gethostuuid(out, wait)
        except (AttributeError, OSError):
            return None
        return None if failed else out.raw
