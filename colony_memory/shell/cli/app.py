"""The verbs of the program, every option, and the groups of them that verbs take as one argument."""

from __future__ import annotations

from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colony_memory._values import Value, names_of
from colony_memory.shell.app.pick import names_a_snapshot
from colony_memory.shell.cli.output import Output
from colony_memory.shell.words.errors import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.shell.app.options import BackupOptions
    from colony_memory.shell.cli.call import Call

COMPLETION = "_COLONY_MEMORY_COMPLETE"
#: The default of a required parameter.
NEEDED = object()
#: The running call.
CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)

#: The verbs by the groups of the help, each with its arguments and its first line. Their modules are loaded on demand.
SECTIONS = {
    "Save and restore": {
        "backup": ("PATH...", "Save folders and files as a new snapshot."),
        "restore": ("[ID] DIR", "Write a snapshot's files into a folder, all or none."),
        "watch": ("PATH...", "Save folders and files now, and then every so often until told to stop."),
        "run": ("DIR COMMAND...", "Restore a folder, run a command on it, and save it meanwhile and at the end."),
        "guard": ("DIR COMMAND...", "Save a folder, run a command that may spoil it, and say how to get back."),
        "hook": ("[install|uninstall HOST] [DIR]", "Save or describe an agent's memory, for the program that runs it."),
        "mcp": ("DIR", "Serve one folder's memory to an agent's host, by the Model Context Protocol."),
    },
    "Look": {
        "status": ("[PATH]...", "Tell whether the memory is protected, and what to do if not."),
        "list": ("", "Show the snapshots in the vault, newest first."),
        "show": ("ID", "Show one snapshot: when, how large, signed by whom, and the names in it."),
        "cat": ("[ID] NAME", "Print one file of a snapshot, byte for byte."),
        "log": ("NAME", "Show what became of one file, from snapshot to snapshot."),
        "grep": ("PATTERN", "Find lines in all snapshots, and when each came and went."),
        "diff": ("[A] [B]", "Show what changed from one snapshot to another, or to a folder."),
        "verify": ("[ID|FILE]", "Read every byte that is saved, and report what is intact."),
        "report": ("", "Write everything about a vault into one HTML page."),
    },
    "Tidy": {
        "prune": ("", "Delete old snapshots by rules, and the leftovers of interrupted backups."),
        "delete": ("ID", "Delete one snapshot, for good."),
        "rewrite": ("", "Save all snapshots anew without a text or a file, in another format or under other keys."),
        "pin": ("ID", "Keep one snapshot whatever a retention says, until it is unpinned."),
        "unpin": ("ID", "Let the retention decide about one snapshot again."),
        "tag": ("ID", "Give one snapshot tags, or take some from it."),
    },
    "Vaults and keys": {
        "init": ("[URL]", "Make a new vault, once."),
        "export": ("ID FILE", "Write one snapshot into a file of its own, signature and all."),
        "import": ("FILE", "Put a snapshot that was exported into the vault."),
        "copy": ("", "Copy every snapshot from one vault into another, signatures and all."),
        "keygen": ("[FILE]", "Make a key for signing snapshots, in a file that only its owner can read."),
        "config": ("", "Show which settings count, and where each comes from."),
    },
}
VERBS = {name: line for section in SECTIONS.values() for name, (_, line) in section.items()}

#: The modules of verbs that have none of their own.
_MODULES = {
    "watch": "backup",
    "guard": "run",
    "mcp": "run",
    **dict.fromkeys(("list", "show", "cat", "log", "grep", "diff"), "look"),
    **dict.fromkeys(("prune", "delete", "rewrite", "pin", "unpin", "tag"), "tidy"),
    **dict.fromkeys(("init", "export", "import", "copy", "keygen", "config", "verify", "report"), "vaults"),
}

#: The options that an environment variable may give too, such as ``COLONY_MEMORY_KEY_FILE`` for ``--key-file``.
VARIABLES = (
    "config", "vault", "label", "key_file", "trust", "witness", "encrypt_to", "identity", "passphrase_file",
)  # fmt: skip
#: Options of these names that neither a variable nor the configuration file sets: a label set for backups must not
#: keep other labels out of a copy, or a secret in them. The others mean something else in their verb.
UNSET = frozenset({"copy.label", "rewrite.label", "import.label", "rewrite.exclude", "rewrite.format", "hook.format"})
#: The environment variables that the command line obeys.
SETTINGS = ("COLONY_API_KEY", "COLONY_BASE_URL", *(f"COLONY_MEMORY_{name.upper()}" for name in VARIABLES))

#: The verbs about folders, each with the argument that names them; it may be missing if --agent is given.
FOLDERS = {
    "backup": "paths", "watch": "paths", "status": "paths", "restore": "target", "run": "command", "guard": "command",
    "hook": "words", "mcp": "directory",
}  # fmt: skip

_LABELS = ("--label NAME", "Only this label. Default: all.")
_SOME_LABELS = ("--label NAME...", "Only this label. Default: all.")
_KEPT = "Keep the newest of each of the last N {}s."

#: Names and help of each option, by parameter, or by verb and parameter where a verb has its own. Without a word behind
#: its names it is a flag; ``N`` is a number, words between bars are the choices, and ``...`` marks a repeatable option.
OPTIONS = {
    "label": ("--label NAME", "Name of a series of snapshots."),
    **dict.fromkeys(("list.label", "status.label", "verify.label", "report.label"), _LABELS),
    **dict.fromkeys(("copy.label", "rewrite.label"), _SOME_LABELS),
    "import.label": ("--label NAME", "Refuse a file of another label than this."),
    "exclude": ("--exclude GLOB...", "Leave out what this matches, as if it were the first line of a .cmemignore."),
    "restore.exclude": ("--exclude GLOB...", "With --snapshot-first, leave this out of that save, as 'backup' does."),
    "rewrite.exclude": ("--exclude NAME...", "Take this file out, or all that match."),
    "keep": ("--keep N", "Keep the newest N snapshots."),
    "keep_hourly": ("--keep-hourly N", _KEPT.format("hour")),
    "keep_daily": ("--keep-daily N", _KEPT.format("day")),
    "keep_weekly": ("--keep-weekly N", _KEPT.format("week")),
    "keep_monthly": ("--keep-monthly N", _KEPT.format("month")),
    "keep_yearly": ("--keep-yearly N", _KEPT.format("year")),
    "keep_within": ("--keep-within TIME", "Keep all that are younger, such as 12h or 7d."),
    "leftovers": ("--leftovers", "Delete no snapshot, only what interrupted backups have left."),
    "secrets": ("--secrets stop|warn|mask|allow", "Likely secrets: save nothing, warn, replace them, or don't look."),
    "allow_secret": ("--allow-secret NAME...", "Save this one, as it was reported: FILE:KIND:DIGEST, or FILE:KIND."),
    "before": ("--before COMMAND", "First run this in the folder, for a store to copy itself; else nothing is saved."),
    "on_conflict": ("--on-conflict raise|continue|merge", "If another saved: keep both and fail, be latest, or join."),
    "note": ("--note TEXT", "A remark, which 'list' and 'show' print."),
    "tag": ("--tag NAME...", "File it under this, for 'list'."),
    "list.tag": ("--tag NAME...", "Only what is filed under this, or under all of several."),
    "add": ("--add NAME...", "Give it this tag."),
    "remove": ("--remove NAME...", "Take this tag from it."),
    "format": ("--format 1|2", "1: readable by 0.1.1 too. 2: store what changed. Default: the vault's."),
    "rewrite.format": ("--format 1|2", "Save in this format."),
    "hook.format": ("--format claude-code|codex|gemini|openclaw", "Whose JSON is on stdin and is answered."),
    "no_index": ("--no-index", "Read every file, whatever is known of it since the last backup."),
    "every": ("--every TIME", "Time between backups: 90s, 15m, 1h30m, 2d."),
    "final_timeout": ("--final-timeout TIME", "How long the last backup may take."),
    "once": ("--once", "Make one backup and end, as 'backup' does."),
    "snapshot": ("--snapshot ID", "The same as ID."),
    "at": ("--at TIME", "The newest not after this time: 2026-11-01T12:00 (local; Z for UTC), a day, 3h ago."),
    "only": ("--only GLOB...", "Only files whose path matches; * matches / too."),
    "force": ("--force", "Replace FILE if it is there."),
    "restore.force": ("--force", "Replace what is saved nowhere or open in a program, and secrets by masked ones."),
    "merge": ("--merge", "Join the snapshot with what DIR holds, and take nothing away."),
    "delete": ("--delete", "Also remove files that the snapshot does not have."),
    "snapshot_first": ("--snapshot-first", "First save what DIR holds, under the label LABEL-before-restore."),
    "fallback": ("--fallback", "If the snapshot is damaged, take the newest intact one."),
    "salvage": ("--salvage", "If the snapshot is damaged, take the newest proven text of each file."),
    "no_fill": ("--no-fill", "Do not take what the snapshot lacks from an older one."),
    "dry_run": ("--dry-run -n", "Show what would be done."),
    "yes": ("--yes -y", "Do not ask. Needed where there is no terminal."),
    "verbose": ("--verbose -v", "Print every name, however many there are."),
    "max_age": ("--max-age TIME", "Fail if the newest backup is older, such as 90m, 26h or 7d."),
    "quick": ("--quick", "Read less: damage does not show, nor does 'protected'."),
    "patch": ("--patch -p", "Print what differs, line by line, as 'git apply' and 'patch -p1' take it."),
    "exit_code": ("--exit-code", "Exit with 1 if anything differs."),
    "fixed": ("--fixed -F", "Take PATTERN as plain text."),
    "ignore_case": ("--ignore-case -i", "Ignore case."),
    "html": ("--html FILE", "Where the page is written; - is the standard output."),
    "replace_text": ("--replace-text FILE", "Replace texts: a line of FILE is TEXT, or TEXT==>OTHER."),
    "sign": ("--sign", "Save anew what --key-file has not signed."),
    "source": ("--from URL", "Vault to copy from. Default: that of --vault."),
    "target": ("--to URL", "Vault to copy to. Default: that of --vault."),
    "age": ("--age", "Make one that opens what is encrypted, in place of one that signs."),
    "timeout": ("--timeout TIME", "How long the host may be held up."),
    "settings": ("--settings FILE", "Install into this file in place of the user's."),
    "allow_restore": ("--allow-restore", "Offer to restore too. The person is asked each time."),
    "path": ("--path", "Print the path of the configuration file, even if it is missing."),
    "vault": ("--vault URL", "colony: (hosted), file:///path, s3://bucket/prefix, a directory. Default: see 'init'."),
    "key_file": ("--key-file FILE", "Sign what is written with this key, and trust no other. See 'keygen'."),
    "trust": ("--trust DID...", "Accept only what this did:key, or the key file's, signed. DID@ID: up to that one."),
    "witness": ("--witness FILE", "Note in this file how far each label has come, and refuse a vault that went back."),
    "accept_unsigned": ("--accept-unsigned", "Accept snapshots without a signature too, this time."),
    "accept_legacy_pointer": ("--accept-legacy-pointer", "Accept a pointer without a signature, as 0.1.1 writes it."),
    "encrypt_to": ("--encrypt-to RECIPIENT...", "Encrypt to this age1... or SSH key, a file of them, or 'passphrase'."),
    "identity": ("--identity FILE...", "Decrypt with the key in this file or, for 'passphrase', with a passphrase."),
    "passphrase_file": ("--passphrase-file FILE", "Read the passphrase from this file instead of asking for it."),
    "config": ("--config FILE", "Configuration file. Default: config.toml in the user's directory; see 'config'."),
    "agent": ("--agent claude-code|openclaw|hermes|codex", "This host's own memory, under a label of its name."),
    "kinds": ("--with KIND...", "With --agent: what else of the host to include, such as transcripts,skills."),
    "as_json": ("--json", "Print one JSON document, for programs."),
    "quiet": ("--quiet -q", "Print only warnings, errors, and tables that were asked for."),
}


class CommonOptions(Value):
    """The options of every verb that works with a vault."""

    vault: str | None = None
    key_file: str | None = None
    trust: list[str] | None = None
    witness: str | None = None
    accept_unsigned: bool = False
    accept_legacy_pointer: bool = False
    encrypt_to: list[str] | None = None
    identity: list[str] | None = None
    passphrase_file: str | None = None
    config: str | None = None
    agent: str | None = None
    kinds: list[str] | None = None
    as_json: bool = False
    quiet: bool = False

    @property
    def output(self) -> Output:
        return Output(self.as_json, self.quiet)


class RetentionOptions(Value):
    keep: int | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None
    keep_monthly: int | None = None
    keep_yearly: int | None = None
    keep_within: str | None = None

    @property
    def rules(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names_of(RetentionOptions)}
        return {name: value for name, value in values.items() if value is not None}


class SavingOptions(RetentionOptions):
    """The options for saving folders and files, as they were given."""

    label: str = "default"
    exclude: list[str] | None = None
    secrets: str = "stop"
    allow_secret: list[str] | None = None
    before: str | None = None
    on_conflict: str = "raise"
    note: str | None = None
    tag: list[str] | None = None

    def parsed(self, agent: str | None = None) -> BackupOptions:
        """The options as the use cases take them; ``agent`` is the host whose memory is saved, if any."""
        from colony_memory.shell.app.options import BackupOptions

        policy: dict[str, Any] = {"prune_keep": self.keep}
        if self.rules.keys() - {"keep"}:
            from colony_memory.shell.app.config import make_retention

            policy = {"retention": make_retention(self.rules)}
        policy |= {name: getattr(self, name) for name in ("label", "on_conflict", "note", "secrets", "before")}
        policy |= {"tags": self.tag or (), "exclude": self.exclude or (), "allow_secrets": self.allow_secret or ()}
        return BackupOptions(**policy, agent=agent)


#: The arguments of verbs that are groups of options.
GROUPS = {"common": CommonOptions, "rules": RetentionOptions, "saving": SavingOptions}


def run_of(verb: str) -> Callable[..., int | None]:
    """The function that runs a verb; its docstring is the help, with the examples at its end."""
    module: Any = import_module(f"colony_memory.shell.cli.verbs.{_MODULES.get(verb, verb)}")
    return module.__dict__[f"run_{verb}"]  # type: ignore[no-any-return]


def arguments_of(verb: str) -> str:
    return next(section[verb][0] for section in SECTIONS.values() if verb in section)


def examples_of(verb: str) -> list[str]:
    """The examples in the help of a verb."""
    lines = map(str.strip, (run_of(verb).__doc__ or "").splitlines())
    return [line for line in lines if line.startswith(f"{PROGRAM} ")]


class Parameter(Value):
    """A parameter of a verb, its own or one of its groups."""

    name: str
    flags: tuple[str, ...]  # an argument has none
    metavar: str | None  # placeholder of its value, None for a flag; N is a number, several end with ...
    help: str
    default: Any  # value if it is not given, or NEEDED
    group: str | None = None  # the verb's argument that it is a field of, None if it is one itself
    variable: str | None = None  # the environment variable that may set it

    @property
    def several(self) -> bool:
        return str(self.metavar).endswith("...")

    @property
    def choices(self) -> list[str]:
        """The words that it takes; a single one means any value."""
        return str(self.metavar).split("|")

    @property
    def minimum(self) -> int:
        """The smallest number that it takes."""
        return int(self.name == "keep" and self.group == "saving")


def parameters_of(verb: str) -> list[Parameter]:
    """The parameters of a verb: positional ones of its function are arguments, all others are options."""
    run, arguments = run_of(verb), arguments_of(verb)
    code, words = run.__code__, arguments.split()
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(names), reversed(run.__defaults__ or ()), strict=False)) | (run.__kwdefaults__ or {})
    if len(names) != len(words) or arguments.endswith("..."):
        words = [arguments if arguments.endswith("...") else f"{arguments}..."]
    pairs = zip(names, words, strict=True)
    parameters = [Parameter(name, (), word, "", defaults.get(name, NEEDED)) for name, word in pairs]
    for name in code.co_varnames[len(names) : len(names) + code.co_kwonlyargcount]:
        group = GROUPS.get(name)
        if group is None:
            parameters.append(option_of(verb, name, defaults.get(name, NEEDED)))
        else:
            left_out = ("note", "tag") if name == "saving" and verb not in ("backup", "watch") else ()
            fields = (field for field in names_of(group) if field not in left_out)
            parameters += [option_of(verb, field, getattr(group, field), name) for field in fields]
    return parameters


def option_of(verb: str, name: str, default: Any, group: str | None = None) -> Parameter:
    declared, text = OPTIONS.get(f"{verb}.{name}") or OPTIONS[name]
    words = declared.split()
    flags = tuple(word for word in words if word.startswith("-"))
    has_variable = name in VARIABLES and f"{verb}.{name}" not in UNSET
    variable = f"COLONY_MEMORY_{name.upper()}" if has_variable else None
    return Parameter(name, flags, None if len(flags) == len(words) else words[-1], text, default, group, variable)


def split_positional(words: Sequence[str], last: str) -> tuple[str | None, str]:
    """The ID, or None, and the last argument."""
    if len(words) > 2:
        raise ValueError(f"give an ID and a {last}, or a {last} alone: {words[2]!r} is one argument too many")
    if len(words) == 1 and names_a_snapshot(words[0]) and not Path(words[0]).exists():
        raise ValueError(
            f"{words[0]!r} names a snapshot, and the {last} is missing"
            + ("; a folder is ./" + words[0] if last == "DIR" else "")
        )
    return (words[0] if len(words) == 2 else None), words[-1]
