"""Options that several verbs share, the group of those that every verb has, and how groups become options."""

from __future__ import annotations

import functools
import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

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
}  # fmt: skip

# Each verb's text tells of its arguments: typer's own list of them speaks of Python types.
VaultOption = Annotated[
    str | None,
    typer.Option(
        "--vault",
        metavar="URL",
        envvar="COLONY_MEMORY_VAULT",
        help="Vault: colony: (hosted), file:///absolute/path, s3://bucket/prefix, or a directory; see 'init'. Default: "
        "the hosted one if COLONY_API_KEY is set, else a directory of the user's data.",
    ),
]
LabelOption = Annotated[
    str,
    typer.Option("--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Name of a series of snapshots."),
]
LabelFilter = Annotated[
    str | None,
    typer.Option("--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Only this label. Default: all."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
KeyFileOption = Annotated[
    str | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        envvar="COLONY_MEMORY_KEY_FILE",
        help="Sign what is written with this key, and trust no other. See 'keygen'.",
    ),
]
TrustOption = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="DID",
        envvar="COLONY_MEMORY_TRUST",
        help="Accept only what this did:key, or the key file's, has signed. DID@ID: up to that snapshot. Repeatable.",
    ),
]
WitnessOption = Annotated[
    str | None,
    typer.Option(
        "--witness",
        metavar="FILE",
        envvar="COLONY_MEMORY_WITNESS",
        help="Note in this file how far each label has come, and refuse a vault that was rolled back.",
    ),
]
AcceptUnsignedOption = Annotated[
    bool, typer.Option("--accept-unsigned", help="Accept snapshots without a signature too, this time.")
]
AcceptPointerOption = Annotated[
    bool,
    typer.Option("--accept-legacy-pointer", help="Accept a pointer without a signature, as version 0.1.1 writes it."),
]
EncryptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--encrypt-to",
        metavar="RECIPIENT",
        envvar="COLONY_MEMORY_ENCRYPT_TO",
        help="Encrypt what is written to this age1... or SSH public key, to those in this file, or, by the word "
        "'passphrase', to a passphrase. Repeatable.",
    ),
]
IdentityOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--identity",
        metavar="FILE",
        envvar="COLONY_MEMORY_IDENTITY",
        help="Decrypt with the key in this file or, by the word 'passphrase', with a passphrase. See 'keygen --age'. "
        "Repeatable.",
    ),
]
PassphraseOption = Annotated[
    str | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        envvar="COLONY_MEMORY_PASSPHRASE_FILE",
        help="Read the passphrase from this file instead of asking for it.",
    ),
]
PatchOption = Annotated[
    bool,
    typer.Option("--patch", "-p", help="Print what differs, line by line, as 'git apply' and 'patch -p1' take it."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done.")]
NoFillOption = Annotated[
    bool, typer.Option("--no-fill", help="Leave what the snapshot lacks: take it from no older one.")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Print every name, however many there are.")]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Leave out what this matches, like a line of a .cmemignore that comes before all others. Repeatable.",
    ),
]
ConvertOption = Annotated[
    str | None,
    typer.Option("--format", metavar="1|2", help="Convert what is in the other format. Default: copy it as it is."),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="1|2",
        help="1: readable by 0.1.1 too. 2: store only what changed (extra zstd). Default: what the vault is made for.",
    ),
]
EveryOption = Annotated[str, typer.Option("--every", metavar="TIME", help="Time between backups: 90s, 15m, 1h30m, 2d.")]
FinalTimeoutOption = Annotated[
    str, typer.Option("--final-timeout", metavar="TIME", help="How long the last backup may take.")
]
PingOption = Annotated[
    str | None,
    typer.Option(
        "--ping",
        metavar="URL",
        help="Notify a monitor as healthchecks.io has it: URL/start before, URL after a success, URL/fail with the "
        "reason after a failure.",
    ),
]
OnErrorOption = Annotated[
    str | None,
    typer.Option(
        "--on-error",
        metavar="COMMAND",
        help="Run this after a failure, for at most 30 s and without a shell. COLONY_MEMORY_ERROR, _KIND, _CODE and "
        "_LABEL in its environment describe the failure.",
    ),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="COLONY_MEMORY_CONFIG",
        help="Configuration file. Default: config.toml in the user's configuration directory; see 'config'.",
    ),
]
SetOption = Annotated[
    str | None, typer.Option("--set", metavar="NAME", help="Use the paths, label and vault of this set in that file.")
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="claude-code|openclaw|hermes|codex",
        help="Save or restore the memory of this host of agents, wherever it keeps it, under a label of that name.",
    ),
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        metavar="PATH",
        help="With --agent claude-code: the path that the snapshot's only project has on this machine.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        help="The same for one of several: its old path or its folder's name, and its path here. Repeatable.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only warnings, errors, and tables that were asked for.")
]


@dataclass(frozen=True)
class CommonOptions:
    """The options of every verb that works with a vault.

    A verb takes them as one argument, ``common: CommonOptions``; :func:`spread` turns the fields into options.
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
    as_json: JsonOption = False
    quiet: QuietOption = False

    @property
    def output(self) -> Output:
        """Where the answers go."""
        from colony_memory.cli.output import Output

        return Output(self.as_json, self.quiet)


def split_positional(given: Sequence[str], last: str) -> tuple[str | None, str]:
    """The ID, or None, and the argument that comes last.

    Raises:
        ValueError: More than two are given, or only one, and it names a snapshot.
    """
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
    """Refuse an empty variable, rather than take it for one that is not set.

    Raises:
        ValueError: There is one.
    """
    from colony_memory.app.place import read_setting

    for name in SETTINGS:
        read_setting(name)


class Without(frozenset[str]):
    """The options of a group that a verb does not take: ``saving: Annotated[SavingOptions, Without({"note"})]``."""


def spread(run: Callable[..., int]) -> Callable[..., int]:
    """The same function with each argument that is a dataclass in the form of that dataclass's fields."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, list[str]]] = {}
    # Not get_type_hints() of the function: before Python 3.11 it wraps what has the default None.
    for parameter in inspect.signature(run, eval_str=True).parameters.values():
        kind, *told = get_args(parameter.annotation) or [parameter.annotation]
        if not is_dataclass(kind):
            parameters.append(parameter)
            continue
        of_fields = get_type_hints(kind, include_extras=True)
        left_out = {name for each in told if isinstance(each, Without) for name in each}
        taken = [each for each in fields(kind) if each.name not in left_out]
        groups[parameter.name] = kind, [each.name for each in taken]
        parameters += [
            inspect.Parameter(
                each.name, inspect.Parameter.KEYWORD_ONLY, default=each.default, annotation=of_fields[each.name]
            )
            for each in taken
        ]

    @functools.wraps(run)
    def gathered(**given: Any) -> int:
        for name, (kind, names) in groups.items():
            given[name] = kind(**{each: given.pop(each) for each in names})
        return run(**given)

    # typer looks at both, and would go on to the function that is wrapped.
    del gathered.__wrapped__
    gathered.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gathered
