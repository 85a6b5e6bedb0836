"""The options that say how folders and files are saved, for every verb that saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

from colony_memory._values import dataclass
from colony_memory.cli.options import (
    ExcludeOption,
    LabelOption,
    Option,
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
    allow_secret: Annotated[
        list[str] | None,
        Option(
            "--allow-secret",
            metavar="NAME",
            help="Save this one, named as it was reported: FILE:KIND:DIGEST, or FILE:KIND for all of a kind in a file. "
            "Repeatable.",
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
        )
