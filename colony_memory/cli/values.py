"""Arguments that are text are taken as they are.

typer has pydantic turn them into text, and to load that takes as long as all else that a short command does.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["take_as_it_is", "take_text_as_it_is"]


def take_text_as_it_is(command: Any, run: Callable[..., object]) -> None:
    """Have a command convert only what is given and no text.

    Args:
        command: What typer made of ``run``.
        run: The function, each of whose parameters is annotated with a type and what typer is to know of it.
    """
    # What typer adds, such as --help, is none of these.
    parameters = inspect.signature(run, eval_str=True).parameters
    for each in command.params:
        known = parameters.get(each.name)
        types = _leaves(get_args(known.annotation)[0]) if known else set()
        take_as_it_is(each, is_text=bool(types) and types <= {str, type(None)})


def _leaves(kind: Any) -> set[Any]:
    """The types that one is made of: of ``list[str] | None`` those of the text and of None."""
    inner = get_args(kind)
    return set().union(*map(_leaves, inner)) if inner else {kind}


def take_as_it_is(parameter: Any, *, is_text: bool) -> None:
    """Have a parameter convert nothing where it is not given, nor a text where that is what it takes."""
    convert: Callable[[Any, Any], Any] = parameter.process_value
    several = parameter.multiple or parameter.nargs == -1

    def process_value(ctx: Any, value: Any) -> Any:
        if not parameter.required and (value is None or (several and value == ())):
            nothing = () if several else None
            return nothing if parameter.callback is None else parameter.callback(ctx, parameter, nothing)
        if is_text and value and parameter.callback is None and isinstance(value, str) is not several:
            return list(value) if several else value
        return convert(ctx, value)

    parameter.process_value = process_value
