"""An error as one line on stderr, or one JSON object there for programs, with an exit code, where to read on, and the
command that helps: one that can be pasted as it stands. Needs no extra.
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
    """SIGTERM came. What an interrupt undoes, this undoes too."""


#: The exit code of a kind of error, and its part of the page for trouble.
_KINDS: dict[str, tuple[int, str | None]] = {
    "UnsupportedFormat": (NOT_PROVEN, ""),  # nothing stands there of it
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
#: Characters of a message, or of a hint.
_LONGEST = 2000
_MISSING = "the command line needs the extra 'cli': pip install 'colony-memory[cli]'"

#: Options that say where the memory is and what is trusted there: a command for the same vault has them too.
_CARRIED = {
    name: f"--{name.replace('_', '-')}"
    for name in (
        *("vault", "key_file", "trust", "witness", "accept_unsigned", "accept_legacy_pointer"),
        *("encrypt_to", "identity", "passphrase_file"),
    )
}
WHERE = frozenset(_CARRIED.values())
#: The verb that does what a method of the library does.
VERBS = {
    **{name: name for name in ("backup", "restore", "verify", "prune", "rewrite", "status", "init")},
    "list_snapshots": "list",
    "delete_snapshot": "delete",
    "inspect": "status",
    "merge": "restore",
}
#: The option that does what an argument does, with a word for a value that only the user knows.
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
    "secrets": "--secrets mask",
    "allow_secrets": "--allow-secret NAME",
    "snapshot_first": "--snapshot-first",
}
#: What is said in the place of a command: an argument that an environment variable gives.
SETTINGS = {"api_key": "set COLONY_API_KEY", "base_url": "set COLONY_BASE_URL"}
#: Of these the arguments are options of the run itself.
_OWN = ("open", "read_folder", "restore_folder")


class Asked(Record):
    """The request of this run, as far as it was understood yet."""

    argv: Sequence[str] = ()  # the arguments as they were given
    verb: str = ""  # the verb, empty until its options were read
    params: Mapping[str, Any] = MappingProxyType({})  # what its arguments and options came to
    from_environment: frozenset[str] = frozenset()  # those parameters that environment variables gave
    flags: frozenset[str] = frozenset()  # the options that the verb has

    @property
    def as_json(self) -> bool:
        """A program reads the answer."""
        argv = list(self.argv)
        options = argv[: argv.index("--")] if "--" in argv else argv
        return bool(self.params.get("as_json", "--json" in options))

    @property
    def by_host(self) -> bool:
        """A program that runs agents calls this as one of its hooks."""
        verb, *others = self.argv or ("",)
        return verb == "hook" and not {"install", "uninstall"} & set(others[:1])


class Failure(Exception):
    """A finding of the command line itself, or more than the error says."""

    def __init__(self, message: str, *, code: int, hint: Hint | None = None, advice: str | None = None) -> None:
        super().__init__(message)
        self.code, self.hint, self.advice = code, hint, advice


class UsageError(Failure):
    """The arguments could not be understood."""

    def __init__(self, message: str, *, advice: str) -> None:
        super().__init__(message, code=USAGE, advice=advice)


def _kind(kind: type) -> tuple[int, str | None]:
    return next((_KINDS[each.__name__] for each in kind.__mro__ if each.__name__ in _KINDS), (FAILED, None))


def exit_code(error: BaseException) -> int:
    """The exit code that says what kind of error it was."""
    return error.code if isinstance(error, Failure) else _kind(type(error))[0]


def part_for(kind: type) -> str | None:
    """The part of the page for trouble that is about a kind of error, None where there is none."""
    return _kind(kind)[1]


def address_for(error: BaseException) -> str | None:
    """Where to read of such an error, None where nothing stands of it."""
    # What the command line has more to say of than the error did was raised from that error.
    parts = (part_for(type(each)) for each in (error, error.__cause__))
    part = next((each for each in parts if each is not None), None)
    return f"{PAGE}#{part}" if part else None


def report_failure(error: BaseException, asked: Asked | None = None) -> int:
    """Write the line, or for a program the object, and return the code."""
    asked, code = asked or Asked(), exit_code(error)
    if isinstance(error, SecretsFound):
        for finding in error.findings[:FEW]:  # with the command that saves it as it is
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
        return error.summary  # the list was given
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "click":
        return _MISSING
    if isinstance(error, KeyboardInterrupt):
        return "terminated" if isinstance(error, Terminated) else "interrupted"
    text = message_of(error)
    if isinstance(error, (Failure, ColonyMemoryError, ValueError)) and text:
        return cut(text)
    # Not foreseen, so its kind is needed to make sense of it.
    return cut(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def kind_of(error: BaseException) -> str:
    """The library's name for it, whatever the command line has added."""
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


def command(
    verb: str, *arguments: str, options: Iterable[str] = (), label: str | None = None, given: Mapping[str, Any]
) -> str:
    """A command about the vault, and with the trust, that the options of this run gave."""
    chosen = list[str]()
    if verb in ("backup", "restore", "status", "watch") and given.get("agent"):
        from colony_memory.shell.app.pick import names_a_snapshot

        # It says where the folder is, and what of it is left out.
        chosen = ["--agent", given["agent"], *(["--with", ",".join(given["kinds"])] if given.get("kinds") else [])]
        arguments = tuple(each for each in arguments if verb == "restore" and names_a_snapshot(each))
    words = [PROGRAM, verb, *options]
    words += [f"./{each}" if each.startswith("-") and each != "-" else each for each in arguments]
    words += chosen
    if label is not None and (label != "default" or os.environ.get("COLONY_MEMORY_LABEL")):
        words += _option("--label", label)
    for name, flag in _CARRIED.items():
        words += _option(flag, given.get(name))
    return " ".join(map(quoted, words))


def _option(flag: str, value: object) -> list[str]:
    """The words that give this value: none for none, and several for several."""
    if isinstance(value, (list, tuple)):
        return [word for each in value for word in _option(flag, str(each))]
    if not isinstance(value, str):
        return [flag] if value is True else []
    return ([f"{flag}={value}"] if value.startswith("-") else [flag, value]) if flag else [value]


def worded(hint: Hint, asked: Asked) -> str | None:
    """The hint in the words of the command line, None where that has no such thing: this run with one more option, or
    another verb for the same vault, with the same trust.
    """
    option, verb = hint.option or "", VERBS.get(hint.action)
    if option in SETTINGS:
        return SETTINGS[option]
    if not asked.verb or option not in ("", *OPTIONS) or (option == "require_signature" and hint.value is not False):
        return None
    if option == "snapshot_id" and isinstance(hint.value, str):
        from colony_memory._format.names import id_time

        if id_time(hint.value) is None:  # whoever can write to the vault chose it: it may begin another's, or be latest
            return None
    flag, _, word = OPTIONS.get(option, "").partition(" ")
    words = _option(flag, (hint.value if isinstance(hint.value, str) else word) if word else bool(flag))
    again = "backup" if asked.verb == "watch" else asked.verb
    if flag and (hint.action in _OWN or hint.action == again) and flag not in asked.flags:
        return None
    if hint.action in _OWN or (option == "fallback" and flag in asked.flags):  # of run too, which begins with a restore
        return _repeated(asked, words)
    if verb == again and option != "snapshot_id":
        # What has just been shown would be shown again.
        return None if again in ("list", "verify", "status") and not words else _repeated(asked, words)
    return None if verb is None else _fresh(verb, words, hint, asked)


def _fresh(verb: str, words: list[str], hint: Hint, asked: Asked) -> str:
    params, given = asked.params, {name: asked.params.get(name) for name in (*_CARRIED, "agent", "kinds")}
    label = hint.label or (params["label"] if isinstance(params.get("label"), str) else None)
    arguments: Sequence[str] = ()
    if verb == "backup":
        arguments = params.get("paths") or (params.get("command") or ["PATH"])[:1]
    elif verb == "restore":
        # Of what starts a command, the folder stands before it; before the folder may stand another snapshot.
        known = params.get("target") or (params.get("command") or ["DIR"])[:1]
        saved: Sequence[str] = params.get("paths") or ()
        is_folder = hint.action == "merge" and len(saved) == 1 and os.path.isdir(saved[0])  # noqa: PTH112
        arguments = (saved if is_folder else known)[-1:]
        words = [*words, "--merge"] if hint.action == "merge" else words
    elif verb == "init":
        label, given = None, {"vault": params.get("vault")}
    elif verb == "prune" and hint.option is None:
        words = ["--keep", "5"]
    if asked.verb == "copy":
        given["vault"] = "URL"  # one of two, and the hint does not say which
    return command(verb, *arguments, options=words, label=label, given=given)


def _repeated(asked: Asked, words: list[str]) -> str | None:
    """The run as it was asked for, with more options; what the environment gave is said too."""
    if asked.params.get("note") or asked.params.get("tag"):
        from colony_memory.capture.secrets import shown_names

        if shown_names(asked.argv):  # a note or tag that likely holds a secret is not to be shown again
            return None
    argv, end = list(asked.argv), []
    if "--" in argv:
        at = argv.index("--")
        argv, end = argv[:at], argv[at:]
    for name, flag in {"label": "--label", **_CARRIED}.items():
        if name in asked.from_environment:
            words = _option(flag, asked.params.get(name)) + words
    return " ".join(map(quoted, [PROGRAM, *argv, *words, *end]))


def quoted(word: str) -> str:
    """The word as a shell reads it; what would not stay on one line, or show as it is, by its bytes."""
    if word.isprintable():
        import shlex

        return shlex.quote(word)
    return "$'" + "".join(char if char.isprintable() and char not in "'\\" else _bytes_of(char) for char in word) + "'"


def _bytes_of(char: str) -> str:
    # A byte of an argument that is no UTF-8 came as a lone surrogate, and goes as that byte.
    how = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", how))


_progress = False  # work under way is shown on the last line of the terminal


def say(text: str) -> None:
    """Write one line to stderr, whatever characters are in it."""
    _write_line(shown(text))


def say_json(document: object) -> None:
    """Write one JSON object to stderr, on one line and in ASCII."""
    _write_line(json.dumps(document))


def _write_line(line: str) -> None:
    if _progress:
        show_progress("")
    with contextlib.suppress(OSError):  # there is no other place to tell of it
        write(sys.stderr, f"{line}\n")


def show_progress(text: str) -> None:
    """Show this on the last line of the terminal that stderr is, until a line or the next call takes its place."""
    global _progress  # noqa: PLW0603 - there is one stderr
    with contextlib.suppress(OSError):
        write(sys.stderr, f"\r\x1b[K{text[: width_of(sys.stderr) - 1]}")
    _progress = bool(text)


def warn(text: str, *, as_json: bool, hint: str | None = None) -> None:
    """Write to stderr what is wrong, though it goes on: a line, or an object for programs."""
    if as_json:
        say_json({"warning": cut(text), "hint": hint})
    else:
        say(_sentence(cut(text), hint))


def write(stream: TextIO | None, text: str | bytes) -> None:
    """Write text at once, with an escape for what the stream's encoding lacks; or bytes, as they are."""
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
        with contextlib.suppress(OSError, ValueError):  # no descriptor: nothing is left to flush
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        raise


@contextlib.contextmanager
def signals_raise(*, first_only: bool = False) -> Iterator[None]:
    """Let SIGTERM raise :class:`Terminated`, unless somebody else has said what it is to do.

    With ``first_only`` SIGINT and SIGTERM raise in any case, unless ignored as after nohup, and no notice is taken of
    more: what the first one undoes ends in a moment. Outside of the main thread nothing is changed.
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
    """Take no notice of further signals: the process is about to end, and tells why."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def warnings_as_lines(asked: Asked) -> Iterator[None]:
    """Write each warning as a line of its own, and what is logged not at all."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text, hint = (message, None) if isinstance(message, str) else (message_of(message), _advice(message, asked))
        warn(text if asked.as_json else f"warning: {text}", as_json=asked.as_json, hint=hint)

    mute_log()
    with warnings.catch_warnings():
        warnings.simplefilter("default", ColonyMemoryWarning)
        warnings.showwarning = show
        yield
