"""The options that several verbs share, and the groups of them that a verb takes as one argument."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from colony_memory._values import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from colony_memory.app.options import BackupOptions
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

#: The verbs that are about folders, with the argument that names them, which may be missing if a set names them.
FOLDERS = {
    "backup": "paths", "watch": "paths", "status": "paths", "restore": "target", "run": "command", "guard": "command",
    "hook": "words", "mcp": "directory",
}  # fmt: skip


class Argument:
    """An argument, as ``paths: Annotated[list[str], Argument("PATH")]``; the text of the verb tells of it."""

    def __init__(self, metavar: str) -> None:
        self.metavar = metavar


class Option:
    """An option: ``note: Annotated[str | None, Option("--note TEXT", "A remark.")] = None``.

    With ``env`` the variable of its name may give it too, as ``COLONY_MEMORY_KEY_FILE`` does ``--key-file``.
    """

    def __init__(self, declared: str, help: str, *, env: bool = False, min: int | None = None) -> None:  # noqa: A002
        words = declared.split()
        self.flags = [word for word in words if word.startswith("-")]
        self.metavar = " ".join(word for word in words if not word.startswith("-")) or None
        self.help, self.least = help, min
        self.envvar = "COLONY_MEMORY_" + self.flags[0].strip("-").replace("-", "_").upper() if env else None


VaultOption = Annotated[
    str | None,
    Option(
        "--vault URL",
        "Vault: colony: (hosted), file:///absolute/path, s3://bucket/prefix, or a directory; see 'init'. Default: "
        "the hosted one if COLONY_API_KEY is set, else a directory of the user's data.",
        env=True,
    ),
]
LabelOption = Annotated[str, Option("--label NAME", "Name of a series of snapshots.", env=True)]
LabelFilter = Annotated[str | None, Option("--label NAME", "Only this label. Default: all.", env=True)]
JsonOption = Annotated[bool, Option("--json", "Print one JSON document, for programs.")]
KeyFileOption = Annotated[
    str | None,
    Option("--key-file FILE", "Sign what is written with this key, and trust no other. See 'keygen'.", env=True),
]
TrustOption = Annotated[
    list[str] | None,
    Option(
        "--trust DID",
        "Accept only what this did:key, or the key file's, has signed. DID@ID: up to that snapshot. Repeatable.",
        env=True,
    ),
]
WitnessOption = Annotated[
    str | None,
    Option(
        "--witness FILE",
        "Note in this file how far each label has come, and refuse a vault that was rolled back.",
        env=True,
    ),
]
AcceptUnsignedOption = Annotated[
    bool, Option("--accept-unsigned", "Accept snapshots without a signature too, this time.")
]
AcceptPointerOption = Annotated[
    bool, Option("--accept-legacy-pointer", "Accept a pointer without a signature, as version 0.1.1 writes it.")
]
EncryptOption = Annotated[
    list[str] | None,
    Option(
        "--encrypt-to RECIPIENT",
        "Encrypt what is written to this age1... or SSH public key, to those in this file, or, by the word "
        "'passphrase', to a passphrase. Repeatable.",
        env=True,
    ),
]
IdentityOption = Annotated[
    list[Path] | None,
    Option(
        "--identity FILE",
        "Decrypt with the key in this file or, by the word 'passphrase', with a passphrase. See 'keygen --age'. "
        "Repeatable.",
        env=True,
    ),
]
PassphraseOption = Annotated[
    str | None,
    Option("--passphrase-file FILE", "Read the passphrase from this file instead of asking for it.", env=True),
]
PatchOption = Annotated[
    bool, Option("--patch -p", "Print what differs, line by line, as 'git apply' and 'patch -p1' take it.")
]
YesOption = Annotated[bool, Option("--yes -y", "Do not ask. Needed where there is no terminal.")]
DryRunOption = Annotated[bool, Option("--dry-run -n", "Show what would be done.")]
NoFillOption = Annotated[bool, Option("--no-fill", "Leave what the snapshot lacks: take it from no older one.")]
VerboseOption = Annotated[bool, Option("--verbose -v", "Print every name, however many there are.")]
ExcludeOption = Annotated[
    list[str] | None,
    Option(
        "--exclude GLOB",
        "Leave out what this matches, like a line of a .cmemignore that comes before all others. Repeatable.",
    ),
]
AllowSecretOption = Annotated[
    list[str] | None,
    Option(
        "--allow-secret NAME",
        "Save this one, named as it was reported: FILE:KIND:DIGEST, or FILE:KIND for all of a kind in a file. "
        "Repeatable.",
    ),
]
FormatOption = Annotated[
    str | None,
    Option(
        "--format 1|2",
        "1: readable by 0.1.1 too. 2: store only what changed (extra zstd). Default: what the vault is made for.",
    ),
]
EveryOption = Annotated[str, Option("--every TIME", "Time between backups: 90s, 15m, 1h30m, 2d.")]
FinalTimeoutOption = Annotated[str, Option("--final-timeout TIME", "How long the last backup may take.")]
PingOption = Annotated[
    str | None,
    Option(
        "--ping URL",
        "Notify a monitor as healthchecks.io has it: URL/start before, URL after a success, URL/fail with the "
        "reason after a failure.",
    ),
]
OnErrorOption = Annotated[
    str | None,
    Option(
        "--on-error COMMAND",
        "Run this after a failure, for at most 30 s and without a shell. COLONY_MEMORY_ERROR, _KIND, _CODE and "
        "_LABEL in its environment describe the failure.",
    ),
]
ConfigOption = Annotated[
    str | None,
    Option(
        "--config FILE",
        "Configuration file. Default: config.toml in the user's configuration directory; see 'config'.",
        env=True,
    ),
]
SetOption = Annotated[str | None, Option("--set NAME", "Use the paths, label and vault of this set in that file.")]
AgentOption = Annotated[
    str | None,
    Option(
        "--agent claude-code|openclaw|hermes|codex",
        "Save or restore the memory of this host of agents, wherever it keeps it, under a label of that name.",
    ),
]
KindsOption = Annotated[
    list[str] | None,
    Option(
        "--with KIND", "With --agent: what of the host is taken besides memory, such as transcripts,skills. Repeatable."
    ),
]
ProjectOption = Annotated[
    str | None,
    Option(
        "--project PATH", "With --agent claude-code: the path that the snapshot's only project has on this machine."
    ),
]
MapOption = Annotated[
    list[str] | None,
    Option(
        "--map OLD=NEW",
        "The same for one of several: its old path or its folder's name, and its path here. Repeatable.",
    ),
]
QuietOption = Annotated[bool, Option("--quiet -q", "Print only warnings, errors, and tables that were asked for.")]


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


class Without(frozenset[str]):
    """The options of a group that a verb does not take: ``saving: Annotated[SavingOptions, Without({"note"})]``."""


def _keep(which: str, period: str) -> Any:
    return Option(f"--keep-{which} N", f"Keep the newest of each of the last N {period}s.", min=0)


HourlyOption = Annotated[int | None, _keep("hourly", "hour")]
DailyOption = Annotated[int | None, _keep("daily", "day")]
WeeklyOption = Annotated[int | None, _keep("weekly", "week")]
MonthlyOption = Annotated[int | None, _keep("monthly", "month")]
YearlyOption = Annotated[int | None, _keep("yearly", "year")]
WithinOption = Annotated[str | None, Option("--keep-within TIME", "Keep all that are younger, such as 12h or 7d.")]


@dataclass(frozen=True)
class RetentionOptions:
    """Which snapshots to keep, as it was given."""

    keep: Annotated[int | None, Option("--keep N", "Keep the newest N snapshots.", min=0)] = None
    keep_hourly: HourlyOption = None
    keep_daily: DailyOption = None
    keep_weekly: WeeklyOption = None
    keep_monthly: MonthlyOption = None
    keep_yearly: YearlyOption = None
    keep_within: WithinOption = None

    def retention(self, *, leftovers: bool = False) -> Retention:
        """The policy that they make; with ``leftovers``, the one that keeps every snapshot."""
        from colony_memory.app.config import make_retention
        from colony_memory.retention import Retention

        rules = rules_of(self)
        if leftovers and rules:
            raise ValueError("--leftovers deletes no snapshot: give it without a rule")
        if leftovers:
            return Retention(keep_last=sys.maxsize)
        if not rules:
            raise ValueError("say what to keep, such as --keep 10 or --keep-daily 7; --leftovers keeps every snapshot")
        return make_retention(rules)

    def in_words(self) -> str:
        """The rules for people: ``the newest 20, 7 daily``."""
        words = {"keep": "the newest {}", "keep_within": "all of the last {}"}
        return ", ".join(
            words.get(name, f"{{}} {name.removeprefix('keep_')}").format(value)
            for name, value in rules_of(self).items()
        )


def rules_of(given: RetentionOptions | SavingOptions) -> dict[str, Any]:
    """Each rule that there is, by its name."""
    values = {name: getattr(given, name) for name in RetentionOptions.__annotations__}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class SavingOptions:
    """How folders and files are saved, as it was given; for ``keep`` the configuration file may give a whole policy."""

    label: LabelOption = "default"
    exclude: ExcludeOption = None
    keep: Annotated[int | None, Option("--keep N", "Then keep only the newest N snapshots of the label.", min=1)] = None
    keep_hourly: HourlyOption = None
    keep_daily: DailyOption = None
    keep_weekly: WeeklyOption = None
    keep_monthly: MonthlyOption = None
    keep_yearly: YearlyOption = None
    keep_within: WithinOption = None
    secrets: Annotated[
        str,
        Option(
            "--secrets stop|warn|mask|allow",
            "What to do about likely secrets: save nothing, warn, replace them, or don't look for any.",
        ),
    ] = "stop"
    allow_secret: AllowSecretOption = None
    before: Annotated[
        str | None,
        Option(
            "--before COMMAND",
            "First run this in the folder, without a shell, so that a store can make a copy of itself. Where it "
            "fails, nothing is saved.",
        ),
    ] = None
    git: Annotated[bool, Option("--git", "Save git repositories too, each as a bundle beside its files.")] = False
    on_conflict: Annotated[
        str,
        Option(
            "--on-conflict raise|continue|merge",
            "If another client has saved meanwhile: store both and fail; store both and make this one the latest; "
            "or join both line by line.",
        ),
    ] = "raise"
    note: Annotated[str | None, Option("--note TEXT", "A remark, which 'list' and 'show' print.")] = None
    tag: Annotated[list[str] | None, Option("--tag NAME", "File it under this, for 'list'. Repeatable.")] = None

    def parsed(self, agent: str | None = None) -> BackupOptions:
        """The same as every use case takes it, for the memory of a host where there is one."""
        from colony_memory.app.options import BackupOptions

        rules: dict[str, Any] = rules_of(self)
        keep = rules.get("keep")
        policy: dict[str, Any] = {"prune_keep": keep}
        if keep is not None and not isinstance(keep, int):
            policy = {"retention": keep}
        elif rules.keys() - {"keep"}:
            from colony_memory.app.config import make_retention

            policy = {"retention": make_retention(rules)}
        return BackupOptions(
            **policy,
            label=self.label,
            on_conflict=self.on_conflict,
            note=self.note,
            tags=self.tag or (),
            git=self.git,
            exclude=self.exclude or (),
            secrets=self.secrets,
            allow_secrets=self.allow_secret or (),
            before=self.before,
            agent=agent,
        )
