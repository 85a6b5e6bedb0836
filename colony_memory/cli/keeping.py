"""The options that say which snapshots to keep, for every verb that applies rules."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from colony_memory.cli.options import Option

if TYPE_CHECKING:
    from colony_memory.retention import Retention

__all__ = ["RetentionOptions"]


def _keep(period: str) -> Any:
    return Option(f"--keep-{period}ly", metavar="N", min=0, help=f"Keep the newest of each of the last N {period}s.")


@dataclass(frozen=True)
class RetentionOptions:
    """Which snapshots to keep, as it was given."""

    keep: Annotated[int | None, Option("--keep", metavar="N", min=0, help="Keep the newest N snapshots.")] = None
    keep_hourly: Annotated[int | None, _keep("hour")] = None
    keep_daily: Annotated[
        int | None, Option("--keep-daily", metavar="N", min=0, help="Keep the newest of each of the last N days.")
    ] = None
    keep_weekly: Annotated[int | None, _keep("week")] = None
    keep_monthly: Annotated[int | None, _keep("month")] = None
    keep_yearly: Annotated[int | None, _keep("year")] = None
    keep_within: Annotated[
        str | None, Option("--keep-within", metavar="TIME", help="Keep all that are younger, such as 12h or 7d.")
    ] = None

    def retention(self, *, leftovers: bool = False) -> Retention:
        """The policy that they make; with ``leftovers``, the one that keeps every snapshot.

        Raises:
            ValueError: No rule is given, or one beside ``leftovers``.
        """
        from colony_memory.app.config import make_retention
        from colony_memory.retention import Retention

        rules = self._given()
        if leftovers and rules:
            raise ValueError("--leftovers deletes no snapshot: give it without a rule")
        if leftovers:
            return Retention(keep_last=sys.maxsize)
        if not rules:
            raise ValueError("say what to keep, such as --keep 10 or --keep-daily 7; --leftovers keeps every snapshot")
        return make_retention(rules)

    def in_words(self) -> str:
        """The rules for people: ``the newest 20, 7 daily``."""
        words = {"keep": "the newest {}", "keep_within": "all of the last {}"}
        return ", ".join(
            words.get(name, f"{{}} {name.removeprefix('keep_')}").format(value) for name, value in self._given().items()
        )

    def _given(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
