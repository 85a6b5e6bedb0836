"""The verb ``init``."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from typing import Annotated

import typer

from colony_memory.cli.options import JsonOption, QuietOption, VaultOption

EXAMPLES = ("colony-memory init /mnt/nas/vault", "colony-memory init file:///mnt/nas/vault", "colony-memory init")


def run(
    url: Annotated[str | None, typer.Argument(metavar="[URL]", hidden=True)] = None,
    *,
    vault: VaultOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Make a new vault, once.

    URL is a directory, by default the vault that every other verb would use, or a place in an object store, such as
    s3://bucket/prefix; the bucket itself has to be there. The vault is made where it is not there yet, and marked as
    one. From then on, where that mark is missing, as while a disk is not mounted, there is no vault, and every verb
    says so with exit code 5. A vault that is there already stays as it is.
    """
    from colony_memory.app.place import choose_place
    from colony_memory.cli.output import Output

    place, output = choose_place(vault if url is None else url), Output(as_json, quiet)
    made = place.make()
    if as_json:
        output.answer_json({"vault": place.url, "made": made})
    elif made:
        output.report(f"made {place.title}")
    elif place.comes_with_the_account:
        output.report(f"{place.title} comes with the account; there is nothing to make")
    else:
        output.report(f"{place.title} was there already")
    return 0
