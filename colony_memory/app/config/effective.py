"""Pure: what counts in the end, and where it comes from: the command line, a variable, or the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colony_memory._values import dataclass
from colony_memory.app.config.meaning import ADDED, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from colony_memory.app.config.meaning import BackupSet, Config


@dataclass(frozen=True)
class Given:
    """What the user gave with this command.

    Attributes:
        value: The value.
        source: The option, or the variable.
    """

    value: Any
    source: str


@dataclass(frozen=True)
class Effective:
    """What counts for one setting.

    Attributes:
        value: The value.
        sources: Where it comes from: an option, a variable, or keys of the file.
    """

    value: Any
    sources: tuple[str, ...]


def effective(config: Config, chosen: BackupSet | None, given: Mapping[str, Given]) -> dict[str, Effective]:
    """Every setting that somebody made: options before variables before the set before what is said for all sets.

    Args:
        config: The file.
        chosen: The set that this is about, None where it is about none.
        given: Options and variables, by the name of the option.
    """
    found: dict[str, Effective] = {}
    if chosen is not None:
        found["label"] = Effective(chosen.label, (f"sets.{chosen.name}",))
    for name in SETTINGS:
        layers = [
            Effective(layer[name], (f"{lead}{name}",))
            for lead, layer in (("", config.settings), (_lead(chosen), chosen.settings if chosen else {}))
            if name in layer
        ]
        if layers:
            found[name] = _joined(layers) if name in ADDED else layers[-1]
    for name, each in given.items():
        value = config.url_of(each.value) if name == "vault" else each.value
        layer = Effective(value, (each.source,))
        found[name] = _joined([found[name], layer]) if name in ADDED and name in found else layer
    return found


def _lead(chosen: BackupSet | None) -> str:
    return f"sets.{chosen.name}." if chosen else ""


def _joined(layers: list[Effective]) -> Effective:
    """All of them, those that decide last."""
    return Effective(
        [value for each in layers for value in each.value], tuple(source for each in layers for source in each.sources)
    )
