"""The verbs about vaults and keys: ``init``, ``export``, ``import``, ``copy`` and ``keygen``."""
# ruff: noqa: TC003 - the parser reads the annotations

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    DryRunOption,
    FormatOption,
    JsonOption,
    LabelOption,
    Option,
    QuietOption,
    VaultOption,
)

if TYPE_CHECKING:
    from colony_memory.cli.output import Output


INIT_EXAMPLES = ("colony-memory init /mnt/nas/vault", "colony-memory init file:///mnt/nas/vault", "colony-memory init")


def run_init(
    url: Annotated[str | None, Argument(metavar="[URL]")] = None,
    *,
    vault: VaultOption = None,
    format: FormatOption = None,  # noqa: A002 - the word for it
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a new vault, once.

    URL is a directory, by default the vault that every other verb would use, or a place in an object store, such as
    s3://bucket/prefix; the bucket itself has to be there. The vault is made where it is not there yet, and marked as
    one. From then on, where that mark is missing, as while a disk is not mounted, there is no vault, and every verb
    says so with exit code 5. A vault that is there already stays as it is.

    With --format, backups there are written in that format from now on, unless they have a --format of their own. By
    default a new vault is for format 2, or for 1 where the extra zstd is missing.
    """
    from colony_memory.app.place import choose_place
    from colony_memory.cli.memory import format_of
    from colony_memory.cli.output import Output

    place, output = choose_place(vault if url is None else url), Output(as_json, quiet)
    made = place.make(format=format_of(format))
    place.require()
    place.make_known()
    if as_json:
        output.answer_json({"vault": place.url, "made": made, "format": place.snapshot_format})
    elif made:
        output.report(f"made {place.title}")
        if format is None:
            _tell_lack(output)
    elif place.comes_with_the_account:
        output.report(f"{place.title} comes with the account; there is nothing to make")
    else:
        output.report(f"{place.title} was there already{f', and is for format {format} now' if format else ''}")
    return 0


def _tell_lack(output: Output) -> None:
    from colony_memory._format.v2.zstd import WANTED, is_installed

    if not is_installed():
        output.note(f"it is for format 1; 2 takes less room, and needs {WANTED}, and then init with --format 2")


EXPORT_EXAMPLES = (
    "colony-memory export latest research.json --label research",
    "colony-memory export 20261101 - | ssh other-host colony-memory import -",
)


def run_export(
    snapshot: Annotated[str, Argument(metavar="ID")],
    file: Annotated[str, Argument(metavar="FILE")],
    *,
    label: LabelOption = "default",
    force: Annotated[bool, Option("--force", help="Replace FILE if it is there.")] = False,
    common: CommonOptions,
) -> int:
    """Write one snapshot into a file of its own, signature and all.

    ID is a snapshot as 'show' takes it. FILE is made for its owner alone and holds the whole memory, encrypted only
    where it is so in the vault; - writes to the standard output. 'verify FILE' checks it without a vault, 'import FILE'
    puts it into one.
    """
    from colony_memory.app.pick import find_id
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.moved import export_line
    from colony_memory.transfer import export_snapshot, save_export, write_export

    if not file:
        raise ValueError("an empty path")
    if file == "-" and common.as_json:
        raise ValueError("--json and - would both write to the standard output")
    with open_memory(common) as opened:
        with opened.working():
            snapshot_id = find_id(opened.memory, snapshot, label=label)
            exported = export_snapshot(opened.memory, label=label, snapshot_id=snapshot_id)
            if file != "-":
                save_export(exported, file, overwrite=force)
        if file == "-":
            opened.output.answer(write_export(exported.label, exported.snapshot_id, exported.files))
            opened.output.note(export_line(exported.info, "the standard output"))
        elif common.as_json:
            opened.output.answer_json({"snapshot": asdict(exported.info), "file": file})
        else:
            opened.output.report(export_line(exported.info, file))
    return 0


IMPORT_EXAMPLES = (
    "colony-memory import research.json",
    "colony-memory import --vault file:///mnt/usb/vault research.json",
)


def run_import(
    file: Annotated[str, Argument(metavar="FILE")],
    *,
    label: Annotated[
        str | None, Option("--label", metavar="NAME", help="Refuse a file of another label than this.")
    ] = None,
    dry_run: DryRunOption = False,
    common: CommonOptions,
) -> int:
    """Put a snapshot that was exported into the vault.

    FILE is what 'export' wrote; - reads the standard input. The snapshot keeps its id, its label and its signature. It
    is checked first, and refused as 'restore' would refuse it. It becomes the latest if it is newer than that.
    """
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.moved import import_lines, read_file
    from colony_memory.transfer import import_snapshot

    if not file:
        raise ValueError("an empty path")
    exported = read_file(file)
    with open_memory(common) as opened:
        with opened.working("Importing into"):
            info = import_snapshot(opened.memory, exported, label=label, dry_run=dry_run)
        if common.as_json:
            opened.output.answer_json({"snapshot": asdict(info), "dry_run": dry_run})
        opened.output.report(*import_lines(info, dry_run=dry_run))
    return 0


COPY_EXAMPLES = (
    "colony-memory copy --from colony: --to file:///mnt/usb/vault",
    "colony-memory copy --to ~/second-vault --label research",
)


def run_copy(
    *,
    source: Annotated[
        str | None, Option("--from", metavar="URL", help="Vault to copy from. Default: that of --vault.")
    ] = None,
    target: Annotated[
        str | None, Option("--to", metavar="URL", help="Vault to copy to. Default: that of --vault.")
    ] = None,
    label: Annotated[
        list[str] | None, Option("--label", metavar="NAME", help="Only this label. Repeatable. Default: all.")
    ] = None,
    dry_run: DryRunOption = False,
    common: CommonOptions,
) -> int:
    """Copy every snapshot from one vault into another, signatures and all.

    What is there already is not written again, and nothing is removed: a copy that was stopped goes on when it is
    made again. Each snapshot is read back. What is damaged or not trusted is left out and named, and the exit code is
    then 1. With --key-file the copy is signed there too; a --witness is that of the vault to copy from.
    """
    from colony_memory.cli.moved import copy_lines, open_pair, show_snapshots
    from colony_memory.cli.output import Output
    from colony_memory.transfer import copy
    from colony_memory.words.errors import FAILED

    if source is None and target is None:
        raise ValueError("give --from, --to, or both")
    output = Output(common.as_json, common.quiet)
    with open_pair(common, source, target, output) as (here, there):
        with here.output.working(f"Copying from {here.place.title} to {there.place.title}", here.progress):
            report = copy(
                here.memory,
                there.memory,
                labels=label,
                progress=show_snapshots(here.progress),
                dry_run=dry_run,
            )
        if common.as_json:
            output.answer_json(
                {
                    "from": here.place.url,
                    "to": there.place.url,
                    "copied": [asdict(info) for info in report.copied],
                    "already": [asdict(info) for info in report.already],
                    "left_out": [{"name": name, "reason": reason} for name, reason in report.left_out.items()],
                    "latest": dict(report.latest),
                    "dry_run": dry_run,
                }
            )
        output.report(*copy_lines(report, to=there.place.title))
        for name, reason in report.left_out.items():
            output.warn(f"left out: {name}: {reason}")
    return FAILED if report.left_out else 0


KEYGEN_EXAMPLES = (
    "colony-memory keygen",
    "colony-memory keygen ~/agent/signing.pem",
    "colony-memory keygen --age ~/agent/identity.txt",
)


def run_keygen(
    file: Annotated[str | None, Argument(metavar="[FILE]")] = None,
    *,
    age: Annotated[
        bool, Option("--age", help="Make one that opens what is encrypted, in place of one that signs.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a key for signing snapshots, in a file that only its owner can read.

    FILE is by default signing.pem in the user's configuration directory, with --age identity.txt. What is there already
    is never overwritten.
    """
    import shlex
    from pathlib import Path

    from colony_memory._os.machine import config_directory
    from colony_memory.app.open import settled
    from colony_memory.cli.output import Output
    from colony_memory.signing import Ed25519Signer

    usual = "identity.txt" if age else "signing.pem"
    try:
        place = config_directory() / usual if file is None else Path(settled(file))
    except OSError as error:
        raise ValueError(f"{error}, or name a file") from error
    output = Output(as_json, quiet)
    if age:
        return _make_identity(place, output)
    signer = Ed25519Signer.generate()
    signer.save(place)
    if as_json:
        output.answer_json({"key_file": str(place), "did_key": signer.did_key})
    output.report(
        f"key file    {place}",
        f"public key  {signer.did_key}",
        "",
        "Sign from now on:",
        f"  export COLONY_MEMORY_KEY_FILE={shlex.quote(str(place.absolute()))}",
        "Trust it where you only read:",
        f"  export COLONY_MEMORY_TRUST={signer.did_key}",
        "Keep a copy of the key file off this host: without it nothing new can be signed. Nobody can make it again.",
    )
    return 0


def _make_identity(place: Path, output: Output) -> int:
    import shlex

    from colony_memory.encryption import make_identity

    recipient = make_identity(place)
    if output.as_json:
        output.answer_json({"key_file": str(place), "recipient": recipient})
    output.report(
        f"key file    {place}",
        f"public key  {recipient}",
        "",
        "Encrypt from now on:",
        f"  export COLONY_MEMORY_ENCRYPT_TO={recipient}",
        "Read what is encrypted:",
        f"  export COLONY_MEMORY_IDENTITY={shlex.quote(str(place.absolute()))}",
        "Keep a copy of the key file off this host: without it what is encrypted cannot be read again, by anybody.",
    )
    return 0
