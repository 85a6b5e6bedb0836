"""Options that several verbs share, the group of those that every verb has, and how groups become options."""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.cli.output import Output

#: The environment variables that the command line obeys.
SETTINGS = (
    "COLONY_API_KEY",
    "COLONY_BASE_URL",
    "COLONY_MEMORY_CONFIG",
    "COLONY_MEMORY_VAULT",
    "COLONY_MEMORY_LABEL",
    "COLONY_MEMORY_KEY_FILE",
    "COLONY_MEMORY_TRUST",
    "COLONY_MEMORY_WITNESS",
    "COLONY_MEMORY_ENCRYPT_TO",
    "COLONY_MEMORY_IDENTITY",
    "COLONY_MEMORY_PASSPHRASE_FILE",
)

#: The verbs that are about folders, with the argument that names them, which may be missing if a set names them.
FOLDERS = {
    "backup": "paths", "watch": "paths", "status": "paths", "restore": "target", "run": "command", "guard": "command",
    "hook": "words", "mcp": "directory",
}  # fmt: skip


class Argument:
    """What stands beside options: ``paths: Annotated[list[str], Argument("PATH")]``. The verb's text tells of it."""

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar


class Option:
    """An option: ``note: Annotated[str | None, Option("--note", metavar="TEXT", help="A remark.")] = None``."""

    def __init__(self, *flags: str, help: str, **settings: Any) -> None:  # noqa: A002 - the word for it
        self.flags = flags
        self.settings = {"help": help, **settings}


VaultOption = Annotated[
    str | None,
    Option(
        "--vault",
        metavar="URL",
        envvar="COLONY_MEMORY_VAULT",
        help="Vault: colony: (hosted), file:///absolute/path, s3://bucket/prefix, or a directory; see 'init'. Default: "
        "the hosted one if COLONY_API_KEY is set, else a directory of the user's data.",
    ),
]
LabelOption = Annotated[
    str,
    Option("--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Name of a series of snapshots."),
]
LabelFilter = Annotated[
    str | None,
    Option("--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Only this label. Default: all."),
]
JsonOption = Annotated[bool, Option("--json", help="Print one JSON document, for programs.")]
KeyFileOption = Annotated[
    str | None,
    Option(
        "--key-file",
        metavar="FILE",
        envvar="COLONY_MEMORY_KEY_FILE",
        help="Sign what is written with this key, and trust no other. See 'keygen'.",
    ),
]
TrustOption = Annotated[
    list[str] | None,
    Option(
        "--trust",
        metavar="DID",
        envvar="COLONY_MEMORY_TRUST",
        help="Accept only what this did:key, or the key file's, has signed. DID@ID: up to that snapshot. Repeatable.",
    ),
]
WitnessOption = Annotated[
    str | None,
    Option(
        "--witness",
        metavar="FILE",
        envvar="COLONY_MEMORY_WITNESS",
        help="Note in this file how far each label has come, and refuse a vault that was rolled back.",
    ),
]
AcceptUnsignedOption = Annotated[
    bool, Option("--accept-unsigned", help="Accept snapshots without a signature too, this time.")
]
AcceptPointerOption = Annotated[
    bool,
    Option("--accept-legacy-pointer", help="Accept a pointer without a signature, as version 0.1.1 writes it."),
]
EncryptOption = Annotated[
    list[str] | None,
    Option(
        "--encrypt-to",
        metavar="RECIPIENT",
        envvar="COLONY_MEMORY_ENCRYPT_TO",
        help="Encrypt what is written to this age1... or SSH public key, to those in this file, or, by the word "
        "'passphrase', to a passphrase. Repeatable.",
    ),
]
IdentityOption = Annotated[
    list[Path] | None,
    Option(
        "--identity",
        metavar="FILE",
        envvar="COLONY_MEMORY_IDENTITY",
        help="Decrypt with the key in this file or, by the word 'passphrase', with a passphrase. See 'keygen --age'. "
        "Repeatable.",
    ),
]
PassphraseOption = Annotated[
    str | None,
    Option(
        "--passphrase-file",
        metavar="FILE",
        envvar="COLONY_MEMORY_PASSPHRASE_FILE",
        help="Read the passphrase from this file instead of asking for it.",
    ),
]
PatchOption = Annotated[
    bool,
    Option("--patch", "-p", help="Print what differs, line by line, as 'git apply' and 'patch -p1' take it."),
]
YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]
DryRunOption = Annotated[bool, Option("--dry-run", "-n", help="Show what would be done.")]
NoFillOption = Annotated[bool, Option("--no-fill", help="Leave what the snapshot lacks: take it from no older one.")]
VerboseOption = Annotated[bool, Option("--verbose", "-v", help="Print every name, however many there are.")]
ExcludeOption = Annotated[
    list[str] | None,
    Option(
        "--exclude",
        metavar="GLOB",
        help="Leave out what this matches, like a line of a .cmemignore that comes before all others. Repeatable.",
    ),
]
AllowSecretOption = Annotated[
    list[str] | None,
    Option(
        "--allow-secret",
        metavar="NAME",
        help="Save this one, named as it was reported: FILE:KIND:DIGEST, or FILE:KIND for all of a kind in a file. "
        "Repeatable.",
    ),
]
FormatOption = Annotated[
    str | None,
    Option(
        "--format",
        metavar="1|2",
        help="1: readable by 0.1.1 too. 2: store only what changed (extra zstd). Default: what the vault is made for.",
    ),
]
EveryOption = Annotated[str, Option("--every", metavar="TIME", help="Time between backups: 90s, 15m, 1h30m, 2d.")]
FinalTimeoutOption = Annotated[
    str, Option("--final-timeout", metavar="TIME", help="How long the last backup may take.")
]
PingOption = Annotated[
    str | None,
    Option(
        "--ping",
        metavar="URL",
        help="Notify a monitor as healthchecks.io has it: URL/start before, URL after a success, URL/fail with the "
        "reason after a failure.",
    ),
]
OnErrorOption = Annotated[
    str | None,
    Option(
        "--on-error",
        metavar="COMMAND",
        help="Run this after a failure, for at most 30 s and without a shell. COLONY_MEMORY_ERROR, _KIND, _CODE and "
        "_LABEL in its environment describe the failure.",
    ),
]
ConfigOption = Annotated[
    str | None,
    Option(
        "--config",
        metavar="FILE",
        envvar="COLONY_MEMORY_CONFIG",
        help="Configuration file. Default: config.toml in the user's configuration directory; see 'config'.",
    ),
]
SetOption = Annotated[
    str | None, Option("--set", metavar="NAME", help="Use the paths, label and vault of this set in that file.")
]
AgentOption = Annotated[
    str | None,
    Option(
        "--agent",
        metavar="claude-code|openclaw|hermes|codex",
        help="Save or restore the memory of this host of agents, wherever it keeps it, under a label of that name.",
    ),
]
KindsOption = Annotated[
    list[str] | None,
    Option(
        "--with",
        metavar="KIND",
        help="With --agent: what of the host is taken besides memory, such as transcripts,skills. Repeatable.",
    ),
]
ProjectOption = Annotated[
    str | None,
    Option(
        "--project",
        metavar="PATH",
        help="With --agent claude-code: the path that the snapshot's only project has on this machine.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    Option(
        "--map",
        metavar="OLD=NEW",
        help="The same for one of several: its old path or its folder's name, and its path here. Repeatable.",
    ),
]
QuietOption = Annotated[
    bool, Option("--quiet", "-q", help="Print only warnings, errors, and tables that were asked for.")
]


@dataclass(frozen=True)
class CommonOptions:
    """The options of every verb that works with a vault.

    A verb takes them as one argument, ``common: CommonOptions``; the fields are its options.
    """

    vault: VaultOption = None
    key_file: KeyFileOption = None
    trust: TrustOption = None
    witness: WitnessOption = None
    accept_unsigned: AcceptUnsignedOption = False
    accept_legacy_pointer: AcceptPointerOption = False
    encrypt_to: EncryptOption = None
    identity: IdentityOption = None
    passphrase_file: PassphraseOption = None
    config: ConfigOption = None
    set_name: SetOption = None
    agent: AgentOption = None
    kinds: KindsOption = None
    as_json: JsonOption = False
    quiet: QuietOption = False

    @property
    def output(self) -> Output:
        """Where the answers go."""
        from colony_memory.cli.output import Output

        return Output(self.as_json, self.quiet)


def split_positional(given: Sequence[str], last: str) -> tuple[str | None, str]:
    """The ID, or None, and the argument that comes last."""
    from colony_memory.app.pick import names_a_snapshot

    if len(given) > 2:
        raise ValueError(f"give an ID and a {last}, or a {last} alone: {given[2]!r} is too much")
    if len(given) == 1 and names_a_snapshot(given[0]) and not Path(given[0]).exists():
        raise ValueError(
            f"{given[0]!r} names a snapshot, and the {last} is missing"
            + ("; a folder is ./" + given[0] if last == "DIR" else "")
        )
    return (given[0] if len(given) == 2 else None), given[-1]


def refuse_empty_settings() -> None:
    """Refuse an empty variable, rather than take it for one that is not set."""
    from colony_memory.app.place import read_setting

    for name in SETTINGS:
        read_setting(name)


class Without(frozenset[str]):
    """The options of a group that a verb does not take: ``saving: Annotated[SavingOptions, Without({"note"})]``."""


class Parameter(NamedTuple):
    """A parameter of a verb, those of its groups included."""

    name: str
    kind: Any  # its type: str, int, bool or Path, several of them as a list, or None too
    declared: Argument | Option  # how it is given
    default: Any  # what it is where it is not given; that of the inspect module where it has to be
    group: str | None = None  # the argument of the verb that it is a field of, None where it is one itself


def parameters_of(run: Callable[..., int]) -> tuple[list[Parameter], dict[str, Any]]:
    """The parameters of a verb, and its arguments that are dataclasses, each with the dataclass that it takes."""
    found: list[Parameter] = []
    groups: dict[str, Any] = {}
    # Not get_type_hints() of the function: before Python 3.11 it wraps what has the default None.
    for each in inspect.signature(run, eval_str=True).parameters.values():
        kind, *told = get_args(each.annotation) or [each.annotation]
        if not is_dataclass(kind):
            found.append(Parameter(each.name, kind, told[0], each.default))
            continue
        groups[each.name] = kind
        left_out = {name for one in told if isinstance(one, Without) for name in one}
        of_fields = get_type_hints(kind, include_extras=True)
        found += [
            _of_field(one.name, of_fields[one.name], one.default, each.name)
            for one in fields(kind)
            if one.name not in left_out
        ]
    return found, groups


def _of_field(name: str, annotation: Any, default: Any, group: str) -> Parameter:
    kind, declared = get_args(annotation)
    return Parameter(name, kind, declared, default, group)
