"""The options that say how folders and files are saved, for every verb that saves."""
# ruff: noqa: TC001 - typer reads the annotations

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

import typer

from colony_memory.cli.options import (
    AllowSecretOption,
    ExcludeOption,
    GitOption,
    KeepOption,
    LabelOption,
    OnConflictOption,
    SecretsOption,
)

if TYPE_CHECKING:
    from colony_memory.app.options import BackupOptions
    from colony_memory.retention import Retention

__all__ = ["SavingOptions"]


@dataclass(frozen=True)
class SavingOptions:
    """How folders and files are saved, as it was given.

    A verb takes them as one argument, ``saving: SavingOptions``; without some of them, as
    ``saving: Annotated[SavingOptions, Without({"note", "tag"})]``. For ``keep`` the configuration file may give a
    :class:`~colony_memory.Retention`.
    """

    label: LabelOption = "default"
    exclude: ExcludeOption = None
    keep: KeepOption = None
    secrets: SecretsOption = "stop"
    allow_secret: AllowSecretOption = None
    git: GitOption = False
    on_conflict: OnConflictOption = "raise"
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="A remark, which 'list' and 'show' print.")
    ] = None
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="NAME", help="File it under this, for 'list'. Repeatable.")
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
        )
