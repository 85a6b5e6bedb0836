"""Errors on stderr as one line, or for programs as one JSON object: with an exit code, an address to read on, and a
command that helps, ready to paste. Needs no extra.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from colony_memory._values import Record, mute_log
from colony_memory.exceptions import ColonyMemoryError, ColonyMemoryWarning, Hint, SecretsFound, message_of
from colony_memory.shell.words import FEW, shown, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

PROGRAM = "colony-memory"
PAGE = "https://memory.thecolony.cc/recover"
FAILED, USAGE, NOTHING_SAVED, NOT_PROVEN, NO_VAULT, INTERRUPTED, TERMINATED = 1, 2, 3, 4, 5, 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; handled like an interrupt."""


#: The exit code of a kind of error, and its section of the troubleshooting page.
_KINDS: dict[str, tuple[int, str | None]] = {
    "UnsupportedFormat": (NOT_PROVEN, ""),  # has no section there
    "SnapshotNotFound": (NOTHING_SAVED, "nothing-saved-yet"),
    "SnapshotCorrupt": (NOT_PROVEN, "damaged"),
    "RollbackDetected": (NOT_PROVEN, "rolled-back"),
    "UntrustedSnapshot": (NOT_PROVEN, "not-trusted"),
    "DecryptionError": (NOT_PROVEN, "encrypted"),
    "VaultMissing": (NO_VAULT, "no-vault"),
    "VaultError": (NO_VAULT, "no-answer"),
    "BackupUncertain": (NO_VAULT, "no-answer"),
    "QuotaExceeded": (FAILED, "vault-full"),
    "ConflictDetected": (FAILED, "two-writers"),
    "ColonyMemoryError": (FAILED, None),
    "ValueError": (USAGE, None),
    "Terminated": (TERMINATED, None),
    "KeyboardInterrupt": (INTERRUPTED, None),
}
#: Most characters of a message or hint.
_LONGEST = 2000
_MISSING = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"

#: Options for the vault and for trust, repeated in any suggested command for the same vault.
_CARRIED = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("vault", "key_file", "trust", "witness", "accept_unsigned", "accept_legacy_pointer"),
        *("encrypt_to", "identity", "passphrase_file"),
    )
}
WHERE = frozenset(_CARRIED.values())
#: The verb for a method of the library.
VERBS = {
    **{name: name for name in ("backup", "restore", "verify", "prune", "rewrite", "status", "init")},
    "list_snapshots": "list",
    "delete_snapshot": "delete",
    "inspect": "status",
    "merge": "restore",
}
#: The option for an argument of the library, with a placeholder for a value that only the user knows.
OPTIONS = {
    "signer": "--key-file FILE",
    "trusted_issuers": "--trust DID",
    "backend": "--vault URL",
    "require_signature": "--accept-unsigned",
    "accept_legacy_pointer": "--accept-legacy-pointer",
    "encrypt_to": "--encrypt-to RECIPIENT",
    "identities": "--identity FILE",
    "create": "",
    "on_conflict": "--on-conflict merge",
    "snapshot_id": " ID",  # an argument itself
    "fallback": "--fallback",
    "names": "--only GLOB",
    "keep": "--keep N",
    "secrets": "--secrets mask",
    "allow_secrets": "--allow-secret NAME",
    "snapshot_first": "--snapshot-first",
}
#: Advice in place of a command, for arguments set by environment variables.
SETTINGS = {"api_key": "set COLONY_API_KEY", "base_url": "set COLONY_BASE_URL"}
#: Actions whose arguments are options of the current run.
_OWN = ("open", "read_folder", "restore_folder")


class Asked(Record):
    """The request of this run, as far as it has been parsed."""

    argv: Sequence[str] = ()  # the raw arguments
    verb: str = ""  # the verb, empty until its options are parsed
    params: Mapping[str, Any] = MappingProxyType({})  # values of its arguments and options
    from_environment: frozenset[str] = frozenset()  # parameters set by environment variables
    flags: frozenset[str] = frozenset()  # the options that the verb has

    @property
    def as_json(self) -> bool:
        """True if a program reads the answer."""
        argv = list(self.argv)
        options = argv[: argv.index("--")] if "--" in argv else argv
        return bool(self.params.get("as_json", "--json" in options))

    @property
    def by_host(self) -> bool:
        """True if an agent host runs this as one of its hooks."""
        verb, *others = self.argv or ("",)
        return verb == "hook" and not {"install", "uninstall"} & set(others[:1])


class Failure(Exception):
    """An error of the command line itself, or a library's error with something to add."""

    def __init__(self, message: str, *, code: int, hint: Hint | None = None, advice: str | None = None) -> None:
        super().__init__(message)
        self.code, self.hint, self.advice = code, hint, advice


class UsageError(Failure):
    """The arguments could not be parsed."""

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message, code=USAGE, advice=advice)


def _kind(kind: type) -> tuple[int, str | None]:
    return next((_KINDS[base.__name__] for base in kind.__mro__ if base.__name__ in _KINDS), (FAILED, None))


def exit_code(error: BaseException) -> int:
    """The exit code for an error, by its kind."""
    return error.code if isinstance(error, Failure) else _kind(type(error))[0]


def address_for(error: BaseException) -> str | None:
    """The address to read on about an error, None if there is none."""
    # A failure of the command line with more to say than a library's error is raised from that error.
    parts = (_kind(type(raised))[1] for raised in (error, error.__cause__))
    part = next((part for part in parts if part is not None), None)
    return f"{PAGE}#{part}" if part else None


def report_failure(error: BaseException, asked: Asked | None = None) -> int:
    """Write the error to stderr as a line, or as an object for programs, and return the exit code."""
    asked, code = asked or Asked(), exit_code(error)
    if isinstance(error, SecretsFound):
        for finding in error.findings[:FEW]:  # each with the command that saves it as it is
            hint = worded(Hint("read_folder", "allow_secrets", finding.id), asked)
            warn(f"likely secret: {finding}", as_json=asked.as_json, hint=hint)
        if len(error.findings) > FEW:
            warn(f"and {len(error.findings) - FEW} more likely secrets", as_json=asked.as_json)
    text, hint, address = describe(error), _advice(error, asked), address_for(error)
    if asked.as_json:
        read_on = {} if address is None else {"help": address}
        say_json({"error": text, "kind": kind_of(error), "code": code, "hint": hint, **read_on})
        return code
    if address is not None and code in (NOT_PROVEN, NO_VAULT):
        text = f"{text}; see {address}"
    say(text if text == _MISSING else f"error: {_sentence(text, hint)}")
    return code


def describe(error: BaseException) -> str:
    """The error in words for people."""
    if isinstance(error, SecretsFound):
        return error.summary  # the findings were listed before
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "click":
        return _MISSING
    if isinstance(error, KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    text = message_of(error)
    if isinstance(error, (Failure, ColonyMemoryError, ValueError)) and text:
        return cut(text)
    # An unforeseen error makes little sense without its type.
    return cut(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def kind_of(error: BaseException) -> str:
    """The library's name for an error, even if the command line has wrapped it."""
    if isinstance(error, UsageError):
        return "UsageError"
    cause = error.__cause__ if isinstance(error, Failure) else error
    kinds = [kind for kind in type(cause).__mro__ if "._" not in f"{kind.__module__}.{kind.__name__}"]
    public = [kind.__name__ for kind in kinds]
    return "Failure" if cause is None else public[0] if public[0] != "Exception" else type(cause).__name__


def _advice(error: BaseException | Warning, asked: Asked) -> str | None:
    if isinstance(error, Failure) and error.advice is not None:
        return error.advice
    hint = getattr(error, "hint", None)
    advice = worded(hint, asked) if isinstance(hint, Hint) else None
    # A shortened command could not be pasted.
    return advice if advice is None or len(advice) <= _LONGEST else None


def _sentence(text: str, hint: str | None) -> str:
    if hint is None:
        return text
    # Last on the line, where it is easy to copy.
    return f"{text}; {'try: ' if hint.startswith(PROGRAM) else ''}{hint}"


def cut(text: str) -> str:
    """A long message shortened in the middle: the point of it is mostly near the start or the end."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}\u2026{text[-_LONGEST // 4 :]}"


def command(
    verb: str, *arguments: str, options: Iterable[str] = (), label: str | None = None, given: Mapping[str, Any]
) -> str:
    """A command for the vault of this run, with the same trust; ``given`` has the options of this run by name."""
    chosen = list[str]()
    if verb in ("backup", "restore", "status", "watch") and given.get("agent"):
        from colony_memory.shell.app.pick import names_a_snapshot

        # It determines the folder and what is left out of it.
        chosen = ["--agent", given["agent"], *(["--with", ",".join(given["kinds"])] if given.get("kinds") else [])]
        arguments = tuple(word for word in arguments if verb == "restore" and names_a_snapshot(word))
    words = [PROGRAM, verb, *options]
    words += [f"./{word}" if word.startswith("-") and word != "-" else word for word in arguments]
    words += chosen
    if label is not None and (label != "default" or os.environ.get("COLONY_MEMORY_LABEL")):
        words += _option("--label", label)
    for name, flag in _CARRIED.items():
        words += _option(flag, given.get(name))
    return " ".join(map(quoted, words))


def _option(flag: str, value: object) -> list[str]:
    """The words for an option with this value: none for None, and a pair for each value of a list."""
    if isinstance(value, (list, tuple)):
        return [word for item in value for word in _option(flag, str(item))]
    if not isinstance(value, str):
        return [flag] if value is True else []
    return ([f"{flag}={value}"] if value.startswith("-") else [flag, value]) if flag else [value]


def worded(hint: Hint, asked: Asked) -> str | None:
    """The hint in words of the command line: this run with one more option, or another verb for the same vault with the
    same trust. None if the command line has no equivalent.
    """
    option, verb = hint.option or "", VERBS.get(hint.action)
    if option in SETTINGS:
        return SETTINGS[option]
    if not asked.verb or option not in ("", *OPTIONS) or (option == "require_signature" and hint.value is not False):
        return None
    if option == "snapshot_id" and isinstance(hint.value, str):
        from colony_memory._format.names import id_time

        if id_time(hint.value) is None:  # chosen by some writer of the vault: it may be "latest", or another's prefix
            return None
    flag, _, word = OPTIONS.get(option, "").partition(" ")
    words = _option(flag, (word if hint.value is None else str(hint.value)) if word else bool(flag))
    again = "backup" if asked.verb == "watch" else asked.verb
    if flag and (hint.action in _OWN or hint.action == again) and flag not in asked.flags:
        return None
    if hint.action in _OWN or (option == "fallback" and flag in asked.flags):  # also run, which begins with a restore
        return _repeated(asked, words)
    if verb == again and option != "snapshot_id":
        # The same again would only repeat the output.
        return None if again in ("list", "verify", "status") and not words else _repeated(asked, words)
    return None if verb is None else _fresh(verb, words, hint, asked)


def _fresh(verb: str, words: list[str], hint: Hint, asked: Asked) -> str:
    params, given = asked.params, {name: asked.params.get(name) for name in (*_CARRIED, "agent", "kinds")}
    label = hint.label or (params["label"] if isinstance(params.get("label"), str) else None)
    arguments: Sequence[str] = ()
    if verb == "backup":
        arguments = params.get("paths") or (params.get("command") or ["PATH"])[:1]
    elif verb == "restore":
        # In "command" the folder comes first, before the program; in "target" last, maybe after a snapshot.
        known = params.get("target") or (params.get("command") or ["DIR"])[:1]
        saved: Sequence[str] = params.get("paths") or ()
        is_folder = hint.action == "merge" and len(saved) == 1 and os.path.isdir(saved[0])  # noqa: PTH112
        arguments = (saved if is_folder else known)[-1:]
        words = [*words, "--merge"] if hint.action == "merge" else words
    elif verb == "init":
        label, given = None, {"vault": params.get("vault")}
    elif verb == "prune" and hint.option is None:
        words = ["--leftovers"]
    if asked.verb == "copy":
        given["vault"] = "URL"  # a copy has two vaults, and the hint does not say which
    return command(verb, *arguments, options=words, label=label, given=given)


def _repeated(asked: Asked, words: list[str]) -> str | None:
    """The command of this run with more options, including those set by the environment."""
    if asked.params.get("note") or asked.params.get("tag"):
        from colony_memory.capture.secrets import shown_names

        if shown_names(asked.argv):  # don't repeat a note or tag that likely has a secret
            return None
    argv, end = list(asked.argv), []
    if "--" in argv:
        index = argv.index("--")
        argv, end = argv[:index], argv[index:]
    for name, flag in {"label": "--label", **_CARRIED}.items():
        if name in asked.from_environment:
            words = _option(flag, asked.params.get(name)) + words
    return " ".join(map(quoted, [PROGRAM, *argv, *words, *end]))


def quoted(word: str) -> str:
    """A word quoted for a shell; characters that would break the line, or not print, as escaped bytes."""
    if word.isprintable():
        import shlex

        return shlex.quote(word)
    return "$'" + "".join(char if char.isprintable() and char not in "'\\" else _bytes_of(char) for char in word) + "'"


def _bytes_of(char: str) -> str:
    # An argument's byte that is not UTF-8 arrived as a lone surrogate; write it as that byte.
    policy = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", policy))


_progress = False  # progress is shown on the last line of the terminal


def say(text: str) -> None:
    """Write one line to stderr, with any characters that could move the cursor escaped."""
    _write_line(shown(text))


def say_json(document: object) -> None:
    """Write one JSON object to stderr, on one line and in ASCII."""
    _write_line(json.dumps(document))


def _write_line(line: str) -> None:
    if _progress:
        show_progress("")
    with contextlib.suppress(OSError):  # there is nowhere else to report it
        write(sys.stderr, f"{line}\n")


def show_progress(text: str) -> None:
    """Show progress on the terminal's last line (stderr), until a line of output or the next call replaces it."""
    global _progress  # noqa: PLW0603 - there is one stderr
    with contextlib.suppress(OSError):
        write(sys.stderr, f"\r\x1b[K{text[: width_of(sys.stderr) - 1]}")
    _progress = bool(text)


def warn(text: str, *, as_json: bool, hint: str | None = None) -> None:
    """Write a warning to stderr: a line, or an object for programs."""
    if as_json:
        say_json({"warning": cut(text), "hint": hint})
    else:
        say(_sentence(cut(text), hint))


def write(stream: TextIO | None, text: str | bytes) -> None:
    """Write text at once, escaping characters that the stream's encoding lacks; or bytes unchanged."""
    if stream is None:  # closed before the process began
        return
    try:
        if isinstance(text, bytes):
            stream.flush()
            stream.buffer.write(text)
            stream.buffer.flush()
        else:
            encoding = getattr(stream, "encoding", None) or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            stream.flush()
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # no descriptor, so nothing to flush
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        raise


@contextlib.contextmanager
def signals_raise(*, first_only: bool = False) -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated`, unless its default action was replaced before.

    With ``first_only`` SIGINT and SIGTERM raise even so, unless ignored as after nohup, and later ones are ignored: the
    clean-up after the first takes only a moment. Outside the main thread nothing is changed.
    """
    import signal
    import threading

    def stop(number: int, _frame: object) -> None:
        if first_only:
            ignore_signals()
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    def is_taken(handler: object) -> bool:
        return handler not in (signal.SIG_IGN, None) if first_only else handler is signal.SIG_DFL

    numbers = [signal.SIGTERM, signal.SIGINT][: 1 + first_only]
    ours = threading.current_thread() is threading.main_thread()
    before = {number: handler for number in numbers if ours and is_taken(handler := signal.getsignal(number))}
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            if first_only or signal.getsignal(number) is stop:
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Ignore further signals: the process is about to end, and reports why."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def warnings_as_lines(asked: Asked) -> Iterator[None]:
    """Write each warning as a line of its own, and mute the log."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text, hint = (message, None) if isinstance(message, str) else (message_of(message), _advice(message, asked))
        warn(text if asked.as_json else f"warning: {text}", as_json=asked.as_json, hint=hint)

    mute_log()
    with warnings.catch_warnings():
        warnings.simplefilter("default", ColonyMemoryWarning)
        warnings.showwarning = show
        yield
