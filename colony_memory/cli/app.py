"""The verbs of the command line."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from colony_memory._version import __version__
from colony_memory.cli.errors import FAILED, USAGE, Failure, say, warnings_as_lines
from colony_memory.cli.output import Output
from colony_memory.cli.summary import backup_lines, restore_lines, warning_lines
from colony_memory.cli.tables import snapshot_table, status_table
from colony_memory.cli.text import made_at
from colony_memory.cli.vault import at_vault, refuse_vault_inside
from colony_memory.client import ColonyMemory
from colony_memory.snapshot import require_label

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROGRAM = "colony-memory"
# Public names only, so that it does not matter which copy of click typer brings along.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name=_PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

# Arguments are told of in each verb's text: typer's own list of them speaks of Python types.
VaultOption = Annotated[
    str | None,
    typer.Option(
        "--vault",
        metavar="URL",
        envvar="COLONY_MEMORY_VAULT",
        help="Vault: colony: (hosted), file:///absolute/path, or a directory. Default: the hosted one if "
        "COLONY_API_KEY is set, else a directory of the user's data.",
    ),
]
LabelOption = Annotated[
    str,
    typer.Option("--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Stream of snapshots."),
]
LabelFilter = Annotated[
    str | None,
    typer.Option(
        "--label", metavar="NAME", envvar="COLONY_MEMORY_LABEL", help="Only this stream of snapshots. Default: all."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only warnings and errors.")]
QuietTableOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the table without notes or progress.")]


def run(argv: Sequence[str]) -> int:
    """Parse the arguments, do what they say and return the exit code; errors are raised."""
    command = typer.main.get_command(app)
    with warnings_as_lines():
        try:
            # Not command.main(): it takes interrupts and closed pipes into its own hands.
            with command.make_context(_PROGRAM, list(argv)) as context:
                if not argv:
                    Output().answer(context.get_help())
                code: int | None = command.invoke(context)
        except typer.Exit as stop:
            return stop.exit_code
        except _UsageError as error:
            path = error.ctx.command_path if error.ctx else _PROGRAM
            message = " ".join(error.format_message().split()).removesuffix(".")
            raise Failure(f"{message}; see '{path} --help'", code=USAGE) from error
    return code or 0


def _print_version(asked: bool) -> None:
    if asked:
        Output().answer(f"{_PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(
    epilog="\b\nExit codes: 0 done, 1 failed or something left out, 2 usage, 3 nothing saved yet,\n"
    "4 corrupt or untrusted, 5 vault unreachable, refused or rate-limited.\n\n"
    "\b\nEnvironment: COLONY_API_KEY and COLONY_BASE_URL for the hosted vault,\n"
    "COLONY_MEMORY_VAULT, COLONY_MEMORY_LABEL."
)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep an agent's memory safe: snapshots of folders in a vault, and back."""


@app.command(
    epilog="\b\nExamples:\n"
    "  colony-memory backup ~/agent/memory\n"
    "  colony-memory backup --label research --keep 10 MEMORY.md notes/"
)
def backup(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", hidden=True)],
    *,
    vault: VaultOption = None,
    label: LabelOption = "default",
    keep: Annotated[
        int | None,
        typer.Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Save folders and files as a new snapshot.

    Each PATH is a folder or a file. A folder's files are saved under their path inside it, byte for byte; links
    are not followed. Where nothing has changed, nothing is written. What cannot be read is left out and named,
    and the exit code is then 1.
    """
    from colony_memory.capture import read_paths

    output = Output(as_json, quiet)
    if "" in paths:
        raise ValueError("an empty path")
    with at_vault(vault, output) as place:
        refuse_vault_inside(place, paths)
        with output.working(f"Saving to {place.title}"):
            capture = read_paths(paths)
            info = ColonyMemory(backend=place.backend).backup(capture.documents, label=label, prune_keep=keep)
        left_out = capture.left_out
        if as_json:
            output.answer_json({"snapshot": asdict(info), "left_out": [asdict(each) for each in left_out]})
        output.report(*backup_lines(info, left_out=len(left_out), now=_now()))
        for each in left_out:
            say(f"left out: {each.name}: {each.reason}")
    return FAILED if left_out else 0


@app.command(
    epilog="\b\nExamples:\n"
    "  colony-memory restore ~/agent/memory\n"
    "  colony-memory restore --dry-run --only 'notes/*' ~/agent/memory"
)
def restore(
    directory: Annotated[str, typer.Argument(metavar="DIR", hidden=True)],
    *,
    vault: VaultOption = None,
    label: LabelOption = "default",
    snapshot: Annotated[
        str | None,
        typer.Option("--snapshot", metavar="ID", help="A certain snapshot, from 'list'. Default: the latest."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="GLOB", help="Only files whose path matches; * matches / too. Repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that changed after the snapshot.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done.")] = False,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Where the snapshot is damaged, take the newest intact one.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Write a snapshot's files into a folder, all or none.

    DIR is the folder; it is made if it is missing. Files in it that the snapshot does not have are left alone. A
    file that differs and was changed after the snapshot was made stops the restore, unless --force is given.
    """
    from colony_memory.capture import write_folder
    from colony_memory.cli.chosen import fetch, narrow

    output = Output(as_json, quiet)
    if not directory:
        raise ValueError("an empty path")
    with at_vault(vault, output) as place:
        with output.working(f"Restoring from {place.title}"):
            found = fetch(ColonyMemory(backend=place.backend), label=label, snapshot_id=snapshot, fallback=fallback)
            written = write_folder(
                narrow(found.documents, only) if only else found.documents,
                directory,
                newer_than=made_at(found.info) if found.info else datetime.min.replace(tzinfo=timezone.utc),
                force=force,
                dry_run=dry_run,
            )
        if as_json:
            summary = asdict(found.info) if found.info else None
            output.answer_json({"snapshot": summary, "directory": directory, "dry_run": dry_run, **asdict(written)})
        output.report(*restore_lines(found.info, written, directory=directory, dry_run=dry_run, now=_now()))
    return 0


@app.command("list", epilog="\b\nExample:\n  colony-memory list --label research")
def list_(
    *,
    vault: VaultOption = None,
    label: LabelFilter = None,
    as_json: JsonOption = False,
    quiet: QuietTableOption = False,
) -> int:
    """Show the snapshots in the vault, newest first."""
    output = Output(as_json, quiet)
    with at_vault(vault, output) as place:
        with output.working(f"Reading {place.title}"):
            infos = ColonyMemory(backend=place.backend).list_snapshots(label=label)
        if as_json:
            output.answer_json({"snapshots": [asdict(info) for info in infos]})
        else:
            output.answer(snapshot_table(infos, now=_now()))
    return 0


@app.command(epilog="\b\nExample:\n  colony-memory status --vault file:///home/me/vault")
def status(
    *,
    vault: VaultOption = None,
    label: LabelFilter = None,
    as_json: JsonOption = False,
    quiet: QuietTableOption = False,
) -> int:
    """Show how full the vault is, and what it holds under each label."""
    output = Output(as_json, quiet)
    wanted = None if label is None else require_label(label)
    with at_vault(vault, output) as place:
        with output.working(f"Reading {place.title}"):
            found = ColonyMemory(backend=place.backend).inspect()
        found = replace(found, labels=tuple(each for each in found.labels if wanted in (None, each.label)))
        if as_json:
            output.answer_json({"vault": place.url, **asdict(found)})
        else:
            output.answer(status_table(found, url=place.url, now=_now()))
            for line in warning_lines(found):
                say(line)
    return 0


def _now() -> datetime:
    return datetime.now(timezone.utc)
