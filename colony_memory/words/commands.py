"""Pure: commands that can be pasted as they stand, and what a hint of the library is as one."""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from colony_memory.exceptions import Hint

PROGRAM = "colony-memory"

#: Options that say where the memory is and what is trusted there: a command for the same vault has them too.
_CARRIED = {
    "vault": "--vault",
    "key_file": "--key-file",
    "trust": "--trust",
    "witness": "--witness",
    "accept_unsigned": "--accept-unsigned",
    "accept_legacy_pointer": "--accept-legacy-pointer",
    "encrypt_to": "--encrypt-to",
    "identity": "--identity",
    "passphrase_file": "--passphrase-file",
}
_OF_FOLDERS = frozenset({"backup", "restore", "status", "watch"})
#: Those options.
WHERE = frozenset(_CARRIED.values())


@dataclass
class Asked:
    """The request of this run, as far as it was understood yet."""

    argv: Sequence[str] = ()  # the arguments as they were given
    verb: str = ""  # the verb, empty until its options were read
    params: Mapping[str, Any] = MappingProxyType({})  # what its arguments and options came to
    from_environment: frozenset[str] = frozenset()  # those parameters that environment variables gave
    verbs: Sequence[str] = ()  # the verbs that this version has
    flags: frozenset[str] = frozenset()  # the options that the verb has
    set_name: str = ""  # the set that this run of several is about, empty where there is one run

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


#: The verb that does what a method of the library does.
VERBS = {
    **{name: name for name in ("backup", "restore", "verify", "prune", "rewrite", "status", "init")},
    "list_snapshots": "list",
    "delete_snapshot": "delete",
    "inspect": "status",
    "merge": "restore",
}
#: What it takes beside options: the parameter that this run may have given already, and a word for what only the user
#: can know.
_NEEDS = {"backup": ("paths", "PATH"), "restore": ("target", "DIR")}

#: The option that does what an argument does: with a word in its place where a value only the user knows is missing.
#: An empty option is a value that stands for itself.
OPTIONS: dict[tuple[str, str], tuple[str, str]] = {
    ("open", "signer"): ("--key-file", "FILE"),
    ("open", "trusted_issuers"): ("--trust", "DID"),
    ("open", "witness"): ("--witness", "FILE"),
    ("open", "backend"): ("--vault", "URL"),
    ("open", "require_signature"): ("--accept-unsigned", ""),
    ("open", "accept_legacy_pointer"): ("--accept-legacy-pointer", ""),
    ("open", "encrypt_to"): ("--encrypt-to", "RECIPIENT"),
    ("open", "identities"): ("--identity", "FILE"),
    ("init", "create"): ("", ""),
    ("backup", "signer"): ("--key-file", "FILE"),
    ("backup", "on_conflict"): ("--on-conflict", "merge"),
    ("backup", "prune_keep"): ("--keep", "N"),
    ("backup", "retention"): ("--keep", "N"),
    ("restore", "snapshot_id"): ("", "ID"),
    ("restore", "fallback"): ("--fallback", ""),
    ("restore", "names"): ("--only", "GLOB"),
    ("verify", "snapshot_id"): ("", "ID"),
    ("delete_snapshot", "snapshot_id"): ("", "ID"),
    ("prune", "keep"): ("--keep", "N"),
    ("rewrite", "format"): ("--format", "1"),
    ("read_folder", "secrets"): ("--secrets", "mask"),
    ("read_folder", "allow_secrets"): ("--allow-secret", "NAME"),
    ("merge", "snapshot_id"): ("", "ID"),
    ("restore_folder", "snapshot_first"): ("--snapshot-first", ""),
}

#: What is said in the place of a command: an argument that an environment variable gives.
SETTINGS = {
    ("open", "api_key"): "set COLONY_API_KEY",
    ("open", "base_url"): "set COLONY_BASE_URL",
}

#: For arguments of these the run is repeated with an option more: the verbs that have it.
_REPEATED = {
    "open": None,
    "read_folder": ("backup", "watch", "run", "guard", "restore"),
    "restore_folder": ("restore",),
}
_SAME = {"watch": "backup"}
_LOOKS = frozenset({"list", "verify", "status"})


def command(
    verb: str,
    *arguments: str,
    options: Iterable[str] = (),
    label: str | None = None,
    given: Mapping[str, Any],
) -> str:
    """A command about the vault, and with the trust, that the options of this run gave."""
    chosen = _chosen(given) if verb in _OF_FOLDERS else []
    if chosen:
        from colony_memory.app.pick import names_a_snapshot

        # It says where the folder is, and what of it is left out.
        arguments = tuple(each for each in arguments if verb == "restore" and names_a_snapshot(each))
    words = [PROGRAM, verb, *options]
    words += [f"./{each}" if each.startswith("-") and each != "-" else each for each in arguments]
    words += chosen
    if label is not None and (label != "default" or os.environ.get("COLONY_MEMORY_LABEL")):
        words += _option("--label", label)
    for name, flag in _CARRIED.items():
        words += _carried(flag, given.get(name))
    return " ".join(map(quoted, words))


def _chosen(given: Mapping[str, Any]) -> list[str]:
    if given.get("set_name"):
        return ["--set", given["set_name"]]
    words = ["--agent", given["agent"]] if given.get("agent") else []
    return words + (["--with", ",".join(given["kinds"])] if words and given.get("kinds") else [])


def worded(hint: Hint, asked: Asked) -> str | None:
    """The hint in the words of the command line, None where that has no such thing."""
    key = (hint.action, hint.option or "")
    if key in SETTINGS:
        return SETTINGS[key]
    option = None if hint.option is None else OPTIONS.get(key)
    if not asked.verb or (hint.option is not None and option is None):
        return None
    if key == ("open", "require_signature") and hint.value is not False:
        return None
    if hint.option == "snapshot_id" and isinstance(hint.value, str) and not _is_id(hint.value):
        # Whoever can write to the vault chose it: it may be the beginning of another's, or "latest".
        return None
    value = hint.value if isinstance(hint.value, str) else None if option is None else option[1]
    words = [] if option in (None, ("", "")) else _option(option[0], value if option[1] else None)
    words += ["--merge"] if hint.action == "merge" else []
    again = _SAME.get(asked.verb, asked.verb)
    # A value that stands for itself is no option.
    flag = None if option is None or (option[1] and not option[0]) else option[0]
    if flag is not None and hint.action in (*_REPEATED, again) and flag not in asked.flags:
        return None
    if hint.action in _REPEATED:
        verbs = _REPEATED[hint.action]
        says = verbs is None or asked.verb in verbs
        return _repeated(asked, words) if says and not _says_a_secret(asked) else None
    verb = VERBS.get(hint.action)
    if verb is None or verb not in asked.verbs:
        return None
    if key == ("restore", "fallback") and flag in asked.flags:
        return _repeated(asked, words)  # of run too, which begins with one
    if verb == again and hint.option != "snapshot_id":
        # What has just been shown would be shown again.
        return None if (again in _LOOKS and not words) or _says_a_secret(asked) else _repeated(asked, words)
    return _fresh(verb, words, hint, asked)


def _is_id(text: str) -> bool:
    from colony_memory._format.names import id_time

    return id_time(text) is not None


def _fresh(verb: str, words: list[str], hint: Hint, asked: Asked) -> str:
    """Another verb about the same vault, with the same trust."""
    params, label, arguments = asked.params, hint.label, list[str]()
    if label is None and isinstance(params.get("label"), str):
        label = params["label"]
    if verb in _NEEDS:
        name, word = _NEEDS[verb]
        # Of what starts a command, the folder stands before it.
        known = params.get(name) or (params.get("command") or [word])[:1]
        saved: Sequence[str] = params.get("paths") or ()
        if hint.action == "merge" and len(saved) == 1 and os.path.isdir(saved[0]):  # noqa: PTH112 - no need of pathlib
            known = saved
        # Before the folder a restore may have been told another snapshot.
        arguments += [known] if isinstance(known, str) else known[-1:] if verb == "restore" else known
    if verb == "init":
        label, given = None, {"vault": params.get("vault")}
    else:
        given = {name: params.get(name) for name in (*_CARRIED, "set_name", "agent", "kinds")}
    if asked.verb == "copy":
        given["vault"] = "URL"  # one of two, and the hint does not say which
    options = ("--keep", "5") if verb == "prune" and hint.option is None else ()
    return command(verb, *arguments, options=(*options, *words), label=label, given=given)


def _says_a_secret(asked: Asked) -> bool:
    """The note or a tag of this run likely holds a secret, which is not to be shown again."""
    if not (asked.params.get("note") or asked.params.get("tag")):
        return False
    from colony_memory.capture.secrets import shown_names

    return bool(shown_names(asked.argv))


def _repeated(asked: Asked, words: list[str]) -> str:
    """The run as it was asked for, with more options; what the environment gave is said too."""
    argv, end = list(asked.argv), []
    if "--" in argv:
        at = argv.index("--")
        argv, end = argv[:at], argv[at:]
    if asked.set_name and not any(each.partition("=")[0] == "--set" for each in argv):
        words = [*words, "--set", asked.set_name]
    for name, flag in {"label": "--label", **_CARRIED}.items():
        if name in asked.from_environment:
            words = _carried(flag, asked.params.get(name)) + words
    return " ".join(map(quoted, [PROGRAM, *argv, *words, *end]))


def _option(flag: str, value: str | None) -> list[str]:
    if value is None:
        return [flag]
    if not flag:
        return [value]
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def _carried(flag: str, value: object) -> list[str]:
    if isinstance(value, str):
        return _option(flag, value)
    if isinstance(value, (list, tuple)):
        return [word for each in value for word in _option(flag, str(each))]
    return [flag] if value is True else []


def quoted(word: str) -> str:
    r"""The word as a shell reads it; what would not stay on one line, or show as it is, by its bytes.

    >>> print(quoted("my vault"), quoted("a'b"), quoted("two" + chr(10) + "lines"))
    'my vault' 'a'"'"'b' $'two\x0alines'
    """
    if word.isprintable():
        import shlex

        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    if char.isprintable():
        return char
    # A byte of an argument that is no UTF-8 came as a lone surrogate, and goes as that byte.
    how = "surrogateescape" if "\udc80" <= char <= "\udcff" else "surrogatepass"
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", how))
