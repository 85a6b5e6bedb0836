"""The options that say how folders and files are saved, for every verb that saves.

The options that say which snapshots to keep, for every verb that applies rules.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, cast

from colony_memory._values import dataclass
from colony_memory.cli.options import (
    AllowSecretOption,
    ExcludeOption,
    LabelOption,
    Option,
)

if TYPE_CHECKING:
    from colony_memory.app.options import BackupOptions
    from colony_memory.retention import Retention

__all__ = ["RetentionOptions", "SavingOptions"]


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


@dataclass(frozen=True)
class SavingOptions:
    """How folders and files are saved, as it was given.

    A verb takes them as one argument, ``saving: SavingOptions``; without some of them, as
    ``saving: Annotated[SavingOptions, Without({"note", "tag"})]``. For ``keep`` the configuration file may give a
    :class:`~colony_memory.Retention`.
    """

    label: LabelOption = "default"
    exclude: ExcludeOption = None
    keep: Annotated[
        int | None,
        Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
    ] = None
    secrets: Annotated[
        str,
        Option(
            "--secrets",
            metavar="stop|warn|mask|allow",
            help="What to do about likely secrets: save nothing, warn, replace them, or don't look for any.",
        ),
    ] = "stop"
    allow_secret: AllowSecretOption = None
    before: Annotated[
        str | None,
        Option(
            "--before",
            metavar="COMMAND",
            help="First run this in the folder, without a shell, so that a store can make a copy of itself. Where it "
            "fails, nothing is saved.",
        ),
    ] = None
    git: Annotated[bool, Option("--git", help="Save git repositories too, each as a bundle beside its files.")] = False
    on_conflict: Annotated[
        str,
        Option(
            "--on-conflict",
            metavar="raise|continue|merge",
            help="If another client has saved meanwhile: store both and fail; store both and make this one the latest; "
            "or join both line by line.",
        ),
    ] = "raise"
    note: Annotated[str | None, Option("--note", metavar="TEXT", help="A remark, which 'list' and 'show' print.")] = (
        None
    )
    tag: Annotated[
        list[str] | None, Option("--tag", metavar="NAME", help="File it under this, for 'list'. Repeatable.")
    ] = None

    def parsed(self) -> BackupOptions:
        """The same as every use case takes it.

        Raises:
            ValueError: One of them cannot be used, whatever there is to be saved.
        """
        from colony_memory.app.options import BackupOptions

        by_rules = self.keep is not None and not isinstance(self.keep, int)
        return BackupOptions(
            label=self.label,
            prune_keep=None if by_rules else self.keep,
            retention=cast("Retention", self.keep) if by_rules else None,
            on_conflict=self.on_conflict,
            note=self.note,
            tags=self.tag or (),
            git=self.git,
            exclude=self.exclude or (),
            secrets=self.secrets,
            allow_secrets=self.allow_secret or (),
            before=self.before,
        )
