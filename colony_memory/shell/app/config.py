"""Settings: the types of values in variables and the configuration file, that file, and precedence."""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from colony_memory._boundary import read_written, require_as_meant
from colony_memory._format.names import require_label
from colony_memory._os.files import Contents, read_file
from colony_memory._os.machine import config_directory, expanded
from colony_memory._values import Value, field, pattern
from colony_memory.exceptions import ColonyMemoryError
from colony_memory.retention import Retention
from colony_memory.shell.app.keys import settled_identities, settled_recipients
from colony_memory.vaults import VARIABLE

_UNITS = (("w", 604_800), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_DURATION = pattern("".join(rf"(?:([0-9]{{1,12}}){unit}\s*)?" for unit, _ in _UNITS), re.IGNORECASE | re.ASCII)
_LONGEST = timedelta(days=3650)
_KNOWN = "write it like 90s, 15m, 1h30m or 2d (weeks w, days d, hours h, minutes m, seconds s, the largest first)"
_SHOWN = 40
# A single letter before the colon is a drive.
_URL = pattern(r"[A-Za-z][A-Za-z0-9+.-]+:|[A-Za-z]:[/\\]|[/~\\]")
#: Variables whose value is stripped, as of the newline in a secret written by echo.
_STRIPPED = ("COLONY_API_KEY", "COLONY_BASE_URL")
_T = TypeVar("_T")


def parse_duration(text: str) -> timedelta:
    """Parse a length of time: whole numbers with units, the largest first."""
    plain = text.strip()
    named = repr(plain if len(plain) <= _SHOWN else f"{plain[:_SHOWN]}…")
    found = _DURATION.fullmatch(plain)
    if not plain or found is None:
        raise ValueError(f"{named} is not a length of time: {_KNOWN}")
    seconds = sum(int(number) * length for number, (_, length) in zip(found.groups(0), _UNITS, strict=True))
    if not seconds:
        raise ValueError(f"{named} is too short: it must be above 0")
    if seconds > _LONGEST.total_seconds():
        raise ValueError(f"{named} is longer than ten years")
    return timedelta(seconds=seconds)


def read_seconds(option: str, text: str) -> float:
    return at_key(option, parse_duration, text).total_seconds()


def show_duration(seconds: float) -> str:
    """A length of time in at most two units, ``1h30m``; rounded to seconds, which are dropped beyond an hour."""
    rest, parts = max(0, round(seconds)), list[str]()
    for unit, length in _UNITS[1:]:
        number, rest = divmod(rest, length)
        if number:
            parts.append(f"{number}{unit}")
        elif parts:  # 1d0h5m would be too long for what it adds
            break
    return "".join(parts[:2]) or "0s"


def at_key(key: str, check: Callable[[Any], _T], value: object) -> _T:
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def _kind(what: str, is_valid: Callable[[Any], bool]) -> Callable[[Any], Any]:

    def check(value: object) -> object:
        if not is_valid(value):
            raise ValueError(f"must be {what}")
        return value

    return check


text = _kind("a text, and not an empty one", lambda value: isinstance(value, str) and bool(value.strip()))
number = _kind("a whole number from 1 up", lambda value: type(value) is int and value > 0)


def texts(value: object) -> list[str]:
    """A list of non-empty texts; a single text counts as a list of one."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not found or not all(isinstance(item, str) and item.strip() for item in found):
        raise ValueError("must be a list of texts, none of them empty")
    return found


def time(value: object) -> str:
    """A length of time such as ``15m``, checked and unchanged."""
    parse_duration(text(value))
    return str(value)


def settled_command(command: str) -> str:
    """A command with the path of its program made absolute, if it is named by a path."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ValueError(f"{command!r} is not a command: {error}") from error
    if not words or not words[0]:
        raise ValueError("the command is empty")
    program, *arguments = words
    if os.path.dirname(program) and not program.startswith("~"):  # noqa: PTH120 - a bare name is searched for in PATH
        program = os.path.abspath(program)  # noqa: PTH100 - keep a link
    return shlex.join([program, *arguments])


def command(value: object) -> str:
    given: str = text(value)
    settled_command(given)
    program = shlex.split(given)[0]
    if os.path.dirname(program) and not os.path.isabs(program):  # noqa: PTH117, PTH120 - a text
        raise ValueError("must name its program by an absolute path, or by a name that is on PATH")
    return given


def rules(value: object) -> list[str]:
    from colony_memory.capture._ignore import read_excluded

    found = texts(value)
    read_excluded(found)
    return found


def path_of(value: object) -> str:
    """An absolute path, with ``~`` expanded. Errors do not repeat the value: it may be a key by mistake."""
    given = expanded_path(require_as_meant("a path", text(value)))
    if not os.path.isabs(given) or "\0" in given:  # noqa: PTH117 - a text
        raise ValueError("must be an absolute path, or begin with ~/")
    if VARIABLE.search(given):
        raise ValueError("holds a variable, which is not expanded here; ~ is")
    return given


def url_of(value: object) -> str:
    """A URL or an absolute path: a relative one would be another vault in every directory."""
    given = text(value)
    kind, colon, path = given.partition(":")
    if kind.lower() == "export":
        return f"{kind}{colon}{path_of(path)}"
    if not _URL.match(given):
        raise ValueError(f"must be a URL or an absolute path, not {given!r}")
    return expanded_path(given)


def read_setting(name: str) -> str | None:
    """The value of an environment variable, None where it is not set."""
    value = os.environ.get(name)
    if value is None:
        return None
    if not value.strip():
        raise ValueError(f"{name} is empty: give it a value, or unset it")
    require_as_meant(name, value.strip() if name in _STRIPPED else value)
    return value


def read_path_setting(name: str) -> Path | None:
    value = read_setting(name)
    return None if value is None else Path(at_key(name, path_of, value))


def located(find: Callable[..., _T], *given: str) -> _T:
    """The result of ``find`` in the user's home. ValueError if there is no home: it is a bad setting."""
    try:
        return find(*given)
    except OSError as error:
        raise ValueError(str(error)) from error


expanded_path = partial(located, expanded)


_format = _kind("1 or 2", ("1", "2").__contains__)
#: Settings allowed in the file, by the name of the option.
SETTINGS: dict[str, Callable[[Any], Any]] = {
    "vault": url_of,
    "label": require_label,
    "key_file": path_of,
    "trust": texts,
    "witness": path_of,
    "encrypt_to": lambda given: settled_recipients(texts(given), path_of),
    "identity": lambda given: settled_identities(texts(given), path_of),
    "passphrase_file": path_of,
    "exclude": rules,
    "secrets": _kind("stop, warn, mask or allow", ("stop", "warn", "mask", "allow").__contains__),
    "allow_secret": texts,
    "on_conflict": _kind("raise, continue or merge", ("raise", "continue", "merge").__contains__),
    "format": lambda given: _format(str(given) if type(given) is int else given),
    **dict.fromkeys(("keep", "keep_hourly", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly"), number),
    "keep_within": time,
    "every": time,
    "final_timeout": time,
    "max_age": time,
    "before": command,
}
#: Settings for which values of the file and of the command line are joined.
ADDED = frozenset({"exclude", "allow_secret"})

_FILE = "COLONY_MEMORY_CONFIG"
_LARGEST = 1 << 20  # bytes of the file
_BY_OTHERS = 0o022
_SECRET = frozenset({"api_key", "password", "passphrase", "token", "secret", "key"})


class Config(Value):
    """The configuration file; a missing one is empty."""

    path: Path
    exists: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)  # by the name of the option


def make_retention(rules: Mapping[str, Any]) -> Retention:
    """The policy for rules named like the options of ``prune``, with ``keep_within`` as a text such as ``7d``."""
    given = dict(rules)
    if "keep_within" in given:
        given["keep_within"] = parse_duration(given["keep_within"])
    if "keep" in given:
        given["keep_last"] = given.pop("keep")
    return Retention(**given)


def read_config(document: Mapping[str, Any], *, path: Path) -> Config:
    for key, value in document.items():
        if isinstance(value, dict):
            why = f"[{key}]: tables are not supported; put settings at the top level, where they apply to every command"
            raise ValueError(why)  # noqa: TRY004 - one type of error
        if key in _SECRET:
            raise ValueError(
                f"{key}: secrets do not belong in this file; key_file names a file with a key, and the key of an "
                "account is in COLONY_API_KEY"
            )
        if key not in SETTINGS:
            from difflib import get_close_matches

            near = get_close_matches(key.replace("-", "_"), SETTINGS, n=1)
            more = f"did you mean {near[0]}?" if near else f"keys are {', '.join(SETTINGS)}"
            raise ValueError(f"{key} is not known; {more}")
    return Config(path, True, {key: at_key(key, SETTINGS[key], value) for key, value in document.items()})


def config_path(given: str | None = None) -> Path:
    """The path of the file, there or not; never one in the working directory or a folder, which may be a stranger's."""
    named = Path(expanded_path(given)) if given is not None else read_path_setting(_FILE)
    return named or located(config_directory) / "config.toml"


def load_config(given: str | None = None) -> Config:
    """Read the file. It counts as empty if none is named and none exists (as for a user without a home), or if the null
    device is named.
    """
    is_named = given is not None or read_path_setting(_FILE) is not None
    try:
        path = config_path(given)
    except ValueError:
        if is_named:
            raise
        path = Path(os.devnull)
    if str(path) == os.devnull:  # as in git, a way to ask for no file
        return Config(path)
    try:
        found = read_file(path, _LARGEST, follow=True)
        if found is not None:
            _require_trusted(path, found)
            return read_config(_parse(found.data), path=path)
    except NotADirectoryError:
        pass
    except (OSError, ValueError) as error:
        raise ValueError(f"configuration file {path}: {getattr(error, 'strerror', None) or error}") from error
    if is_named:
        raise ValueError(f"configuration file {path}: there is no such file")
    return Config(path)


def _require_trusted(path: Path, found: Contents) -> None:
    """Require that only this user or root can have written the file: it names commands that are run."""
    if sys.platform == "win32":  # pragma: no cover - chosen by the platform
        return
    owner, mode = found.facts.st_uid, stat.S_IMODE(found.facts.st_mode)
    if owner not in (0, os.geteuid()):
        raise ValueError(f"it belongs to another user ({owner}), so it is not trusted")
    if mode & _BY_OTHERS:
        remedy = f"if what it says comes from you, run: chmod go-w {shlex.quote(str(path))}"
        raise ValueError(f"it can be written by others (mode {mode:04o}); {remedy}")


def _parse(data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            why = "reading a configuration file needs the extra 'cli': pip install 'colony-memory[cli]'"
            raise ColonyMemoryError(why) from error
    try:
        parsed: dict[str, Any] = tomllib.loads(read_written(data))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"it is not TOML: {error}") from error
    return parsed


class Setting(Value):
    value: Any
    sources: tuple[str, ...]  # its origins: an option, a variable, or keys of the file


def effective(config: Config, given: Mapping[str, Setting]) -> dict[str, Setting]:
    """All settings in effect: options override variables, which override the file."""
    result = {name: Setting(value, (name,)) for name, value in config.settings.items()}
    for name, setting in given.items():
        known = result.get(name)
        if known is not None and name in ADDED:  # joined; the later ones take precedence
            result[name] = Setting([*known.value, *setting.value], (*known.sources, *setting.sources))
        else:
            result[name] = setting
    return result
