"""An error as one line on stderr, or one JSON object there for programs, and an exit code; needs no extra.

Where to read on in trouble: the page that goes from what was printed to what to do.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

from colony_memory.exceptions import (
    BackupUncertain,
    ColonyMemoryError,
    ConflictDetected,
    DecryptionError,
    Hint,
    QuotaExceeded,
    RollbackDetected,
    SecretsFound,
    SnapshotCorrupt,
    SnapshotNotFound,
    UnsupportedFormat,
    UntrustedSnapshot,
    VaultError,
    VaultMissing,
    message_of,
)
from colony_memory.words.commands import PROGRAM, Asked, worded
from colony_memory.words.text import FEW, shown, width_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO


PAGE = "https://memory.thecolony.cc/recover"
# The first that fits. A newer format is no damage: its message says all.
_PARTS: tuple[tuple[type[BaseException], str | None], ...] = (
    (UnsupportedFormat, None),
    (SnapshotNotFound, "nothing-saved-yet"),
    (SnapshotCorrupt, "damaged"),
    (RollbackDetected, "rolled-back"),
    (UntrustedSnapshot, "not-trusted"),
    (DecryptionError, "encrypted"),
    (VaultMissing, "no-vault"),
    (VaultError, "no-answer"),
    (BackupUncertain, "no-answer"),
    (QuotaExceeded, "vault-full"),
    (ConflictDetected, "two-writers"),
)


def address_for(error: BaseException) -> str | None:
    """The part of the page that is about such an error, None where there is none."""
    # What the command line has more to say of than the error did was raised from that error.
    for each in (error, error.__cause__):
        for part in parts_for(type(each)):
            return None if part is None else f"{PAGE}#{part}"
    return None


def parts_for(kind: type) -> list[str | None]:
    """The parts of the page for a kind of error, its own first; None stands for none."""
    return [part for each, part in _PARTS if issubclass(kind, each)]


FAILED, USAGE, NOTHING_SAVED, NOT_PROVEN, NO_VAULT, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came. What an interrupt undoes, this undoes too."""


# The first that fits. Corrupt and untrusted are ValueErrors too.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (SnapshotNotFound, NOTHING_SAVED),
    (SnapshotCorrupt, NOT_PROVEN),
    (UntrustedSnapshot, NOT_PROVEN),
    (DecryptionError, NOT_PROVEN),
    (VaultError, NO_VAULT),
    (BackupUncertain, NO_VAULT),
    (ColonyMemoryError, FAILED),
    (ValueError, USAGE),
    (Terminated, TERMINATED),
    (KeyboardInterrupt, INTERRUPTED),
)
#: Characters of a message, or of a hint.
_LONGEST = 2000
_EXTRA = "click"
_progress = False  # work under way is shown on the last line of the terminal
_MISSING = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"


class Failure(Exception):
    """A finding of the command line itself, or more than the error says."""

    def __init__(self, message: str, *, code: int, hint: Hint | None = None, advice: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.advice = advice


class UsageError(Failure):
    """The arguments could not be understood."""

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message, code=USAGE, advice=advice)


def exit_code(error: BaseException) -> int:
    """The exit code that says what kind of error it was."""
    if isinstance(error, Failure):
        return error.code
    return next((code for kind, code in _CODES if isinstance(error, kind)), FAILED)


def report_failure(error: BaseException, asked: Asked | None = None) -> int:
    """Write the line, or for a program the object, and return the code."""
    asked, code = asked or Asked(), exit_code(error)
    if isinstance(error, SecretsFound):
        _list_findings(error, asked)
    text, hint, address = describe(error), _advice(error, asked), address_for(error)
    if asked.set_name and text != _MISSING:
        text = f"{asked.set_name}: {text}"
    if asked.as_json:
        say_json(error_document(text, error, asked))
        return code
    if address is not None and code in (NOT_PROVEN, NO_VAULT):
        text = f"{text}; see {address}"
    say(text if text == _MISSING else f"error: {_sentence(text, hint)}")
    return code


def error_document(text: str, error: BaseException, asked: Asked) -> dict[str, Any]:
    """The same for programs."""
    address = address_for(error)
    read_on = {} if address is None else {"help": address}
    return {"error": text, "kind": kind_of(error), "code": exit_code(error), "hint": _advice(error, asked), **read_on}


def _list_findings(error: SecretsFound, asked: Asked) -> None:
    """Each of the first on a line of its own, with the command that saves it as it is."""
    for finding in error.findings[:FEW]:
        hint = worded(Hint("read_folder", "allow_secrets", finding.id), asked)
        warn(f"likely secret: {finding}", as_json=asked.as_json, hint=hint)
    if len(error.findings) > FEW:
        warn(f"and {len(error.findings) - FEW} more likely secrets", as_json=asked.as_json)


def describe(error: BaseException) -> str:
    """The error in words for people."""
    return cut(_full_description(error))


def _full_description(error: BaseException) -> str:
    if isinstance(error, SecretsFound):
        return error.summary  # the list was given
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == _EXTRA:
        return _MISSING
    if isinstance(error, KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    text = message_of(error)
    if isinstance(error, (Failure, ColonyMemoryError, ValueError)) and text:
        return text
    # Not foreseen, so its kind is needed to make sense of it.
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def kind_of(error: BaseException) -> str:
    """The library's name for it, whatever the command line has added."""
    if isinstance(error, UsageError):
        return "UsageError"
    cause = error.__cause__ if isinstance(error, Failure) else error
    public = [kind.__name__ for kind in type(cause).__mro__ if not kind.__name__.startswith("_")]
    return "Failure" if cause is None else public[0] if public[0] != "Exception" else type(cause).__name__


def _advice(error: BaseException | Warning, asked: Asked) -> str | None:
    if isinstance(error, Failure) and error.advice is not None:
        return error.advice
    hint = getattr(error, "hint", None)
    advice = worded(hint, asked) if isinstance(hint, Hint) else None
    # A command that is cut could not be pasted.
    return advice if advice is None or len(advice) <= _LONGEST else None


def _sentence(text: str, hint: str | None) -> str:
    if hint is None:
        return text
    # Last on the line, so that it can be taken from there.
    return f"{text}; {'try: ' if hint.startswith(PROGRAM) else ''}{hint}"


def cut(text: str) -> str:
    """A message that stays one line to read, whatever it repeats; what is wrong mostly stands at either end."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}\u2026{text[-_LONGEST // 4 :]}"


def say(text: str) -> None:
    """Write one line to stderr, whatever characters are in it."""
    _write_line(shown(text))


def say_json(document: object) -> None:
    """Write one JSON object to stderr, on one line and in ASCII."""
    _write_line(json.dumps(document))


def show_progress(text: str) -> None:
    """Show this on the last line of the terminal that stderr is, until a line or the next call takes its place."""
    global _progress  # noqa: PLW0603 - there is one stderr
    with contextlib.suppress(OSError):
        write(sys.stderr, f"\r\x1b[K{text[: width_of(sys.stderr) - 1]}")
    _progress = bool(text)


def _write_line(line: str) -> None:
    if _progress:
        show_progress("")
    with contextlib.suppress(OSError):  # there is no other place to tell of it
        write(sys.stderr, f"{line}\n")


def warn(text: str, *, as_json: bool, hint: str | None = None) -> None:
    """Write to stderr what is wrong, though it goes on: a line, or an object for programs."""
    text = cut(text)
    if as_json:
        say_json({"warning": text, "hint": hint})
    else:
        say(_sentence(text, hint))


def write(stream: TextIO | None, text: str) -> None:
    """Write text at once; what the stream's encoding lacks is written as an escape."""
    if stream is None:  # closed before the process began
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError:
        _discard(stream)
        raise


def write_bytes(stream: TextIO | None, data: bytes) -> None:
    """Write bytes at once, as they are."""
    if stream is None:  # closed before the process began
        return
    try:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
    except OSError:
        _discard(stream)
        raise


def _discard(stream: TextIO) -> None:
    import os

    with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is left to flush
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextlib.contextmanager
def termination_raises() -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated`, unless somebody else has said what it is to do."""
    import signal
    import threading

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def ignore_signals() -> None:
    """Take no notice of further signals: the process is about to end, and tells why."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _terminate(signum: int, frame: object) -> None:  # noqa: ARG001 - what a handler is given
    raise Terminated


@contextlib.contextmanager
def warnings_as_lines(asked: Asked) -> Iterator[None]:
    """Write each warning as a line of its own, and what libraries log not at all."""
    from colony_memory.exceptions import ColonyMemoryWarning

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text, hint = (message, None) if isinstance(message, str) else (message_of(message), _advice(message, asked))
        warn(text if asked.as_json else f"warning: {text}", as_json=asked.as_json, hint=hint)

    silencer = _Silencer()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default", ColonyMemoryWarning)
            warnings.showwarning = show
            yield
    finally:
        silencer.close()


class _Silencer:
    """Gives logging a handler that writes nothing, as soon as something loads it: that takes longer than a command."""

    def __init__(self) -> None:
        self._handler: Any = None
        if "logging" in sys.modules:
            self._silence(sys.modules["logging"])
        else:
            sys.meta_path.insert(0, self)

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """Where a module is loaded from; None for all but one."""
        if name != "logging":
            return None
        from importlib.util import find_spec

        sys.meta_path.remove(self)
        found: Any = find_spec(name)
        load = found.loader.exec_module

        def load_silently(module: Any) -> None:
            load(module)
            self._silence(module)

        found.loader.exec_module = load_silently
        return found

    def _silence(self, logging: Any) -> None:
        self._handler = logging.NullHandler()
        logging.getLogger().addHandler(self._handler)

    def close(self) -> None:
        if self._handler is not None:
            sys.modules["logging"].getLogger().removeHandler(self._handler)
        elif self in sys.meta_path:
            sys.meta_path.remove(self)
