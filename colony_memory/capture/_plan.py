"""What a restore would do in a folder, and nothing touched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from colony_memory._os.directory import Directory
from colony_memory._os.reach import Reach
from colony_memory.capture._attributes import Attributes
from colony_memory.capture._compare import Comparison, new_file
from colony_memory.capture._locks import is_in_use
from colony_memory.capture._stage import Job
from colony_memory.capture._surplus import Surplus
from colony_memory.exceptions import ColonyMemoryError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

    from colony_memory.capture._metadata import Metadata
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
        in_use: Those that somebody had open when the plan was made.
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
    in_use: list[str] = field(default_factory=list)
    surplus: Surplus = field(default_factory=Surplus)

    def newer(self, moment_ns: int) -> list[str]:
        """Files that differ and came to be what they are after that moment, by what was written or by any change.

        A file that was copied here with its old time of change is told by the time at which its inode changed.
        """
        return sorted(
            name
            for name, states in self.differing.items()
            if any(max(there.st_mtime_ns, there.st_ctime_ns) > moment_ns for there in states)
        )

    def keep_newer_modes(self, moment_ns: int) -> None:
        """Let files whose permissions alone differ be as they are, where that came after that moment."""
        for name, (there, _) in [*self.modes.items()]:
            if there.st_ctime_ns > moment_ns:
                del self.modes[name]

    def users_of_databases(self) -> list[str]:
        """Databases to be replaced or taken away that somebody has open."""
        if not self.databases:
            return []
        with Directory.open(self.target) as folder, Reach(folder) as reach:
            return [name for name, there in self.databases.items() if is_in_use(*reach.parent(name), there)]

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
    target: Path, contents: Mapping[str, str | bytes], metadata: Metadata, *, delete: bool, force: bool
) -> Plan:
    """Compare a snapshot with a folder, there or not.

    Args:
        target: Real path of the folder.
        contents: Content of each file of the snapshot.
        metadata: What else it tells.
        delete: Whether what the snapshot lacks is to be taken away.
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
        plan.in_use = plan.users_of_databases()
    except OSError as error:
        raise ColonyMemoryError(f"{str(target)!r} cannot be looked at ({error}); nothing was written") from error
    return plan


def _compare(plan: Plan, reach: Reach, contents: Mapping[str, str | bytes], *, delete: bool, force: bool) -> None:
    metadata = plan.metadata
    comparison = Comparison(plan, reach, wanted={*contents, *metadata.links}, force=force)
    for name, content in sorted({**contents, **metadata.links}.items()):
        if name in metadata.links:
            comparison.add_link(name, str(content))
        else:
            comparison.add_file(name, content)
    for name in sorted(metadata.empty_dirs):
        comparison.add_directory(name)
    if delete:
        comparison.add_surplus()


def _plan_new(plan: Plan, contents: Mapping[str, str | bytes]) -> None:
    for name, content in sorted({**contents, **plan.metadata.links}.items()):
        plan.files[name] = new_file(plan.metadata, name, content)
    plan.directories += sorted(plan.metadata.empty_dirs)
