"""The verb ``guard``: a snapshot before a command that may spoil a folder, and the way back."""
# ruff: noqa: TC001 - the parser reads the annotations

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

from colony_memory.cli.options import (
    Argument,
    CommonOptions,
    Without,
)
from colony_memory.cli.saving import SavingOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES = (
    "colony-memory guard ~/agent/memory -- rm -r notes",
    "colony-memory guard --label research ~/agent/memory -- agent tidy-up",
)

_NOTE_CHARS = 200


def run(
    command: Annotated[list[str], Argument(metavar="DIR COMMAND...")],
    *,
    saving: Annotated[SavingOptions, Without({"keep", "git", "note", "tag"})],
    common: CommonOptions,
) -> int:
    """Save a folder, run a command that may spoil it, and say how to get back.

    The snapshot is pinned for 30 days, so that no retention deletes it, and its note names the command; where the
    latest is pinned already and DIR is unchanged, that is kept on instead. Where DIR cannot be saved, all of it, the
    command is not started. The command has this terminal, and every signal that is sent here. After it, stderr tells
    the command that restores what was there. The exit code is the command's, 128 and the number where a signal ended
    it.
    """
    from colony_memory.app.guard import keep_for_way_back
    from colony_memory.cli.commands import command as worded
    from colony_memory.cli.errors import cut, say, say_json
    from colony_memory.cli.memory import open_memory
    from colony_memory.cli.started import become_process_1, split_command, starting
    from colony_memory.cli.verbs import backup
    from colony_memory.schedule.child import Child

    become_process_1()
    directory, program = split_command(command)
    with starting(program):
        with open_memory(common, making=True) as opened:
            options = replace(saving, note=_note(program)).parsed()
            saved = backup.save(opened, [directory], options, reuses_pinned=True)
            with opened.working("Writing to"):
                info = keep_for_way_back(opened.memory, saved)
        common.output.note(f"saved snapshot {info.snapshot_id} of label {info.label}, and pinned it for 30 days")
        with Child(program) as child:
            child.start()
            code = child.wait()
    back = worded(
        "restore", info.snapshot_id, directory, options=("--snapshot-first",), label=saving.label, given=asdict(common)
    )
    if common.as_json:
        say_json({"snapshot": asdict(info), "exit_code": code, "way_back": back})
    else:
        # A command that is cut could not be pasted.
        told = f"to get back what was there: {back}" if cut(back) == back else f"what was there is {info.snapshot_id}"
        say(f"the command ended with exit code {code}; {told}")
    return code


def _note(program: Sequence[str]) -> str:
    """What the snapshot is from before, without what looks like a secret."""
    import shlex

    from colony_memory.schedule.notify import clean

    return clean(f"before: {shlex.join(program)}")[:_NOTE_CHARS]
