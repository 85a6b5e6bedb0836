"""A verb that runs once for each set of the configuration file: one failure does not keep the others from running."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory.cli.errors import describe, error_document, report_failure
from colony_memory.cli.output import Output, gathering

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from colony_memory.cli.commands import Asked
    from colony_memory.cli.settings import Run

__all__ = ["run_each"]


def run_each(runs: Sequence[Run], asked: Asked, run: Callable[[dict[str, Any]], int | None]) -> int:
    """Run them in turn, each under its name; programs get one document with each under its name.

    Returns:
        The exit code of the first that failed, 0 where none did.
    """
    output, code = Output(asked.as_json, bool(asked.params.get("quiet"))), 0
    documents: dict[str, Any] = {}
    for at, each in enumerate(runs):
        asked.set_name = each.name
        output.report(*([""] if at else []), f"{each.name}:")
        with gathering() as gathered:
            try:
                ended = run(each.params) or 0
            except Exception as error:  # noqa: BLE001 - told as where it is the only one
                ended = report_failure(error, asked)
                if not gathered:  # else it has answered, and the error says what that comes to
                    gathered.append(error_document(describe(error), error, asked))
        documents[each.name] = gathered[0] if gathered else None
        code = code or ended
    if output.as_json:
        output.answer_json({"sets": documents})
    return code
