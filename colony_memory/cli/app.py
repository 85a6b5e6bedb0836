"""The program: its verbs, and how a command line becomes a call of one."""

from __future__ import annotations

import functools
import os
import re
from importlib import import_module
from typing import TYPE_CHECKING

import click

from colony_memory.cli.output import Output, print_version
from colony_memory.cli.parsing import Verb, common_options, help_option
from colony_memory.words.commands import PROGRAM, Asked
from colony_memory.words.errors import UsageError, warnings_as_lines

if TYPE_CHECKING:
    from types import ModuleType

_COMPLETION = "_COLONY_MEMORY_COMPLETE"

#: The verbs as the help groups them, each with the first line of its help. Its module is loaded when it is asked for.
GROUPS = {
    "Save and restore": {
        "backup": "Save folders and files as a new snapshot.",
        "restore": "Write a snapshot's files into a folder, all or none.",
        "watch": "Save folders and files now, and then every so often until told to stop.",
        "run": "Restore a folder, run a command on it, and save it meanwhile and at the end.",
        "guard": "Save a folder, run a command that may spoil it, and say how to get back.",
        "hook": "Save or describe an agent's memory, for the program that runs the agent.",
        "mcp": "Serve one folder's memory to an agent's host, by the Model Context Protocol.",
    },
    "Look": {
        "status": "Tell whether the memory is protected, and what to do if not.",
        "list": "Show the snapshots in the vault, newest first.",
        "show": "Show one snapshot: when, how large, signed by whom, and the names in it.",
        "cat": "Print one file of a snapshot, byte for byte.",
        "log": "Show what became of one file, from snapshot to snapshot.",
        "grep": "Find lines in all snapshots, and when each came and went.",
        "diff": "Show what changed from one snapshot to another, or to a folder.",
        "verify": "Read every byte that is saved, and report what is intact.",
        "report": "Write everything about a vault into one HTML page.",
    },
    "Tidy": {
        "prune": "Delete old snapshots by rules, and the leftovers of interrupted backups.",
        "delete": "Delete one snapshot, for good.",
        "rewrite": "Save all snapshots anew without a text or a file, in another format or under other keys.",
        "pin": "Keep one snapshot whatever a retention says, until it is unpinned.",
        "unpin": "Let the retention decide about one snapshot again.",
        "tag": "Give one snapshot tags, or take some from it.",
    },
    "Vaults and keys": {
        "init": "Make a new vault, once.",
        "export": "Write one snapshot into a file of its own, signature and all.",
        "import": "Put a snapshot that was exported into the vault.",
        "copy": "Copy every snapshot from one vault into another, signatures and all.",
        "keygen": "Make a key for signing snapshots, in a file that only its owner can read.",
        "config": "Show which settings count, and where each comes from.",
    },
}
VERBS = {name: line for group in GROUPS.values() for name, line in group.items()}

#: The modules of verbs that have none of their own.
_MODULES = {
    "watch": "backup",
    "guard": "run",
    "mcp": "hook",
    **dict.fromkeys(("list", "show", "cat", "log", "grep", "diff"), "look"),
    **dict.fromkeys(("status", "verify", "report"), "check"),
    **dict.fromkeys(("prune", "delete", "rewrite", "pin", "unpin", "tag"), "tidy"),
    **dict.fromkeys(("init", "export", "import", "copy", "keygen"), "vaults"),
}

#: Verbs of restic, borg and git, and what they are called here.
FOREIGN = {
    **dict.fromkeys(("create", "save", "commit", "snapshot"), "backup"),
    **dict.fromkeys(("extract", "checkout", "pull"), "restore"),
    **dict.fromkeys(("snapshots", "ls"), "list"),
    **dict.fromkeys(("dump", "print"), "cat"),
    **dict.fromkeys(("find", "search"), "grep"),
    **dict.fromkeys(("check", "fsck"), "verify"),
    "history": "log",
    "info": "status",
    "forget": "prune",
    "compare": "diff",
    "rm": "delete",
    "sync": "copy",
    "help": "--help",
    "version": "--version",
}
_SHOWN = 40


class _Program(click.Group):
    """The group of verbs, which loads those that are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature is click's
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - likewise
        return verb_of(cmd_name) if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not ctx.resilient_parsing:
            raise _unknown(args[0])
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """The verbs, without loading them, and the options of the program."""
        verbs = [
            click.shell_completion.CompletionItem(name, help=line)
            for name, line in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        records = [each.get_help_record(ctx) for each in common_options()]
        with formatter.section("Common options, which follow the command"):
            formatter.write_dl([each for each in records if each is not None])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - likewise
        width = max(map(len, VERBS))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", VERBS[name]) for name in names])


def module_of(verb: str) -> ModuleType:
    """The module that a verb is in."""
    return import_module(f"colony_memory.cli.verbs.{_MODULES.get(verb, verb)}")


def examples_of(verb: str) -> tuple[str, ...]:
    """How a verb is used, as its help has it."""
    examples: tuple[str, ...] = getattr(module_of(verb), f"{verb.upper()}_EXAMPLES")
    return examples


@functools.cache
def verb_of(name: str) -> Verb:
    """The verb of this name."""
    return Verb(name, getattr(module_of(name), f"run_{name}"), examples_of(name))


def _print_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        ctx.exit(print_version())


program = _Program(
    PROGRAM,
    help="Keep an agent's memory safe: snapshots of folders in a vault, and back.",
    params=[
        click.Option(["--version"], is_flag=True, callback=_print_version, is_eager=True, help="Print the version."),
        help_option(),
    ],
    add_help_option=False,
    no_args_is_help=False,
    context_settings={"max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed or something left out, 2 usage, 3 nothing saved yet, "
    "4 corrupt, untrusted or encrypted to another key, 5 vault missing, unreachable, refused or rate-limited.\n\n"
    "Environment: COLONY_API_KEY and COLONY_BASE_URL for the hosted vault, "
    "COLONY_MEMORY_CONFIG, COLONY_MEMORY_VAULT, COLONY_MEMORY_LABEL, COLONY_MEMORY_KEY_FILE, COLONY_MEMORY_TRUST, "
    "COLONY_MEMORY_WITNESS, COLONY_MEMORY_ENCRYPT_TO, COLONY_MEMORY_IDENTITY, COLONY_MEMORY_PASSPHRASE_FILE "
    "for the options of those names. Options come before them, and they before the file.",
)


def run(asked: Asked) -> int:
    """Parse the arguments, do what they say, and return the exit code; errors are raised."""
    argv, asked.verbs = asked.argv, tuple(VERBS)
    if _COMPLETION in os.environ:  # a shell asks what may come next
        program.main(args=list(argv), prog_name=PROGRAM, complete_var=_COMPLETION)
    with warnings_as_lines(asked):
        try:
            # Not program.main(): it takes interrupts and closed pipes into its own hands.
            with program.make_context(PROGRAM, list(argv), obj=asked) as context:
                if not argv:
                    Output().answer(context.get_help())
                    raise UsageError("a command is missing", advice=f"{PROGRAM} --help")
                code: int | None = program.invoke(context)
        except click.exceptions.Exit as stop:
            return stop.exit_code
        except click.UsageError as error:
            raise _understood(error) from error
    return code or 0


def _unknown(word: str) -> UsageError:
    """The error of a word that is no verb, with the one that was meant where that can be told."""
    from difflib import get_close_matches

    near = FOREIGN.get(word) or next(iter(get_close_matches(word[:_SHOWN].lower(), VERBS, n=1, cutoff=0.7)), None)
    what = f"there is no command {_cut(word)!r}"
    if near is None or near.startswith("-"):
        return UsageError(what, advice=f"{PROGRAM} {near or '--help'}")
    return UsageError(f"{what}, did you mean {near!r}?", advice=f"{PROGRAM} {near} --help")


def _understood(error: click.UsageError) -> UsageError:
    """An error of the parser, as every error is told."""
    context = error.ctx
    path = context.command_path if context else PROGRAM
    advice = f"{path} --help"
    if isinstance(error, click.NoSuchOption):
        if context is not None and context.command is program:
            return UsageError(f"{_cut(error.option_name)} is no option, or stands after the command", advice=advice)
        near = f", did you mean {error.possibilities[0]}?" if error.possibilities else ""
        verb = context.command.name if context else PROGRAM
        if error.option_name == "--format" and verb in ("copy", "import"):
            what = f"{verb!r} carries snapshots over as they are"
            return UsageError(f"{what}: 'rewrite' changes the format", advice=f"{PROGRAM} rewrite --help")
        return UsageError(f"{verb!r} has no option {_cut(error.option_name)}{near}", advice=advice)
    parameter = getattr(error, "param", None)
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = message[:1].lower() + message[1:]  # it goes on after "error: "
    if type(error) is click.BadParameter and isinstance(parameter, click.Option) and parameter.metavar == "N":
        # What click says differs between versions, and speaks of ranges.
        least = re.search(r"x>=([0-9]+)", str(parameter.get_help_record(context or click.Context(program))))
        what = f" from {least[1]} up" if least else ""
        message = f"{max(parameter.opts, key=len)} takes a whole number{what}"
    return UsageError(message, advice=advice)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}\u2026"
