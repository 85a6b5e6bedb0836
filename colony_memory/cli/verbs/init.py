"""The verb ``init``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    FormatOption,
    JsonOption,
    QuietOption,
    VaultOption,
)

if TYPE_CHECKING:
    from colony_memory.cli.output import Output

EXAMPLES = ("colony-memory init /mnt/nas/vault", "colony-memory init file:///mnt/nas/vault", "colony-memory init")


def run(
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
