"""Options that several verbs share, and the group of those that every verb has."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from colony_memory.cli.output import Output

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
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only warnings, errors, and tables that were asked for.")
]


@dataclass(frozen=True)
class CommonOptions:
    """The options of every verb that works with a vault.

    A verb takes them as one argument, ``common: CommonOptions``; :func:`spread` makes options of the fields.
    """

    vault: VaultOption = None
    as_json: JsonOption = False
    quiet: QuietOption = False

    @property
    def output(self) -> Output:
        """Where the answers go."""
        from colony_memory.cli.output import Output

        return Output(self.as_json, self.quiet)


def spread(run: Callable[..., int]) -> Callable[..., int]:
    """The same function with each argument that is a dataclass in the form of that dataclass's fields."""
    hints = get_type_hints(run, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(run).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        group = groups[parameter.name]
        of_fields = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=of_fields[field.name]
            )
            for field in fields(group)
        ]

    @functools.wraps(run)
    def gathered(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        return run(**given)

    # typer looks at both, and would go on to the function that is wrapped.
    del gathered.__wrapped__
    gathered.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    gathered.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return gathered
