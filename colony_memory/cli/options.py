"""Options that several verbs share, and the group of those that every verb has."""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.cli.output import Output
    from colony_memory.retention import Retention

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

#: The verbs that are about folders, with the argument that names them. Where a set names them it may be missing.
FOLDERS = {
    "backup": "paths", "watch": "paths", "status": "paths", "restore": "target", "run": "command", "guard": "command",
}  # fmt: skip

# Arguments are told of in each verb's text: typer's own list of them speaks of Python types.
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
        help="Sign with this key what is written, and trust it alone. See 'keygen'.",
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
        help="Keep in this file how far each label has come, and refuse a vault that was rolled back.",
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
        help="Encrypt what is written to this age1... or SSH public key, to those in this file, or to the word "
        "'passphrase'. Repeatable.",
    ),
]
IdentityOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--identity",
        metavar="FILE",
        envvar="COLONY_MEMORY_IDENTITY",
        help="Open what is encrypted with the key in this file, or with the word 'passphrase'. See 'keygen --age'. "
        "Repeatable.",
    ),
]
PassphraseOption = Annotated[
    str | None,
    typer.Option(
        "--passphrase-file",
        metavar="FILE",
        envvar="COLONY_MEMORY_PASSPHRASE_FILE",
        help="Take the passphrase from this file, and do not ask for it.",
    ),
]
PatchOption = Annotated[
    bool,
    typer.Option("--patch", "-p", help="Print what differs, line by line, as 'git apply' and 'patch -p1' take it."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Needed where there is no terminal.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Tell every name, however many there are.")]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="GLOB",
        help="Leave out what this matches, as a line of a .cmemignore would, and before all of those. Repeatable.",
    ),
]
SecretsOption = Annotated[
    str,
    typer.Option(
        "--secrets",
        metavar="stop|warn|mask|allow",
        help="What to do about likely secrets: save nothing, warn, replace them, or not look for any.",
    ),
]
AllowSecretOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-secret",
        metavar="NAME",
        help="Save this one, named as it was told: FILE:KIND:DIGEST, or FILE:KIND for all of a kind in a file. "
        "Repeatable.",
    ),
]
GitOption = Annotated[
    bool, typer.Option("--git", help="Take git repositories along, each as a bundle beside its files.")
]
ConvertOption = Annotated[
    str | None,
    typer.Option("--format", metavar="1|2", help="Convert what is of the other format. Default: all as it is."),
]
KeepOption = Annotated[
    int | None,
    typer.Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
]
OnConflictOption = Annotated[
    str,
    typer.Option(
        "--on-conflict",
        metavar="raise|continue|merge",
        help="Where another client saves in between: store both and fail; the same, and let the newer one be the "
        "latest; or join both line by line.",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="1|2",
        help="Write what 0.1.1 reads too, or store only what changed (extra zstd). Default: what the vault is for.",
    ),
]
EveryOption = Annotated[str, typer.Option("--every", metavar="TIME", help="Time between backups: 90s, 15m, 1h30m, 2d.")]
FinalTimeoutOption = Annotated[
    str, typer.Option("--final-timeout", metavar="TIME", help="Time that the last backup may take.")
]
PingOption = Annotated[
    str | None,
    typer.Option(
        "--ping",
        metavar="URL",
        help="Tell a monitor: URL/start before, URL after a success, URL/fail with the reason after a failure, as "
        "healthchecks.io takes it.",
    ),
]
OnErrorOption = Annotated[
    str | None,
    typer.Option(
        "--on-error",
        metavar="COMMAND",
        help="Run this after a failure, for 30 s at most and without a shell. COLONY_MEMORY_ERROR, _KIND, _CODE and "
        "_LABEL in its environment tell of it.",
    ),
]
ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="COLONY_MEMORY_CONFIG",
        help="Configuration file. Default: config.toml in the user's directory for configuration; see 'config'.",
    ),
]
SetOption = Annotated[
    str | None, typer.Option("--set", metavar="NAME", help="The paths, label and vault of this set of the file.")
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="claude-code|openclaw|hermes|codex",
        help="The memory of this host of agents, wherever it keeps it, under a label of that name.",
    ),
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        metavar="PATH",
        help="With --agent claude-code: where the snapshot's one project lies on this machine.",
    ),
]
MapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="OLD=NEW",
        help="The same for one of several: its path before, or its folder's name, and its path here. Repeatable.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only warnings, errors, and tables that were asked for.")
]


@dataclass(frozen=True)
class CommonOptions:
    """The options of every verb that works with a vault.

    A verb takes them as one argument, ``common: CommonOptions``; :func:`spread` makes options of the fields.
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


def _keep(period: str) -> Any:
    return typer.Option(
        f"--keep-{period}ly", metavar="N", min=0, help=f"Keep the newest of each of the last N {period}s."
    )


@dataclass(frozen=True)
class RetentionOptions:
    """The options that say which snapshots to keep."""

    keep: Annotated[int | None, typer.Option("--keep", metavar="N", min=0, help="Keep the newest N snapshots.")] = None
    keep_hourly: Annotated[int | None, _keep("hour")] = None
    keep_daily: Annotated[
        int | None, typer.Option("--keep-daily", metavar="N", min=0, help="Keep the newest of each of the last N days.")
    ] = None
    keep_weekly: Annotated[int | None, _keep("week")] = None
    keep_monthly: Annotated[int | None, _keep("month")] = None
    keep_yearly: Annotated[int | None, _keep("year")] = None
    keep_within: Annotated[
        str | None, typer.Option("--keep-within", metavar="TIME", help="Keep all that are younger, such as 12h or 7d.")
    ] = None

    def retention(self, *, leftovers: bool = False) -> Retention:
        """The policy that they give; with ``leftovers`` the one that keeps every snapshot.

        Raises:
            ValueError: There is no rule, or one beside ``leftovers``.
        """
        from colony_memory.app.config import make_retention
        from colony_memory.retention import Retention

        given = {field.name: getattr(self, field.name) for field in fields(self)}
        rules = {name: value for name, value in given.items() if value is not None}
        if leftovers and rules:
            raise ValueError("--leftovers deletes no snapshot: give it without a rule")
        if leftovers:
            return Retention(keep_last=sys.maxsize)
        if not rules:
            raise ValueError("say what to keep, such as --keep 10 or --keep-daily 7; --leftovers keeps every snapshot")
        return make_retention(rules)

    def in_words(self) -> str:
        """The rules that are given, for people: ``the newest 20, 7 daily``."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        words = {"keep": "the newest {}", "keep_within": "all of the last {}"}
        return ", ".join(
            words.get(name, f"{{}} {name.removeprefix('keep_')}").format(value)
            for name, value in given.items()
            if value is not None
        )


def split_positional(given: Sequence[str], last: str) -> tuple[str | None, str]:
    """An ID, if one is given, and what comes after it.

    Raises:
        ValueError: There are more than two, or the one there is names a snapshot.
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
    """Take no empty variable for one that is not set.

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
