"""The options that say how folders and files are saved, for every verb that saves.

The options that say which snapshots to keep, for every verb that applies rules.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

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


def _keep(which: str, period: str) -> Any:
    return Option(f"--keep-{which}", metavar="N", min=0, help=f"Keep the newest of each of the last N {period}s.")


HourlyOption = Annotated[int | None, _keep("hourly", "hour")]
DailyOption = Annotated[int | None, _keep("daily", "day")]
WeeklyOption = Annotated[int | None, _keep("weekly", "week")]
MonthlyOption = Annotated[int | None, _keep("monthly", "month")]
YearlyOption = Annotated[int | None, _keep("yearly", "year")]
WithinOption = Annotated[
    str | None, Option("--keep-within", metavar="TIME", help="Keep all that are younger, such as 12h or 7d.")
]


@dataclass(frozen=True)
class RetentionOptions:
    """Which snapshots to keep, as it was given."""

    keep: Annotated[int | None, Option("--keep", metavar="N", min=0, help="Keep the newest N snapshots.")] = None
    keep_hourly: HourlyOption = None
    keep_daily: DailyOption = None
    keep_weekly: WeeklyOption = None
    keep_monthly: MonthlyOption = None
    keep_yearly: YearlyOption = None
    keep_within: WithinOption = None

    def retention(self, *, leftovers: bool = False) -> Retention:
        """The policy that they make; with ``leftovers``, the one that keeps every snapshot."""
        from colony_memory.app.config import make_retention
        from colony_memory.retention import Retention

        rules = rules_of(self)
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
            words.get(name, f"{{}} {name.removeprefix('keep_')}").format(value)
            for name, value in rules_of(self).items()
        )


def rules_of(given: RetentionOptions | SavingOptions) -> dict[str, Any]:
    """Each rule that there is, by its name."""
    values = {field.name: getattr(given, field.name) for field in fields(RetentionOptions)}
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class SavingOptions:
    """How folders and files are saved, as it was given; for ``keep`` the configuration file may give a whole policy."""

    label: LabelOption = "default"
    exclude: ExcludeOption = None
    keep: Annotated[
        int | None,
        Option("--keep", metavar="N", min=1, help="Then keep only the newest N snapshots of the label."),
    ] = None
    keep_hourly: HourlyOption = None
    keep_daily: DailyOption = None
    keep_weekly: WeeklyOption = None
    keep_monthly: MonthlyOption = None
    keep_yearly: YearlyOption = None
    keep_within: WithinOption = None
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
        """The same as every use case takes it."""
        from colony_memory.app.options import BackupOptions

        rules: dict[str, Any] = rules_of(self)
        keep = rules.get("keep")
        policy: dict[str, Any] = {"prune_keep": keep}
        if keep is not None and not isinstance(keep, int):
            policy = {"retention": keep}
        elif rules.keys() - {"keep"}:
            from colony_memory.app.config import make_retention

            policy = {"retention": make_retention(rules)}
        return BackupOptions(
            **policy,
            label=self.label,
            on_conflict=self.on_conflict,
            note=self.note,
            tags=self.tag or (),
            git=self.git,
            exclude=self.exclude or (),
            secrets=self.secrets,
            allow_secrets=self.allow_secret or (),
            before=self.before,
        )
