"""What a restore would do in a folder, and nothing touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory
from colony_memory._os.reach import Reach
from colony_memory.capture._attributes import Attributes
from colony_memory.capture._compare import Comparison, Surplus, new_file
from colony_memory.capture._in_use import find_users
from colony_memory.capture._question import Displaced
from colony_memory.capture._stage import Job
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from colony_memory.capture._metadata import Metadata
    from colony_memory.capture._question import Question
    from colony_memory.capture._stage import NewFile


@dataclass
class Plan:
    """What is to be done in a folder, compared with what is there.

    Attributes:
        target: Real path of the folder.
        metadata: What the snapshot tells beside the contents.
        files: What is put in place.
        differing: Files whose content is replaced or taken away, with all that a change of them shows in.
        unchanged: Files that are there as they are to be.
        directories: Empty directories that are made.
        modes: Files that only get other permissions, with what is there and what they get.
        left: Files with secrets here, of which the snapshot has only the masked text.
        databases: Of what is replaced or taken away, the databases, with what is there.
        in_use: What somebody had open when the plan was made, or the store that it would be put in, and who.
        surplus: What the snapshot lacks, where that is to be taken away.
    """

    target: Path
    metadata: Metadata
    files: dict[str, NewFile] = field(default_factory=dict)
    differing: dict[str, list[os.stat_result]] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)
    directories: list[str] = field(default_factory=list)
    modes: dict[str, tuple[os.stat_result, int]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    databases: dict[str, os.stat_result] = field(default_factory=dict)
    in_use: dict[str, str] = field(default_factory=dict)
    surplus: Surplus = field(default_factory=Surplus)

    def users(self) -> dict[str, str]:
        """What would change although somebody has it open, or the store that it is of, and who."""
        changing = {*self.files, *self.surplus.files}
        if not changing or not self.target.exists():
            return {}
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            return find_users(reach, changing, self.databases)

    def unsaved(self, question: Question) -> list[str]:
        """What is to be replaced or taken away and is saved nowhere, as the folder is now."""
        if not self.differing:
            return []
        names = {*self.differing, *(log for file in self.files.values() for log in file.drops)}
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            there = [(name, reach.look(name)) for name in sorted(names)]
            return question.unsaved(Displaced(name, reach, name, status) for name, status in there if status)

    def job(self) -> Job:
        """What is to be done, as a value."""
        directories = {
            name.removesuffix("/"): Attributes(None, self.metadata.modes.get(name), self.metadata.times.get(name))
            for name in {*self.metadata.modes, *self.metadata.times}
            if name.endswith("/")
        }
        return Job(
            self.target,
            self.files,
            self.directories,
            self.surplus.files,
            self.surplus.directories,
            self.modes,
            directories,
        )


def make_plan(
    target: Path,
    contents: Mapping[str, str | bytes],
    metadata: Metadata,
    *,
    delete: bool | Collection[str],
    force: bool,
) -> Plan:
    """Compare a snapshot with a folder, there or not.

    Args:
        target: Real path of the folder.
        contents: Content of each file of the snapshot.
        metadata: What else it tells.
        delete: Whether what the snapshot lacks is to be taken away, or the names of files that are.
        force: Whether masked text may replace the real one.

    Raises:
        ColonyMemoryError: Something in the folder stands in the way.
    """
    plan = Plan(target, metadata)
    try:
        folder = Directory.open(target)
    except FileNotFoundError:
        _plan_new(plan, contents)
        return plan
    except OSError as error:
        raise ColonyMemoryError(f"{str(target)!r} cannot be read ({error.strerror}); nothing was written") from error
    try:
        with folder, Reach(folder) as reach:
            _compare(plan, reach, contents, delete=delete, force=force)
        plan.in_use = plan.users()
    except OSError as error:
        raise ColonyMemoryError(f"{str(target)!r} cannot be looked at ({error}); nothing was written") from error
    return plan


def _compare(
    plan: Plan,
    reach: Reach,
    contents: Mapping[str, str | bytes],
    *,
    delete: bool | Collection[str],
    force: bool,
) -> None:
    metadata = plan.metadata
    comparison = Comparison(plan, reach, wanted={*contents, *metadata.links}, force=force, replaces=delete is True)
    for name, content in sorted({**contents, **metadata.links}.items()):
        if name in metadata.links:
            comparison.add_link(name, str(content))
        else:
            comparison.add_file(name, content)
    for name in sorted(metadata.empty_dirs):
        comparison.add_directory(name)
    if delete:
        comparison.add_surplus(None if delete is True else delete)


def _plan_new(plan: Plan, contents: Mapping[str, str | bytes]) -> None:
    for name, content in sorted({**contents, **plan.metadata.links}.items()):
        plan.files[name] = new_file(plan.metadata, name, content)
    plan.directories += sorted(plan.metadata.empty_dirs)
